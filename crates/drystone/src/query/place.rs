//! Positions of cells along the axes of a selection.

use drystone_format::MAX_NDIM;

/// A position along each axis of a selection.
pub(super) type Place = [u64; MAX_NDIM];

/// The extents of a box along the axes of the grid.
pub(super) fn extents(lo: &Place, hi: &Place, ndim: usize) -> Vec<u64> {
    (0..ndim).map(|d| hi[d].saturating_sub(lo[d])).collect()
}

/// The position of a cell of a box, from its row-major number.
pub(super) fn place(cell: u64, lo: &Place, shape: &[u64]) -> Place {
    let mut out = [0; MAX_NDIM];
    let mut rest = cell;
    for d in (0..shape.len()).rev() {
        let extent = shape[d].max(1);
        out[d] = lo[d] + rest % extent;
        rest /= extent;
    }
    out
}
