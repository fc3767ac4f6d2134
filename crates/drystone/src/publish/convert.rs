//! From the log to shards: reads, cuts, encodes and puts. Several shards are in work at a time, each by one thread,
//! in bounded memory.
//!
//! A shard is read in slabs, so that at most one slab of decoded bytes exists. The encoded chunks are kept until the
//! shard is complete, and then put as one object.

use crate::published::stamp::{STAMP, Stamp, stamp_of, user_block};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use drystone_copy::{Dim, StridedCopy};
use drystone_format::published::Shard;
use drystone_format::statistics::{Chunk, MAX_CHUNKS, Statistics};
use drystone_plan::layout::{Order, chunk_order};
use drystone_plan::selection::Selection;
use drystone_store::{PutMode, Store, StoreExt};
use drystone_transform::stats::ScalarKind;
use drystone_transform::{Chain, Codec, Logical, Scratch};

use super::dense::read;
use super::hdf5::offset_of;
use super::nodes::Array;
use super::shard::{assemble, assemble_dual};
use super::{Target, document, record, texts};
use crate::base::array::dense_strides;
use crate::base::checksum::crc32;
use crate::base::cpus::threads;
use crate::base::error::rule_error;
use crate::container::Container;
use crate::published::grid::{Box, place};
use crate::published::sidecar;
use crate::read::Reading;
use crate::schema::element_type::kind_of;
use crate::{Error, ErrorKind, Result};

/// Bytes of a slab, which has at least one layer of chunks.
const SLAB: u64 = 16 << 20;
/// Buffers of one read and of one chunk.
const READING: u64 = 32 << 20;

/// A shard to write, keep or remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    target: usize,
    shard: u64,
    /// The fingerprint of the new shard. `None`: the shard is empty and its object is deleted.
    fingerprint: Option<u128>,
    /// Whether an object exists now.
    exists: bool,
    /// Decoded bytes.
    bytes: u64,
}

impl Task {
    /// The tasks of an array: all shards that have values, and those within its shape that no longer have any.
    pub(super) fn of(number: usize, target: &Target, objects: &BTreeMap<String, u64>) -> Vec<Task> {
        let mut tasks: Vec<Task> = target
            .changes
            .shards
            .iter()
            .map(|(&shard, &fingerprint)| Task {
                target: number,
                shard,
                fingerprint: Some(fingerprint),
                exists: objects.contains_key(&target.key(shard)),
                bytes: target.grid.cells_of(shard).cells().saturating_mul(target.array.item),
            })
            .collect();
        for shard in target.objects(objects).filter_map(|(_, shard)| shard) {
            if !target.changes.shards.contains_key(&shard) {
                tasks.push(Task { target: number, shard, fingerprint: None, exists: true, bytes: 0 });
            }
        }
        tasks
    }
}

/// Counters for one array.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) written: u64,
    pub(super) kept: u64,
    pub(super) stored: u64,
    /// Chunks copied from the log in their stored form.
    pub(super) copied: u64,
}

/// State shared by all threads.
pub(super) struct Run<'a> {
    /// A handle pinned to the published snapshot.
    pub(super) container: &'a Container,
    pub(super) store: &'a dyn Store,
    pub(super) targets: &'a [Target],
    pub(super) version: u64,
    pub(super) sync: bool,
    /// Records of shards from an earlier publication, by node.
    pub(super) known: Option<&'a BTreeMap<String, BTreeMap<u64, Shard>>>,
}

impl<'a> Run<'a> {
    /// A run that only reads.
    pub(super) fn new(
        container: &'a Container,
        store: &'a dyn Store,
        targets: &'a [Target],
        version: u64,
    ) -> Self {
        Run { container, store, targets, version, sync: false, known: None }
    }
}

/// An array, prepared for encoding its shards.
pub(super) struct Prepared {
    reading: Reading,
    order: Vec<u32>,
    encoder: Vec<std::boxed::Box<dyn Codec>>,
    /// Bytes of an element of a chunk, for the encoder.
    element: u32,
    sharded: bool,
    /// The kind of the values, for statistics.
    kind: ScalarKind,
}

/// A shard's chunks by their number, with statistics.
pub(super) struct Encoded {
    /// The encoded chunks. `None` if all cells equal the value that a missing chunk reads as.
    pub(super) chunks: Vec<Option<Vec<u8>>>,
    pub(super) statistics: Vec<Chunk>,
}

impl Prepared {
    /// The reading of the array in the log.
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Numbers of a shard's chunks in storage order.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }
}

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct Buffers {
    slab: Vec<u8>,
    chunk: Vec<u8>,
    scratch: Scratch,
    /// Chunks copied since the last call of `take_copied`.
    copied: u64,
}

impl Buffers {
    /// The number of chunks copied from the log without decoding since the last call.
    pub(super) fn take_copied(&mut self) -> u64 {
        std::mem::take(&mut self.copied)
    }
}

/// The outcome of a task.
struct Done {
    /// Number of its target.
    target: usize,
    /// Decoded bytes.
    bytes: u64,
    /// Bytes written. `None` if the shard was kept or removed.
    written: Option<u64>,
    /// Chunks copied from the log.
    copied: u64,
    /// The shard that exists now, if it has a stamp.
    record: Option<Shard>,
}

impl Run<'_> {
    /// Performs all tasks. Returns one tally per target, and the existing shards. Only the calling thread calls
    /// `progress`.
    pub(super) fn all(
        &self,
        tasks: &[Task],
        memory: u64,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Vec<(Tally, Vec<Shard>)>> {
        let mut tallies = vec![(Tally::default(), Vec::new()); self.targets.len()];
        let prepared = self.targets.iter().map(|t| self.prepare(t)).collect::<Result<Vec<_>>>()?;
        let total = tasks.iter().fold(0u64, |n, t| n.saturating_add(t.bytes));
        let workers = self.workers(tasks, memory)?;
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (tell, told) = mpsc::channel::<Result<Done>>();
        let mut failed: Option<Error> = None;
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let tell = tell.clone();
                let (next, stop, prepared) = (&next, &stop, &prepared);
                scope.spawn(move || {
                    let mut buffers = Buffers::default();
                    while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let done = self.one(task, &prepared[task.target], &mut buffers);
                        let failed = done.is_err();
                        if tell.send(done).is_err() || failed {
                            break;
                        }
                    }
                });
            }
            drop(tell);
            let mut done = 0u64;
            while let Ok(one) = told.recv() {
                match one {
                    Ok(Done { target, bytes, written, copied, record }) => {
                        done = done.saturating_add(bytes);
                        let (tally, shards) = &mut tallies[target];
                        shards.extend(record);
                        tally.copied += copied;
                        match written {
                            Some(stored) => {
                                (tally.written, tally.stored) = (tally.written + 1, tally.stored + stored)
                            }
                            None if bytes > 0 => tally.kept += 1,
                            None => {}
                        }
                        if failed.is_none() && !progress(done, total) {
                            failed = Some(Error::new(
                                ErrorKind::Cancelled,
                                "stopped by its caller; publish again to go on from here",
                            ));
                        }
                    }
                    Err(error) => _ = failed.get_or_insert(error),
                }
                stop.fetch_or(failed.is_some(), Ordering::Relaxed);
            }
        });
        tallies.iter_mut().for_each(|(_, shards)| shards.sort_by_key(|shard| shard.number));
        failed.map_or(Ok(tallies), Err)
    }

    /// As many threads as the memory allows.
    fn workers(&self, tasks: &[Task], memory: u64) -> Result<usize> {
        let cost = |task: &Task| {
            let target = &self.targets[task.target];
            let layer = task.bytes / target.grid.chunks().into_iter().find(|n| *n > 1).unwrap_or(1);
            task.bytes
                .saturating_mul(2)
                .saturating_add(layer.max(SLAB.min(task.bytes)))
                .saturating_add(READING)
        };
        let Some(most) = tasks.iter().map(cost).max() else { return Ok(0) };
        if most > memory {
            return Err(Error::invalid(format!(
                "publishing needs {most} bytes of memory for its largest shard, {memory} are allowed; allow more"
            )));
        }
        Ok(((memory / most) as usize).clamp(1, threads()).min(tasks.len()))
    }

    pub(super) fn prepare(&self, target: &Target) -> Result<Prepared> {
        let array = &target.array;
        let slow = usize::from(array.steps);
        let order = chunk_order(&target.grid.chunks(), slow, Order::Hilbert);
        let reading = self.container.leaf_reading(&array.variable, array.leaf)?;
        let leaves = reading.variable().dtype.leaves();
        let kind = leaves.get(array.leaf as usize).map_or(ScalarKind::Other, |leaf| kind_of(&leaf.dtype));
        Ok(Prepared {
            reading,
            kind,
            order: order.map_err(rule_error)?,
            encoder: target.codec.encoder().map_err(|e| Error::invalid(e.to_string()))?,
            element: target.codec.element(),
            sharded: document::is_sharded(array),
        })
    }

    fn one(&self, task: &Task, prepared: &Prepared, buffers: &mut Buffers) -> Result<Done> {
        let target = &self.targets[task.target];
        let key = target.key(task.shard);
        let doing = |e: Error| e.while_doing(format!("variable \"{}\", shard {key}", target.array.variable));
        let bytes = if task.fingerprint.is_some() { task.bytes } else { 0 };
        let done = |written, record| Ok(Done { target: task.target, bytes, written, copied: 0, record });
        let Some(fingerprint) = task.fingerprint else {
            remove(self.store, &key)?;
            if let Some(beside) = target.sidecar(task.shard) {
                remove(self.store, &beside)?;
            }
            return done(None, None);
        };
        if task.exists && prepared.sharded {
            let there = stamp_of(self.store, &key, target.stamp_at())?;
            if let Some(stamp) = there.filter(|s| s.fingerprint == fingerprint) {
                self.complete(task.shard, target, prepared, stamp, buffers).map_err(doing)?;
                if !target.is_recorded() {
                    return done(None, None);
                }
                let known = self
                    .known
                    .and_then(|known| known.get(&target.array.node))
                    .and_then(|shards| shards.get(&task.shard));
                let record = match known {
                    Some(r) if (r.fingerprint, r.version) == (fingerprint, stamp.version) => *r,
                    _ => record::of_object(self.store, &key, task.shard, stamp)?,
                };
                return done(None, Some(record));
            }
        }
        let stamp = Stamp { fingerprint, version: self.version };
        buffers.take_copied();
        let Encoded { chunks, statistics } = encode(target, prepared, task.shard, buffers).map_err(doing)?;
        if prepared.sharded {
            self.put_statistics(task.shard, target, stamp, statistics).map_err(doing)?;
        }
        let object = match (prepared.sharded, chunks) {
            (true, chunks) => target.assemble(task.shard, stamp, chunks, &prepared.order).map_err(doing)?,
            (false, mut chunks) => match chunks.pop().flatten() {
                Some(chunk) => chunk,
                None => {
                    remove(self.store, &key)?;
                    return done(None, None);
                }
            },
        };
        if task.exists && !prepared.sharded && self.store.read_all(&key, 1 << 20).is_ok_and(|o| o == object) {
            return done(None, None);
        }
        if let Some(placing) = &self.container.inner.placing {
            let cell = target.grid.index_of(task.shard);
            placing.place(self.store, &key, placing.target(self.store, &target.grid.shards(), &cell));
        }
        self.store.put(&key, &[&object], PutMode::Replace, self.sync).map_err(|e| doing(e.into()))?;
        let record = match object.last_chunk::<4>() {
            Some(check) if prepared.sharded && target.is_recorded() => {
                Some(record::of(task.shard, stamp, object.len() as u64, *check))
            }
            _ => None,
        };
        let copied = buffers.take_copied();
        Ok(Done { target: task.target, bytes, written: Some(object.len() as u64), copied, record })
    }

    /// Writes the statistics of a shard that is kept, if they are missing or belong to another shard.
    fn complete(
        &self,
        shard: u64,
        target: &Target,
        prepared: &Prepared,
        stamp: Stamp,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let Some(key) = target.sidecar(shard) else { return Ok(()) };
        let cells = target.grid.cells_of(shard).counts();
        let of_it = (stamp.fingerprint, stamp.version);
        let chunks = target.grid.chunks().iter().product();
        if sidecar::load(self.store, &key, of_it, (&cells, chunks))?.is_some() {
            return Ok(());
        }
        let encoded = encode(target, prepared, shard, buffers)?;
        self.put_statistics(shard, target, stamp, encoded.statistics)
    }

    fn put_statistics(&self, shard: u64, target: &Target, stamp: Stamp, chunks: Vec<Chunk>) -> Result<()> {
        let Some(key) = target.sidecar(shard) else { return Ok(()) };
        let Stamp { fingerprint, version } = stamp;
        let extents = target.grid.cells_of(shard).counts();
        let object = Statistics { fingerprint, version, extents, chunks }.encode();
        Ok(self.store.put(&key, &[&object], PutMode::Replace, self.sync)?)
    }
}

impl Target {
    /// Whether manifests record its shards. Shards that are also HDF5 files, use another compression, or hold
    /// computed values or texts of any length serve other readers only.
    pub(super) fn is_recorded(&self) -> bool {
        self.is_of_the_log() && !self.codec.dual && self.codec.is_plain_or_zstd()
    }

    /// Whether its values are in the log with a fixed size: neither computed nor texts of any length.
    fn is_of_the_log(&self) -> bool {
        !self.array.derived && !self.array.element.is_text()
    }

    /// The key of a shard's statistics. `None` for an array without axes, computed values, texts of any length, and
    /// shards of too many chunks.
    pub(super) fn sidecar(&self, shard: u64) -> Option<String> {
        let few = self.grid.chunks().iter().try_fold(1u64, |n, c| n.checked_mul(*c));
        let counted = self.is_of_the_log()
            && !self.array.shape.is_empty()
            && few.is_some_and(|n| n <= MAX_CHUNKS as u64);
        counted.then(|| sidecar::key(&self.array.node, &self.grid.index_of(shard)))
    }

    /// The position of the stamp in a shard.
    pub(super) fn stamp_at(&self) -> u64 {
        match self.codec.dual {
            true => user_block(self.grid.chunks().iter().product()) - STAMP as u64,
            false => 0,
        }
    }

    /// The bytes of a shard's object.
    fn assemble(
        &self,
        shard: u64,
        stamp: Stamp,
        chunks: Vec<Option<Vec<u8>>>,
        order: &[u32],
    ) -> Result<Vec<u8>> {
        let Some(description) = &self.description else { return Ok(assemble(stamp, chunks, order)) };
        let tail = self.array.file_tail();
        let cells = self.grid.cells_of(shard);
        let place = |number| offset_of(&self.grid, tail.len(), number);
        let file = |chunks| description.file(&self.grid, &tail, &self.codec, &cells, chunks);
        assemble_dual(stamp, chunks, order, &place, &file)
    }
}

/// Deletes an object, if it exists.
pub(super) fn remove(store: &dyn Store, key: &str) -> Result<()> {
    Ok(store.delete(key)?)
}

/// Encodes the chunks of a shard, and counts their statistics.
pub(super) fn encode(
    target: &Target,
    prepared: &Prepared,
    shard: u64,
    buffers: &mut Buffers,
) -> Result<Encoded> {
    let grid = &target.grid;
    let cells = grid.cells_of(shard);
    let chunks = grid.chunks();
    let many: u64 = chunks.iter().product();
    let mut out: Vec<Option<Vec<u8>>> = vec![None; many as usize];
    if target.array.element.is_text() {
        for (number, encoded) in out.iter_mut().enumerate() {
            *encoded = encode_texts(target, prepared, &grid.chunk_of(shard, number as u64), buffers)?;
        }
        return Ok(Encoded { chunks: out, statistics: Vec::new() });
    }
    let mut there = vec![None; many as usize];
    copy(target, prepared, &cells, (&mut out, &mut there), buffers)?;
    // Slabs are cut along the first axis that has more than one chunk.
    let axis = chunks.iter().position(|n| *n > 1).unwrap_or(0);
    let layers = chunks.get(axis).copied().unwrap_or(1);
    let layer = (cells.cells().saturating_mul(target.array.item) / layers).max(1);
    let at_once = (SLAB / layer).clamp(1, layers);
    let chunk_at = |number: u64| {
        let index = place(number, &chunks);
        (index.get(axis).copied().unwrap_or(0), grid.chunk_of(shard, number))
    };
    let mut first = 0;
    while first < layers {
        let last = (first + at_once).min(layers);
        let wanted: Vec<(u64, Box)> = (0..many)
            .filter(|&number| there[number as usize].is_none())
            .map(|number| (number, chunk_at(number)))
            .filter(|(_, (layer, chunk))| (first..last).contains(layer) && !chunk.is_empty())
            .map(|(number, (_, chunk))| (number, chunk))
            .collect();
        first = last;
        let Some(slab) = wanted.iter().map(|(_, chunk)| chunk.clone()).reduce(|a, b| a.around(&b)) else {
            continue;
        };
        read(&target.array, &prepared.reading, &slab, &mut buffers.slab)?;
        for (number, chunk) in wanted {
            let (encoded, found) = encode_chunk(target, prepared, &slab, &chunk, buffers)?;
            (out[number as usize], there[number as usize]) = (encoded, Some(found));
        }
    }
    // The remaining chunks contain no cell of the array.
    let statistics = there.into_iter().map(Option::unwrap_or_default).collect();
    Ok(Encoded { chunks: out, statistics })
}

/// Copies chunks from the log whose stored form equals the published one. Their bytes are verified, not decoded.
fn copy(
    target: &Target,
    prepared: &Prepared,
    cells: &Box,
    (out, there): (&mut [Option<Vec<u8>>], &mut [Option<Chunk>]),
    buffers: &mut Buffers,
) -> Result<()> {
    let (array, grid) = (&target.array, &target.grid);
    let scalar = array.element.scalar.size() as u64;
    // A chunk of several steps is not one block of the log, and computed values are not in the log.
    let is_of_one_step = !array.steps || grid.chunk.first() == Some(&1);
    if grid.chunk.is_empty() || !is_of_one_step || array.derived {
        return Ok(());
    }
    let mut whole = prepared.reading.shown_whole(&Selection::boxed(&cells.lo, &cells.counts()))?;
    whole.retain(|stored| {
        let aligned = stored.first.iter().zip(&grid.chunk).all(|(at, c)| at % c == 0);
        aligned && stored.count == grid.chunk && target.codec.is_chain(&stored.chain, scalar)
    });
    let counts = grid.chunks();
    let len = grid.chunk.iter().fold(array.item, |n, c| n.saturating_mul(*c));
    prepared.reading.payloads(&whole, &mut |stored, payload| {
        let index = stored.first.iter().zip(&cells.lo).zip(&grid.chunk).map(|((at, lo), c)| (at - lo) / c);
        let number = index.zip(&counts).fold(0, |number, (i, n)| number * n + i) as usize;
        let raw = stored.chain.is_empty();
        if raw && payload.len() as u64 != len {
            return Err(Error::corrupt("a block of the log has another length than its cells"));
        }
        // The log stores chunks raw if their codecs would have made them longer; those are encoded here.
        let Some(bytes) = (if raw { Some(payload) } else { Chain::coded_bytes(payload) }) else {
            return Ok(());
        };
        if let (Some(place), Some(done)) = (out.get_mut(number), there.get_mut(number)) {
            // The chunks are not decoded, so cells that hold the fill value are not counted. The log has the other
            // statistics.
            *done = Some(match raw {
                true => sidecar::count(prepared.kind, scalar, &array.fill, bytes),
                false => Chunk { values: len / scalar.max(1), fills: None, stats: stored.stats },
            });
            buffers.copied += 1;
            if !(raw && is_all(bytes, &array.missing)) {
                *place = Some([bytes, &crc32(bytes).to_le_bytes()].concat());
            }
        }
        Ok(())
    })
}

/// Cuts a chunk out of a slab that was read densely. The chunk begins at the first cell of `cells`; outside `cells`
/// it holds the fill value.
pub(super) fn cut(
    array: &Array,
    extents: &[u64],
    (slab, from): (&Box, &[u8]),
    cells: &Box,
    chunk: &mut Vec<u8>,
) -> Result<()> {
    let item = array.item;
    let counts = cells.counts();
    let len = extents.iter().product::<u64>().saturating_mul(item) as usize;
    if counts == extents {
        chunk.resize(len, 0);
    } else {
        chunk.clear();
        array.fill.iter().cycle().take(len).for_each(|&b| chunk.push(b));
    }
    let src = dense_strides(&slab.counts(), item)?;
    let dst = dense_strides(extents, item)?;
    let offset: u64 =
        cells.lo.iter().zip(&slab.lo).zip(&src).map(|((c, s), stride)| (c - s) * stride.unsigned_abs()).sum();
    let dims = counts.iter().zip(src.iter().zip(&dst)).map(|(n, (s, d))| Dim::new(*n, *s, *d)).collect();
    StridedCopy::new(offset, 0, item as usize, dims).and_then(|c| c.run(from, chunk)).map_err(rule_error)
}

fn encode_chunk(
    target: &Target,
    prepared: &Prepared,
    slab: &Box,
    cells: &Box,
    buffers: &mut Buffers,
) -> Result<(Option<Vec<u8>>, Chunk)> {
    let array = &target.array;
    let Buffers { slab: from, chunk, scratch, .. } = buffers;
    cut(array, &target.grid.chunk, (slab, from), cells, chunk)?;
    let (scalar, counts) = (array.element.scalar.size() as u64, cells.counts());
    let found = if counts == target.grid.chunk {
        sidecar::count(prepared.kind, scalar, &array.fill, chunk)
    } else {
        let inside = sidecar::within(chunk, &target.grid.chunk, &counts, array.item)?;
        sidecar::count(prepared.kind, scalar, &array.fill, &inside)
    };
    if is_all(chunk, &array.missing) {
        return Ok((None, found));
    }
    Ok((Some(compressed(prepared, chunk, scratch)?), found))
}

/// Encodes the texts of a chunk. `None` if all are empty.
fn encode_texts(
    target: &Target,
    prepared: &Prepared,
    cells: &Box,
    buffers: &mut Buffers,
) -> Result<Option<Vec<u8>>> {
    if cells.is_empty() {
        return Ok(None);
    }
    let texts = texts::read(&prepared.reading, &target.array, cells)?;
    if texts.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let chunk = texts::vlen(&texts, &cells.counts(), &target.grid.chunk)?;
    compressed(prepared, &chunk, &mut buffers.scratch).map(Some)
}

/// The stored bytes of a chunk, followed by their checksum.
fn compressed(prepared: &Prepared, chunk: &[u8], scratch: &mut Scratch) -> Result<Vec<u8>> {
    let len = chunk.len();
    let mut out = Vec::new();
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (number, codec) in prepared.encoder.iter().enumerate() {
        let input = if number == 0 { chunk } else { from.as_slice() };
        let size = prepared.element.max(1) as usize;
        let logical = Logical::scalars(size, (input.len() / size) as u64);
        to.clear();
        codec.encode(input, &logical, &mut to, scratch).map_err(|e| Error::invalid(e.to_string()))?;
        std::mem::swap(&mut from, &mut to);
    }
    if prepared.encoder.is_empty() {
        out.reserve_exact(len + 4);
        out.extend_from_slice(chunk);
    } else {
        out.append(&mut from);
    }
    out.extend_from_slice(&crc32(&out).to_le_bytes());
    out.shrink_to_fit();
    Ok(out)
}

/// Whether the bytes are one value repeated.
fn is_all(bytes: &[u8], value: &[u8]) -> bool {
    let n = value.len();
    bytes.get(..n) == Some(value) && bytes[n..] == bytes[..bytes.len() - n]
}

#[cfg(test)]
mod tests {
    use super::is_all;

    #[test]
    fn one_other_byte_makes_a_chunk_worth_storing() {
        for value in [&[0u8][..], &[1, 2], &[0, 0, 0x80, 0x7f]] {
            let mut bytes = value.repeat(100);
            assert!(is_all(&bytes, value));
            for at in [0, 1, 57, bytes.len() - 1] {
                bytes[at] ^= 4;
                assert!(!is_all(&bytes, value), "{at}");
                bytes[at] ^= 4;
            }
        }
    }
}
