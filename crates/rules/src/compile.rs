//! Compiles the copies between two fragments.
//!
//! Leaves are matched by the data that they hold. Along each dimension of the dataset their index maps are joined; the
//! joined steps, times the strides of both sides, are the loops of one strided copy. If a map consists of several
//! progressions, each combination gives a copy. If an array lies along a curve, each of its elements gives a copy. The
//! optimiser then joins adjacent copies.

use std::collections::HashMap;

use crate::error::RuleError;
use crate::fragment::{Advance, Leaf, LeafAxis, MemoryLayout};
use crate::optimise::optimise;
use crate::progression::{Joined, join};
use crate::rule::Rule;
use crate::term::Term;
use drystone_copy::ConvertCopy;
use drystone_copy::Narrowing;
use drystone_copy::{Dim, StridedCopy};

/// Most copies of a rule before the optimiser.
const MOST_COPIES: usize = 1 << 20;

/// One loop over elements that both leaves hold. A side that does not advance along it has no binder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loop {
    src_binder: Option<usize>,
    pub(crate) dst_binder: Option<usize>,
    pub(crate) steps: Joined,
}

impl Rule {
    /// The rule that fills all parts of `dst` that `src` holds. Other parts are not changed; see
    /// [`coverage`](crate::coverage). Source and destination may have different layouts, element orders, and (within
    /// `narrowing`) number types.
    pub fn compile(src: &MemoryLayout, dst: &MemoryLayout, narrowing: Narrowing) -> Result<Rule, RuleError> {
        let mut terms = Vec::new();
        for_each_pair(src, dst, |from, to| {
            let emit = |loops: &[Loop]| copy_loops(from, to, loops, narrowing, &mut terms);
            for_each_product(from, to, emit)
        })?;
        Ok(Rule::from_terms(src.len(), dst.len(), optimise(terms)))
    }
}

/// Calls `body` for every pair of leaves that hold the same data.
pub(crate) fn for_each_pair(
    src: &MemoryLayout,
    dst: &MemoryLayout,
    mut body: impl FnMut(&Leaf, &Leaf) -> Result<(), RuleError>,
) -> Result<(), RuleError> {
    if let ([from], [to]) = (&src.leaves[..], &dst.leaves[..]) {
        return if from.key == to.key { body(from, to) } else { Ok(()) };
    }
    let mut by_key: HashMap<&[u32], Vec<&Leaf>> = HashMap::new();
    for leaf in &src.leaves {
        by_key.entry(&leaf.key).or_default().push(leaf);
    }
    for to in &dst.leaves {
        for from in by_key.get(&to.key[..]).into_iter().flatten() {
            body(from, to)?;
        }
    }
    Ok(())
}

/// Calls `body` with the loops of every combination of progressions that the two leaves share.
pub(crate) fn for_each_product(
    src: &Leaf,
    dst: &Leaf,
    mut body: impl FnMut(&[Loop]) -> Result<(), RuleError>,
) -> Result<(), RuleError> {
    let same_shape = src.axes.len() == dst.axes.len()
        && src.axes.iter().zip(&dst.axes).all(|(src, dst)| src.extent == dst.extent);
    if !same_shape {
        return Err(RuleError::BadFragment { what: "two fragments disagree about the shape of a variable" });
    }
    if src.binders.iter().chain(&dst.binders).any(|binder| binder.extent == 0) {
        return Ok(());
    }
    let mut loops = Vec::with_capacity(dst.binders.len());
    for (binder, dim) in dst.binders.iter().enumerate() {
        if dst.axes.iter().all(|axis| axis.binder != Some(binder)) {
            // Along a dimension that the dataset does not have, the destination holds every element several times.
            let steps = Joined { src: 0, src_step: 0, dst: 0, dst_step: 1, count: dim.extent };
            loops.push(Loop { src_binder: None, dst_binder: Some(binder), steps });
        }
    }
    products(&src.axes, &dst.axes, &mut loops, &mut body)
}

/// Recurses over the dataset's dimensions.
fn products(
    src: &[LeafAxis],
    dst: &[LeafAxis],
    loops: &mut Vec<Loop>,
    body: &mut impl FnMut(&[Loop]) -> Result<(), RuleError>,
) -> Result<(), RuleError> {
    let (Some((from, src)), Some((to, dst))) = (src.split_first(), dst.split_first()) else {
        return body(loops);
    };
    if to.pieces.len().saturating_mul(from.pieces.len()) > MOST_COPIES {
        return Err(RuleError::TooLarge { what: "pairs of index pieces", most: MOST_COPIES as u64 });
    }
    for wanted in &to.pieces {
        for held in &from.pieces {
            if let Some(steps) = join(held, wanted) {
                loops.push(Loop { src_binder: from.binder, dst_binder: to.binder, steps });
                products(src, dst, loops, body)?;
                loops.pop();
            }
        }
    }
    Ok(())
}

/// Converts one product of loops to copies.
fn copy_loops(
    src: &Leaf,
    dst: &Leaf,
    loops: &[Loop],
    narrowing: Narrowing,
    terms: &mut Vec<Term>,
) -> Result<(), RuleError> {
    let mut cell = Cell {
        src,
        dst,
        src_index: vec![0; src.binders.len()],
        dst_index: vec![0; dst.binders.len()],
        src_offset: src.offset as i64,
        dst_offset: dst.offset as i64,
        dims: Vec::with_capacity(loops.len()),
        narrowing,
    };
    let mut ranked = Vec::new();
    for one in loops {
        let Joined { src: s0, src_step, dst: d0, dst_step, count } = one.steps;
        let src_stride = stride(src, one.src_binder);
        let dst_stride = stride(dst, one.dst_binder);
        let (Some(src_stride), Some(dst_stride)) = (src_stride, dst_stride) else {
            ranked.push(*one);
            continue;
        };
        cell.src_offset += s0 * src_stride;
        cell.dst_offset += d0 * dst_stride;
        let (src_stride, dst_stride) =
            if count == 1 { (0, 0) } else { (src_step * src_stride, dst_step * dst_stride) };
        cell.dims.push(Dim::new(count, src_stride, dst_stride));
    }
    cell.walk(&ranked, terms)
}

/// Bytes per index of a binder; 0 without one, `None` along a curve.
fn stride(leaf: &Leaf, binder: Option<usize>) -> Option<i64> {
    match binder.map(|binder| leaf.binders[binder].place) {
        None => Some(0),
        Some(Advance::Stride(stride)) => Some(stride),
        Some(Advance::Curve) => None,
    }
}

/// State while the ranked loops of a product are visited one element at a time.
struct Cell<'a> {
    src: &'a Leaf,
    dst: &'a Leaf,
    src_index: Vec<i64>,
    dst_index: Vec<i64>,
    src_offset: i64,
    dst_offset: i64,
    dims: Vec<Dim>,
    narrowing: Narrowing,
}

impl Cell<'_> {
    fn walk(&mut self, ranked: &[Loop], terms: &mut Vec<Term>) -> Result<(), RuleError> {
        let Some((one, rest)) = ranked.split_first() else {
            return self.emit(terms);
        };
        let (src_before, dst_before) = (self.src_offset, self.dst_offset);
        for m in 0..one.steps.count as i64 {
            let src = one.steps.src + one.steps.src_step * m;
            let dst = one.steps.dst + one.steps.dst_step * m;
            // A binder has a stride here only if just the other side's array lies along a curve.
            self.src_offset = src_before + place(self.src, one.src_binder, src, &mut self.src_index);
            self.dst_offset = dst_before + place(self.dst, one.dst_binder, dst, &mut self.dst_index);
            self.walk(rest, terms)?;
        }
        (self.src_offset, self.dst_offset) = (src_before, dst_before);
        Ok(())
    }

    fn emit(&self, terms: &mut Vec<Term>) -> Result<(), RuleError> {
        if terms.len() >= MOST_COPIES {
            return Err(RuleError::TooLarge { what: "copies", most: MOST_COPIES as u64 });
        }
        let src_offset = (self.src_offset + ranked_offset(self.src, &self.src_index)) as u64;
        let dst_offset = (self.dst_offset + ranked_offset(self.dst, &self.dst_index)) as u64;
        let dims = self.dims.clone();
        let (from, to) = (self.src, self.dst);
        terms.push(match (from.dtype, to.dtype) {
            (Some(source), Some(wanted)) if !source.same_bytes(wanted) => Term::Convert(ConvertCopy::new(
                src_offset,
                dst_offset,
                (source, wanted),
                self.narrowing,
                dims,
            )?),
            _ if from.bytes != to.bytes => {
                return Err(RuleError::Incompatible {
                    source: format!("{} bytes", from.bytes),
                    destination: format!("{} bytes", to.bytes),
                });
            }
            _ => {
                let elem =
                    usize::try_from(from.bytes).map_err(|_| RuleError::Overflow { what: "an element" })?;
                Term::Copy(StridedCopy::new(src_offset, dst_offset, elem, dims)?)
            }
        });
        Ok(())
    }
}

/// Bytes that a binder's index adds. Along a curve the index is only recorded.
fn place(leaf: &Leaf, binder: Option<usize>, index: i64, indexes: &mut [i64]) -> i64 {
    match binder.map(|binder| (binder, leaf.binders[binder].place)) {
        None => 0,
        Some((_, Advance::Stride(stride))) => index * stride,
        Some((binder, Advance::Curve)) => {
            indexes[binder] = index;
            0
        }
    }
}

/// Offset of the element at the recorded indexes, summed over the arrays that lie along curves.
fn ranked_offset(leaf: &Leaf, indexes: &[i64]) -> i64 {
    let rank = |curve: &crate::fragment::CurveArray| {
        let dims = indexes[curve.binders.clone()].iter().zip(&leaf.binders[curve.binders.clone()]);
        let cell = dims.fold(0, |cell, (&index, binder)| cell * binder.extent as usize + index as usize);
        curve.ranks[cell] as i64 * curve.elem as i64
    };
    leaf.curves.iter().map(rank).sum()
}
