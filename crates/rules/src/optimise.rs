//! Joins the copies of a rule into fewer and longer ones.
//!
//! A canonical copy has already merged whole arrays and whole ranges into one element (the published rewrites for
//! arrays). Two rewrites of separate copies remain. Members that are adjacent on both sides become one longer element,
//! so a record that is copied whole becomes one run. Copies of the same shape at equal distances become one copy with
//! one more loop. Both are repeated until nothing changes.
//!
//! A rule has the same effect before and after: no additional byte is written.

use crate::term::Term;
use drystone_copy::{Dim, StridedCopy};

/// The shortest equivalent list of terms that the two rewrites find.
pub(crate) fn optimise(terms: Vec<Term>) -> Vec<Term> {
    if terms.len() < 2 {
        return terms.into_iter().filter(|term| term.bytes() > 0).collect();
    }
    let mut copies = Vec::with_capacity(terms.len());
    let mut others = Vec::new();
    for term in terms {
        match term {
            Term::Copy(copy) if copy.is_empty() => {}
            Term::Copy(copy) => copies.push(copy),
            other => others.push(other),
        }
    }
    loop {
        let before = copies.len();
        copies = join_adjacent(copies);
        copies = join_equidistant(copies);
        if copies.len() == before {
            break;
        }
    }
    copies.sort_by(|x, y| x.dst_offset().cmp(&y.dst_offset()).then(x.src_offset().cmp(&y.src_offset())));
    copies.into_iter().map(Term::Copy).chain(others).collect()
}

/// Joins copies with the same loops whose elements are adjacent on both sides.
fn join_adjacent(mut copies: Vec<StridedCopy>) -> Vec<StridedCopy> {
    copies.sort_by(|x, y| x.dims().cmp(y.dims()).then(x.dst_offset().cmp(&y.dst_offset())));
    let mut joined: Vec<StridedCopy> = Vec::with_capacity(copies.len());
    for copy in copies {
        if let Some(last) = joined.last_mut()
            && last.dims() == copy.dims()
            && last.src_offset().checked_add(last.elem_bytes() as u64) == Some(copy.src_offset())
            && last.dst_offset().checked_add(last.elem_bytes() as u64) == Some(copy.dst_offset())
            && let Some(elem) = last.elem_bytes().checked_add(copy.elem_bytes())
            && let Ok(longer) =
                StridedCopy::new(last.src_offset(), last.dst_offset(), elem, last.dims().to_vec())
        {
            *last = longer;
        } else {
            joined.push(copy);
        }
    }
    joined
}

/// Joins copies of the same shape whose offsets on both sides advance by the same steps.
fn join_equidistant(mut copies: Vec<StridedCopy>) -> Vec<StridedCopy> {
    let shape = |x: &StridedCopy, y: &StridedCopy| {
        x.elem_bytes().cmp(&y.elem_bytes()).then_with(|| x.dims().cmp(y.dims()))
    };
    copies.sort_by(|x, y| shape(x, y).then(x.dst_offset().cmp(&y.dst_offset())));
    let mut joined = Vec::with_capacity(copies.len());
    let mut rest = &copies[..];
    while let Some(first) = rest.first() {
        let step = |k: usize| {
            let (from, to) = (rest.get(k)?, rest.get(k + 1)?);
            let same = shape(from, to).is_eq();
            let distance = |from: u64, to: u64| (to as i64).wrapping_sub(from as i64);
            let step =
                (distance(from.src_offset(), to.src_offset()), distance(from.dst_offset(), to.dst_offset()));
            same.then_some(step)
        };
        let mut count = 1;
        if let Some(stride) = step(0) {
            count = 2;
            while step(count - 1) == Some(stride) {
                count += 1;
            }
            let mut dims = first.dims().to_vec();
            dims.push(Dim::new(count as u64, stride.0, stride.1));
            match StridedCopy::new(first.src_offset(), first.dst_offset(), first.elem_bytes(), dims) {
                Ok(copy) => {
                    joined.push(copy);
                    rest = &rest[count..];
                    continue;
                }
                Err(_) => count = 1,
            }
        }
        joined.extend_from_slice(&rest[..count]);
        rest = &rest[count..];
    }
    joined
}
