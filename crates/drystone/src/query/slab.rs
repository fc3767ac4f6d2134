//! The hits of a step in C order: the selection is cut into slabs, boxes that follow one another in that order.
//!
//! A slab is as many rows as its hits fit into a few megabytes; its borders are those of tiles where they can be, so that a tile is
//! looked at once.

use drystone_format::MAX_NDIM;

use super::bits;
use super::inputs::{Place, extents};
use super::plan::Tile;
use super::run::{Cells, TileHits};

/// Cells of a slab at most: 4 MiB of bits.
const MOST: u64 = 1 << 25;

/// Hits of a slab by their numbers in it.
#[derive(Debug, Clone)]
pub(super) enum SlabHits {
    /// One bit per cell.
    Bits(Vec<u64>),
    /// Ascending.
    Few(Vec<u32>),
}

/// Cuts a selection of this shape into slabs, in C order.
pub(super) fn slabs(shape: &[u64], tiles: &[Tile]) -> Vec<(Place, Place)> {
    slabs_of(shape, tiles, MOST)
}

fn slabs_of(shape: &[u64], tiles: &[Tile], most: u64) -> Vec<(Place, Place)> {
    let (mut lo, mut hi) = ([0; MAX_NDIM], [1; MAX_NDIM]);
    hi[..shape.len()].copy_from_slice(shape);
    if shape.contains(&0) || tiles.is_empty() {
        return Vec::new();
    }
    let inner = |axis: usize| shape[axis + 1..].iter().fold(1u64, |n, extent| n.saturating_mul(*extent));
    let Some(axis) = (0..shape.len()).find(|axis| inner(*axis) <= most) else {
        return vec![(lo, hi)];
    };
    let rows = (most / inner(axis).max(1)).max(1);
    let mut lines: Vec<u64> = tiles.iter().flat_map(|tile| [tile.lo[axis], tile.hi[axis]]).collect();
    lines.push(shape[axis]);
    lines.sort_unstable();
    lines.dedup();
    let mut out = Vec::new();
    let mut outer = vec![0u64; axis];
    loop {
        for (d, at) in outer.iter().enumerate() {
            (lo[d], hi[d]) = (*at, at + 1);
        }
        let mut from = 0;
        while from < shape[axis] {
            let farthest = from.saturating_add(rows).min(shape[axis]);
            let line = lines[..lines.partition_point(|line| *line <= farthest)].last().copied();
            let to = line.filter(|line| *line > from).unwrap_or(farthest);
            (lo[axis], hi[axis]) = (from, to);
            let meets = |tile: &Tile| (0..MAX_NDIM).all(|d| tile.lo[d] < hi[d] && lo[d] < tile.hi[d]);
            if tiles.iter().any(meets) {
                out.push((lo, hi));
            }
            from = to;
        }
        let Some(d) = (0..axis).rev().find(|d| outer[*d] + 1 < shape[*d]) else { return out };
        outer[d] += 1;
        outer[d + 1..].fill(0);
    }
}

/// The parts of tiles that lie in a slab.
pub(super) fn clipped(tiles: &[Tile], lo: &Place, hi: &Place) -> Vec<Tile> {
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
    /// The hits of tiles of a slab, in its order.
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

/// Calls `act` with the number in a larger box, which begins at `lo`, of each hit of a tile.
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
        let cut = |most| {
            let found = slabs_of(&[12, 4, 5], &tiles, most);
            found.iter().map(|(lo, hi)| (lo[0]..hi[0], lo[1]..hi[1])).collect::<Vec<_>>()
        };
        assert_eq!(cut(1000), [(0..12, 0..4)]);
        assert_eq!(cut(100), [(0..3, 0..4), (3..6, 0..4), (6..9, 0..4), (9..12, 0..4)]);
        assert_eq!(cut(40).first(), Some(&(0..2, 0..4)));
        assert_eq!(cut(10)[..3], [(0..1, 0..2), (0..1, 2..4), (1..2, 0..2)]);
        assert!(slabs_of(&[12, 4, 5], &[], 100).is_empty());
    }
}
