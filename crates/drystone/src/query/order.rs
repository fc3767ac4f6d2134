//! The C order of hits in a slab, and their coordinates.

use std::sync::Mutex;

use drystone_format::MAX_NDIM;
use drystone_plan::selection::Axis;

use super::bits;
use super::hits::{Cells, TileHits};
use super::place::{Place, extents};
use super::run::share;
use super::slab::SlabHits;
use crate::Result;
use crate::base::sync::lock;

/// The number of hits that one thread processes at a time.
const PART: usize = 1 << 18;

/// For each run of hits in the order of the slab, the tile that it comes from.
pub(super) struct Order(Vec<(u32, u32)>);

impl Order {
    /// The order of the hits of tiles in a slab that begins at `lo` and has this shape.
    pub(super) fn of(found: &[TileHits], lo: &Place, shape: &[u64]) -> Order {
        let ndim = shape.len();
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for (n, tile) in found.iter().enumerate() {
            let own = extents(&tile.lo, &tile.hi, ndim);
            // An axis that the tile fills completely is joined with the axis before it.
            let full = (0..ndim).rev().take_while(|d| own[*d] == shape[*d]).count();
            let kept = (ndim - full + 1).min(ndim);
            let joined = |extents: &[u64]| {
                let inner = extents[kept..].iter().product::<u64>();
                let mut out = extents[..kept].to_vec();
                out.iter_mut().last().into_iter().for_each(|last| *last *= inner);
                out
            };
            let (slab, own_rows) = (joined(shape), joined(&own));
            let mut first: Vec<u64> = (0..kept).map(|d| tile.lo[d] - lo[d]).collect();
            let inner = shape[kept..].iter().product::<u64>();
            first.iter_mut().last().into_iter().for_each(|last| *last *= inner);
            if let Cells::Few(few) = &tile.cells {
                let mut strides = [0u64; MAX_NDIM];
                let mut stride = 1;
                for d in (0..kept).rev() {
                    strides[d] = stride;
                    stride *= slab[d];
                }
                for cell in few {
                    let (mut rest, mut at) = (u64::from(*cell), 0);
                    for d in (0..kept).rev() {
                        at += (first[d] + rest % own_rows[d]) * strides[d];
                        rest /= own_rows[d];
                    }
                    runs.push((at as u32, n as u32, 1));
                }
                continue;
            }
            bits::each_row(&slab, &first, &own_rows, |at, inside, len| {
                let count = tile.count_in(inside, inside + len);
                if count > 0 {
                    runs.push((at as u32, n as u32, count as u32));
                }
            });
        }
        if !runs.is_sorted_by_key(|run| run.0) {
            runs.sort_unstable_by_key(|run| run.0);
        }
        let mut out: Vec<(u32, u32)> = Vec::with_capacity(runs.len().min(1 << 16));
        for (_, tile, count) in runs {
            match out.last_mut() {
                Some((last, sum)) if *last == tile => *sum += count,
                _ => out.push((tile, count)),
            }
        }
        Order(out)
    }

    /// Reorders the data of hits (`item` bytes each) from tile order to slab order.
    pub(super) fn merged(&self, mut parts: Vec<Vec<u8>>, item: usize, threads: usize) -> Result<Vec<u8>> {
        if let ([_], true) = (self.0.as_slice(), parts.len() == 1) {
            return Ok(parts.pop().unwrap_or_default());
        }
        let rows: usize = self.0.iter().map(|(_, count)| *count as usize).sum();
        let mut out = vec![0; rows * item];
        // Pieces of the result, each with the start positions in its tiles.
        let mut pieces = Vec::new();
        let mut at = vec![0usize; parts.len()];
        let (mut from, mut held, mut rest) = (0, 0, out.as_mut_slice());
        let mut begun = at.clone();
        for (n, (tile, count)) in self.0.iter().enumerate() {
            at[*tile as usize] += *count as usize;
            held += *count as usize;
            if held >= PART || n + 1 == self.0.len() {
                let (own, after) = std::mem::take(&mut rest).split_at_mut(held * item);
                pieces.push(Mutex::new((&self.0[from..n + 1], begun, own)));
                (from, held, rest, begun) = (n + 1, 0, after, at.clone());
            }
        }
        share(
            threads,
            pieces.len(),
            || (),
            |(), n| {
                let (runs, at, own) = &mut *lock(&pieces[n]);
                let mut to = 0;
                for (tile, count) in runs.iter() {
                    let (tile, len) = (*tile as usize, *count as usize * item);
                    let begin = at[tile] * item;
                    if let Some(from) = parts[tile].get(begin..begin + len) {
                        own[to..to + len].copy_from_slice(from);
                    }
                    to += len;
                    at[tile] += *count as usize;
                }
                Ok(())
            },
        )?;
        Ok(out)
    }
}

/// The numbering of a slab's cells along the axes of the variable.
pub(super) struct Numbered<'a> {
    /// The step, if the grid has steps.
    pub(super) step: Option<u64>,
    pub(super) lo: &'a Place,
    pub(super) shape: &'a [u64],
    pub(super) axes: &'a [Axis],
}

impl Numbered<'_> {
    /// The number of coordinates of a hit.
    pub(super) fn width(&self) -> usize {
        self.shape.len() + usize::from(self.step.is_some())
    }

    /// Writes the coordinates of ascending cells of the slab, one cell after the other.
    pub(super) fn write(&self, cells: impl Iterator<Item = usize>, out: &mut [i64]) {
        match self.width() {
            0 => {}
            1 => self.write_wide::<1>(cells, out),
            2 => self.write_wide::<2>(cells, out),
            3 => self.write_wide::<3>(cells, out),
            4 => self.write_wide::<4>(cells, out),
            5 => self.write_wide::<5>(cells, out),
            6 => self.write_wide::<6>(cells, out),
            7 => self.write_wide::<7>(cells, out),
            8 => self.write_wide::<8>(cells, out),
            _ => self.write_wide::<9>(cells, out),
        }
    }

    fn write_wide<const N: usize>(&self, cells: impl Iterator<Item = usize>, out: &mut [i64]) {
        // Along a row, only the last coordinate changes.
        let mut head = [0i64; N];
        let steps = usize::from(self.step.is_some());
        if let (Some(first), Some(step)) = (head.first_mut(), self.step) {
            *first = step as i64;
        }
        let slots = out.as_chunks_mut::<N>().0.iter_mut();
        let (Some((&row, outer)), Some((along, outer_axes))) =
            (self.shape.split_last(), self.axes.split_last())
        else {
            slots.zip(cells).for_each(|(slot, _)| *slot = head);
            return;
        };
        let row = row as usize;
        let (start, step) = (along.cell(self.lo[outer.len()]) as i64, along.step);
        let (mut begin, mut end) = (0, 0);
        for (slot, cell) in slots.zip(cells) {
            if cell >= end {
                let number = cell / row.max(1);
                (begin, end) = (number * row, (number + 1) * row);
                let mut rest = number as u64;
                for d in (0..outer.len()).rev() {
                    let extent = outer[d].max(1);
                    if let Some(at) = head.get_mut(steps + d) {
                        *at = outer_axes[d].cell(self.lo[d] + rest % extent) as i64;
                    }
                    rest /= extent;
                }
            }
            *slot = head;
            slot[N - 1] = start + (cell - begin) as i64 * step;
        }
    }

    /// Writes the coordinates of all hits, on several threads.
    pub(super) fn write_all(&self, hits: &SlabHits, out: &mut [i64], threads: usize) -> Result<()> {
        let width = self.width();
        if width == 0 {
            return Ok(());
        }
        let mut pieces = Vec::new();
        let mut rest = out;
        match hits {
            SlabHits::Few(few) => {
                for part in few.chunks(PART) {
                    let (own, after) = std::mem::take(&mut rest).split_at_mut(part.len() * width);
                    pieces.push(Mutex::new((part, 0..0, own)));
                    rest = after;
                }
            }
            SlabHits::Bits(set) => {
                for from in (0..set.len()).step_by(PART / 64) {
                    let words = from..set.len().min(from + PART / 64);
                    let count = bits::count(&set[words.clone()]) as usize;
                    let (own, after) = std::mem::take(&mut rest).split_at_mut(count * width);
                    pieces.push(Mutex::new((&[][..], words, own)));
                    rest = after;
                }
            }
        }
        share(
            threads,
            pieces.len(),
            || (),
            |(), n| {
                let (few, words, own) = &mut *lock(&pieces[n]);
                match hits {
                    SlabHits::Few(_) => self.write(few.iter().map(|cell| *cell as usize), own),
                    SlabHits::Bits(set) => {
                        let base = 64 * words.start;
                        self.write(bits::each(&set[words.clone()]).map(|cell| base + cell), own);
                    }
                }
                Ok(())
            },
        )?;
        Ok(())
    }
}
