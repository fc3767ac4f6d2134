//! A writer: lays down blocks in its own log, step by step, and needs nobody else to do it.
//!
//! Invariants
//! - one log belongs to one writer in one process: a forked child cannot use its parent's;
//! - after a failed store operation the writer takes nothing more: what its log holds is no longer known.

pub(crate) mod accept;
mod cuts;
mod encode;
mod part;
mod promise;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use drystone_format::dtype::DType;
use drystone_format::entry::Entry;
use drystone_format::frame::Kind;
use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::log::{self, GroupHead, Rank};
use drystone_format::schema::{Schema, Variable};
use drystone_transform::{Chain, Choice, Scratch, Transform};

use crate::array::Source;
use crate::choose::Choices;
use crate::container::{Inner, lock, no_such};
use crate::layout::{Laid, Layouts, laid};
use crate::log_scan::PartFrom;
use crate::member::Column;
use crate::put::{self, BlockPart, Gathered, Place, StoredChunk};
use crate::targets::process_cell;
use crate::{Error, Result, random};

use accept::{check_box, members, refuse_unfenced, transform_of};
pub use cuts::BlockLayout;
use cuts::Cuts;
use encode::{blob, encode_all, encode_and_store, store_coded, store_gathered};
use part::{Part, header};
pub(crate) use promise::Promise;

/// How to open a writer.
#[derive(Debug, Clone, Default)]
pub struct WriterOptions {
    /// Rank and number of ranks, for programs in which every rank closes every step.
    pub rank: Option<(u32, u32)>,
    /// The run this writer belongs to (ranked writers); the number of the last fence if not given.
    pub run: Option<u64>,
    /// A new log part begins when the segment passes this many bytes.
    pub segment_limit: Option<u64>,
    /// How blocks are laid down; a configuration overrides it.
    pub layout: BlockLayout,
}

const SEGMENT_LIMIT: u64 = 4 << 30;
/// Without append a part is held in memory until it is put.
const WHOLE_PART_LIMIT: u64 = 24 << 20;
/// Entries of an open group kept in memory before a part of the group is written.
const SPILL: usize = 8192;
/// Decoded bytes encoded at a time; twice as much is held in memory, as some are appended while others are encoded.
const ENCODE_BATCH: u64 = 8 << 20;
/// A block of fewer bytes is encoded before any of it is stored.
const FEW_TO_ENCODE: u64 = 2 << 20;

struct OpenStep {
    step: u64,
    /// Id and uid of what was put.
    variables: BTreeMap<u32, u64>,
    replace: bool,
    group: Option<u64>,
    frames: u64,
    written: u64,
    entries: Vec<Entry>,
}

struct State {
    part: Part,
    done: Vec<PartFrom>,
    unsynced: BTreeSet<String>,
    open: Option<OpenStep>,
    loose: Vec<Entry>,
    loose_variables: BTreeMap<u32, u64>,
    groups: u64,
    puts: u64,
    last_step: Option<u64>,
    /// The part, and its watermark, after this writer's last commit.
    settled: Option<(u32, u64)>,
    generation: u64,
    failed: Option<Error>,
    closed: bool,
}

struct Shared {
    inner: Arc<Inner>,
    id: u64,
    promise: Promise,
    rank: Option<Rank>,
    run: u64,
    fence: u64,
    limit: u64,
    pid: u32,
    /// How what is put is to be stored.
    layouts: Mutex<Layouts>,
    choices: Choices,
    layout: BlockLayout,
    cuts: Cuts,
    /// The storage target of the first part, once a put has said where in the grid of processes this writer stands.
    target: OnceLock<u64>,
    state: Mutex<State>,
    /// Variables that puts named, in the schema in which they were found.
    named: Mutex<Named>,
}

#[derive(Default)]
struct Named {
    schema: Weak<Schema>,
    variables: HashMap<String, Arc<Variable>>,
}

/// Writes blocks. Clones share the log; calls from several threads are taken one after the other (encoding runs in parallel).
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
}

/// What takes blocks: a writer, or one of a team.
pub trait BlockSink {
    /// Writes a block of some columns of a variable, which are in the elements of `data` where they say. Otherwise as
    /// [`Writer::put`].
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
    fn put_columns_to(
        &self,
        (path, variable): (&str, &Variable),
        leaves: &[Column],
        data: &Source<'_>,
        offset: Option<&[u64]>,
    ) -> Result<()> {
        if leaves.iter().any(|column| column.leaf.dtype == DType::String) {
            return Err(Error::invalid(format!(
                "\"{path}\" holds strings; give strings, not fixed-size elements"
            )));
        }
        let offset = check_box(path, variable, data.shape(), offset)?;
        let (put, step, generation) = self.begin_put(path, variable)?;
        self.place_log(variable, &offset, data.shape());
        let config = self.shared.inner.config.as_deref();
        let transform = transform_of(path, variable, config)?;
        let chunks = config.and_then(|config| config.chunks(path, data.shape().len()));
        let chunks = chunks.or(variable.chunks.as_deref());
        let end: Vec<u64> = offset.iter().zip(data.shape()).map(|(first, n)| first + n).collect();
        let block_layout = config.and_then(|config| config.layout(path)).unwrap_or(self.shared.layout);
        let schema = &self.shared.inner.snapshot().schema;
        let layouts = lock(&self.shared.layouts).of(schema, variable, &end)?;
        let place = Place { step, variable: variable.id, put };
        let laid = laid(&layouts, leaves, &offset, data.shape());
        let from = |laid: &Laid| laid.offset.iter().zip(&offset).map(|(at, first)| at - first).collect();
        // Declared layouts were chosen by somebody who knows what is read.
        let by_model = chunks.is_none() && block_layout == BlockLayout::Model && layouts.is_empty();
        let inner = &self.shared.inner;
        if let (true, Transform::Chain(chain), [first, _, ..]) = (by_model, &transform, &laid[..])
            && chain.is_identity()
            && let Some(cut) = self.shared.cuts.of_records(inner, (path, variable), &laid)?
        {
            let from: Vec<u64> = from(first);
            let part = |laid| BlockPart { laid, leaves, chain, cut: &cut, from: &from };
            return self.put_raw(&laid.iter().map(part).collect::<Vec<_>>(), &place, data, generation);
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
                false => put::cut(&laid.count, chunks, u64::from(laid.room), laid.is_curved()),
            };
            let part = BlockPart { laid, leaves, chain: &chain, cut: &cut, from: &from };
            if coded {
                self.put_coded(&part, &place, data, generation)?;
            } else {
                self.put_raw(&[part], &place, data, generation)?;
            }
        }
        Ok(())
    }
}

impl Writer {
    pub(crate) fn open(inner: Arc<Inner>, options: WriterOptions) -> Result<Self> {
        let alone = matches!(options.rank, Some((_, 1)));
        Self::open_as(inner, options, if alone { Promise::Manifest } else { Promise::Record })
    }

    /// The same where the caller knows who commits the steps, and when.
    pub(crate) fn open_as(inner: Arc<Inner>, options: WriterOptions, promise: Promise) -> Result<Self> {
        inner.require_writable()?;
        let rank = match options.rank {
            None if options.run.is_some() => {
                return Err(Error::invalid(
                    "run= is for writers with rank= and nranks=; writers without ranks belong to no run",
                ));
            }
            None => None,
            Some((rank, nranks)) if rank < nranks && nranks <= 1 << 24 => Some(Rank { rank, nranks }),
            Some((rank, nranks)) => {
                return Err(Error::invalid(format!(
                    "rank {rank} of {nranks}: ranks are 0..nranks-1, nranks at least 1"
                )));
            }
        };
        let (base, _) = inner.newest()?;
        if let Some(rank) = rank {
            refuse_unfenced(&inner, &base, rank)?;
        }
        let fence = base.manifest.fence;
        inner.adopt_snapshot(base);
        let id = random::id64();
        let run = options.run.unwrap_or(fence);
        let limit = options.segment_limit.unwrap_or(SEGMENT_LIMIT).max(1 << 16);
        let limit = if inner.store.features().append { limit } else { limit.min(WHOLE_PART_LIMIT) };
        let header = header(&inner, id, 0, run, rank, fence);
        let state = State {
            part: Part::new(&inner, &header, limit),
            done: Vec::new(),
            unsynced: BTreeSet::new(),
            open: None,
            loose: Vec::new(),
            loose_variables: BTreeMap::new(),
            groups: 0,
            puts: 0,
            last_step: None,
            settled: None,
            generation: 0,
            failed: None,
            closed: false,
        };
        let pid = drystone_store::process_id();
        let (layouts, state) = (Mutex::default(), Mutex::new(state));
        let (choices, cuts, layout) = (Choices::default(), Cuts::default(), options.layout);
        let shared = Shared {
            inner,
            id,
            promise,
            rank,
            run,
            fence,
            limit,
            pid,
            layouts,
            choices,
            layout,
            cuts,
            target: OnceLock::new(),
            state,
            named: Mutex::default(),
        };
        Ok(Writer { shared: Arc::new(shared) })
    }

    /// Its id, as in the names of its log.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// The run it belongs to; `None` without rank.
    pub fn run(&self) -> Option<u64> {
        self.shared.rank.map(|_| self.shared.run)
    }

    /// What `auto` chose for the variables put by this writer, by name (`P.x` for a member), each with its report.
    pub fn choices(&self) -> Vec<(String, Arc<Choice>)> {
        self.shared.choices.reports()
    }

    /// Begins a step: the given one, or the one after the last committed (or this writer's last). Returns its number.
    pub fn begin_step(&self, step: Option<u64>, replace: bool) -> Result<u64> {
        let mut state = self.state()?;
        if let Some(open) = &state.open {
            return Err(Error::invalid(format!(
                "step {} is open in this writer; end it before the next",
                open.step
            )));
        }
        if step.is_none() && self.shared.rank.is_none() {
            let (newest, _) = self.shared.inner.newest()?; // others may have committed steps since
            self.shared.inner.adopt_snapshot(newest);
        }
        let committed = self.shared.inner.snapshot().steps.last();
        let step = step.unwrap_or_else(|| committed.max(state.last_step).map_or(0, |s| s + 1));
        if step >= 1 << 62 {
            return Err(Error::invalid(format!("step {step} is too large; steps are below 2^62")));
        }
        state.open = Some(OpenStep {
            step,
            variables: BTreeMap::new(),
            replace,
            group: None,
            frames: 0,
            written: 0,
            entries: Vec::new(),
        });
        state.generation += 1;
        Ok(step)
    }

    /// Drops the open step: nothing of it will be visible.
    pub fn abort_step(&self) -> Result<()> {
        if lock(&self.shared.state).failed.is_some() {
            return Ok(()); // reported when it failed; its step was never promised
        }
        let mut state = self.state()?;
        let Some(open) = state.open.take() else { return Ok(()) };
        state.generation += 1;
        if open.frames > 0 {
            self.guard(&mut state, |w, state| {
                state.part.idx_push(Kind::Abort, &[]);
                if w.appends() {
                    state.part.idx_flush(&w.shared.inner, w.shared.id)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Writes a block of a variable at `offset` (all zeros if empty), or of one member of a record (`field`).
    ///
    /// Returns when `data` may be reused. Errors: `NotFound` (no such variable or member), `InvalidArgument` (dtype size, number
    /// of dimensions, bounds, no open step), `Io` (the writer is then unusable).
    pub fn put(
        &self,
        path: &str,
        dtype: &DType,
        data: &Source<'_>,
        offset: Option<&[u64]>,
        field: Option<&str>,
    ) -> Result<()> {
        let variable = self.variable(path)?;
        let columns = members(path, &variable, field, dtype, data.item())?;
        self.put_columns(path, &columns, data, offset)
    }

    /// [`Writer::put`] to a variable that is not there yet, but will be created as this one in the commit that takes the block
    /// ([`Container::commit_sealed_with`](crate::Container::commit_sealed_with)). Where it is not, no commit takes anything that was
    /// put beside the block. `path` is for messages.
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

    /// Writes a block of a string variable; `values` in row-major order of `shape`, UTF-8 each.
    pub fn put_strings(
        &self,
        path: &str,
        shape: &[u64],
        values: &[&[u8]],
        offset: Option<&[u64]>,
    ) -> Result<()> {
        let variable = self.variable(path)?;
        if variable.dtype != DType::String {
            return Err(Error::invalid(format!("\"{path}\" holds {}, not strings", variable.dtype)));
        }
        if shape.iter().try_fold(1u64, |a, n| a.checked_mul(*n)) != Some(values.len() as u64) {
            return Err(Error::invalid("the number of strings does not fit the shape"));
        }
        if let Some(long) = values.iter().find(|v| v.len() as u64 > u64::from(u32::MAX)) {
            return Err(Error::unsupported(format!(
                "a string of {} bytes; at most 4 GiB are supported",
                long.len()
            )));
        }
        let offset = check_box(path, &variable, shape, offset)?;
        let (put, step, generation) = self.begin_put(path, &variable)?;
        let chain = match transform_of(path, &variable, self.shared.inner.config.as_deref())? {
            Transform::Chain(chain) => chain,
            Transform::Auto(_) => Chain::identity(),
        };
        let leaves = Column::all(&variable.dtype);
        let cut = put::cut(shape, variable.chunks.as_deref(), 16, false);
        let place = Place { step, variable: variable.id, put };
        let from = vec![0; shape.len()];
        let laid = laid(&[], &leaves, &offset, shape).swap_remove(0);
        let mut state = self.state_of(generation)?;
        self.guard(&mut state, |w, state| {
            w.roll_if_full(state)?;
            let mut refs = Vec::with_capacity(values.len() * 16);
            for value in values {
                refs.extend_from_slice(&blob(&mut state.part.segment, value)?);
            }
            let source = Source::dense(&refs, shape, 16)?;
            let part = BlockPart { laid: &laid, leaves: &leaves, chain: &chain, cut: &cut, from: &from };
            let mut gathered = Gathered::default();
            let mut scratch = Scratch::new();
            let mut subchunks = Vec::new();
            for (first, extent) in put::grid(shape, &cut) {
                let segment = &mut state.part.segment;
                if chain.is_identity() {
                    subchunks.push(part.store_raw(&source, &first, &extent, &mut gathered, segment)?);
                } else {
                    let coded = part.encode(&source, &first, &extent, &mut gathered, &mut scratch)?;
                    subchunks.extend(store_coded(segment, &[coded], false)?);
                }
            }
            w.add_entry(state, &part, &place, &subchunks)
        })
    }

    /// Hands everything staged to the store. Steps become visible by their end and a commit, not by this.
    pub fn flush(&self) -> Result<()> {
        let mut state = self.state()?;
        if !self.appends() {
            return Ok(());
        }
        self.guard(&mut state, |_, state| state.part.segment.flush())
    }

    /// Brings the log to stable storage, once it is sealed or closed. A [`crate::Container::flush`] of what was committed does the same
    /// for one log after the other; so many writers do it at once, each its own.
    pub fn sync(&self) -> Result<()> {
        if !self.appends() || self.durable() {
            return Ok(()); // synced when it was written
        }
        let (s, state) = (&self.shared, lock(&self.shared.state));
        let last = (state.part.number, state.part.idx_len > 0, state.part.segment.has_content());
        let done = state.done.iter().map(|p| (p.part, true, true));
        let parts: Vec<_> = done.chain([last]).collect();
        drop(state);
        let mut there = Vec::new();
        for (part, idx, segment) in parts {
            there.extend(segment.then(|| keys::segment(s.id, part)));
            there.extend(idx.then(|| keys::idx(s.id, part)));
        }
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        Ok(s.inner.store.sync(&there)?)
    }

    /// Number of the open step.
    pub fn current_step(&self) -> Option<u64> {
        lock(&self.shared.state).open.as_ref().map(|o| o.step)
    }

    /// Has it been closed?
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.state).closed
    }

    fn appends(&self) -> bool {
        self.shared.inner.store.features().append
    }

    fn durable(&self) -> bool {
        self.shared.inner.identity.durability == Durability::Durable
    }

    fn state(&self) -> Result<MutexGuard<'_, State>> {
        if self.shared.pid != drystone_store::process_id() {
            return Err(Error::invalid(
                "this writer belongs to the parent process; open one of your own after fork (dry.open(..., \"r+\").writer())",
            ));
        }
        self.live()
    }

    fn live(&self) -> Result<MutexGuard<'_, State>> {
        let state = lock(&self.shared.state);
        if state.closed {
            return Err(Error::invalid("the writer is closed"));
        }
        if let Some(error) = &state.failed {
            return Err(error.clone().while_doing(
                "this writer failed earlier and takes nothing more (close it and open another; committed steps are safe)",
            ));
        }
        Ok(state)
    }

    /// The state, if the step that was open is still open.
    fn state_of(&self, generation: u64) -> Result<MutexGuard<'_, State>> {
        let state = self.live()?; // whose process it is was asked when the put began
        if state.generation != generation {
            return Err(Error::invalid(
                "the step was ended by another thread while a block of it was being put",
            ));
        }
        Ok(state)
    }

    /// Runs a store operation; its failure makes the writer unusable.
    fn guard<T>(&self, state: &mut State, act: impl FnOnce(&Self, &mut State) -> Result<T>) -> Result<T> {
        act(self, state).inspect_err(|e| state.failed = Some(e.clone()))
    }

    fn variable(&self, path: &str) -> Result<Arc<Variable>> {
        let inner = &self.shared.inner;
        let path = path.trim_matches('/');
        let snapshot = inner.snapshot();
        {
            let mut named = lock(&self.shared.named);
            if !std::ptr::eq(named.schema.as_ptr(), Arc::as_ptr(&snapshot.schema)) {
                *named = Named { schema: Arc::downgrade(&snapshot.schema), ..Named::default() };
            }
            if let Some(variable) = named.variables.get(path) {
                return Ok(variable.clone());
            }
            if let Some(variable) = snapshot.schema.resolve(path) {
                let variable = Arc::new(variable.clone());
                named.variables.insert(path.to_owned(), variable.clone());
                return Ok(variable);
            }
        }
        let (newest, _) = inner.newest()?; // created by another process since
        inner.adopt_snapshot(newest);
        let snapshot = inner.snapshot();
        snapshot.schema.resolve(path).cloned().map(Arc::new).ok_or_else(|| no_such(&snapshot.schema, path))
    }

    /// Takes a put number; says in which step the block is.
    fn begin_put(&self, path: &str, variable: &Variable) -> Result<(u64, Option<u64>, u64)> {
        let mut state = self.state()?;
        let step = match (variable.steps, &mut state.open) {
            (true, Some(open)) => {
                open.variables.insert(variable.id, variable.uid);
                Some(open.step)
            }
            (true, None) => {
                return Err(Error::invalid(format!(
                    "\"{path}\" has steps: put belongs inside a step (with writer.step(): ...)"
                )));
            }
            (false, _) => {
                state.loose_variables.insert(variable.id, variable.uid);
                None
            }
        };
        let put = state.puts;
        state.puts += 1;
        Ok((put, step, state.generation))
    }

    /// Stores raw blocks of one grid, members of a record side by side.
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
            let mut grid = put::grid(&one.laid.count, one.cut);
            let mut order = vec![0];
            if grid.len() != 1 {
                order = put::stored_order(&one.laid.count, one.cut);
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
                w.add_entry(state, part, place, &put::numbered(&order, stored))?;
            }
            Ok(())
        })
    }

    /// Whether a second thread finds a processor: the ranks of a run are taken to share those of this node.
    fn has_spare_processor(&self) -> bool {
        let ranks = self.shared.rank.map_or(1, |rank| rank.nranks.max(1) as usize);
        crate::processors::threads() / ranks >= 2
    }

    fn put_coded(
        &self,
        part: &BlockPart<'_>,
        place: &Place,
        data: &Source<'_>,
        generation: u64,
    ) -> Result<()> {
        let order = put::stored_order(&part.laid.count, part.cut);
        let grid = put::grid(&part.laid.count, part.cut);
        let grid: Vec<_> = order.iter().filter_map(|&n| grid.get(n).cloned()).collect();
        let item = u64::from(part.laid.room);
        let chunk = grid.first().map_or(1, |(_, e)| e.iter().fold(item.max(1), |b, n| b.saturating_mul(*n)));
        let per_batch = (ENCODE_BATCH / chunk.max(1)).max(1) as usize;
        // With few subchunks for each thread, other puts may have processors while these are encoded.
        let threads = crate::processors::threads();
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
                w.add_entry(state, part, place, &put::numbered(&order, stored))
            });
        }
        // Stored while others are encoded: the pieces must lie in one part, so the lock is kept.
        let mut state = self.state_of(generation)?;
        self.guard(&mut state, |w, state| {
            w.roll_if_full(state)?;
            let mut subchunks = Vec::with_capacity(grid.len());
            let several = grid.len() > 1;
            encode_and_store(part, data, &grid, per_batch, |coded| {
                subchunks.extend(store_coded(&mut state.part.segment, coded, several)?);
                Ok(())
            })?;
            w.add_entry(state, part, place, &put::numbered(&order, subchunks))
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

    /// Writes the open step's entries so far as a part of its group.
    fn spill(&self, state: &mut State) -> Result<()> {
        let Some(open) = &mut state.open else { return Ok(()) };
        if open.entries.is_empty() {
            return Ok(());
        }
        let group = *open.group.get_or_insert_with(|| {
            state.groups += 1;
            state.groups - 1
        });
        let head = GroupHead {
            step: Some(open.step),
            last: false,
            replace: open.replace,
            group,
            part: open.frames,
            entries: 0,
            variables: Vec::new(),
        };
        let payload = log::encode_group(&head, &open.entries);
        open.frames += 1;
        open.written += open.entries.len() as u64;
        open.entries.clear();
        state.part.idx_push(Kind::Group, &payload);
        Ok(())
    }

    /// Says on which storage target the log shall lie, at the first put: that of the cell which the block is of the grid of processes.
    fn place_log(&self, variable: &Variable, offset: &[u64], count: &[u64]) {
        let s = &self.shared;
        let Some(placing) = s.inner.placing.as_ref().filter(|_| s.target.get().is_none()) else { return };
        let rank = s.rank.map(|rank| (u64::from(rank.rank), u64::from(rank.nranks)));
        let (grid, cell) = process_cell(&variable.shape, offset, count, rank);
        let target = placing.target(s.inner.store.as_ref(), &grid, &cell);
        if s.target.set(target).is_ok() {
            let part = lock(&s.state).part.number;
            self.place_part(part);
        }
    }

    /// Parts of one log go from target to target.
    fn place_part(&self, part: u32) {
        let s = &self.shared;
        if let (Some(placing), Some(target)) = (&s.inner.placing, s.target.get()) {
            let key = keys::segment(s.id, part);
            placing.place(s.inner.store.as_ref(), &key, target.wrapping_add(part.into()));
        }
    }

    fn roll_if_full(&self, state: &mut State) -> Result<()> {
        if state.part.segment.size() < self.shared.limit {
            return Ok(());
        }
        self.spill(state)?;
        self.roll(state)
    }

    /// Closes the current part and begins the next.
    fn roll(&self, state: &mut State) -> Result<()> {
        self.seal_log(state)?;
        let number = state.part.number + 1;
        let s = &self.shared;
        let header = header(&s.inner, s.id, number, s.run, s.rank, s.fence);
        state.done.push(PartFrom { part: state.part.number, watermark: 0, len: state.part.idx_len });
        state.part = Part::new(&s.inner, &header, s.limit);
        self.place_part(number);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without close the log simply ends: what was promised stays, the rest was never promised.
        let state = lock(&self.state);
        if !state.closed
            && state.failed.is_none()
            && self.pid == drystone_store::process_id()
            && !state.loose.is_empty()
        {
            self.inner.warn("a writer was dropped without close(): its values without step are lost".into());
        }
    }
}
