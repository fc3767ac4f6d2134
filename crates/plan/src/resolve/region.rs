//! Boxes in selection space.

use drystone_format::MAX_NDIM;

use super::Candidate;
use crate::selection::Selection;

/// `lo..hi` along each axis; axes beyond `ndim` are `0..1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) lo: [u64; MAX_NDIM],
    pub(super) hi: [u64; MAX_NDIM],
}

impl Region {
    /// The positions of the selection whose cells a candidate holds; `None` if it has another number of dimensions.
    pub(super) fn of_candidate(candidate: &Candidate, selection: &Selection) -> Option<Region> {
        let entry = &candidate.entry;
        if usize::from(entry.ndim) != selection.axes.len() {
            return None;
        }
        let ends = entry.end();
        let mut region = Region { lo: [0; MAX_NDIM], hi: [1; MAX_NDIM] };
        for (d, axis) in selection.axes.iter().enumerate().take(MAX_NDIM) {
            let end = ends[d].min(candidate.limit[d]);
            let positions = axis.meeting(entry.offset[d], end);
            (region.lo[d], region.hi[d]) = (positions.start, positions.end);
        }
        Some(region)
    }

    pub(super) fn is_empty(&self, ndim: usize) -> bool {
        (0..ndim).any(|d| self.lo[d] >= self.hi[d])
    }

    pub(super) fn cells(&self, ndim: usize) -> u64 {
        (0..ndim).fold(1u64, |cells, d| cells.saturating_mul(self.hi[d].saturating_sub(self.lo[d])))
    }

    pub(super) fn meets(&self, other: &Region, ndim: usize) -> bool {
        (0..ndim).all(|d| self.lo[d] < other.hi[d] && other.lo[d] < self.hi[d])
    }

    pub(super) fn holds(&self, other: &Region, ndim: usize) -> bool {
        (0..ndim).all(|d| self.lo[d] <= other.lo[d] && other.hi[d] <= self.hi[d])
    }

    pub(super) fn common(&self, other: &Region, ndim: usize) -> Region {
        let mut common = *self;
        for d in 0..ndim {
            common.lo[d] = self.lo[d].max(other.lo[d]);
            common.hi[d] = self.hi[d].min(other.hi[d]);
        }
        common
    }

    /// Appends the parts of this region that lie outside `other`. The first axes are cut first, so that the parts keep
    /// whole rows.
    pub(super) fn subtract(&self, other: &Region, ndim: usize, left: &mut Vec<Region>) {
        if !self.meets(other, ndim) {
            left.push(*self);
            return;
        }
        let mut rest = *self;
        for d in 0..ndim {
            if rest.lo[d] < other.lo[d] {
                let mut before = rest;
                before.hi[d] = other.lo[d];
                left.push(before);
                rest.lo[d] = other.lo[d];
            }
            if other.hi[d] < rest.hi[d] {
                let mut after = rest;
                after.lo[d] = other.hi[d];
                left.push(after);
                rest.hi[d] = other.hi[d];
            }
        }
    }
}
