//! Determines which block shows in which part of a selection: the newest one.
//!
//! Every block becomes a box in *selection space* (positions along the selection's axes), which has no strides or
//! directions. Boxes are taken from the newest to the oldest; each shows where no newer one does. A grid over the
//! selection finds the newer boxes that a box meets, so disjoint blocks cost O(n). A grid cell that one box fills drops
//! all others, so a whole rewrite costs one lookup.
//!
//! Invariants
//! - visible boxes are pairwise disjoint and not empty, and no newer block holds any of their cells;
//! - a block that meets no newer one is one box, never cut.

mod grid;
mod region;
#[cfg(test)]
mod tests;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Entry, newest_cmp};

use crate::selection::Selection;
use grid::Grid;
use region::Region;

/// A block that may show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its entry. An entry with another number of dimensions than the selection shows nowhere.
    pub entry: Entry,
    /// A clip: cells at or beyond this are cut off, per dimension; `u64::MAX` for none.
    pub limit: [u64; MAX_NDIM],
}

/// A part of the selection, `lo..hi` along each axis, and the candidate that shows there. Axes the selection
/// does not have are `0..1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Visible {
    pub candidate: usize,
    pub lo: [u64; MAX_NDIM],
    pub hi: [u64; MAX_NDIM],
}

/// The visible parts of all blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// Visible parts, in the order of the candidates.
    pub visible: Vec<Visible>,
    /// Number of cells of the selection that some block holds; the others read as fill.
    pub covered: u64,
}

/// Determines which of several blocks shows in each cell of a selection: the one with the greatest (commit, order,
/// put). If two are equal, which does not occur in a valid index, the later candidate shows.
pub fn resolve(candidates: &[Candidate], selection: &Selection) -> Resolved {
    let ndim = selection.axes.len();
    if selection.is_empty() || ndim > MAX_NDIM {
        return Resolved::default();
    }
    let place = |(number, candidate): (usize, &Candidate)| {
        Some((number, Region::of_candidate(candidate, selection)?))
            .filter(|(_, region)| !region.is_empty(ndim))
    };
    let mut placed: Vec<(usize, Region)> = Vec::with_capacity(candidates.len());
    placed.extend(candidates.iter().enumerate().filter_map(place));
    if let [(candidate, region)] = placed[..] {
        let visible = vec![Visible { candidate, lo: region.lo, hi: region.hi }];
        return Resolved { visible, covered: region.cells(ndim) };
    }
    // The stable sort takes linear time if blocks come in the order in which they were put.
    placed.sort_by(|a, b| newest_cmp(&candidates[a.0].entry, &candidates[b.0].entry));
    placed.reverse();

    let mut shown = Resolved::default();
    let mut grid = Grid::new(&placed, ndim);
    let (mut newer, mut left, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    for (number, (candidate, region)) in placed.iter().enumerate() {
        newer.clear();
        if grid.is_filled(region) {
            continue;
        }
        grid.meeting(number, region, |other| {
            let (_, other) = &placed[other];
            if other.meets(region, ndim) {
                newer.push(*other);
            }
        });
        left.clear();
        left.push(*region);
        if newer.iter().any(|other| other.holds(region, ndim)) {
            continue;
        }
        // The largest overlaps are cut off first, which leaves fewer and larger pieces.
        newer.sort_by_cached_key(|other| std::cmp::Reverse(other.common(region, ndim).cells(ndim)));
        for other in &newer {
            spare.clear();
            left.iter().for_each(|piece: &Region| piece.subtract(other, ndim, &mut spare));
            std::mem::swap(&mut left, &mut spare);
        }
        if left.is_empty() {
            continue;
        }
        grid.insert(number, region);
        for piece in &left {
            shown.covered = shown.covered.saturating_add(piece.cells(ndim));
            shown.visible.push(Visible { candidate: *candidate, lo: piece.lo, hi: piece.hi });
        }
    }
    shown.visible.sort_by_key(|visible| visible.candidate);
    shown
}
