//! The hits of a step in C order. The selection is cut into slabs: boxes that follow one another in that order.
//!
//! A slab has as many rows as fit, with their hits, into a few megabytes. Its borders are those of tiles if possible,
//! so that each tile is read once.

use drystone_format::MAX_NDIM;

use super::bits;
use super::hits::{Cells, TileHits};
use super::place::{Place, extents};
use super::plan::Tile;

/// The most cells of a slab: 4 MiB of bits.
const MOST: u64 = 1 << 25;
/// The most bytes of the values of a slab.
const BYTES: u64 = 48 << 20;

/// The hits of a slab, by their numbers in the slab.
#[derive(Debug, Clone)]
pub(super) enum SlabHits {
    /// One bit per cell.
    Bits(Vec<u64>),
    /// The numbers of the cells, ascending.
    Few(Vec<u32>),
}

/// The number of cells of the first slab, unless a layer of tiles has more. A query for a few hits thus reads little.
const FIRST: u64 = 1 << 16;

/// Cuts a selection into slabs in C order. The first ones are small unless all hits are wanted.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    shape: Vec<u64>,
    /// The axis along which slabs are cut. They have one cell along the axes before it, and all cells along those
    /// after it.
    axis: usize,
    /// The borders of tiles and of stored columns along the axis.
    lines: Vec<u64>,
    /// Whether a slab may end between the lines: yes if parts of subchunks can be read separately.
    free: bool,
    /// The first position of the next slab, along the axes up to `axis`. `None` after the last slab.
    at: Option<Vec<u64>>,
    /// The number of cells of the next slab, and the most cells of any slab.
    next: u64,
    most: u64,
}

impl Slabs {
    /// Slabs of at most 2^25 cells, fewer if a cell needs many bytes. `borders` has the borders of tiles and stored
    /// columns along an axis. `all`: all hits are wanted.
    pub(super) fn new(
        shape: &[u64],
        borders: impl FnOnce(usize) -> Vec<u64>,
        free: bool,
        (bytes, all): (usize, bool),
    ) -> Slabs {
        let most = (BYTES / bytes.max(1) as u64).clamp(1, MOST);
        Slabs::of(shape, borders, free, (if all { most } else { FIRST.min(most) }, most))
    }

    fn of(
        shape: &[u64],
        borders: impl FnOnce(usize) -> Vec<u64>,
        free: bool,
        (next, most): (u64, u64),
    ) -> Slabs {
        if shape.contains(&0) {
            return Slabs::default();
        }
        let inner = |axis: usize| shape[axis + 1..].iter().fold(1u64, |n, extent| n.saturating_mul(*extent));
        let axis = (0..shape.len()).find(|axis| inner(*axis) <= most).unwrap_or(0);
        let mut lines = Vec::new();
        if let Some(extent) = shape.get(axis) {
            lines = borders(axis);
            lines.push(*extent);
            lines.sort_unstable();
            lines.dedup();
        }
        let at = Some(vec![0; (axis + 1).min(shape.len())]);
        Slabs { shape: shape.to_vec(), axis, lines, free, at, next, most }
    }

    /// The next slab; it may contain no tiles.
    fn cut(&mut self) -> Option<(Place, Place)> {
        let at = self.at.as_mut()?;
        let (mut lo, mut hi) = ([0; MAX_NDIM], [1; MAX_NDIM]);
        hi[..self.shape.len()].copy_from_slice(&self.shape);
        let Some((from, outer)) = at.split_last_mut() else {
            self.at = None;
            return Some((lo, hi));
        };
        for (d, at) in outer.iter().enumerate() {
            (lo[d], hi[d]) = (*at, at + 1);
        }
        let extent = self.shape[self.axis];
        let inner = self.shape[self.axis + 1..].iter().product::<u64>().max(1);
        let farthest = |cells: u64| from.saturating_add((cells / inner).max(1)).min(extent);
        let line_up_to = |end: u64| {
            let line = self.lines[..self.lines.partition_point(|line| *line <= end)].last().copied();
            line.filter(|line| *line > *from)
        };
        // Subchunks that can only be decoded whole are cut only if they are larger than the largest slab.
        let next_line = || self.lines.get(self.lines.partition_point(|line| line <= from)).copied();
        let small = line_up_to(farthest(self.next));
        let small = small.or_else(|| self.free.then(|| farthest(self.next)));
        let to = small.or_else(|| next_line().filter(|line| *line <= farthest(self.most)));
        let to = to.unwrap_or_else(|| farthest(self.most));
        (lo[self.axis], hi[self.axis]) = (*from, to);
        self.next = self.next.saturating_mul(4).min(self.most);
        *from = to;
        if to == extent {
            *from = 0;
            match (0..outer.len()).rev().find(|d| outer[*d] + 1 < self.shape[*d]) {
                Some(d) => {
                    outer[d] += 1;
                    outer[d + 1..].fill(0);
                }
                None => self.at = None,
            }
        }
        Some((lo, hi))
    }

    /// The next slab that contains tiles, with the parts of the tiles that lie in it.
    pub(super) fn next(&mut self, tiles: &[Tile]) -> Option<(Place, Place, Vec<Tile>)> {
        loop {
            let (lo, hi) = self.cut()?;
            let own = clipped(tiles, &lo, &hi);
            if !own.is_empty() {
                return Some((lo, hi, own));
            }
        }
    }
}

/// The parts of tiles that lie in a slab.
fn clipped(tiles: &[Tile], lo: &Place, hi: &Place) -> Vec<Tile> {
    let clip = |tile: &Tile| {
        let mut tile = tile.clone();
        for d in 0..MAX_NDIM {
            (tile.lo[d], tile.hi[d]) = (tile.lo[d].max(lo[d]), tile.hi[d].min(hi[d]));
        }
        Some(tile).filter(|tile| (0..MAX_NDIM).all(|d| tile.lo[d] < tile.hi[d]))
    };
    tiles.iter().filter_map(clip).collect()
}

impl SlabHits {
    /// The number of hits.
    pub(super) fn count(&self) -> usize {
        match self {
            SlabHits::Bits(set) => bits::count(set) as usize,
            SlabHits::Few(few) => few.len(),
        }
    }

    /// The hits of the tiles of a slab, in the order of the slab.
    pub(super) fn of(found: &[TileHits], lo: &Place, hi: &Place, ndim: usize) -> SlabHits {
        let shape = extents(lo, hi, ndim);
        let cells: u64 = shape.iter().product();
        let count: u64 = found.iter().map(TileHits::count).sum();
        if count.saturating_mul(64) < cells {
            let mut few = Vec::with_capacity(count as usize);
            for one in found {
                each_cell(one, lo, &shape, |cell| few.push(cell as u32));
            }
            few.sort_unstable();
            return SlabHits::Few(few);
        }
        let mut set = vec![0; bits::words(cells as usize)];
        for one in found {
            let own = extents(&one.lo, &one.hi, ndim);
            let first: Vec<u64> = (0..ndim).map(|d| one.lo[d] - lo[d]).collect();
            match &one.cells {
                Cells::All => {
                    bits::each_row(&shape, &first, &own, |at, _, len| bits::put_run(&mut set, at, len, true));
                }
                Cells::Bits(from, _) => bits::each_row(&shape, &first, &own, |at, inside, len| {
                    bits::copy_run(from, inside, &mut set, at, len);
                }),
                Cells::Few(_) | Cells::Counted(_) => {
                    each_cell(one, lo, &shape, |cell| set[cell / 64] |= 1 << (cell % 64))
                }
            }
        }
        SlabHits::Bits(set)
    }
}

/// Calls `act` with the number of each hit of a tile in a larger box, which begins at `lo`.
fn each_cell(hits: &TileHits, lo: &Place, shape: &[u64], mut act: impl FnMut(usize)) {
    let ndim = shape.len();
    let own = extents(&hits.lo, &hits.hi, ndim);
    let mut number = |cell: u64| {
        let (mut rest, mut at, mut stride) = (cell, 0u64, 1u64);
        for d in (0..ndim).rev() {
            at += (hits.lo[d] - lo[d] + rest % own[d].max(1)) * stride;
            rest /= own[d].max(1);
            stride *= shape[d];
        }
        act(at as usize);
    };
    match &hits.cells {
        Cells::All => (0..hits.count()).for_each(&mut number),
        Cells::Bits(set, _) => bits::each(set).for_each(|cell| number(cell as u64)),
        Cells::Few(cells) => cells.iter().for_each(|cell| number(u64::from(*cell))),
        Cells::Counted(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(lo: [u64; 3], hi: [u64; 3]) -> Tile {
        let (mut a, mut b) = ([0; MAX_NDIM], [1; MAX_NDIM]);
        a[..3].copy_from_slice(&lo);
        b[..3].copy_from_slice(&hi);
        Tile { lo: a, hi: b, open: vec![0] }
    }

    #[test]
    fn slabs_end_where_tiles_do_and_follow_one_another() {
        let tiles: Vec<Tile> = (0..4).map(|i| tile([3 * i, 0, 0], [3 * i + 3, 4, 5])).collect();
        let borders = |axis: usize| tiles.iter().flat_map(|tile| [tile.lo[axis], tile.hi[axis]]).collect();
        let cut = |most, next, free| {
            let mut slabs = Slabs::of(&[12, 4, 5], borders, free, (next, most));
            let found = std::iter::from_fn(|| slabs.next(&tiles));
            found.map(|(lo, hi, _)| (lo[0]..hi[0], lo[1]..hi[1])).collect::<Vec<_>>()
        };
        assert_eq!(cut(1000, 1000, false), [(0..12, 0..4)]);
        assert_eq!(cut(100, 100, true), [(0..3, 0..4), (3..6, 0..4), (6..9, 0..4), (9..12, 0..4)]);
        assert_eq!(cut(40, 40, false).first(), Some(&(0..2, 0..4)));
        assert_eq!(cut(10, 10, false)[..3], [(0..1, 0..2), (0..1, 2..4), (1..2, 0..2)]);
        // The first slabs are small. A tile is cut for a slab only if parts of it can be read separately.
        assert_eq!(cut(1000, 20, true)[..3], [(0..1, 0..4), (1..3, 0..4), (3..12, 0..4)]);
        assert_eq!(cut(1000, 20, false), [(0..3, 0..4), (3..6, 0..4), (6..12, 0..4)]);
        assert!(Slabs::of(&[12, 4, 5], borders, true, (100, 100)).next(&[]).is_none());
        assert!(Slabs::of(&[], borders, true, (100, 100)).cut().is_some());
    }
}
