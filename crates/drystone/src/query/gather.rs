//! Values of a variable at the hits of tiles. A tile with many hits is read as a box; scattered cells are read
//! individually.

use drystone_format::MAX_NDIM;
use drystone_plan::listing::Listing;
use drystone_plan::selection::{Axis, Selection};

use super::hits::{Cells, Picked, TileHits};
use super::names::Origin;
use super::place::{Place, extents, place};
use super::plan::Known;
use super::run::{Costs, LISTED, share};
use crate::Result;
use crate::base::array::Target;

/// A box is read if at least one of this many of its cells is requested.
const DENSE: u64 = 32;
/// The most cells that are read as one box if parts of subchunks can be read separately.
const PIECE: u64 = 1 << 20;

/// The cells of one read.
enum Work {
    /// Rows of a tile along its slowest axis: the tile, first position and end; the box of the grid.
    Rows(usize, usize, usize, Place, Place),
    /// A box of the grid around all hits of a tile.
    Around(usize, Place, Place),
    /// Listed cells: for each, its tile and the hit.
    Listed(Vec<(usize, u32)>),
}

impl Known<'_> {
    /// The elements of an input at the hits of each tile. Unwritten cells have the fill value.
    pub(super) fn gather(&self, number: usize, tiles: &[&TileHits], costs: &Costs) -> Result<Vec<Picked>> {
        let works = self.works(number, tiles);
        let read = share(self.at_once(), works.len(), Vec::new, |buffer: &mut Vec<u8>, n| {
            self.work(number, tiles, &works[n], buffer, costs)
        })?;
        let mut out: Vec<Picked> = tiles.iter().map(|_| Picked::default()).collect();
        for (work, values) in works.iter().zip(read) {
            match work {
                Work::Rows(tile, ..) | Work::Around(tile, ..) => {
                    let own = &mut out[*tile].values;
                    if own.is_empty() { *own = values } else { own.extend_from_slice(&values) }
                }
                Work::Listed(cells) => {
                    let item = values.len() / cells.len().max(1);
                    for ((tile, _), value) in cells.iter().zip(values.chunks_exact(item.max(1))) {
                        out[*tile].values.extend_from_slice(value);
                    }
                }
            }
        }
        if self.zones[number].has_voids {
            for (picked, tile) in out.iter_mut().zip(tiles) {
                let (written, _) = self.written_in(number, &tile.lo, &tile.hi)?;
                picked.written = tile.in_set(written.as_deref());
            }
        }
        Ok(out)
    }

    /// Decides how the hits of each tile are read.
    fn works(&self, number: usize, tiles: &[&TileHits]) -> Vec<Work> {
        let ndim = self.grid.shape.len();
        let mut works = Vec::with_capacity(tiles.len());
        let mut listed = Vec::new();
        for (n, tile) in tiles.iter().enumerate() {
            let own = extents(&tile.lo, &tile.hi, ndim);
            if let Cells::Few(few) = &tile.cells {
                let (mut lo, mut hi) = ([u64::MAX; MAX_NDIM], [0; MAX_NDIM]);
                for cell in few {
                    let at = place(u64::from(*cell), &tile.lo, &own);
                    for d in 0..MAX_NDIM {
                        (lo[d], hi[d]) = (lo[d].min(at[d]), hi[d].max(at[d] + 1));
                    }
                }
                let room = (0..MAX_NDIM).fold(1u64, |n, d| n.saturating_mul(hi[d] - lo[d]));
                if (few.len() as u64).saturating_mul(DENSE) >= room {
                    works.push(Work::Around(n, lo, hi));
                } else {
                    listed.extend(few.iter().map(|cell| (n, *cell)));
                }
                continue;
            }
            let axis = own.iter().position(|extent| *extent > 1).unwrap_or(0);
            let inner = own.iter().skip(axis + 1).product::<u64>().max(1);
            let (first, end) = tile.span();
            let (mut row, last) = (first as u64 / inner, (end as u64).div_ceil(inner));
            let rows = if self.is_raw(number, tile) { (PIECE / inner).max(1) } else { u64::MAX };
            while row < last {
                let to = last.min(row.saturating_add(rows));
                let (mut lo, mut hi) = (tile.lo, tile.hi);
                if ndim > 0 {
                    (lo[axis], hi[axis]) = (tile.lo[axis] + row, tile.lo[axis] + to);
                }
                works.push(Work::Rows(n, (row * inner) as usize, (to * inner) as usize, lo, hi));
                row = to;
            }
        }
        works.extend(listed.chunks(LISTED).map(|cells| Work::Listed(cells.to_vec())));
        works
    }

    /// Whether parts of an input's stored subchunks can be read separately in a tile.
    fn is_raw(&self, number: usize, tile: &TileHits) -> bool {
        let (lo, hi) = self.own(number, &tile.lo, &tile.hi);
        self.zones[number].meeting(&lo, &hi).all(|zone| zone.stored.is_none_or(|stored| stored.raw))
    }

    /// Reads the elements at the hits of one piece of work.
    fn work(
        &self,
        number: usize,
        tiles: &[&TileHits],
        work: &Work,
        buffer: &mut Vec<u8>,
        costs: &Costs,
    ) -> Result<Vec<u8>> {
        let input = &self.inputs[number];
        let ndim = self.grid.shape.len();
        let Origin::Stored(reading) = &input.origin else {
            let axis = input.axes.first().map(|axis| (*axis, &self.cells.axes[*axis]));
            let mut out = Vec::new();
            let mut at = |tile: &TileHits, cell: usize| {
                let place = place(cell as u64, &tile.lo, &extents(&tile.lo, &tile.hi, ndim));
                let value = axis.map_or(self.step, |(axis, along)| along.cell(place[axis]));
                out.extend_from_slice(&value.to_le_bytes());
            };
            match work {
                Work::Rows(n, from, to, ..) => tiles[*n].each(*from, *to, |cell| at(tiles[*n], cell)),
                Work::Around(n, ..) => tiles[*n].each(0, tiles[*n].room(), |cell| at(tiles[*n], cell)),
                Work::Listed(cells) => cells.iter().for_each(|(n, cell)| at(tiles[*n], *cell as usize)),
            }
            return Ok(out);
        };
        let item = reading.item() as usize;
        let steps = reading.variable().steps;
        let (tile, from, to, lo, hi) = match work {
            Work::Rows(n, from, to, lo, hi) => (tiles[*n], *from, *to, lo, hi),
            Work::Around(n, lo, hi) => (tiles[*n], 0, tiles[*n].room(), lo, hi),
            Work::Listed(cells) => {
                let of = |(n, cell): &(usize, u32)| {
                    let tile = tiles[*n];
                    place(u64::from(*cell), &tile.lo, &extents(&tile.lo, &tile.hi, ndim))
                };
                let places: Vec<Place> = cells.iter().map(of).collect();
                let coords = self.own_cells(number, &places);
                let mut out = vec![0; places.len() * item];
                let target = Target::dense(&mut out, &[places.len() as u64], item)?;
                let listing = Listing::points(input.axes.len() + usize::from(steps), coords);
                costs.add(&reading.read_listed_unnoted(&listing, &target)?);
                drop(target);
                return Ok(out);
            }
        };
        let (own_lo, own_hi) = self.own(number, lo, hi);
        let shape = extents(&own_lo, &own_hi, input.axes.len());
        let mut axes: Vec<Axis> = Vec::with_capacity(shape.len() + 1);
        axes.extend(steps.then_some(Axis { start: self.step, step: 1, count: 1 }));
        for (d, axis) in input.axes.iter().enumerate() {
            let along = &self.cells.axes[*axis];
            axes.push(Axis { start: along.cell(own_lo[d]), step: along.step, count: shape[d] });
        }
        let selection = Selection { axes };
        let all = matches!(tile.cells, Cells::All) && input.is_straight(self.grid);
        let mut whole = Vec::new();
        // If all elements are wanted, they are read directly to their final place.
        let buffer = if all { &mut whole } else { buffer };
        buffer.resize(shape.iter().product::<u64>() as usize * item, 0);
        let target = Target::dense(buffer, &selection.shape(), item)?;
        costs.add(&reading.read_unnoted(&selection, &target)?);
        drop(target);
        if all {
            return Ok(whole);
        }
        let mut out = Vec::new();
        if input.is_straight(self.grid) && matches!(work, Work::Rows(..)) {
            tile.pick(from, to, buffer, item, &mut out);
            return Ok(out);
        }
        let mut strides = [0; MAX_NDIM];
        let mut stride = item as u64;
        for (d, axis) in input.axes.iter().enumerate().rev() {
            strides[*axis] = stride;
            stride *= shape[d];
        }
        let extents = extents(&tile.lo, &tile.hi, ndim);
        tile.each(from, to, |cell| {
            let at = place(cell as u64, &tile.lo, &extents);
            let inside = (0..ndim).fold(0, |n, d| n + (at[d] - lo[d]) * strides[d]) as usize;
            out.extend_from_slice(buffer.get(inside..inside + item).unwrap_or_default());
        });
        Ok(out)
    }
}
