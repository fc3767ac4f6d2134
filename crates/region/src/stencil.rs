//! Geometry of functions with halos: which cells of a result a release changes, the tiles in which they are computed,
//! and the input of a tile. Pure.
//!
//! A cell of the result needs the cells of its source within the halo. A release changes the cells of the result
//! within the halo of its box. Those are computed whose needs are all written; the others come with the release that
//! completes them. Cells beyond the domain repeat the nearest cell, so they are never missing.

use super::boxes::{Bounds, meet, outside};

/// The cells of a box and those within a distance from it, as far as they lie in the domain.
pub(super) fn grown((offset, count): &Bounds, halo: &[u64], shape: &[u64]) -> Bounds {
    let axes = offset.iter().zip(count).zip(halo.iter().zip(shape));
    axes.map(|((at, n), (halo, extent))| {
        let from = at.saturating_sub(*halo);
        let to = at.saturating_add(*n).saturating_add(*halo).min(*extent);
        (from, to.saturating_sub(from))
    })
    .unzip()
}

/// The cells of the source on which the changed cells of the result depend.
pub(super) fn surroundings(released: &Bounds, halo: &[u64], shape: &[u64]) -> Bounds {
    grown(&grown(released, halo, shape), halo, shape)
}

/// The cells of the result that a release changes and that have all they need, as disjoint boxes. `written` are the
/// boxes of the step that were written before.
pub(super) fn computable(released: &Bounds, written: &[Bounds], halo: &[u64], shape: &[u64]) -> Vec<Bounds> {
    let without = |parts: Vec<Bounds>, other: &Bounds| {
        parts.iter().flat_map(|part| outside(part, other)).collect::<Vec<_>>()
    };
    let around = surroundings(released, halo, shape);
    let mut missing = outside(&around, released);
    for other in written.iter().filter(|other| meet(other, &around)) {
        missing = without(missing, other);
    }
    let changed = vec![grown(released, halo, shape)];
    missing.iter().fold(changed, |cells, missing| without(cells, &grown(missing, halo, shape)))
}

/// A box in tiles of at most `most` cells, one at least.
pub(super) fn tiles(cells: &Bounds, most: u64) -> Vec<Bounds> {
    let mut out = Vec::new();
    let mut left = vec![cells.clone()];
    while let Some(tile) = left.pop() {
        let axis = tile.1.iter().position(|n| *n > 1);
        let Some(axis) = axis.filter(|_| volume(&tile) > most) else {
            out.push(tile);
            continue;
        };
        let (mut a, mut b) = (tile.clone(), tile);
        if let (Some(n), Some(m), Some(at)) = (a.1.get_mut(axis), b.1.get_mut(axis), b.0.get_mut(axis)) {
            *n /= 2;
            *at += *n;
            *m -= *n;
        }
        // The first half is the next one.
        left.extend([b, a]);
    }
    out
}

/// The cells of a box.
pub(super) fn volume(cells: &Bounds) -> u64 {
    cells.1.iter().fold(1, |all: u64, n| all.saturating_mul(*n))
}

/// The common cells of two boxes; `None` if there are none.
pub(super) fn common(a: &Bounds, b: &Bounds) -> Option<Bounds> {
    let axes = a.0.iter().zip(&a.1).zip(b.0.iter().zip(&b.1));
    let both: Bounds = axes
        .map(|((a, n), (b, m))| {
            let from = *a.max(b);
            (from, a.saturating_add(*n).min(b.saturating_add(*m)).saturating_sub(from))
        })
        .unzip();
    meet(a, b).then_some(both)
}

/// A dense box with its elements in C order.
pub(super) struct Dense<'a, B> {
    /// The first cell; negative beyond the domain.
    pub(super) origin: &'a [i64],
    /// Extents.
    pub(super) count: &'a [u64],
    /// Bytes of an element.
    pub(super) item: usize,
    /// The elements.
    pub(super) bytes: B,
}

impl<B> Dense<'_, B> {
    /// The byte of a cell.
    fn at(&self, cell: &[i64]) -> usize {
        let axes = cell.iter().zip(self.origin).zip(self.count);
        let index = axes.fold(0, |index: u64, ((x, from), n)| {
            index.saturating_mul(*n).saturating_add(u64::try_from(x - from).unwrap_or(u64::MAX))
        });
        usize::try_from(index).unwrap_or(usize::MAX).saturating_mul(self.item)
    }
}

/// Copies cells that lie in both boxes.
pub(super) fn copy(cells: &Bounds, from: &Dense<'_, &[u8]>, to: &mut Dense<'_, &mut [u8]>) {
    let signed = |n: &u64| i64::try_from(*n).unwrap_or(i64::MAX);
    let first: Vec<i64> = cells.0.iter().map(signed).collect();
    if cells.1.contains(&0) {
        return;
    }
    let row =
        cells.1.last().map_or(1, |n| usize::try_from(*n).unwrap_or(usize::MAX)).saturating_mul(from.item);
    let mut cell = first.clone();
    loop {
        let (a, b) = (from.at(&cell), to.at(&cell));
        let source = from.bytes.get(a..a.saturating_add(row));
        if let (Some(source), Some(target)) = (source, to.bytes.get_mut(b..b.saturating_add(row))) {
            target.copy_from_slice(source);
        }
        // The next row: the index counts up like an odometer.
        let mut is_done = true;
        let rows = cell.len().saturating_sub(1);
        for ((x, from), n) in cell.iter_mut().zip(&first).zip(&cells.1).take(rows).rev() {
            *x += 1;
            if *x < from.saturating_add(signed(n)) {
                is_done = false;
                break;
            }
            *x = *from;
        }
        if is_done {
            return;
        }
    }
}

/// Fills the cells beyond `inside` with the nearest cell of it.
pub(super) fn repeat_edges(inside: &Bounds, tile: &mut Dense<'_, &mut [u8]>) {
    // The last axis first: rows are whole before they are repeated along the axes in front.
    let mut inner = tile.item;
    for axis in (0..tile.count.len()).rev() {
        let of = |all: &[u64]| all.get(axis).copied().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let extent = of(tile.count);
        let origin = tile.origin.get(axis).copied().unwrap_or(0);
        let first = inside.0.get(axis).map_or(0, |at| i64::try_from(*at).unwrap_or(i64::MAX)) - origin;
        let (first, n) = (usize::try_from(first).unwrap_or(0), of(&inside.1));
        let line = inner.saturating_mul(extent).max(1);
        if n > 0 && (first > 0 || first + n < extent) {
            for line in tile.bytes.chunks_exact_mut(line) {
                for (range, nearest) in [(0..first, first), (first + n..extent, first + n - 1)] {
                    for cell in range {
                        line.copy_within(nearest * inner..(nearest + 1) * inner, cell * inner);
                    }
                }
            }
        }
        inner = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells((at, n): &Bounds) -> Vec<(u64, u64)> {
        (at[0]..at[0] + n[0]).flat_map(|y| (at[1]..at[1] + n[1]).map(move |x| (y, x))).collect()
    }

    /// Each cell is computed by the release that writes the last cell that it needs, and by each later one that
    /// changes a cell that it needs.
    #[test]
    fn a_cell_is_computed_once_all_that_it_needs_is_written() {
        let (shape, halo) = ([9, 7], [1, 2]);
        let boxes: Vec<Bounds> = vec![
            (vec![0, 0], vec![4, 7]),
            (vec![4, 0], vec![5, 3]),
            (vec![6, 3], vec![3, 4]),
            (vec![4, 3], vec![2, 4]),
            (vec![0, 2], vec![1, 1]),
        ];
        for turn in 0..boxes.len() {
            let mut order = boxes.clone();
            order.rotate_left(turn);
            let mut written: Vec<Bounds> = Vec::new();
            for released in &order {
                let mut found: Vec<_> =
                    computable(released, &written, &halo, &shape).iter().flat_map(cells).collect();
                found.sort_unstable();
                let is_new = |cell: &(u64, u64)| cells(released).contains(cell);
                let is_there =
                    |cell: &(u64, u64)| is_new(cell) || written.iter().any(|one| cells(one).contains(cell));
                let wanted: Vec<_> = cells(&(vec![0, 0], shape.to_vec()))
                    .into_iter()
                    .filter(|(y, x)| {
                        let needs = cells(&grown(&(vec![*y, *x], vec![1, 1]), &halo, &shape));
                        needs.iter().any(is_new) && needs.iter().all(is_there)
                    })
                    .collect();
                assert_eq!(found, wanted, "{released:?} after {written:?}");
                written.push(released.clone());
            }
        }
    }

    #[test]
    fn tiles_are_the_box_and_small_enough() {
        let whole: Bounds = (vec![3, 5], vec![7, 9]);
        for most in [1, 2, 9, 10, 30, 63, 100] {
            let tiles = tiles(&whole, most);
            assert!(tiles.iter().all(|tile| volume(tile) <= most), "{most}");
            let mut found: Vec<_> = tiles.iter().flat_map(cells).collect();
            found.sort_unstable();
            assert_eq!(found, cells(&whole));
        }
    }

    #[test]
    fn the_nearest_cell_stands_beyond_the_domain() {
        let (shape, item) = ([3_u64, 4], 2);
        let domain: Vec<u8> = (0..24).collect();
        let from = Dense { origin: &[0, 0], count: &shape, item, bytes: domain.as_slice() };
        for (origin, count) in [([-2, -1], [7, 6]), ([1, 2], [2, 2]), ([-1, 3], [2, 3]), ([2, -3], [1, 4])] {
            let mut out = vec![255; count.iter().product::<u64>() as usize * item];
            let mut tile = Dense { origin: &origin, count: &count, item, bytes: out.as_mut_slice() };
            let clipped: Bounds = (0..2)
                .map(|d| {
                    let from = origin[d].max(0);
                    let to = (origin[d] + count[d] as i64).min(shape[d] as i64);
                    (from as u64, (to - from) as u64)
                })
                .unzip();
            copy(&clipped, &from, &mut tile);
            repeat_edges(&clipped, &mut tile);
            let mut wanted = Vec::new();
            for y in origin[0]..origin[0] + count[0] as i64 {
                for x in origin[1]..origin[1] + count[1] as i64 {
                    let at = (y.clamp(0, 2) * 4 + x.clamp(0, 3)) as usize * item;
                    wanted.extend_from_slice(&domain[at..at + item]);
                }
            }
            assert_eq!(out, wanted, "{origin:?} {count:?}");
        }
    }
}
