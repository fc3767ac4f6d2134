//! Makes the gather rule of a work, and places packed cells.

use drystone_rules::{ConvertCopy, Dim, Dtype, Narrowing, NumberKind, Rule, StridedCopy, Term};

use super::packed_part;
use crate::form::Form;
use crate::read_plan::{Cells, Picks, Work};

/// Most copies of one rule. A listing that needs more is read by ranges.
const MOST_TERMS: u64 = 4096;

/// The rule that packs the cells of a work, row by row, from `source_len` bytes in the given `form` (along a curve:
/// unrolled). `narrow`: cells are float64 and are packed as float32, in half the bytes. `None` if the rule needs too
/// many copies, or the work's numbers do not fit.
pub(super) fn rule(work: &Work, form: &Form, source_len: u64, narrow: bool) -> Option<Rule> {
    let unrolled;
    let form = match form.curve {
        Some(_) => {
            unrolled = form.unrolled();
            &unrolled
        }
        None => form,
    };
    let item = form.item;
    let packed = if narrow { item / 2 } else { item };
    let (mut offsets, dims, len) = match &work.cells {
        None => boxed(work, form, packed)?,
        Some(cells) => listed(cells, form, packed)?,
    };
    let types = (Dtype::little(NumberKind::F64), Dtype::little(NumberKind::F32));
    offsets.sort_by_key(|(_, dst)| *dst);
    let terms = offsets.into_iter().map(|(src, dst)| {
        let (src, dst) = (u64::try_from(src).ok()?, u64::try_from(dst).ok()?);
        Some(match narrow {
            // Rounds to the nearest; a value beyond float32 becomes infinite, and the reader checks for that.
            true => Term::Convert(ConvertCopy::new(src, dst, types, Narrowing::Saturate, dims.clone()).ok()?),
            false => Term::Copy(StridedCopy::new(src, dst, usize::try_from(item).ok()?, dims.clone()).ok()?),
        })
    });
    Rule::new(source_len, len, terms.collect::<Option<_>>()?).ok()
}

/// Where copies begin, their loops, and the number of bytes that all of them pack.
type Copies = (Vec<(i64, i64)>, Vec<Dim>, u64);

fn boxed(work: &Work, form: &Form, packed: u64) -> Option<Copies> {
    let ndim = form.dims().count();
    let strides = form.strides(&work.part.chunk_shape);
    let mut src = i64::try_from(form.at).ok()?;
    let (mut dims, mut dst) = (Vec::with_capacity(ndim), i64::try_from(packed).ok()?);
    for d in (0..ndim).rev() {
        let (first, step, count) = work.part.chunk[d];
        let apart = i64::try_from(strides[d]).ok()?;
        src = src.checked_add(i64::try_from(first).ok()?.checked_mul(apart)?)?;
        dims.push(Dim::new(count, step.checked_mul(apart)?, dst));
        dst = dst.checked_mul(i64::try_from(count).ok()?)?;
    }
    Some((vec![(src, 0)], dims, u64::try_from(dst).ok()?))
}

fn listed(cells: &Cells, form: &Form, packed: u64) -> Option<Copies> {
    let room = i64::try_from(form.room).ok()?;
    let far = |elements: u64| i64::try_from(elements).ok()?.checked_mul(room);
    let (mut offsets, mut dims) = (vec![(i64::try_from(form.at).ok()?, 0i64)], Vec::new());
    let mut dst = i64::try_from(packed).ok()?;
    for leg in cells.legs.iter().rev() {
        let count = leg.count();
        match leg {
            Picks::Run { from, step, count, .. } => {
                dims.push(Dim::new(*count, step.checked_mul(room)?, dst));
                let from = far(*from)?;
                offsets.iter_mut().try_for_each(|(src, _)| {
                    *src = src.checked_add(from)?;
                    Some(())
                })?;
            }
            Picks::List(picks) => {
                (offsets.len() as u64).checked_mul(count).filter(|copies| *copies <= MOST_TERMS)?;
                let mut all = Vec::with_capacity(offsets.len() * picks.len());
                for (i, (element, _)) in picks.iter().enumerate() {
                    let (src, to) = (far(*element)?, (i as i64).checked_mul(dst)?);
                    for (base, at) in &offsets {
                        all.push((base.checked_add(src)?, at.checked_add(to)?));
                    }
                }
                offsets = all;
            }
        }
        dst = dst.checked_mul(i64::try_from(count).ok()?)?;
    }
    Some((offsets, dims, u64::try_from(dst).ok()?))
}

/// The work that scatters packed cells: they lie dense, row by row, and go to the same places as before.
pub fn packed(work: &Work) -> Work {
    let part = packed_part(&work.part);
    let cells = work.cells.as_deref().map(|cells| {
        let mut stride = 1u64;
        let mut legs: Vec<Picks> = Vec::with_capacity(cells.legs.len());
        for leg in cells.legs.iter().rev() {
            legs.push(match leg {
                Picks::Run { count, place, .. } => {
                    let step = if *count > 1 { stride as i64 } else { 1 };
                    Picks::Run { from: 0, step, count: *count, place: *place }
                }
                Picks::List(picks) => {
                    let packed = picks.iter().enumerate();
                    Picks::List(packed.map(|(i, (_, place))| (i as u64 * stride, *place)).collect())
                }
            });
            stride = stride.saturating_mul(leg.count());
        }
        legs.reverse();
        Box::new(Cells { legs })
    });
    Work { part, cells, ..work.clone() }
}
