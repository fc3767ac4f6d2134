//! Places listed cells: the cells of a listing in a subchunk, and fill values for cells that no block holds.

use drystone_copy::{Dim, ListedCopy};
use drystone_plan::form::Form;
use drystone_plan::listing::{Leg, Listing};
use drystone_plan::read_plan::{Cells, Picks, Work};

use super::Job;
use crate::base::error::rule_error;
use crate::{Error, Result};

impl Job<'_> {
    /// Copies the cells of a work from decoded bytes to their places in the target. `base` is the number of the first
    /// byte.
    pub(super) fn scatter_listed(
        &self,
        work: &Work,
        cells: &Cells,
        form: &Form,
        bytes: &[u8],
        base: u64,
    ) -> Result<()> {
        let room = form.room as i64;
        let (at, strides) = self.place(work.slot);
        let (mut from, mut to) = (form.at as i64 - base as i64, at as i64);
        let (mut lists, mut dims) = (Vec::new(), Vec::new());
        let too_far = || Error::corrupt("a plan reaches beyond 2^63 bytes");
        let offset =
            |n: u64, size: i64| i64::try_from(n).ok().and_then(|n| n.checked_mul(size)).ok_or_else(too_far);
        for (picks, &stride) in cells.legs.iter().zip(strides) {
            match picks {
                Picks::Run { from: first, step, count, place } => {
                    from += offset(*first, room)?;
                    to += offset(*place, stride)?;
                    dims.push(Dim::new(*count, step.checked_mul(room).ok_or_else(too_far)?, stride));
                }
                Picks::List(picks) => {
                    let pair =
                        |&(element, place): &(u64, u64)| Ok((offset(element, room)?, offset(place, stride)?));
                    lists.push(picks.iter().map(pair).collect::<Result<Vec<_>>>()?);
                }
            }
        }
        self.copy_listed(
            ListedCopy::new(from, to, form.item as usize, lists, dims).map_err(rule_error)?,
            bytes,
        )
    }

    /// Writes `value` to every cell of a listing within one slot.
    pub(super) fn fill_listed(&self, slot: usize, listing: &Listing, value: &[u8]) -> Result<()> {
        let (at, strides) = self.place(slot);
        let (mut lists, mut dims) = (Vec::new(), Vec::new());
        for (leg, &stride) in listing.legs.iter().zip(strides) {
            match &**leg {
                Leg::Axis { cells, .. } => dims.push(Dim::new(cells.count, 0, stride)),
                Leg::List { places, .. } => {
                    // Positions are below the extents of the target, whose span was checked.
                    lists
                        .push(places.iter().map(|&place| (0, (place as i64).wrapping_mul(stride))).collect());
                }
            }
        }
        let copy = ListedCopy::new(0, at as i64, value.len(), lists, dims).map_err(rule_error)?;
        self.copy_listed(copy, value)
    }

    fn copy_listed(&self, copy: ListedCopy, bytes: &[u8]) -> Result<()> {
        let (out, len) = self.out.raw();
        // SAFETY: this read borrows the target exclusively. Visible boxes are disjoint and each cell of a listing has
        // its own place, so no other thread writes these cells. The copy checks its bounds.
        unsafe { copy.run_raw(bytes.as_ptr(), bytes.len(), out, len) }.map_err(rule_error)
    }
}
