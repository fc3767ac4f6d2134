//! The rows of an array, as differences along an axis.

use super::Box;
use super::boxes::{shape, strides};
use super::gather::Gather;
use super::kernel::{self, Float};
use crate::tree::Stencil;

/// Maps the rows of an array to differences along an axis.
pub(super) struct Lines<'a> {
    /// The box of the input array.
    pub(super) had: &'a Box,
    pub(super) own: &'a Box,
    /// The axis.
    pub(super) at: usize,
    /// One stencil for each position along the axis.
    pub(super) taps: &'a [kernel::Tap],
}

impl Lines<'_> {
    /// The differences, row by row; `None` if a cell lies outside the array.
    pub(super) fn differences<T: Float>(&self, op: Stencil, from: &[T], out: &mut [T]) -> Option<()> {
        let (shape, strides) = (shape(self.own), strides(&shape(self.had)));
        let (last, row) = (shape.len().checked_sub(1)?, *shape.last()?);
        if out.is_empty() {
            return Some(());
        }
        let first = |d: usize| usize::try_from(self.own[d].0 - self.had[d].0).ok();
        let place = |cell: i64| usize::try_from(cell - self.had[self.at].0).ok();
        // Runs of cells along the last axis that share offsets and weights.
        let alike = |a: &kernel::Tap, b: &kernel::Tap| {
            let next = (b.before, b.at, b.behind) == (a.before + 1, a.at + 1, a.behind + 1);
            next && a.weights == b.weights
        };
        let runs: Vec<&[kernel::Tap]> = self.taps.chunk_by(alike).collect();
        let mut at = vec![0usize; last];
        for out in out.chunks_exact_mut(row) {
            let mut base = 0;
            for d in (0..last).filter(|d| *d != self.at) {
                base += (first(d)? + at[d]) * strides[d];
            }
            if self.at == last {
                let mut rest = out;
                for run in &runs {
                    let (now, behind) = rest.split_at_mut(run.len());
                    rest = behind;
                    let cells = |cell: i64| from.get(base + place(cell)?..)?.get(..run.len());
                    let (tap, here) = (&run[0], &mut *now);
                    let (before, at, behind) = (cells(tap.before)?, cells(tap.at)?, cells(tap.behind)?);
                    kernel::row(op, tap.weights, before, at, behind, here);
                }
            } else {
                let tap = self.taps.get(at[self.at])?;
                base += first(last)?;
                let cells = |cell: i64| from.get(base + place(cell)? * strides[self.at]..)?.get(..row);
                let (before, at, behind) = (cells(tap.before)?, cells(tap.at)?, cells(tap.behind)?);
                kernel::row(op, tap.weights, before, at, behind, out);
            }
            for d in (0..last).rev() {
                at[d] += 1;
                if at[d] < shape[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        Some(())
    }

    /// Copies the cells before, at and behind each position.
    pub(super) fn gathers(&self) -> [Gather; 3] {
        let strides = strides(&shape(self.had));
        let gather = |place: &dyn Fn(&kernel::Tap) -> i64| {
            let places = self.own.iter().zip(self.had).enumerate().map(|(d, (&(lo, hi), &(first, _)))| {
                let of: Vec<usize> = match d == self.at {
                    true => self.taps.iter().map(|tap| (place(tap) - first) as usize).collect(),
                    false => (lo..hi).map(|p| (p - first) as usize).collect(),
                };
                (strides[d], of)
            });
            Gather::new(&places.collect::<Vec<_>>())
        };
        [gather(&|tap| tap.before), gather(&|tap| tap.at), gather(&|tap| tap.behind)]
    }
}
