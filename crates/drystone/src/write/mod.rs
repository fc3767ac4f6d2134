//! A writer: appends blocks to its own log, step by step, independently of other writers.
//!
//! Invariants
//! - one log belongs to one writer in one process: a forked child cannot use its parent's;
//! - after a failed store operation the writer refuses everything: the content of its log is unknown.

pub(crate) mod accept;
pub(crate) mod aside;
pub(crate) mod block;
pub(crate) mod bounds_only;
mod choose;
mod commit;
mod cuts;
mod derived;
mod encode;
mod part;
mod promise;
mod putting;
mod uploads;

use crate::layout::BlockLayout;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use drystone_format::frame::FrameKind;
use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::log::{GroupEntries, GroupHead, Rank};
use drystone_format::schema::{Schema, Variable};
use drystone_store::{Features, StoreError};
use drystone_transform::Choice;

use crate::base::random;
use crate::base::sync::lock;
use crate::commit::adoption::Listing;
use crate::container::targets::process_cell;
use crate::container::tiers::{PART_LIMIT, Tiers};
use crate::container::{Container, Inner};
use crate::layout::Layouts;
use crate::log::scan::{PartFrom, Tail};
use crate::schema::near_miss::no_such;
use crate::{Error, Result};
use choose::Choices;

use accept::refuse_unfenced;
use cuts::Cuts;
pub use derived::StoredDerived;
use part::{Part, header};
pub(crate) use promise::Promise;
pub use putting::BlockSink;
use uploads::Uploads;

impl Container {
    /// Creates a [`Writer`].
    pub fn writer(&self, options: WriterOptions) -> Result<Writer> {
        Writer::open(self.inner.clone(), options)
    }
}

/// Options for opening a writer.
#[derive(Debug, Clone, Default)]
pub struct WriterOptions {
    /// Rank and number of ranks, for programs whose ranks all close every step.
    pub rank: Option<(u32, u32)>,
    /// The run that a ranked writer belongs to. Default: the number of the last fence.
    pub run: Option<u64>,
    /// A new log part begins when the segment passes this many bytes.
    pub segment_limit: Option<u64>,
    /// How blocks are laid out; a configuration overrides it.
    pub layout: BlockLayout,
}

const SEGMENT_LIMIT: u64 = 4 << 30;
/// The largest part held in memory until it is put, on stores without append.
const WHOLE_PART_LIMIT: u64 = 24 << 20;
/// The same limit on a far store, which uploads several parts at once, where parts are not uploaded in
/// pieces.
const FAR_PART_LIMIT: u64 = 8 << 20;
/// The largest part on a far store that appends. It limits the size of objects, and spreads reads over them.
const FAR_APPENDED_LIMIT: u64 = 32 << 20;

struct OpenStep {
    step: u64,
    /// Id and uid of each variable that was put.
    variables: BTreeMap<u32, u64>,
    replace: bool,
    group: Option<u64>,
    frames: u64,
    written: u64,
    entries: GroupEntries,
}

struct State {
    part: Part,
    done: Vec<PartFrom>,
    /// The number of these whose files are on stable storage, as far as `sync` syncs them.
    synced: usize,
    /// The complete idx of the last ended part, if it is short.
    ended: Option<Tail>,
    unsynced: BTreeSet<String>,
    open: Option<OpenStep>,
    loose: GroupEntries,
    loose_variables: BTreeMap<u32, u64>,
    groups: u64,
    puts: u64,
    last_step: Option<u64>,
    /// Number and watermark of the part after this writer's last commit.
    settled: Option<(u32, u64)>,
    /// On stores without append: parts that are being uploaded.
    uploads: Uploads,
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
    /// The layouts of variables.
    layouts: Mutex<Layouts>,
    choices: Choices,
    layout: BlockLayout,
    cuts: Cuts,
    /// The storage target of the first part. It is set by the first put, which shows this writer's place in
    /// the grid of processes.
    target: OnceLock<u64>,
    state: Mutex<State>,
    /// Variables that were put, looked up in the schema that was current then.
    named: Mutex<Named>,
}

#[derive(Default)]
struct Named {
    schema: Weak<Schema>,
    variables: HashMap<String, Arc<Variable>>,
}

/// The largest segment on this store.
fn limit_on(inner: &Inner, limit: u64) -> u64 {
    match inner.store.features() {
        _ if inner.tiers.as_ref().is_some_and(|tiers| tiers.is_used()) => limit.min(PART_LIMIT),
        Features { append: true, far: None, .. } | Features { far: Some(_), uploads: true, .. } => limit,
        Features { append: true, .. } => limit.min(FAR_APPENDED_LIMIT),
        Features { far: Some(_), .. } => limit.min(FAR_PART_LIMIT),
        _ => limit.min(WHOLE_PART_LIMIT),
    }
}

/// Writes blocks. Clones share the log. Calls from several threads are serialised; encoding runs in parallel.
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
}

impl Writer {
    pub(crate) fn open(inner: Arc<Inner>, options: WriterOptions) -> Result<Self> {
        let alone = matches!(options.rank, Some((_, 1)));
        Self::open_as(inner, options, if alone { Promise::Manifest } else { Promise::Record })
    }

    /// Opens a writer for a caller that defines how its steps are committed.
    pub(crate) fn open_as(inner: Arc<Inner>, options: WriterOptions, promise: Promise) -> Result<Self> {
        inner.require_writable()?;
        let rank = match options.rank {
            None if options.run.is_some() => {
                return Err(Error::invalid(
                    "a run is for writers with a rank and a number of ranks; writers without ranks belong to no run",
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
        let listing = rank.map(|_| Listing::begin(inner.store.as_ref()));
        // A writer without other ranks commits each step, and then checks whether the container was replaced.
        let alone = rank.is_some_and(|rank| rank.nranks == 1) && promise == Promise::Manifest;
        let (base, _) = if alone { inner.newest_to_change()? } else { inner.newest()? };
        if let (Some(rank), Some(listing)) = (rank, listing) {
            refuse_unfenced(&inner, &base, rank, listing)?;
        }
        let fence = base.manifest.fence;
        inner.adopt_snapshot(base);
        let id = random::id64();
        let run = options.run.unwrap_or(fence);
        let limit = options.segment_limit.unwrap_or(SEGMENT_LIMIT).max(1 << 16);
        let limit = limit_on(&inner, limit);
        let header = header(&inner, id, 0, run, rank, fence);
        let state = State {
            part: Part::new(&inner, &header, limit),
            done: Vec::new(),
            synced: 0,
            ended: None,
            unsynced: BTreeSet::new(),
            open: None,
            loose: GroupEntries::default(),
            loose_variables: BTreeMap::new(),
            groups: 0,
            puts: 0,
            last_step: None,
            settled: None,
            uploads: Uploads::default(),
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

    /// The writer's id, which is part of the names of its log.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// The writer's run; `None` without a rank.
    pub fn run(&self) -> Option<u64> {
        self.shared.rank.map(|_| self.shared.run)
    }

    /// The choices of `auto` for the variables that this writer put, by name (`P.x` for a member), each with
    /// its report.
    pub fn choices(&self) -> Vec<(String, Arc<Choice>)> {
        self.shared.choices.reports()
    }

    /// Begins a step: the given one, or the one after the last committed step (or this writer's last step).
    /// Returns its number.
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
            entries: GroupEntries::default(),
        });
        state.generation += 1;
        Ok(step)
    }

    /// Sets the number of the next put.
    fn number_puts_from(&self, first: u64) -> Result<()> {
        self.state()?.puts = first;
        Ok(())
    }

    /// Discards the open step: none of its blocks becomes visible.
    pub fn abort_step(&self) -> Result<()> {
        if lock(&self.shared.state).failed.is_some() {
            return Ok(()); // reported when it failed; its step was never promised
        }
        let mut state = self.state()?;
        let Some(open) = state.open.take() else { return Ok(()) };
        state.generation += 1;
        if open.frames > 0 {
            self.guard(&mut state, |w, state| {
                state.part.idx_push(FrameKind::Abort, &[]);
                if w.appends() {
                    state.part.idx_flush(&w.shared.inner, w.shared.id)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Hands all staged bytes to the store. Only the end of a step and a commit make it visible.
    pub fn flush(&self) -> Result<()> {
        let mut state = self.state()?;
        if !self.appends() {
            return Ok(());
        }
        self.guard(&mut state, |_, state| state.part.segment.flush())
    }

    /// Syncs the log after it was sealed or closed. [`crate::Container::flush`] syncs one log after the
    /// other; many writers can call this method at the same time.
    pub fn sync(&self) -> Result<()> {
        if self.tiers().is_some() && !self.durable() {
            self.shared.inner.drain_writer(self.shared.id)?;
            return self.sync_records();
        }
        if !self.appends() || self.durable() {
            return Ok(()); // synced when it was written
        }
        let s = &self.shared;
        let (number, earlier, last) = {
            let state = lock(&s.state);
            let part = state.part.number;
            let mut last = Vec::new();
            last.extend(state.part.segment.has_content().then(|| keys::segment(s.id, part)));
            last.extend((state.part.idx_len > 0).then(|| keys::idx(s.id, part)));
            let earlier =
                state.unsynced_parts().flat_map(|p| [keys::segment(s.id, p.part), keys::idx(s.id, p.part)]);
            (state.done.len(), earlier.collect(), last)
        };
        self.sync_files(earlier, last, number)
    }

    /// Syncs the step records, which lie in the home store.
    fn sync_records(&self) -> Result<()> {
        let s = &self.shared;
        let (number, mut earlier) = {
            let state = lock(&s.state);
            let parts = state.unsynced_parts().filter(|part| part.len > 0);
            (state.done.len(), parts.map(|part| keys::idx(s.id, part.part)).collect::<Vec<_>>())
        };
        let last = earlier.pop().into_iter().collect();
        self.sync_files(earlier, last, number)
    }

    /// Syncs files of the log; then the files of this many parts need not be synced again. Those of earlier parts may
    /// have been removed by gc, since nothing of them is visible any more.
    fn sync_files(&self, mut earlier: Vec<String>, last: Vec<String>, parts: usize) -> Result<()> {
        loop {
            let files: Vec<&str> = earlier.iter().chain(&last).map(String::as_str).collect();
            match self.shared.inner.store.sync(&files) {
                Err(StoreError::NotFound { key, .. }) if earlier.contains(&key) => {
                    earlier.retain(|file| *file != key);
                }
                synced => break synced?,
            }
        }
        let mut state = lock(&self.shared.state);
        state.synced = state.synced.max(parts);
        Ok(())
    }

    /// The number of the open step.
    pub fn current_step(&self) -> Option<u64> {
        lock(&self.shared.state).open.as_ref().map(|o| o.step)
    }

    /// Whether the writer was closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.state).closed
    }

    /// Whether step records are appended to one idx. With tiers, as on stores without append, each part ends
    /// with a step, so that it can be drained while the next part is filled.
    fn appends(&self) -> bool {
        self.shared.inner.store.features().append && self.tiers().is_none()
    }

    /// The tiers that hold the log, if there are any.
    fn tiers(&self) -> Option<&Arc<Tiers>> {
        self.shared.inner.tiers.as_ref().filter(|tiers| tiers.is_used())
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
                "this writer failed earlier and accepts nothing more (close it and open another; committed steps are safe)",
            ));
        }
        Ok(state)
    }

    /// The state, if the given step is still open.
    fn state_of(&self, generation: u64) -> Result<MutexGuard<'_, State>> {
        let state = self.live()?; // the process was checked when the put began
        if state.generation != generation {
            return Err(Error::invalid(
                "the step was ended by another thread while a block of it was being put",
            ));
        }
        Ok(state)
    }

    /// Runs a store operation; a failure makes the writer unusable.
    fn guard<T>(&self, state: &mut State, act: impl FnOnce(&Self, &mut State) -> Result<T>) -> Result<T> {
        act(self, state).inspect_err(|e| state.failed = Some(e.clone()))
    }

    fn variable(&self, path: &str) -> Result<Arc<Variable>> {
        let inner = &self.shared.inner;
        let path = path.trim_matches('/');
        inner.require_settled(path)?;
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

    /// Writes the entries of the open step so far as one part of its group.
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
            closed: 0,
        };
        let payload = open.entries.encode(&head);
        open.frames += 1;
        open.written += open.entries.len();
        open.entries.clear();
        state.part.idx_push(FrameKind::Group, &payload);
        Ok(())
    }

    /// Chooses the storage target of the log at the first put, by the block's cell in the grid of processes.
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

    /// Chooses the storage target of a part: the parts of a log are spread over the targets.
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
        state.ended = state.part.tail();
        state.done.push(PartFrom { part: state.part.number, watermark: 0, len: state.part.idx_len });
        state.part = Part::new(&s.inner, &header, s.limit);
        self.place_part(number);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without a close the log simply ends: ended steps stay, and the rest was never guaranteed.
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
