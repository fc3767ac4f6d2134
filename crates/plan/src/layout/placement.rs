//! On which of several storage targets each cell of a grid (a shard, a subchunk) lies, so that every read
//! keeps all targets busy.
//!
//! Hilbert round-robin is the published method: the cell that is the r-th along the curve lies on target r
//! mod n. A *lattice* puts cell x on target Σ g·x mod n, for the vector g that spreads the planes across each
//! axis best; it needs no table, and spreads better.
//!
//! Invariants
//! - the same arguments give the same placement, in every process;
//! - every cell has a target below n.

use std::fmt;

use drystone_curve::{Curve, TooManyCells, ranks};

/// How cells are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// By a lattice with balanced planes.
    #[default]
    Lattice,
    /// Along the Hilbert curve, one target after the other.
    Hilbert,
    /// The last axis fastest, one target after the other.
    RowMajor,
}

/// Where the cells of a grid lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    grid: Vec<u64>,
    targets: u64,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// Factors per axis.
    Linear(Vec<u64>),
    /// Rank along a curve, by row-major number.
    Ranks(Vec<u32>),
}

/// At most this many vectors are tried for a lattice, with at most this many additions.
const TRIES: usize = 400;
const BUDGET: u64 = 40_000_000;

impl Placement {
    /// Spreads a grid over this many targets (at least one). `TooLarge` for a curve through more than 2^22
    /// cells.
    pub fn new(grid: &[u64], targets: u64, spread: Spread) -> Result<Placement, TooManyCells> {
        let (grid, targets) = (grid.iter().map(|&n| n.max(1)).collect::<Vec<u64>>(), targets.max(1));
        let rule = match spread {
            Spread::Hilbert => Rule::Ranks(ranks(Curve::Hilbert, &grid)?),
            Spread::RowMajor => Rule::Linear(row_major(&grid, targets)),
            Spread::Lattice => Rule::Linear(lattice(&grid, targets)),
        };
        Ok(Placement { grid, targets, rule })
    }

    /// Everything on the first target.
    pub fn single(targets: u64) -> Placement {
        Placement { grid: Vec::new(), targets: targets.max(1), rule: Rule::Linear(Vec::new()) }
    }

    /// The target of a cell. Cells outside the grid have one too, by the same rule or, along a curve, the
    /// first.
    pub fn of(&self, cell: &[u64]) -> u64 {
        let n = u128::from(self.targets);
        match &self.rule {
            Rule::Linear(factors) => {
                let sum: u128 =
                    cell.iter().zip(factors).map(|(&x, &g)| u128::from(x) * u128::from(g) % n).sum();
                (sum % n) as u64
            }
            Rule::Ranks(ranks) => {
                let inside = cell.iter().zip(&self.grid).all(|(x, n)| x < n);
                let number =
                    cell.iter().zip(&self.grid).fold(0u64, |at, (&x, &n)| at.wrapping_mul(n).wrapping_add(x));
                let rank =
                    usize::try_from(number).ok().filter(|_| inside).and_then(|number| ranks.get(number));
                u64::from(rank.copied().unwrap_or(0)) % self.targets
            }
        }
    }

    /// The largest share of one target in the plane across an axis at its first cell, as a multiple of the
    /// best spread.
    pub fn imbalance(&self, axis: usize) -> f64 {
        let mut loads = vec![0u64; self.targets as usize];
        let mut cell = vec![0; self.grid.len()];
        let plane: u64 = self.grid.iter().enumerate().filter(|(a, _)| *a != axis).map(|(_, n)| n).product();
        for _ in 0..plane {
            if let Some(load) = loads.get_mut(self.of(&cell) as usize) {
                *load += 1;
            }
            for a in (0..cell.len()).rev().filter(|a| *a != axis) {
                cell[a] += 1;
                if cell[a] < self.grid[a] {
                    break;
                }
                cell[a] = 0;
            }
        }
        loads.iter().copied().max().unwrap_or(0) as f64 / plane.div_ceil(self.targets).max(1) as f64
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Linear(factors) => write!(f, "lattice {factors:?} mod {}", self.targets),
            Rule::Ranks(_) => write!(f, "Hilbert rank mod {}", self.targets),
        }
    }
}

fn row_major(grid: &[u64], targets: u64) -> Vec<u64> {
    let mut pace = 1u64;
    let mut factors: Vec<u64> = grid
        .iter()
        .rev()
        .map(|&n| {
            let factor = pace;
            pace = (u128::from(pace) * u128::from(n) % u128::from(targets)) as u64;
            factor
        })
        .collect();
    factors.reverse();
    factors
}

/// The vector, among those tried, whose worst plane is best; of equal ones, the one whose planes are best together.
fn lattice(grid: &[u64], targets: u64) -> Vec<u64> {
    let mut best = row_major(grid, targets);
    let mut score = worst(grid, targets, &best);
    let mut spent = 0u64;
    let cost: u64 =
        grid.iter().fold(0u64, |cost, &n| cost.saturating_add(targets.saturating_mul(n.min(targets))));
    let mut state = 0x9E37_79B9_7F4A_7C15u64 ^ targets;
    for _ in 0..TRIES {
        spent = spent.saturating_add(cost.saturating_mul(grid.len() as u64));
        if score.0 <= 1.0 + 1e-9 || spent > BUDGET.max(cost.saturating_mul(grid.len() as u64 * 8)) {
            break;
        }
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % targets
        };
        let tried: Vec<u64> =
            (0..grid.len()).map(|axis| if axis == 0 { 1 % targets } else { next() }).collect();
        let found = worst(grid, targets, &tried);
        if found < score {
            (best, score) = (tried, found);
        }
    }
    best
}

/// Imbalance of the worst plane, and of all together. All planes across an axis have the same loads, in
/// another order.
fn worst(grid: &[u64], targets: u64, factors: &[u64]) -> (f64, f64) {
    let n = targets as usize;
    let (mut most, mut sum) = (1.0f64, 0.0);
    for across in 0..grid.len() {
        let mut loads = vec![0u64; n];
        loads[0] = 1;
        let mut cells = 1u64;
        for (_, (&extent, &g)) in grid.iter().zip(factors).enumerate().filter(|(axis, _)| *axis != across) {
            cells = cells.saturating_mul(extent);
            let mut wider = vec![0u64; n];
            // Beyond n cells the targets repeat; whole rounds add the same to every target.
            let (rounds, rest) = (extent / targets, extent % targets);
            for (from, &load) in loads.iter().enumerate().filter(|(_, load)| **load > 0) {
                for i in 0..extent.min(targets) {
                    let to = (from as u128 + u128::from(g) * u128::from(i)) % u128::from(targets);
                    let times = rounds + u64::from(i < rest);
                    wider[to as usize] = wider[to as usize].saturating_add(load.saturating_mul(times));
                }
            }
            loads = wider;
        }
        let imbalance =
            loads.iter().copied().max().unwrap_or(0) as f64 / cells.div_ceil(targets).max(1) as f64;
        most = most.max(imbalance);
        sum += imbalance;
    }
    (most, sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRIDS: [(&[u64], u64); 6] = [
        (&[16, 16, 16], 160),
        (&[16, 16, 16], 144),
        (&[20, 12, 9], 144),
        (&[8, 8, 8], 160),
        (&[30, 7], 4),
        (&[9], 3),
    ];

    fn worst_plane(grid: &[u64], targets: u64, spread: Spread) -> f64 {
        let placed = Placement::new(grid, targets, spread).unwrap();
        (0..grid.len()).map(|axis| placed.imbalance(axis)).fold(0.0, f64::max)
    }

    #[test]
    fn a_lattice_balances_every_plane_and_hilbert_does_better_than_rows() {
        for (grid, targets) in GRIDS {
            let lattice = worst_plane(grid, targets, Spread::Lattice);
            assert!(lattice <= 2.0, "{grid:?} on {targets}: {lattice}");
            assert!(lattice <= worst_plane(grid, targets, Spread::Hilbert), "{grid:?} on {targets}");
        }
        let cube = &[16, 16, 16];
        assert_eq!(worst_plane(cube, 160, Spread::RowMajor), 13.0);
        assert!(worst_plane(cube, 160, Spread::Hilbert) <= 4.0);
        assert!(worst_plane(cube, 160, Spread::Lattice) <= 1.5);
    }

    #[test]
    fn every_target_has_its_share_of_all_cells() {
        for (grid, targets) in GRIDS {
            for spread in [Spread::Lattice, Spread::Hilbert, Spread::RowMajor] {
                let placed = Placement::new(grid, targets, spread).unwrap();
                let mut loads = vec![0u64; targets as usize];
                let all: u64 = grid.iter().product();
                for number in 0..all {
                    let mut rest = number;
                    let mut cell: Vec<u64> = grid.iter().rev().map(|n| (rest % n, rest /= n).0).collect();
                    cell.reverse();
                    loads[placed.of(&cell) as usize] += 1;
                }
                let most = *loads.iter().max().unwrap();
                assert!(most <= 2 * all.div_ceil(targets), "{grid:?} on {targets} {spread:?}: {most}");
            }
        }
    }

    #[test]
    fn grids_without_cells_or_with_one_target_are_placed_too() {
        for spread in [Spread::Lattice, Spread::Hilbert, Spread::RowMajor] {
            assert_eq!(Placement::new(&[], 5, spread).unwrap().of(&[]), 0);
            assert_eq!(Placement::new(&[3, 3], 0, spread).unwrap().of(&[2, 2]), 0);
            assert!(
                Placement::new(&[3, 3], 7, spread).unwrap().of(&[900, u64::MAX]) < 7,
                "outside of the grid"
            );
        }
        assert!(Placement::new(&[1 << 20, 1 << 20], 7, Spread::Hilbert).is_err());
        assert!(Placement::new(&[1 << 20, 1 << 20], 7, Spread::Lattice).is_ok());
        assert_eq!(Placement::new(&[4, 4], 3, Spread::Lattice), Placement::new(&[4, 4], 3, Spread::Lattice));
    }
}
