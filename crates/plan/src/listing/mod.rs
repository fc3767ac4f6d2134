//! Cells that form no strided box: points, lists of indices, masks.
//!
//! A [`Listing`] is a product of legs. A leg is a progression along one axis, or a list of cells along some
//! axes together: points are one list over all axes, orthogonal lists one list per axis, and a mask is the
//! list of its true cells. Leg `l` fills axis `l` of the result, so that the shape of the result is known
//! before anything is read.
//!
//! Invariants (checked by [`Listing::check`])
//! - every axis of the array belongs to one leg; within a leg axes ascend;
//! - no leg of one listing gives two cells the same place.

mod batches;
mod locate;

use std::sync::Arc;

use drystone_format::MAX_NDIM;

use crate::selection::{Axis, Selection};

pub use batches::{AtSteps, batches, progressions};
pub(crate) use locate::locate;

/// One factor of a [`Listing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leg {
    /// A progression along one axis of the array; its positions are the places in the result.
    Axis {
        /// Which axis.
        axis: usize,
        /// Which cells.
        cells: Axis,
    },
    /// Cells named one by one.
    List {
        /// The axes that a cell has coordinates for, ascending; empty where only the places count.
        axes: Vec<usize>,
        /// Coordinates, cell by cell.
        cells: Vec<u64>,
        /// The place of each cell along the leg's axis of the result.
        places: Vec<u64>,
    },
}

impl Leg {
    /// A list whose cells go to the places 0, 1, 2, …
    pub fn list(axes: Vec<usize>, cells: Vec<u64>) -> Leg {
        let number = if axes.is_empty() { 0 } else { cells.len() / axes.len() };
        Leg::List { axes, cells, places: (0..number as u64).collect() }
    }

    /// Number of cells along the leg.
    pub fn count(&self) -> u64 {
        match self {
            Leg::Axis { cells, .. } => cells.count,
            Leg::List { places, .. } => places.len() as u64,
        }
    }

    fn axes(&self) -> &[usize] {
        match self {
            Leg::Axis { axis, .. } => std::slice::from_ref(axis),
            Leg::List { axes, .. } => axes,
        }
    }

    /// Least and greatest coordinate along one of the leg's axes; `None` without cells.
    fn bounds(&self, axis: usize) -> Option<(u64, u64)> {
        match self {
            Leg::Axis { cells, .. } => {
                let last = cells.cell(cells.count.checked_sub(1)?);
                Some((cells.start.min(last), cells.start.max(last)))
            }
            Leg::List { axes, cells, .. } => {
                let at = axes.iter().position(|a| *a == axis)?;
                let along = cells.iter().skip(at).step_by(axes.len());
                along.fold(None, |found, &c| {
                    let (lo, hi) = found.unwrap_or((c, c));
                    Some((lo.min(c), hi.max(c)))
                })
            }
        }
    }

    fn is_sound(&self, shape: &[u64]) -> bool {
        match self {
            Leg::Axis { axis, cells } => {
                let Some(&length) = shape.get(*axis) else { return false };
                let Some(more) = cells.count.checked_sub(1) else { return true };
                let last = i128::from(cells.start) + i128::from(cells.step) * i128::from(more);
                cells.start < length && (0..i128::from(length)).contains(&last)
            }
            Leg::List { axes, cells, places } => {
                axes.is_sorted_by(|a, b| a < b)
                    && axes.iter().all(|axis| *axis < shape.len())
                    && cells.len() == places.len() * axes.len()
                    && axes.iter().enumerate().all(|(at, &axis)| {
                        cells.iter().skip(at).step_by(axes.len()).all(|&cell| cell < shape[axis])
                    })
            }
        }
    }
}

/// A product of legs, in the order of the axes of the result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Shared, because the listings of several steps have most legs in common.
    pub legs: Vec<Arc<Leg>>,
}

impl Listing {
    /// A listing of these legs.
    pub fn new(legs: Vec<Leg>) -> Listing {
        Listing { legs: legs.into_iter().map(Arc::new).collect() }
    }

    /// Single cells of an array of `ndim` dimensions, by their coordinates one after the other.
    pub fn points(ndim: usize, cells: Vec<u64>) -> Listing {
        Listing::new(vec![Leg::list((0..ndim).collect(), cells)])
    }

    /// Whether every axis belongs to one leg and all cells lie in an array of `shape`.
    pub fn check(&self, shape: &[u64]) -> bool {
        let mut seen: Vec<usize> = self.legs.iter().flat_map(|leg| leg.axes()).copied().collect();
        seen.sort_unstable();
        shape.len() <= MAX_NDIM
            && seen.into_iter().eq(0..shape.len())
            && self.legs.iter().all(|leg| leg.is_sound(shape))
    }

    /// Cells along each leg, which is the shape of the result.
    pub fn shape(&self) -> Vec<u64> {
        self.legs.iter().map(|leg| leg.count()).collect()
    }

    /// Number of cells, or `None` if it does not fit in 64 bits.
    pub fn cells(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.legs.iter().try_fold(1u64, |cells, leg| cells.checked_mul(leg.count()))
    }

    /// Whether no cell is wanted.
    pub fn is_empty(&self) -> bool {
        self.legs.iter().any(|leg| leg.count() == 0)
    }

    /// The equivalent strided box, if there are only progressions, in the order of the axes.
    pub fn as_box(&self) -> Option<Selection> {
        let axis = |(l, leg): (usize, &Arc<Leg>)| match &**leg {
            Leg::Axis { axis, cells } if *axis == l => Some(*cells),
            _ => None,
        };
        Some(Selection { axes: self.legs.iter().enumerate().map(axis).collect::<Option<_>>()? })
    }

    /// The smallest dense box that holds all cells: blocks are looked up by it. Empty if there is no cell.
    pub fn enclosing(&self) -> Selection {
        let ndim = self.legs.iter().map(|leg| leg.axes().len()).sum::<usize>().min(MAX_NDIM);
        let (mut offset, mut count) = (vec![0; ndim], vec![0; ndim]);
        for leg in &self.legs {
            for &axis in leg.axes().iter().filter(|axis| **axis < ndim) {
                if let Some((lo, hi)) = leg.bounds(axis) {
                    (offset[axis], count[axis]) = (lo, hi.saturating_sub(lo).saturating_add(1));
                }
            }
        }
        if self.is_empty() {
            count.fill(0);
        }
        Selection::boxed(&offset, &count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_axis_is_selected_once_and_within_its_length() {
        let full = |axis, n| Leg::Axis { axis, cells: Axis::full(n) };
        let shape = [4, 5];
        assert!(Listing::points(2, vec![3, 4, 0, 0]).check(&shape));
        assert!(Listing::new(vec![Leg::list(vec![1], vec![4, 4, 0]), full(0, 4)]).check(&shape));
        assert!(!Listing::points(2, vec![3, 5]).check(&shape));
        assert!(!Listing::points(2, vec![3, 4, 0]).check(&shape));
        assert!(!Listing::new(vec![full(0, 4)]).check(&shape));
        assert!(!Listing::new(vec![full(0, 4), full(0, 4), full(1, 5)]).check(&shape));
        assert!(!Listing::new(vec![full(0, 5), full(1, 5)]).check(&shape));
        assert!(!Listing::new(vec![Leg::list(vec![1, 0], vec![0, 0])]).check(&shape));
        let back = Axis { start: 3, step: -2, count: 3 };
        assert!(!Listing::new(vec![Leg::Axis { axis: 0, cells: back }, full(1, 5)]).check(&shape));
    }

    #[test]
    fn the_enclosing_box_holds_the_outermost_cells() {
        let back = Leg::Axis { axis: 1, cells: Axis { start: 9, step: -3, count: 3 } };
        let listing = Listing::new(vec![Leg::list(vec![0, 2], vec![7, 1, 2, 5]), back]);
        assert_eq!(listing.enclosing(), Selection::boxed(&[2, 3, 1], &[6, 7, 5]));
        assert_eq!((listing.shape(), listing.cells()), (vec![2, 3], Some(6)));
        assert!(Listing::points(3, vec![]).enclosing().is_empty());
    }
}
