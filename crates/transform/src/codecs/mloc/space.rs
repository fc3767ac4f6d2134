//! Boxes of a grid: their order along a curve, and the rows of scalars that they hold.

use std::ops::Range;

use drystone_curve::{Curve, ranks};

use crate::TransformError;
use crate::head::Head;

pub(super) const MAX_AXES: usize = 9;
/// Most scalars in a box, so that an offset in it fits in 16 bits.
pub(super) const MAX_VOLUME: u64 = 1 << 16;

/// Scalars in row-major order, divided into boxes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Space {
    pub(super) shape: Vec<u64>,
    pub(super) edges: Vec<u64>,
}

/// One box.
pub(super) struct Cut {
    first: Vec<u64>,
    extent: Vec<u64>,
}

impl Space {
    pub(super) fn counts(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.edges).map(|(n, edge)| n.div_ceil(*edge)).collect()
    }

    /// Number of boxes.
    pub(super) fn boxes(&self) -> u64 {
        self.counts().iter().fold(1, |n, count| n.saturating_mul(*count))
    }

    /// The numbers of the boxes, in stored order.
    pub(super) fn order(&self) -> Result<Vec<u32>, TransformError> {
        let ranks = ranks(Curve::Hilbert, &self.counts())
            .map_err(|e| TransformError::corrupt(format!("boxes along a curve: {e}"), 0))?;
        let mut order: Vec<u32> = (0..ranks.len() as u32).collect();
        order.sort_unstable_by_key(|&number| ranks.get(number as usize).copied().unwrap_or(0));
        Ok(order)
    }

    pub(super) fn cut(&self, number: u64) -> Cut {
        let (mut rest, counts) = (number, self.counts());
        let (mut first, mut extent) = (vec![0; counts.len()], vec![1; counts.len()]);
        for d in (0..counts.len()).rev() {
            let at = rest % counts[d].max(1) * self.edges[d];
            rest /= counts[d].max(1);
            (first[d], extent[d]) = (at, self.edges[d].min(self.shape[d].saturating_sub(at)));
        }
        Cut { first, extent }
    }

    /// Marks the boxes that hold scalars of a run.
    pub(super) fn touched(&self, run: &Range<u64>, marks: &mut [bool]) {
        let (counts, ndim) = (self.counts(), self.shape.len());
        let mut at = run.start;
        while at < run.end {
            let (mut rest, mut number, mut along, mut step) = (at, 0, 1, 1);
            for d in (0..ndim).rev() {
                let cell = rest % self.shape[d].max(1);
                rest /= self.shape[d].max(1);
                number += cell / self.edges[d] * along;
                along *= counts[d];
                if d + 1 == ndim {
                    step = (self.edges[d] - cell % self.edges[d]).min(self.shape[d] - cell);
                }
            }
            if let Some(mark) = marks.get_mut(number as usize) {
                *mark = true;
            }
            at += step.max(1);
        }
    }

    pub(super) fn read(head: &mut Head<'_>, count: u64) -> Result<Space, TransformError> {
        let ndim = usize::from(head.u8()?);
        if ndim > MAX_AXES {
            return Err(head.corrupt(&format!("{ndim} axes")));
        }
        let mut space = Space { shape: Vec::with_capacity(ndim), edges: Vec::with_capacity(ndim) };
        for _ in 0..ndim {
            let (extent, edge) = (u64::from(head.u32()?), u64::from(head.u32()?));
            if edge == 0 || edge > extent.max(1) {
                return Err(head.corrupt(&format!("boxes of {edge} in {extent}")));
            }
            space.shape.push(extent);
            space.edges.push(edge);
        }
        let cells = space.shape.iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
        if cells != Some(count) {
            return Err(head.corrupt(&format!("a grid that does not hold {count} scalars")));
        }
        Ok(space)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(self.shape.len() as u8);
        for (extent, edge) in self.shape.iter().zip(&self.edges) {
            out.extend_from_slice(&(*extent as u32).to_le_bytes());
            out.extend_from_slice(&(*edge as u32).to_le_bytes());
        }
    }
}

impl Cut {
    pub(super) fn volume(&self) -> u64 {
        self.extent.iter().product()
    }

    /// The number, among all scalars, of the scalar at an offset in the box.
    pub(super) fn global(&self, place: u64, shape: &[u64]) -> u64 {
        let (mut rest, mut number, mut stride) = (place, 0, 1);
        for d in (0..shape.len()).rev() {
            number += (self.first[d] + rest % self.extent[d].max(1)) * stride;
            rest /= self.extent[d].max(1);
            stride *= shape[d];
        }
        number
    }

    /// Visits each row: the number of its first scalar among all, that among those of the box, and its length.
    pub(super) fn rows(
        &self,
        shape: &[u64],
        mut give: impl FnMut(u64, u64, u64) -> Result<(), TransformError>,
    ) -> Result<(), TransformError> {
        let (volume, row) = (self.volume(), self.extent.last().copied().unwrap_or(1));
        let mut at = 0;
        while at < volume {
            give(self.global(at, shape), at, row)?;
            at += row.max(1);
        }
        Ok(())
    }
}
