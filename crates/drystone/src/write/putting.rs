//! The put: turns a block into pieces of the log and entries of its step.
//!
//! Invariants
//! - everything that can be refused is refused before a byte is stored;
//! - the pieces of a block lie in one part of the log: the writer stays locked while pieces are stored and
//!   others encoded.

use drystone_format::dtype::DType;
use drystone_format::schema::Variable;
use drystone_transform::{Chain, Scratch, Transform};

use super::accept::{blob_columns, check_box, check_strings, members, require_fixed, transform_of};
use super::block;
use super::block::{BlockPart, Gathered, Place, StoredChunk};
use super::encode::{blob, encode_all, encode_and_store, store_coded, store_gathered};
use super::{State, Writer};
use crate::base::array::Source;
use crate::base::metrics::add;
use crate::base::span::{self, Begun, SpanKind};
use crate::base::sync::lock;
use crate::layout::BlockLayout;
use crate::layout::{Laid, laid};
use crate::schema::member::Column;
use crate::{Error, Result};

/// Decoded bytes that are encoded at a time. Twice as many are in memory, since one batch is appended while
/// the next is encoded.
const ENCODE_BATCH: u64 = 8 << 20;
/// A block of fewer bytes is encoded completely before any of it is stored.
const FEW_TO_ENCODE: u64 = 2 << 20;
/// Entries of an open group that are kept in memory before a part of the group is written.
const SPILL: u64 = 8192;

/// Accepts blocks: a writer, or a writer of a team.
pub trait BlockSink {
    /// Writes a block of some columns of a variable. Each column states its offset in the elements of `data`.
    /// Otherwise like [`Writer::put`].
    fn put_columns(
        &self,
        path: &str,
        columns: &[Column],
        data: &Source<'_>,
        offset: Option<&[u64]>,
    ) -> Result<()>;
}

impl BlockSink for Writer {
    fn put_columns(
        &self,
        path: &str,
        leaves: &[Column],
        data: &Source<'_>,
        offset: Option<&[u64]>,
    ) -> Result<()> {
        let variable = self.variable(path)?;
        self.put_columns_to((path, &variable), leaves, data, offset)
    }
}

impl Writer {
    /// Writes a block of a variable at `offset` (all zeros if empty), or of one member of a record (`field`).
    ///
    /// Returns when `data` may be reused. Errors: `NotFound` (no such variable or member), `InvalidArgument`
    /// (dtype size, number of dimensions, bounds, no open step), `Io` (the writer is then unusable).
    pub fn put(
        &self,
        path: &str,
        dtype: &DType,
        data: &Source<'_>,
        offset: Option<&[u64]>,
        field: Option<&str>,
    ) -> Result<()> {
        let begun = span::begin(SpanKind::Put);
        let variable = self.variable(path)?;
        let columns = members(path, &variable, field, dtype, data.item())?;
        self.put_columns(path, &columns, data, offset)?;
        self.tell(begun, path, bytes_of(data));
        Ok(())
    }

    /// Like [`Writer::put`], for a variable that does not exist yet. The commit that adopts the block must
    /// create it with this definition
    /// ([`Container::commit_sealed_with`](crate::Container::commit_sealed_with)); otherwise no commit adopts
    /// any block of the same group. `path` is for messages.
    pub fn put_to(
        &self,
        (path, variable): (&str, &Variable),
        dtype: &DType,
        data: &Source<'_>,
        offset: Option<&[u64]>,
    ) -> Result<()> {
        let columns = members(path, variable, None, dtype, data.item())?;
        self.put_columns_to((path, variable), &columns, data, offset)
    }

    /// Writes a block of a variable of strings or of lists of numbers, or of such a member of a record (`field`);
    /// `shape` is that of the block's cells. `values` in row-major order, those of a member that is an array cell by
    /// cell: UTF-8 each, or the numbers of a list, little-endian.
    pub fn put_strings(
        &self,
        path: &str,
        shape: &[u64],
        values: &[&[u8]],
        offset: Option<&[u64]>,
        field: Option<&str>,
    ) -> Result<()> {
        let variable = self.variable(path)?;
        let begun = span::begin(SpanKind::Put);
        let columns = blob_columns(path, &variable, field)?;
        let offset = check_strings(path, (&variable, &columns), shape, values, offset)?;
        let (place, generation) = self.begin_put(path, &variable)?;
        let bytes = values.iter().map(|value| value.len() as u64).sum();
        self.count(bytes);
        self.put_blobs((path, &variable), &columns, (&offset, shape), values, (&place, generation))?;
        self.tell(begun, path, bytes);
        Ok(())
    }

    /// Writes a block of whole records, or of a member that is a record (`field`), with members of any length.
    ///
    /// `data` has the other members at their places in the element; what it has at the places of those is not read.
    /// `values`: for each leaf member of any length, in the order of the leaves, its values as in
    /// [`Writer::put_strings`]. All of them become visible together.
    pub fn put_records(
        &self,
        path: &str,
        dtype: &DType,
        (data, values): (&Source<'_>, &[Vec<&[u8]>]),
        offset: Option<&[u64]>,
        field: Option<&str>,
    ) -> Result<()> {
        let begun = span::begin(SpanKind::Put);
        let variable = self.variable(path)?;
        let columns = members(path, &variable, field, dtype, data.item())?;
        let (mut blobs, fixed): (Vec<Column>, Vec<Column>) =
            columns.into_iter().partition(|column| column.leaf.dtype.is_blob());
        if blobs.len() != values.len() {
            return Err(Error::invalid(format!(
                "values for {} members of any length; {dtype} has {}",
                values.len(),
                blobs.len()
            )));
        }
        let place_of = check_box(path, &variable, data.shape(), offset)?;
        for (column, values) in blobs.iter_mut().zip(values) {
            column.leaf.offset = 0;
            check_strings(path, (&variable, std::slice::from_ref(column)), data.shape(), values, offset)?;
        }
        let (place, generation) = self.begin_put(path, &variable)?;
        let bytes = values.iter().flatten().map(|value| value.len() as u64).sum::<u64>() + bytes_of(data);
        self.count(bytes);
        let (named, at) = ((path, &*variable), (&place_of[..], data.shape()));
        if !fixed.is_empty() {
            self.put_fixed(named, &fixed, data, &place_of, (&place, generation))?;
        }
        for (column, values) in blobs.iter().zip(values) {
            self.put_blobs(named, std::slice::from_ref(column), at, values, (&place, generation))?;
        }
        self.tell(begun, path, bytes);
        Ok(())
    }

    /// Stores values of any length, and their references as the block of some columns.
    fn put_blobs(
        &self,
        (path, variable): (&str, &Variable),
        leaves: &[Column],
        (offset, shape): (&[u64], &[u64]),
        values: &[&[u8]],
        (place, generation): (&Place, u64),
    ) -> Result<()> {
        let chain = match transform_of(path, variable, self.shared.inner.config.as_deref())? {
            Transform::Chain(chain) => chain,
            Transform::Auto(_) => Chain::identity(),
        };
        let item = leaves.iter().map(|column| column.leaf.size as usize).sum();
        let from = vec![0; shape.len()];
        let all = laid(&[], leaves, offset, shape);
        let mut state = self.state_of(generation)?;
        self.guard(&mut state, |w, state| {
            w.roll_if_full(state)?;
            let mut refs = Vec::with_capacity(values.len() * 16);
            for value in values {
                refs.extend_from_slice(&blob(&mut state.part.segment, value)?);
            }
            let source = Source::dense(&refs, shape, item)?;
            let mut gathered = Gathered::default();
            let mut scratch = Scratch::new();
            for laid in &all {
                let cut = block::cut(shape, variable.chunks.as_deref(), laid.room.into(), false);
                let part = BlockPart { laid, leaves, chain: &chain, cut: &cut, from: &from };
                let mut subchunks = Vec::new();
                for (first, extent) in block::grid(shape, &cut) {
                    let segment = &mut state.part.segment;
                    if chain.is_identity() {
                        subchunks.push(part.store_raw(&source, &first, &extent, &mut gathered, segment)?);
                    } else {
                        let coded = part.encode(&source, &first, &extent, &mut gathered, &mut scratch)?;
                        subchunks.extend(store_coded(segment, &[coded], false)?);
                    }
                }
                w.add_entry(state, &part, place, &subchunks)?;
            }
            Ok(())
        })
    }

    fn put_columns_to(
        &self,
        (path, variable): (&str, &Variable),
        leaves: &[Column],
        data: &Source<'_>,
        offset: Option<&[u64]>,
    ) -> Result<()> {
        leaves.iter().try_for_each(|column| require_fixed(path, &column.leaf))?;
        let offset = check_box(path, variable, data.shape(), offset)?;
        let (place, generation) = self.begin_put(path, variable)?;
        self.count(bytes_of(data));
        self.put_fixed((path, variable), leaves, data, &offset, (&place, generation))
    }

    /// Stores elements of fixed size as the block of some columns.
    fn put_fixed(
        &self,
        (path, variable): (&str, &Variable),
        leaves: &[Column],
        data: &Source<'_>,
        offset: &[u64],
        (place, generation): (&Place, u64),
    ) -> Result<()> {
        self.place_log(variable, offset, data.shape());
        let config = self.shared.inner.config.as_deref();
        let transform = transform_of(path, variable, config)?;
        let chunks = config.and_then(|config| config.chunks(path, data.shape().len()));
        let chunks = chunks.or(variable.chunks.as_deref());
        let end: Vec<u64> = offset.iter().zip(data.shape()).map(|(first, n)| first + n).collect();
        let block_layout = config.and_then(|config| config.layout(path)).unwrap_or(self.shared.layout);
        let schema = &self.shared.inner.snapshot().schema;
        let layouts = lock(&self.shared.layouts).of(schema, variable, &end)?;
        let laid = laid(&layouts, leaves, offset, data.shape());
        let from = |laid: &Laid| laid.offset.iter().zip(offset).map(|(at, first)| at - first).collect();
        // Declared layouts come from people who know what is read.
        let by_model = chunks.is_none() && block_layout == BlockLayout::Model && layouts.is_empty();
        let inner = &self.shared.inner;
        if let (true, Transform::Chain(chain), [first, _, ..]) = (by_model, &transform, &laid[..])
            && chain.is_identity()
            && let Some(cut) = self.shared.cuts.of_records(inner, (path, variable), &laid)?
        {
            let from: Vec<u64> = from(first);
            let part = |laid| BlockPart { laid, leaves, chain, cut: &cut, from: &from };
            return self.put_raw(&laid.iter().map(part).collect::<Vec<_>>(), place, data, generation);
        }
        for laid in &laid {
            let from: Vec<u64> = from(laid);
            let chain = match &transform {
                Transform::Chain(chain) => chain.clone(),
                Transform::Auto(auto) => {
                    let (chain, cut) = (&Chain::identity(), &laid.count[..]);
                    let part = BlockPart { laid, leaves, chain, cut, from: &from };
                    let measured = inner.profile().map(|p| (p.write / 1e6).max(1.0) as u64);
                    self.shared.choices.chain(auto, path, variable.id, &part, data, measured)?
                }
            };
            let coded = !chain.is_identity();
            let cut = match by_model {
                true => self.shared.cuts.of(inner, (path, variable), &laid.count, laid.room, coded)?,
                false => block::cut(&laid.count, chunks, u64::from(laid.room), laid.is_curved()),
            };
            let part = BlockPart { laid, leaves, chain: &chain, cut: &cut, from: &from };
            if coded {
                self.put_coded(&part, place, data, generation)?;
            } else {
                self.put_raw(&[part], place, data, generation)?;
            }
        }
        Ok(())
    }

    /// Counts a block of this many bytes in the handle's tally.
    fn count(&self, bytes: u64) {
        let tally = &self.shared.inner.tally;
        add(&tally.puts, 1);
        add(&tally.put_bytes, bytes);
    }

    fn tell(&self, begun: Begun, path: &str, bytes: u64) {
        let values = span::Values { wanted_bytes: bytes, blocks: 1, ..Default::default() };
        begun.end(SpanKind::Put, || self.shared.inner.store.describe(), path, values);
    }

    /// Takes a put number; returns the place of the block and the generation of the step.
    fn begin_put(&self, path: &str, variable: &Variable) -> Result<(Place, u64)> {
        let mut state = self.state()?;
        let step = match (variable.steps, &mut state.open) {
            (true, Some(open)) => {
                open.variables.insert(variable.id, variable.uid);
                Some(open.step)
            }
            (true, None) => {
                return Err(Error::invalid(format!(
                    "\"{path}\" has steps: put it inside a step of the writer"
                )));
            }
            (false, _) => {
                state.loose_variables.insert(variable.id, variable.uid);
                None
            }
        };
        let put = state.puts;
        state.puts += 1;
        Ok((Place { step, variable: variable.id, put }, state.generation))
    }

    /// Stores raw blocks that share one grid; members of a record are stored side by side.
    fn put_raw(
        &self,
        parts: &[BlockPart<'_>],
        place: &Place,
        data: &Source<'_>,
        generation: u64,
    ) -> Result<()> {
        let mut state = self.state_of(generation)?;
        self.guard(&mut state, |w, state| {
            w.roll_if_full(state)?;
            let Some(one) = parts.first() else { return Ok(()) };
            let mut grid = block::grid(&one.laid.count, one.cut);
            let mut order = vec![0];
            if grid.len() != 1 {
                order = block::stored_order(&one.laid.count, one.cut);
                grid = order.iter().filter_map(|&n| grid.get(n).cloned()).collect();
            }
            let segment = &mut state.part.segment;
            let stored = match parts {
                [part] if part.is_stored_as_it_is(data, &grid) => {
                    let mut gathered = Gathered::default();
                    let stored = segment.of_series(part.series(place, grid.len()), |segment| {
                        let store = |(first, extent): &(Vec<u64>, Vec<u64>)| {
                            part.store_raw(data, first, extent, &mut gathered, segment)
                        };
                        grid.iter().map(store).collect::<Result<Vec<_>>>()
                    });
                    vec![stored?]
                }
                _ => store_gathered(parts, data, &grid, segment, w.has_spare_processor())?,
            };
            for (part, stored) in parts.iter().zip(stored) {
                w.add_entry(state, part, place, &block::numbered(&order, stored))?;
            }
            Ok(())
        })
    }

    /// Whether a processor is free for a second thread. The ranks of a run are assumed to share the
    /// processors of this node.
    fn has_spare_processor(&self) -> bool {
        let ranks = self.shared.rank.map_or(1, |rank| rank.nranks.max(1) as usize);
        crate::base::cpus::threads() / ranks >= 2
    }

    fn put_coded(
        &self,
        part: &BlockPart<'_>,
        place: &Place,
        data: &Source<'_>,
        generation: u64,
    ) -> Result<()> {
        let order = block::stored_order(&part.laid.count, part.cut);
        let grid = block::grid(&part.laid.count, part.cut);
        let grid: Vec<_> = order.iter().filter_map(|&n| grid.get(n).cloned()).collect();
        let item = u64::from(part.laid.room);
        let chunk = grid.first().map_or(1, |(_, e)| e.iter().fold(item.max(1), |b, n| b.saturating_mul(*n)));
        let per_batch = (ENCODE_BATCH / chunk.max(1)).max(1) as usize;
        // With few subchunks per thread, other puts may use the processors while these are encoded.
        let threads = crate::base::cpus::threads();
        let few = threads < 2
            || grid.len() < 2 * threads
            || chunk.saturating_mul(grid.len() as u64) < FEW_TO_ENCODE;
        if grid.len() <= per_batch && few {
            let coded = encode_all(part, data, &grid)?;
            let mut state = self.state_of(generation)?;
            return self.guard(&mut state, |w, state| {
                w.roll_if_full(state)?;
                let stored = (state.part.segment).of_series(part.series(place, coded.len()), |segment| {
                    store_coded(segment, &coded, coded.len() > 1)
                })?;
                w.add_entry(state, part, place, &block::numbered(&order, stored))
            });
        }
        // Subchunks are stored while others are encoded. The lock is kept because the pieces must lie in one
        // part.
        let mut state = self.state_of(generation)?;
        self.guard(&mut state, |w, state| {
            w.roll_if_full(state)?;
            let mut subchunks = Vec::with_capacity(grid.len());
            let several = grid.len() > 1;
            encode_and_store(part, data, &grid, per_batch, |coded| {
                subchunks.extend(store_coded(&mut state.part.segment, coded, several)?);
                Ok(())
            })?;
            w.add_entry(state, part, place, &block::numbered(&order, subchunks))
        })
    }

    fn add_entry(
        &self,
        state: &mut State,
        part: &BlockPart<'_>,
        place: &Place,
        subchunks: &[StoredChunk],
    ) -> Result<()> {
        let entries = part.entries(place, subchunks, &mut state.part.segment, state.part.number)?;
        match (&mut state.open, place.step) {
            (Some(open), Some(_)) => {
                open.entries.extend(entries);
                if open.entries.len() >= SPILL {
                    self.spill(state)?;
                    if self.appends() {
                        state.part.idx_flush(&self.shared.inner, self.shared.id)?;
                    }
                }
            }
            _ => state.loose.extend(entries),
        }
        Ok(())
    }
}

fn bytes_of(data: &Source<'_>) -> u64 {
    data.shape().iter().product::<u64>().saturating_mul(data.item() as u64)
}
