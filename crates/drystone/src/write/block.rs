//! From an array in the caller's memory to stored pieces: cuts the block, gathers its cells, measures
//! statistics, encodes.
//!
//! This module knows neither steps nor files, except the [`Segment`] that it writes to.

use super::bounds_only;
use crate::base::error::rule_error;
use crate::schema::element_type::{MAX_SUBCHUNK, kind_of, logical};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use drystone_copy::{Dim, StridedCopy};
use drystone_format::MAX_NDIM;
use drystone_format::dtype::Leaf;
use drystone_format::entry::{Encoding, Entry, Stats as EntryStats, StoredPiece};
use drystone_format::table::{self, Subchunk};
use drystone_plan::form::Form;
use drystone_plan::layout::{self as plan_layout, chunk_order};
use drystone_transform::histogram::Histogram;
use drystone_transform::stats::{ScalarKind, Stats};
use drystone_transform::{Chain, Logical, Prefix, Scratch};

use crate::base::array::Source;
use crate::base::buffer_pool::{Kept, Lent};
use crate::layout::{self, Laid, Table};
use crate::log::extent::Pieces;
use crate::log::segment;
use crate::log::segment::Segment;
use crate::schema::member::Column;
use crate::{Error, Result};
/// Target size in bytes of subchunks along a curve, which are read whole.
const CURVED_SUBCHUNK: u64 = 256 << 10;
/// Bytes that are gathered, measured and checksummed at a time. They fit the second-level cache of any
/// processor.
const SLAB: u64 = 64 << 10;
/// Number of cells whose members are measured at a time.
const MEASURED: usize = 4096;
/// A prefix for reads of less precision is stored separately for encoded subchunks of at least this many bytes.
const PREFIX_WORTH: usize = 1 << 10;
/// Histograms are stored for encoded subchunks of at least this many elements.
const HISTOGRAM_CELLS: u64 = 4096;

/// The subchunk grid of a block: `chunks` if given, else cut so that no subchunk is too large. `item` is the size of a
/// cell.
pub(crate) fn cut(count: &[u64], chunks: Option<&[u64]>, item: u64, curved: bool) -> Vec<u64> {
    let mut edges: Vec<u64> = match chunks {
        Some(chunks) if chunks.len() == count.len() => {
            count.iter().zip(chunks).map(|(n, c)| (*n).min(*c)).collect()
        }
        _ => count.to_vec(),
    };
    let bytes = |edges: &[u64]| edges.iter().fold(item.max(1), |b, n| b.saturating_mul((*n).max(1)));
    let target = match (chunks, curved) {
        (None, true) => CURVED_SUBCHUNK,
        (Some(_), true) => layout::MOST_CELLS.saturating_mul(item),
        _ => u64::MAX,
    };
    // Halve the longest edge: near-cubic pieces serve every direction.
    while bytes(&edges) > target {
        let Some(longest) = edges.iter_mut().rev().max_by_key(|n| **n).filter(|n| **n > 1) else { break };
        *longest = longest.div_ceil(2);
    }
    for d in 0..edges.len() {
        if bytes(&edges) > MAX_SUBCHUNK {
            let rest = bytes(&edges) / edges[d].max(1);
            edges[d] = (MAX_SUBCHUNK / rest.max(1)).clamp(1, edges[d]);
        }
    }
    edges
}

/// The numbers of a block's subchunks in storage order. The order follows the Hilbert curve, so that the
/// subchunks of a box are close together.
pub(crate) fn stored_order(count: &[u64], cut: &[u64]) -> Vec<usize> {
    let grid: Vec<u64> = count.iter().zip(cut).map(|(n, c)| n.div_ceil((*c).max(1))).collect();
    match chunk_order(&grid, 0, plan_layout::Order::Hilbert) {
        Ok(order) => order.into_iter().map(|n| n as usize).collect(),
        Err(_) => (0..grid.iter().product::<u64>() as usize).collect(), // the grid exceeds the curve's limits
    }
}

/// Reorders a list from storage order to the order of subchunk numbers.
pub(crate) fn numbered<T>(order: &[usize], stored: Vec<T>) -> Vec<T> {
    let mut by_number: Vec<(usize, T)> = order.iter().copied().zip(stored).collect();
    by_number.sort_unstable_by_key(|(number, _)| *number);
    by_number.into_iter().map(|(_, one)| one).collect()
}

/// One block of one or more leaf members, ready to be stored.
#[derive(Clone, Copy)]
pub(crate) struct BlockPart<'a> {
    /// Where the cells of the block go, and in which form they are stored.
    pub(crate) laid: &'a Laid,
    /// The leaves of the put, in the numbering of `laid`.
    pub(crate) leaves: &'a [Column],
    pub(crate) chain: &'a Chain,
    pub(crate) cut: &'a [u64],
    /// First cell of the block in the source.
    pub(crate) from: &'a [u64],
}

/// A run of bytes of one cell: offset in an element of the source, offset in the cell, length.
type Run = (u32, u32, u32);

/// A stored subchunk: the piece, the statistics of each member, and the prefix, if that is stored separately.
pub(crate) type StoredChunk = (StoredPiece, Vec<EntryStats>, Option<table::Prefix>);

/// A subchunk that was gathered and encoded outside the writer's lock.
pub(crate) struct Coded {
    pub(crate) bytes: Lent<Vec<u8>>,
    /// Metadata of the chain for partial reads.
    pub(crate) meta: Vec<u8>,
    pub(crate) stats: Vec<EntryStats>,
    pub(crate) histogram: Vec<u8>,
    /// The beginning of the bytes, if it is to be stored separately.
    pub(crate) prefix: Option<Prefix>,
}

/// Buffers of one thread, reused.
#[derive(Default)]
pub(crate) struct Gathered {
    rows: Vec<u8>,
    cells: Vec<u8>,
}

/// The buffers and chain of an encoding thread.
#[derive(Default)]
pub(crate) struct Encoder {
    pub(crate) gathered: Gathered,
    pub(crate) scratch: Scratch,
}

impl Kept for Encoder {
    const MOST: (usize, usize) = (3, 8 << 20);

    fn held(&self) -> usize {
        self.gathered.rows.capacity() + self.gathered.cells.capacity() + self.scratch.held()
    }

    fn forget(&mut self) {}

    fn spare() -> &'static Mutex<Vec<Self>> {
        static SPARE: Mutex<Vec<Encoder>> = Mutex::new(Vec::new());
        &SPARE
    }
}

/// Boxes of the subchunk grid in row-major order: first cell and extent, relative to the block.
pub(crate) fn grid(count: &[u64], cut: &[u64]) -> Vec<(Vec<u64>, Vec<u64>)> {
    if count.contains(&0) {
        return Vec::new();
    }
    let n: Vec<u64> = count.iter().zip(cut).map(|(n, c)| n.div_ceil(*c)).collect();
    let total: u64 = n.iter().product();
    let mut at = vec![0u64; count.len()];
    let mut out = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let first: Vec<u64> = at.iter().zip(cut).map(|(i, c)| i * c).collect();
        let extent = first.iter().zip(count).zip(cut).map(|((f, n), c)| (*c).min(n - f)).collect();
        out.push((first, extent));
        for d in (0..at.len()).rev() {
            at[d] += 1;
            if at[d] < n[d] {
                break;
            }
            at[d] = 0;
        }
    }
    out
}

/// Cuts a box of cells into slabs of about [`SLAB`] bytes, in storage order. Returns their first cells and
/// extents.
fn slabs(cells: &Form, first: &[u64], extent: &[u64], room: u64) -> Vec<(Vec<u64>, Vec<u64>)> {
    let order: Vec<usize> = cells.dims().collect();
    let stored: Vec<u64> = order.iter().map(|&d| extent[d]).collect();
    let mut edges = stored.clone();
    let mut inner = room.max(1);
    for edge in edges.iter_mut().rev() {
        let fits = (SLAB / inner).max(1);
        inner = inner.saturating_mul(*edge);
        *edge = fits.min(*edge);
    }
    let placed = |(at, n): (Vec<u64>, Vec<u64>)| {
        let (mut from, mut count) = (first.to_vec(), extent.to_vec());
        for ((&d, at), n) in order.iter().zip(at).zip(n) {
            from[d] += at;
            count[d] = n;
        }
        (from, count)
    };
    grid(&stored, &edges).into_iter().map(placed).collect()
}

impl BlockPart<'_> {
    fn room(&self) -> usize {
        self.laid.room as usize
    }

    fn members(&self) -> impl Iterator<Item = (&Column, &Leaf, u32)> {
        self.laid
            .members
            .iter()
            .filter_map(|(n, at)| self.leaves.get(*n).map(|column| (column, &column.leaf, *at)))
    }

    /// The form of a whole cell.
    fn cells(&self) -> Form {
        let room = self.room() as u64;
        Form::dense(self.laid.count.len(), room).arranged(room, 0, self.laid.order.as_ref())
    }

    /// The byte runs to copy for each element. Members that are adjacent in source and cell share a run.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = self.members().map(|(_, leaf, at)| (leaf.offset, at, leaf.size)).collect();
        runs.sort_by_key(|(_, at, _)| *at);
        runs.dedup_by(|next, run| {
            let touches = next.0 == run.0 + run.2 && next.1 == run.1 + run.2;
            if touches {
                run.2 += next.2;
            }
            touches
        });
        runs
    }

    /// The bytes of the box in the source, if the source holds them in stored form.
    fn dense<'s>(&self, source: &Source<'s>, first: &[u64], extent: &[u64]) -> Option<&'s [u8]> {
        let cells = self.cells();
        let &[(offset, 0, len)] = &self.runs()[..] else { return None };
        if len != self.laid.room || cells.curve.is_some() {
            return None;
        }
        let mut expected = i64::from(len);
        for d in cells.dims().rev() {
            if extent[d] > 1 {
                if source.strides()[d] != expected {
                    return None;
                }
                expected *= extent[d] as i64;
            }
        }
        let start = self.start(source, first, offset)? as usize;
        source.bytes().get(start..start.checked_add(expected as usize)?)
    }

    fn start(&self, source: &Source<'_>, first: &[u64], offset: u32) -> Option<u64> {
        let mut at = (source.start() as i64).checked_add(i64::from(offset))?;
        for ((f, base), s) in first.iter().zip(self.from).zip(source.strides()) {
            at = at.checked_add(s.checked_mul(f.checked_add(*base)? as i64)?)?;
        }
        u64::try_from(at).ok()
    }

    /// The cells of a box in stored form; holes are zeros.
    fn gather<'b>(
        &self,
        source: &Source<'_>,
        first: &[u64],
        extent: &[u64],
        out: &'b mut Gathered,
    ) -> Result<&'b [u8]> {
        let cells = self.cells();
        let runs = self.runs();
        let mut shape = [1; MAX_NDIM];
        shape[..extent.len()].copy_from_slice(extent);
        let strides =
            if cells.curve.is_some() { cells.unrolled().strides(&shape) } else { cells.strides(&shape) };
        let bytes = extent.iter().product::<u64>() as usize * self.room();
        if runs.iter().map(|(_, _, len)| *len).sum::<u32>() < self.laid.room {
            out.rows.clear();
        }
        out.rows.resize(bytes, 0);
        for run in runs {
            self.copy_run(source, first, extent, run, &strides, &mut out.rows)?;
        }
        let Some(curve) = cells.curve else { return Ok(&out.rows) };
        let table = Table::new(curve, extent)?;
        let rolled = table.roll(&out.rows, self.room(), &mut out.cells);
        rolled.map(|()| &out.cells[..]).ok_or_else(|| Error::invalid("a box that does not fit its curve"))
    }

    /// Whether no cells need to be gathered ahead: the source has the subchunks in stored form, or the block
    /// is one small subchunk that is packed with others.
    pub(crate) fn is_stored_as_it_is(&self, source: &Source<'_>, grid: &[(Vec<u64>, Vec<u64>)]) -> bool {
        let small = |extent: &[u64]| extent.iter().product::<u64>() as usize * self.room() < segment::DIRECT;
        matches!(grid, [(_, extent)] if small(extent))
            || grid.iter().all(|(first, extent)| self.dense(source, first, extent).is_some())
    }

    /// The cells of a box in stored form: a slice of the source if it holds them so, else gathered.
    pub(crate) fn stored<'b>(
        &self,
        source: &Source<'b>,
        first: &[u64],
        extent: &[u64],
        gathered: &'b mut Gathered,
    ) -> Result<&'b [u8]> {
        match self.dense(source, first, extent) {
            Some(bytes) => Ok(bytes),
            None => self.gather(source, first, extent, gathered),
        }
    }

    /// Adds one raw subchunk to `pieces`, gathered slab by slab.
    pub(crate) fn add_raw(
        &self,
        source: &Source<'_>,
        first: &[u64],
        extent: &[u64],
        gathered: &mut Gathered,
        pieces: &mut Pieces<'_>,
    ) -> Result<StoredChunk> {
        let (cells, runs, room) = (self.cells(), self.runs(), u64::from(self.laid.room));
        let bytes = (extent.iter().product::<u64>() * room) as usize;
        let mut stats = vec![Stats::default(); self.laid.members.len()];
        let piece = if cells.curve.is_some() {
            let data = self.stored(source, first, extent, gathered)?;
            self.measure(data, &mut stats);
            let mut slabs = data.chunks(SLAB as usize);
            pieces.add(bytes, slabs.clone().map(<[u8]>::len), |_, out| {
                slabs.by_ref().take(1).for_each(|slab| out.copy_from_slice(slab));
                Ok(())
            })?
        } else {
            let holes = runs.iter().map(|(_, _, len)| *len).sum::<u32>() < self.laid.room;
            let slabs = slabs(&cells, first, extent, room);
            let lens = slabs.iter().map(|(_, extent)| (extent.iter().product::<u64>() * room) as usize);
            pieces.add(bytes, lens, |n, out| {
                let Some((first, extent)) = slabs.get(n) else { return Ok(()) };
                let mut shape = [1; MAX_NDIM];
                shape[..extent.len()].copy_from_slice(extent);
                if holes {
                    out.fill(0);
                }
                for run in &runs {
                    self.copy_run(source, first, extent, *run, &cells.strides(&shape), out)?;
                }
                self.measure(out, &mut stats);
                Ok(())
            })?
        };
        Ok((piece, stats.iter().map(entry_stats).collect(), None))
    }

    /// Copies one run of every cell of a box to the position that the strides give.
    fn copy_run(
        &self,
        source: &Source<'_>,
        first: &[u64],
        extent: &[u64],
        (offset, at, len): Run,
        strides: &[u64],
        out: &mut [u8],
    ) -> Result<()> {
        let dims = (0..extent.len()).map(|d| Dim::new(extent[d], source.strides()[d], strides[d] as i64));
        let start =
            self.start(source, first, offset).ok_or_else(|| Error::invalid("the array is too large"))?;
        let copy = StridedCopy::new(start, at.into(), len as usize, dims.collect()).map_err(rule_error)?;
        copy.run(source.bytes(), out).map_err(rule_error)
    }

    /// The leaf whose elements are the cells, if the cells contain nothing else.
    fn alone(&self) -> Option<&Leaf> {
        let mut members = self.members();
        members.next().map(|(_, leaf, _)| leaf).filter(|leaf| leaf.size == self.laid.room)
    }

    /// What codecs need to know about a box of cells.
    pub(crate) fn logical(&self, extent: &[u64]) -> Logical {
        let unknown = || Logical { shape: extent.to_vec(), ..Logical::scalars(self.room(), 0) };
        self.cells().logical(&self.alone().map_or_else(unknown, |leaf| logical(leaf, extent)))
    }

    /// Adds stored cells to the statistics of each member.
    fn measure(&self, data: &[u8], stats: &mut [Stats]) {
        if let (Some(leaf), [stats]) = (self.alone(), &mut *stats) {
            return stats.update(kind_of(&leaf.dtype), data);
        }
        let mut column = Vec::new();
        for ((_, leaf, at), stats) in self.members().zip(stats) {
            let (kind, item) = (kind_of(&leaf.dtype), leaf.size as usize);
            if matches!(kind, ScalarKind::Other) {
                continue;
            }
            for cells in data.chunks(MEASURED * self.room()) {
                column.clear();
                let elements =
                    cells.chunks_exact(self.room()).filter_map(|c| c.get(at as usize..at as usize + item));
                elements.for_each(|element| column.extend_from_slice(element));
                stats.update(kind, &column);
            }
        }
    }

    /// Statistics of each member over all cells of a subchunk.
    fn measured(&self, data: &[u8]) -> Vec<Stats> {
        let mut stats = vec![Stats::default(); self.laid.members.len()];
        self.measure(data, &mut stats);
        stats
    }

    /// Gathers and encodes one subchunk.
    pub(crate) fn encode(
        &self,
        source: &Source<'_>,
        first: &[u64],
        extent: &[u64],
        gathered: &mut Gathered,
        scratch: &mut Scratch,
    ) -> Result<Coded> {
        let data = self.stored(source, first, extent, gathered)?;
        let logical = self.logical(extent);
        let mut bytes = Lent::take();
        let failed = |e| Error::invalid(format!("encoding with {}: {e}", self.chain.canonical()));
        let mut meta = Vec::new();
        if self.chain.canonical() == bounds_only::NAME {
            let stats = self.measured(data).iter().map(entry_stats).collect();
            return Ok(Coded { bytes, meta, stats, histogram: Vec::new(), prefix: None });
        }
        self.chain.encode_keeping(data, &logical, &mut bytes, &mut meta, scratch).map_err(failed)?;
        // Statistics describe the values that will be read; rounding may have changed those that were put.
        let mut rounded = Vec::new();
        let data = if self.chain.is_lossy() {
            rounded.resize(data.len(), 0);
            self.chain.decode(&bytes, &logical, &mut rounded, scratch).map_err(failed)?;
            rounded.as_slice()
        } else {
            data
        };
        let stats = self.measured(data);
        let mut histogram = Vec::new();
        if extent.iter().product::<u64>() >= HISTOGRAM_CELLS
            && let (Some(leaf), [stats]) = (self.alone(), &stats[..])
            && let Some(h) = Histogram::of(kind_of(&leaf.dtype), data, stats)
        {
            h.encode(&mut histogram);
        }
        // A read of one of several members reads the shared bytes completely.
        let prefix = self.alone().and_then(|_| self.chain.prefix(&bytes, data.len()));
        let prefix = prefix.filter(|prefix| bytes.len() >= PREFIX_WORTH && 2 * prefix.len <= bytes.len());
        Ok(Coded { bytes, meta, stats: stats.iter().map(entry_stats).collect(), histogram, prefix })
    }

    /// A number shared by the pieces of different steps that hold the same cells. `None` without steps, or if
    /// the block has several subchunks.
    pub(crate) fn series(&self, place: &Place, subchunks: usize) -> Option<u64> {
        if place.step.is_none() || subchunks != 1 {
            return None;
        }
        let mut hash = DefaultHasher::new();
        (place.variable, self.laid.replica, &self.laid.offset, &self.laid.count).hash(&mut hash);
        self.members().for_each(|(column, _, at)| (column.numbers(), at).hash(&mut hash));
        Some(hash.finish())
    }

    /// Stores one raw subchunk.
    pub(crate) fn store_raw(
        &self,
        source: &Source<'_>,
        first: &[u64],
        extent: &[u64],
        gathered: &mut Gathered,
        segment: &mut Segment,
    ) -> Result<StoredChunk> {
        let data = self.stored(source, first, extent, gathered)?;
        let Some(leaf) = self.alone() else {
            let stats = self.measured(data);
            let piece = segment.push_raw(data, |_| ())?;
            return Ok((piece, stats.iter().map(entry_stats).collect(), None));
        };
        let kind = kind_of(&leaf.dtype);
        let mut stats = Stats::default();
        let piece = segment.push_raw(data, |bytes| stats.update(kind, bytes))?;
        Ok((piece, vec![entry_stats(&stats)], None))
    }

    /// The index entries of a block whose subchunks are stored, one per member. A block of several subchunks
    /// first stores its table.
    pub(crate) fn entries(
        &self,
        place: &Place,
        chunks: &[StoredChunk],
        segment: &mut Segment,
        part: u32,
    ) -> Result<Vec<Entry>> {
        let pad = |v: &[u64]| {
            let mut out = [0; MAX_NDIM];
            out[..v.len()].copy_from_slice(v);
            out
        };
        let mut out = Vec::with_capacity(self.laid.members.len());
        for (n, (column, leaf, at)) in self.members().enumerate() {
            let of = |(piece, stats, prefix): &StoredChunk| Subchunk {
                piece: *piece,
                stats: stats.get(n).copied().unwrap_or_default(),
                prefix: *prefix,
            };
            let subchunks: Vec<Subchunk> = chunks.iter().map(of).collect();
            let piece = match &subchunks[..] {
                [] => StoredPiece::default(),
                [one] => one.piece,
                many => segment.push_coded(&table::encode(many), &[], &[])?,
            };
            out.push(Entry {
                step: place.step.map_or(0, |s| s + 1),
                variable: place.variable,
                member: column.number,
                commit: 0,
                order: 0,
                put: place.put,
                ndim: self.laid.count.len() as u8,
                offset: pad(&self.laid.offset),
                count: pad(&self.laid.count),
                cut: pad(self.cut),
                encoding: std::sync::Arc::new(Encoding {
                    chain: if self.chain.is_identity() { String::new() } else { self.chain.canonical() },
                    item: leaf.size,
                    layout: self.laid.layout(at, leaf.size),
                    replica: self.laid.replica,
                    part: column.is_part().then_some(column.from),
                }),
                subchunks: subchunks.len() as u64,
                source: part,
                piece,
                stats: merged(kind_of(&leaf.dtype), &subchunks),
            });
        }
        Ok(out)
    }
}

/// Identifies a block: step, variable and number of the put.
pub(crate) struct Place {
    pub(crate) step: Option<u64>,
    pub(crate) variable: u32,
    pub(crate) put: u64,
}

/// Statistics in the form of an index entry.
pub(crate) fn entry_stats(stats: &Stats) -> EntryStats {
    EntryStats { min_max: stats.min.zip(stats.max), nans: stats.nans }
}

fn merged(kind: ScalarKind, subchunks: &[Subchunk]) -> EntryStats {
    let mut all = Stats::default();
    for s in subchunks {
        let (min, max) = s.stats.min_max.unzip();
        all.merge(kind, &Stats { min, max, nans: s.stats.nans, count: 0 });
    }
    entry_stats(&all)
}
