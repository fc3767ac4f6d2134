//! The order in which the chunks of a shard are stored.

use std::fmt;

use drystone_curve::{Curve, TooManyCells, ranks};

/// An order of the cells of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Along the Hilbert curve: neighbours in the array are near each other in the shard, in every direction.
    #[default]
    Hilbert,
    /// The last axis fastest.
    RowMajor,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Hilbert => "Hilbert",
            Order::RowMajor => "row-major",
        })
    }
}

/// The row-major numbers of the chunks of a grid, in stored order.
///
/// The first `slow` axes vary slowest: chunks that are added along them later follow the existing ones.
/// `TooLarge` for more than 2^22 chunks.
pub fn chunk_order(grid: &[u64], slow: usize, order: Order) -> Result<Vec<u32>, TooManyCells> {
    let all = ranks(Curve::Hilbert, grid)?;
    let (slow, fast) = grid.split_at(slow.min(grid.len()));
    if order == Order::RowMajor || all.is_empty() {
        return Ok((0..all.len() as u32).collect());
    }
    let along_curve = ranks(Curve::Hilbert, fast)?;
    let mut along = vec![0u32; along_curve.len()];
    for (cell, &rank) in along_curve.iter().enumerate() {
        along[rank as usize] = cell as u32;
    }
    let outer: u64 = slow.iter().product();
    let many = along_curve.len() as u32;
    Ok((0..outer as u32).flat_map(|o| along.iter().map(move |&cell| o * many + cell)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_stands_once_and_later_steps_behind_earlier_ones() {
        for grid in [&[3, 5, 2][..], &[4, 4], &[1], &[], &[2, 7, 3, 3]] {
            for order in [Order::Hilbert, Order::RowMajor] {
                let stand = chunk_order(grid, 1, order).unwrap();
                let mut sorted = stand.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().enumerate().all(|(i, &n)| i as u32 == n), "{grid:?}");
                if let Some(steps) = grid.first() {
                    let per_step = stand.len() / *steps as usize;
                    assert!(stand.iter().enumerate().all(|(i, &n)| i / per_step == n as usize / per_step));
                }
            }
        }
        assert_eq!(chunk_order(&[2, 0], 0, Order::Hilbert).unwrap(), [0_u32; 0]);
        assert!(chunk_order(&[1 << 20, 1 << 20], 0, Order::RowMajor).is_err());
    }

    #[test]
    fn neighbours_in_the_shard_are_neighbours_in_space() {
        let stand = chunk_order(&[8, 8], 0, Order::Hilbert).unwrap();
        let far = |a: u32, b: u32| (a / 8).abs_diff(b / 8) + (a % 8).abs_diff(b % 8);
        assert!(stand.windows(2).all(|pair| far(pair[0], pair[1]) == 1));
    }
}
