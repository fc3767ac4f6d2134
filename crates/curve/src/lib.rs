//! Element orders along space-filling curves.
//!
//! An array in Morton or Hilbert order holds its elements in the order of the curve through the smallest enclosing cube
//! whose side is a power of two. Cells of the cube outside the array leave no gaps. Such an array has no strides; it is
//! addressed through a table of ranks.
//!
//! No I/O, no dependencies. The Hilbert key follows J. Skilling, "Programming the Hilbert curve" (AIP Conf.
//! Proc. 707, 2004).

use std::fmt;

/// Most elements that an array in curve order may have.
pub const MOST_CELLS: u64 = 1 << 22;

/// Which curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// The Z curve: the bits of the coordinates are interleaved, those of the first axis leading.
    Morton,
    /// The Hilbert curve.
    Hilbert,
}

/// An array with more cells than [`MOST_CELLS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyCells;

impl fmt::Display for TooManyCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rule would need more than {MOST_CELLS} elements in curve order")
    }
}

impl std::error::Error for TooManyCells {}

/// The place along the curve of every cell of an array, in row-major order. At most 2^22 cells.
pub fn ranks(curve: Curve, counts: &[u64]) -> Result<Vec<u32>, TooManyCells> {
    let cells = counts.iter().try_fold(1u64, |product, &count| product.checked_mul(count));
    let too_large = TooManyCells;
    let cells = cells.filter(|&cells| cells <= MOST_CELLS).ok_or(too_large)? as usize;
    let longest = counts.iter().copied().max().unwrap_or(1).max(1);
    let bits = u64::BITS - (longest - 1).leading_zeros();
    if bits as usize * counts.len() > 128 {
        return Err(too_large);
    }
    let mut keyed = Vec::with_capacity(cells);
    let mut cell = vec![0u64; counts.len()];
    for index in 0..cells {
        let mut axes = cell.clone();
        if curve == Curve::Hilbert {
            hilbert(&mut axes, bits);
        }
        keyed.push((interleave(&axes, bits), index as u32));
        for axis in (0..counts.len()).rev() {
            cell[axis] += 1;
            if cell[axis] < counts[axis] {
                break;
            }
            cell[axis] = 0;
        }
    }
    keyed.sort_unstable();
    let mut ranks = vec![0; cells];
    for (rank, &(_, index)) in keyed.iter().enumerate() {
        ranks[index as usize] = rank as u32;
    }
    Ok(ranks)
}

/// Interleaves the bits of all axes, highest bits first, the first axis leading.
fn interleave(axes: &[u64], bits: u32) -> u128 {
    let mut key = 0;
    for bit in (0..bits).rev() {
        for axis in axes {
            key = key << 1 | u128::from(axis >> bit & 1);
        }
    }
    key
}

/// Converts coordinates to Skilling's transposed Hilbert index.
fn hilbert(axes: &mut [u64], bits: u32) {
    let Some(last) = axes.len().checked_sub(1) else { return };
    if bits == 0 {
        return;
    }
    let top = 1u64 << (bits - 1);
    let mut q = top;
    while q > 1 {
        let low = q - 1;
        for k in 0..axes.len() {
            if axes[k] & q != 0 {
                axes[0] ^= low;
            } else {
                let swap = (axes[0] ^ axes[k]) & low;
                axes[0] ^= swap;
                axes[k] ^= swap;
            }
        }
        q >>= 1;
    }
    for k in 1..axes.len() {
        axes[k] ^= axes[k - 1];
    }
    let mut flips = 0;
    let mut q = top;
    while q > 1 {
        if axes[last] & q != 0 {
            flips ^= q - 1;
        }
        q >>= 1;
    }
    for axis in axes {
        *axis ^= flips;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn morton_order_of_a_square_is_the_z() {
        assert_eq!(ranks(Curve::Morton, &[2, 2]).unwrap(), [0, 1, 2, 3]);
        assert_eq!(ranks(Curve::Morton, &[2, 4]).unwrap(), [0, 1, 4, 5, 2, 3, 6, 7]);
    }

    #[test]
    fn neighbours_along_the_hilbert_curve_are_neighbours_in_space() {
        for (side, ndim) in [(2u64, 2u32), (8, 2), (4, 3), (16, 2), (2, 5)] {
            let table = ranks(Curve::Hilbert, &vec![side; ndim as usize]).unwrap();
            let mut along = vec![0; table.len()];
            for (cell, &rank) in table.iter().enumerate() {
                along[rank as usize] = cell as u64;
            }
            for pair in along.windows(2) {
                let axis = |cell: u64, k: u32| (cell / side.pow(k) % side) as i64;
                let steps: i64 = (0..ndim).map(|k| (axis(pair[0], k) - axis(pair[1], k)).abs()).sum();
                assert_eq!(steps, 1, "{pair:?} in {side}^{ndim}");
            }
        }
    }

    #[test]
    fn a_rank_table_is_a_permutation_for_any_box() {
        for counts in [&[3, 5][..], &[1, 7], &[6, 1, 4], &[0, 3], &[]] {
            let mut table = ranks(Curve::Hilbert, counts).unwrap();
            table.sort_unstable();
            assert!(table.iter().enumerate().all(|(k, &rank)| k as u32 == rank));
        }
        assert!(matches!(ranks(Curve::Morton, &[1 << 40, 1 << 40]), Err(TooManyCells)));
    }
}
