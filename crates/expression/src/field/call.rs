//! Calls of registered functions: the tile that a function gets, and which of its values are known.
//!
//! A function is a stencil. Its value for a cell depends on the cells within the halo, on the cell's index and on the
//! step; the cut into tiles is not defined. The caller of this crate has the functions.

use super::Box;
use super::values::Values;
use crate::types::Type;

/// A call in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The name of the function.
    pub function: String,
    /// The stage of its argument.
    pub(super) of: usize,
    /// The type of its argument.
    pub from: Type,
    /// The type of its result.
    pub to: Type,
    /// The cells that it needs on each side, by axis.
    pub halo: Vec<i64>,
}

/// One tile of a call.
#[derive(Debug, Clone, Copy)]
pub struct Tile<'a> {
    /// The axes of the grid, ascending.
    pub axes: &'a [usize],
    /// The first cell of the result, along these axes.
    pub lo: &'a [u64],
    /// Extents of the result.
    pub shape: &'a [usize],
    /// The values of the argument, with the halo on each side, in row-major order.
    pub values: &'a Values,
}

impl Called {
    /// A box with the halo around it.
    pub(super) fn grown(&self, own: &Box) -> Box {
        let side =
            |(&(lo, hi), halo): (&(i64, i64), &i64)| if lo < hi { (lo - halo, hi + halo) } else { (lo, hi) };
        own.iter().zip(&self.halo).map(side).collect()
    }

    /// The mask of a box, from that of the box with its halo.
    pub(super) fn known(&self, around: &[u8], own: &Box) -> Vec<u8> {
        let mut shape: Vec<usize> = self.grown(own).iter().map(|(lo, hi)| (hi - lo) as usize).collect();
        let mut mask = around.to_vec();
        for (axis, halo) in self.halo.iter().enumerate() {
            let width = 2 * *halo as usize;
            let (before, along, behind): (usize, usize, usize) =
                (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product());
            let mut out = Vec::with_capacity(before * (along - width) * behind);
            for block in mask.chunks_exact(along * behind).take(before) {
                for at in 0..along - width {
                    let lines = &block[at * behind..(at + width + 1) * behind];
                    out.extend(
                        (0..behind)
                            .map(|n| lines.iter().skip(n).step_by(behind).fold(1, |all, one| all & one)),
                    );
                }
            }
            shape[axis] = along - width;
            mask = out;
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_known_where_all_cells_of_its_halo_are() {
        let call = Called { function: "f".into(), of: 0, from: Type::F4, to: Type::F4, halo: vec![1, 2] };
        let own: Box = vec![(3, 6), (0, 4)];
        let (rows, columns) = (5, 8);
        for hole in 0..rows * columns {
            let mut around = vec![1; rows * columns];
            around[hole] = 0;
            let (row, column) = (hole / columns, hole % columns);
            let known = call.known(&around, &own);
            for (n, known) in known.iter().enumerate() {
                let (y, x) = (n / 4 + 1, n % 4 + 2);
                let reaches = y.abs_diff(row) <= 1 && x.abs_diff(column) <= 2;
                assert_eq!(*known == 0, reaches, "hole {row} {column}, cell {y} {x}");
            }
            assert_eq!(known.len(), 12);
        }
    }
}
