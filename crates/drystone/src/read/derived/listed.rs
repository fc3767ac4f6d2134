//! Listed cells of derived variables: neighbouring cells are computed together, as one box.

use drystone_expression::Spare;
use drystone_plan::listing::{Leg, Listing};

use super::evaluate::Evaluator;
use super::{Computed, memory};
use crate::base::array::Target;
use crate::read::{ReadReport, Reading};
use crate::{Error, Result};

/// A box of at most this many cells is computed as a whole.
const SMALL: u64 = 1 << 10;
/// The most cells of a box that is computed at once.
const LARGE: u64 = 1 << 18;

/// Some cells along a leg, with their coordinates along its axes and their positions in the result.
#[derive(Clone)]
struct Cells {
    axes: Vec<usize>,
    /// Sorted by coordinates.
    cells: Vec<(Vec<u64>, u64)>,
}

impl Cells {
    fn of(leg: &Leg) -> Cells {
        let (axes, mut cells): (Vec<usize>, Vec<(Vec<u64>, u64)>) = match leg {
            Leg::Axis { axis, cells } => {
                (vec![*axis], (0..cells.count).map(|place| (vec![cells.cell(place)], place)).collect())
            }
            Leg::List { axes, cells, places } => {
                let each = places.iter().enumerate();
                let of = |n: usize| cells.iter().skip(n * axes.len()).take(axes.len()).copied().collect();
                (axes.clone(), each.map(|(n, place)| (of(n), *place)).collect())
            }
        };
        cells.sort();
        Cells { axes, cells }
    }

    /// The first and last coordinate along the axis with this number.
    fn bounds(&self, at: usize) -> (u64, u64) {
        let along = self.cells.iter().filter_map(|(cell, _)| cell.get(at).copied());
        along.fold((u64::MAX, 0), |(lo, hi), cell| (lo.min(cell), hi.max(cell)))
    }

    /// Cuts the cells into two halves across an axis.
    fn halves(mut self, at: usize) -> (Cells, Cells) {
        self.cells.sort_by_key(|(cell, _)| cell.get(at).copied());
        let (lo, hi) = self.bounds(at);
        let middle = lo + (hi - lo) / 2;
        let first = self.cells.partition_point(|(cell, _)| cell.get(at).is_some_and(|c| *c <= middle));
        let behind = self.cells.split_off(first);
        (Cells { axes: self.axes.clone(), cells: self.cells }, Cells { axes: self.axes, cells: behind })
    }
}

impl Reading {
    /// Reads a listing of computed values.
    pub(in crate::read) fn read_computed_cells(
        &self,
        computed: &Computed,
        listing: &Listing,
        out: &Target<'_>,
        mask: Option<&Target<'_>>,
    ) -> Result<ReadReport> {
        let (mut report, mut spare) = (ReadReport::default(), Spare::default());
        let mut evaluator: Option<(u64, Evaluator<'_>)> = None;
        let mut open = vec![listing.legs.iter().map(|leg| Cells::of(leg)).collect::<Vec<_>>()];
        let first = usize::from(self.variable.steps);
        while let Some(legs) = open.pop() {
            if legs.iter().any(|leg| leg.cells.is_empty()) {
                continue;
            }
            let (mut lo, mut hi) = (vec![0; self.shape().len()], vec![0; self.shape().len()]);
            for leg in &legs {
                for (at, axis) in leg.axes.iter().enumerate() {
                    let (least, most) = leg.bounds(at);
                    (lo[*axis], hi[*axis]) = (least, most + 1);
                }
            }
            let wanted = legs.iter().fold(1u64, |n, leg| n.saturating_mul(leg.cells.len() as u64));
            let enclosing = lo.iter().zip(&hi).fold(1u64, |n, (lo, hi)| n.saturating_mul(hi - lo));
            let many_steps = first == 1 && hi[0] - lo[0] > 1;
            let dense = enclosing <= SMALL.max(wanted.saturating_mul(4)).min(LARGE);
            if many_steps || !dense {
                let axis = if many_steps { 0 } else { longest(&lo, &hi) };
                let Some(number) = legs.iter().position(|leg| leg.axes.contains(&axis)) else { continue };
                let mut rest = legs;
                let leg = rest.swap_remove(number);
                let at = leg.axes.iter().position(|own| *own == axis).unwrap_or_default();
                // Positions in the result follow the order of the legs, which does not change.
                let last = rest.len();
                let (a, b) = leg.halves(at);
                for half in [b, a] {
                    let mut legs = rest.clone();
                    legs.push(half);
                    legs.swap(number, last);
                    open.push(legs);
                }
                continue;
            }
            let step = if first == 1 { lo[0] } else { 0 };
            if evaluator.as_ref().is_none_or(|(at, _)| *at != step) {
                evaluator = Some((step, Evaluator::new(computed, step, None, false)?));
            }
            let Some((_, evaluator)) = &mut evaluator else { continue };
            let mut array = evaluator.values(&lo[first..], &hi[first..], &mut spare)?;
            report.join(&evaluator.take_report());
            self.filled(&mut array);
            let (bytes, item) = memory::bytes(&array.values);
            place(&legs, (&lo, &hi), bytes, item, out)?;
            if let (Some(mask), Some(known)) = (mask, &array.known) {
                place(&legs, (&lo, &hi), known, 1, mask)?;
            }
            spare.give(array);
        }
        Ok(report)
    }
}

fn longest(lo: &[u64], hi: &[u64]) -> usize {
    (0..lo.len()).max_by_key(|d| hi[*d] - lo[*d]).unwrap_or_default()
}

/// Copies the listed cells of a box to their positions.
fn place(
    legs: &[Cells],
    (lo, hi): (&[u64], &[u64]),
    bytes: &[u8],
    item: usize,
    out: &Target<'_>,
) -> Result<()> {
    let shape: Vec<u64> = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).collect();
    let strides = memory::dense(&shape);
    let mut at = vec![0usize; legs.len()];
    let (base, len) = out.raw();
    loop {
        let (mut from, mut to) = (0u64, out.start() as i64);
        for ((leg, at), stride) in legs.iter().zip(&at).zip(out.strides()) {
            let (cell, place) = &leg.cells[*at];
            from += leg.axes.iter().zip(cell).map(|(axis, c)| (c - lo[*axis]) * strides[*axis]).sum::<u64>();
            to += stride * *place as i64;
        }
        let value = bytes.get(from as usize * item..).and_then(|rest| rest.get(..item));
        let (Some(value), Ok(to)) = (value, usize::try_from(to)) else {
            return Err(Error::invalid("a listed cell is outside the box that was computed"));
        };
        if to.checked_add(item).is_none_or(|end| end > len) {
            return Err(Error::invalid("a listed cell has no place in the result"));
        }
        // SAFETY: the destination is within the bytes of the target, which this call borrows exclusively.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), base.add(to), item) };
        let Some(d) = (0..at.len()).rev().find(|d| at[*d] + 1 < legs[*d].cells.len()) else { return Ok(()) };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}
