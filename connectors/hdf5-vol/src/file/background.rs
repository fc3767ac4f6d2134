//! Background writing: a thread that puts buffered values into the container, and the commit that makes them
//! visible.
//!
//! A write copies its cells into memory and returns. When a few MiB are buffered the thread puts them; in a
//! rank of several, once the program has stopped writing and computes. When the configured buffer is full a
//! write waits. Flush and close wait for all buffered values, put heap and catalogue, and commit: values and
//! the tree that refers to them become visible together or not at all.
//!
//! Invariants
//! - blocks are put in the order in which they were written;
//! - after a failure nothing is committed any more, and every later write, flush and close reports it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use drystone::array::Source;
use drystone::format::dtype::{DType, Scalar};
use drystone::format::schema::Variable;
use drystone::{Writer, WriterOptions};

use crate::file::heap::{CATALOGUE, HEAP};
use crate::file::state::{Block, FileState, Shared};
use crate::library::failure::{Failure, Result};
use crate::model::catalogue::Catalogue;
use crate::model::element;
use crate::model::tree::Id;
use crate::ranks::team::{self, Act, Team, attempt};

/// The thread begins to put when this many bytes are buffered.
const BEGIN: usize = 4 << 20;
/// With several ranks, whose cores are busy, the thread puts only if nothing was written for this long, or
/// half of the buffer is full. Ranks that share cores lose them for some 10 ms at a time.
const LULL: Duration = Duration::from_millis(50);
/// Cells of small datasets are put when they take this many bytes together.
pub const RESIDENT: usize = 32 << 20;
/// Values of variable length are committed when this many bytes of them are buffered.
pub const HEAP_LIMIT: usize = 32 << 20;

/// Most open writers whose files are not synced yet.
const MOST_SHOWN: usize = 64;

impl Shared {
    /// Buffers a block, and wakes the thread if enough is buffered; waits if the buffer is full.
    pub(crate) fn enqueue<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
        block: Block,
    ) -> Result<MutexGuard<'a, FileState>> {
        let bytes = block.data.len();
        while state.pending_bytes > 0 && (state.pending_bytes + bytes) as u64 > self.config.buffer {
            state.check()?;
            state.pressed = true;
            state = self.wait_for_thread(state);
        }
        state.check()?;
        state.dirty = true;
        state.pressed = false;
        state.written = Instant::now();
        state.pending_bytes += bytes;
        if let Some(block) = state.append(block) {
            state.pending.push_back(Arc::new(block));
        }
        if state.pending_bytes >= BEGIN {
            self.start(&mut state);
            self.wake.notify_all();
        }
        Ok(state)
    }

    /// Waits until the thread has made progress.
    fn wait_for_thread<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
    ) -> MutexGuard<'a, FileState> {
        self.start(&mut state);
        self.wake.notify_all();
        self.done.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn start(self: &Arc<Self>, state: &mut FileState) {
        if state.thread.is_none() && !state.stop {
            let shared = self.clone();
            let thread = std::thread::Builder::new().name("drystone-hdf5".into());
            match thread.spawn(move || shared.work()) {
                Ok(handle) => state.thread = Some(handle),
                Err(e) => state.failed = Some(Failure::write(format!("cannot start a thread: {e}"))),
            }
        }
    }

    /// The thread: puts one block after the other.
    fn work(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            let many = state.pending_bytes >= BEGIN && state.failed.is_none();
            let lull = || {
                self.team.is_none()
                    || state.pending_bytes as u64 >= self.config.buffer / 2
                    || state.written.elapsed() >= LULL
            };
            // While the ranks agree on variables none is made; and a flush puts what waits by itself.
            let stuck = || {
                let first = state.pending.front().and_then(|block| state.tree.dataset(block.dataset));
                state.meeting && first.is_some_and(|dataset| dataset.variable.is_none())
            };
            let wanted = (state.pressed || many && lull()) && !state.busy && state.failed.is_none();
            if !wanted || state.pending.is_empty() || stuck() {
                self.done.notify_all();
                if state.stop {
                    return;
                }
                state = match many {
                    true => self.wake.wait_timeout(state, LULL).unwrap_or_else(PoisonError::into_inner).0,
                    false => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            }
            state = self.put_first(state);
            self.done.notify_all();
        }
    }

    /// Puts the first buffered block, unless another thread is putting it. A failure becomes the file's
    /// failure.
    fn put_first<'a>(&'a self, mut state: MutexGuard<'a, FileState>) -> MutexGuard<'a, FileState> {
        let Some(block) = state.pending.front().cloned() else { return state };
        state.busy = true;
        let target = state.target(block.dataset);
        drop(state);
        let result = match target {
            Ok(Some(target)) => {
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| put(&target, &block)))
                    .unwrap_or_else(|_| Err(Failure::write("a bug: putting values panicked")))
            }
            Ok(None) => Ok(()), // the dataset is gone
            Err(e) => Err(e),
        };
        let mut state = self.lock();
        state.busy = false;
        match result {
            Ok(()) => {
                state.pending.pop_front();
                state.pending_bytes -= block.data.len();
                state.uncommitted.insert(block.dataset);
                if let Ok(block) = Arc::try_unwrap(block) {
                    state.spare.give(block.data, self.config.buffer);
                }
            }
            Err(e) => state.failed = Some(e),
        }
        state
    }

    /// Makes everything written so far visible to others, and syncs it if that is configured.
    pub fn flush(self: &Arc<Self>) -> Result<()> {
        if !self.writable {
            return Ok(());
        }
        if let Some(team) = &self.team {
            return self.flush_together(team, self.config.sync);
        }
        let state = self.lock();
        let state = self.commit(state)?;
        if self.config.sync {
            state.container.flush()?;
        }
        Ok(())
    }

    /// Commits everything: the tree with all values written before. A single rank of several commits its
    /// values only.
    pub(crate) fn commit<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
    ) -> Result<MutexGuard<'a, FileState>> {
        state.check()?;
        if !state.dirty && state.pending.is_empty() && state.uncommitted.is_empty() {
            return Ok(state);
        }
        let small: Vec<Id> = state.resident.iter().filter(|(_, r)| r.dirty).map(|(id, _)| *id).collect();
        state.make_variables()?;
        state = self.drain(state)?;
        let result = match self.team {
            Some(_) => state.finish_own(),
            None => state.finish(&small),
        };
        if let Err(e) = &result {
            state.failed = Some(e.clone());
        }
        result.map(|()| state)
    }

    /// Puts everything that is buffered, in this thread: handing a block to the other thread costs as much as
    /// putting a small one.
    fn drain<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
    ) -> Result<MutexGuard<'a, FileState>> {
        while !state.pending.is_empty() || state.busy {
            state.check()?;
            state = if state.busy { self.wait_for_thread(state) } else { self.put_first(state) };
        }
        state.check()?;
        Ok(state)
    }

    /// Makes what every rank of a team wrote visible to all of them. The next flush syncs it.
    pub fn show_together(self: &Arc<Self>) -> Result<()> {
        match &self.team {
            Some(team) if self.writable => self.flush_together(team, false),
            _ => Ok(()),
        }
    }

    /// The flush of all ranks: each puts its own values, and the first makes them visible in one commit with
    /// the tree, which must be the same on all. `sync`: afterwards a power cut loses neither this nor what
    /// was only shown before.
    fn flush_together(self: &Arc<Self>, team: &Team, sync: bool) -> Result<()> {
        let done = self.agree_and_commit(team, sync);
        let mut state = self.lock();
        state.meeting = false;
        state.end_deferred();
        drop(state);
        self.wake.notify_all();
        done
    }

    fn agree_and_commit(self: &Arc<Self>, team: &Team, sync: bool) -> Result<()> {
        let mut state = self.lock();
        state.meeting = true;
        let digest = state.digest(team);
        let kept = team::kept(digest, &state.heap.pending);
        let changed = digest != team.agreed.load(Ordering::SeqCst);
        let dirty = state.dirty || changed || !state.pending.is_empty() || !state.uncommitted.is_empty();
        let unflushed = sync && state.is_only_shown;
        let sound = state.check();
        let small_writes = state.patched_bytes as u64;
        let missing = state.misses_variables() || team.is_first() && !state.has_books();
        let version = state.container.snapshot().version();
        drop(state);
        let flags = u64::from(dirty) | u64::from(missing) << 1 | u64::from(unflushed) << 2 | version << 3;
        let said = team.meet(Act::Flush, [digest, flags, small_writes], sound)?;
        if said.iter().any(|numbers| numbers[0] != digest) {
            let tree = self.lock().tree.clone();
            return Err(team.disagreement(&tree));
        }
        let dirty = said.iter().any(|numbers| numbers[1] & 1 != 0);
        if !dirty && said.iter().all(|numbers| numbers[1] & 4 == 0) {
            return Ok(());
        }
        let small_writes = said.iter().any(|numbers| numbers[2] != 0);
        let missing = dirty && said.iter().any(|numbers| numbers[1] & 2 != 0);
        // A rank with an older schema than another would assign other ids.
        let differ = said.iter().any(|numbers| numbers[1] >> 3 != version);
        let result = self.commit_together(team, missing.then_some(differ), small_writes, (dirty, sync));
        match &result {
            Ok(()) => team.agreed.store(kept, Ordering::SeqCst),
            Err(e) => self.lock().failed = Some(e.clone()),
        }
        result
    }

    /// `missing`: whether datasets have no variables, and whether the ranks know different versions of the
    /// container. `dirty`: whether there is something to commit, and whether there is something to sync.
    fn commit_together(
        self: &Arc<Self>,
        team: &Team,
        missing: Option<bool>,
        small_writes: bool,
        (dirty, sync): (bool, bool),
    ) -> Result<()> {
        let mut ready = attempt(|| match missing {
            None => Ok(()),
            Some(differ) => {
                let mut state = self.lock();
                state.outdated |= differ;
                state.catch_up()?;
                state.adopt_variables();
                state.defer(team.session.load(Ordering::SeqCst), team.is_first())
            }
        });
        if small_writes {
            ready = ready.and(attempt(|| self.exchange_small_writes(team)));
        }
        let laid = attempt(|| {
            ready?;
            let mut state = self.drain(self.lock())?;
            if team.is_first() && dirty {
                state.put_catalogue()?;
            }
            let writer = state.writer.take();
            let places = team::places(&state.tree);
            let mut shown = std::mem::take(&mut state.shown);
            drop(state);
            if let Some(writer) = &writer {
                writer.seal()?;
            }
            let id = writer.as_ref().map_or(0, Writer::id);
            shown.extend(writer);
            if sync || shown.len() >= MOST_SHOWN {
                shown.iter().try_for_each(Writer::sync)?; // all ranks at once, and nothing is left to the first
                shown.clear();
            }
            let mut state = self.lock();
            state.shown = shown;
            state.is_only_shown = !sync;
            Ok((places, id, sync && id != 0))
        });
        let (places, sealed, synced) = laid.as_ref().copied().unwrap_or_default();
        let said = team.meet(Act::Lay, [places, sealed, synced.into()], laid.map(drop))?;
        let agreed = said.iter().all(|numbers| numbers[0] == places);
        let committed = attempt(|| {
            let mut state = self.lock();
            if !agreed {
                return Err(Failure::damaged(
                    "the ranks keep values in different variables: please report it",
                ));
            }
            if team.is_first() {
                let writers: Vec<u64> = said.iter().map(|numbers| numbers[1]).filter(|id| *id != 0).collect();
                let heap = state.heap.stored + state.heap.pending.len() as u64;
                let lengths = [(CATALOGUE, state.catalogue), (HEAP, heap)];
                state.commit_deferred(&writers, lengths)?;
                if sync {
                    let synced = said.iter().filter(|numbers| numbers[2] != 0).map(|numbers| numbers[1]);
                    state.container.flush_after(&synced.collect::<Vec<_>>())?;
                }
                state.settle()?;
            }
            Ok(())
        });
        team.meet(Act::Commit, [0; 3], committed)?;
        if team.is_first() {
            return Ok(());
        }
        let mut state = self.lock();
        state.deferred = None; // it was kept
        state.outdated = true;
        state.removed = false; // the first rank has deleted what went
        state.settle()
    }

    /// Ends the file of several ranks: values that a rank wrote after the last flush are kept, and if objects
    /// changed since, all ranks meet.
    fn shut_together(self: &Arc<Self>, team: &Team) -> Result<()> {
        if !self.writable {
            return Ok(());
        }
        let state = self.lock();
        state.check()?;
        if state.digest(team) != team.agreed.load(Ordering::SeqCst) {
            drop(state);
            return self.flush_together(team, self.config.sync);
        }
        let state = self.spill_all_small_writes(state)?;
        self.commit(state).map(drop)
    }

    /// Ends with the last opening: commits, and stops the thread. An error here was reported by the close
    /// before it.
    pub(crate) fn shut(self: &Arc<Self>) {
        let _ = match &self.team {
            Some(team) => self.shut_together(team),
            None => self.flush(),
        };
        let mut state = self.lock();
        state.stop = true;
        if let Some(writer) = state.writer.take() {
            let _ = writer.close();
        }
        let thread = state.thread.take();
        drop(state);
        self.wake.notify_all();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// The destination of a block.
pub(crate) struct Target {
    writer: Writer,
    path: String,
    variable: Variable,
    element: element::Element,
}

/// Puts a block.
fn put(target: &Target, block: &Block) -> Result<()> {
    put_cells(target, &block.first, &block.count, &block.data)
}

fn put_cells(target: &Target, first: &[u64], count: &[u64], data: &[u8]) -> Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let element = &target.element;
    let (first, count) = (element.first(first), element.count(count));
    let source = Source::dense(data, &count, element.dtype.item_size() as usize)?;
    Ok(target.writer.put_to((&target.path, &target.variable), &element.dtype, &source, Some(&first))?)
}

impl FileState {
    /// The failure of the background, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(f) => Err(Failure {
                message: format!(
                    "{}; nothing written since the last flush is kept: close the file and open it again",
                    f.message
                ),
                ..f.clone()
            }),
        }
    }

    /// Joins a block to the last buffered one, if it continues that; else returns it.
    fn append(&mut self, block: Block) -> Option<Block> {
        const LARGE: usize = 4 << 20;
        let first_is_busy = self.busy && self.pending.len() == 1;
        let Some(last) = self.pending.back_mut().filter(|_| !first_is_busy) else { return Some(block) };
        let joins = last.dataset == block.dataset
            && !block.first.is_empty()
            && last.data.len() + block.data.len() <= LARGE
            && last.first[1..] == block.first[1..]
            && last.count[1..] == block.count[1..]
            && last.first[0] + last.count[0] == block.first[0];
        match Arc::get_mut(last).filter(|_| joins) {
            None => Some(block),
            Some(last) => {
                last.count[0] += block.count[0];
                last.data.extend_from_slice(&block.data);
                None
            }
        }
    }

    /// The destination of a dataset's values; `None` if the dataset was removed.
    fn target(&mut self, dataset: Id) -> Result<Option<Target>> {
        if self.tree.dataset(dataset).is_some_and(|d| d.variable.is_none()) {
            self.make_variables()?;
        }
        let Some((id, size)) = self.tree.dataset(dataset).map(|d| (d.variable, d.dtype.size)) else {
            return Ok(None);
        };
        let found = match id {
            Some((id, _)) => self.place(id, Some(dataset))?,
            None => None,
        };
        let Some((path, variable)) = found else {
            return Err(Failure::damaged(format!("dataset {dataset} has no variable in the container")));
        };
        let element = element::Element::of(&variable.dtype, size);
        Ok(Some(Target { writer: self.writer()?, path, variable, element }))
    }

    /// A variable that exists or is deferred, and its path.
    fn place(&mut self, id: u32, dataset: Option<Id>) -> Result<Option<(String, Variable)>> {
        if let Some(deferred) = self.deferred_variable(id, dataset)? {
            return Ok(Some(deferred));
        }
        let schema = self.container.schema();
        if let (Some(path), Some(variable)) = (self.variables.get(&id), schema.variables.get(&id)) {
            return Ok(Some((path.clone(), variable.clone())));
        }
        self.outdated |= self.session.is_some();
        self.catch_up()?;
        let schema = self.container.schema();
        Ok(self.variables.get(&id).cloned().zip(schema.variables.get(&id).cloned()))
    }

    /// Refreshes to what the first rank has committed in the meantime.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        if std::mem::take(&mut self.outdated) {
            self.container.refresh()?;
            self.learn_variables();
        }
        Ok(())
    }

    /// A number that is the same on ranks with the same tree.
    pub(crate) fn digest(&self, team: &Team) -> u64 {
        // Unchanged state was agreed on before.
        let touched = self.dirty || !self.heap.pending.is_empty();
        match team.agreed.load(Ordering::SeqCst) {
            agreed if !touched && agreed != 0 => agreed,
            _ => team::digest(&self.tree, &self.heap.pending),
        }
    }

    pub(crate) fn writer(&mut self) -> Result<Writer> {
        if self.writer.is_none() {
            self.writer = Some(self.container.writer(WriterOptions::default())?);
        }
        self.writer.clone().ok_or_else(|| Failure::write("no writer"))
    }

    /// Puts the remaining values and the catalogue, and commits.
    fn finish(&mut self, small: &[Id]) -> Result<()> {
        for id in small {
            let Some(target) = self.target(*id)? else { continue };
            let Some(dataset) = self.tree.dataset(*id) else { continue };
            let dims = dataset.space.dims();
            if let Some(resident) = self.resident.get(id) {
                put_cells(&target, &vec![0; dims.len()], dims, &resident.data)?;
            }
        }
        self.put_catalogue()?;
        match (self.writer.take(), &mut self.head) {
            (Some(writer), Some(head)) => head.commit(&self.container, &writer)?,
            (Some(writer), None) => writer.close()?,
            (None, _) => {}
        }
        self.settle()
    }

    /// Makes the values that a rank has put visible; the tree waits for all ranks.
    fn finish_own(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            writer.close()?;
        }
        self.uncommitted.clear();
        Ok(())
    }

    /// Puts the tree, and the heap that it refers to.
    fn put_catalogue(&mut self) -> Result<()> {
        let writer = self.writer()?;
        let schema = self.container.schema();
        let append = |path: &str, at: u64, bytes: &[u8]| -> Result<()> {
            if bytes.is_empty() {
                return Ok(());
            }
            let variable =
                self.deferred_schema().and_then(|schema| schema.resolve(path)).or(schema.resolve(path));
            let Some(variable) = variable else {
                return Err(Failure::damaged(format!("there is no variable {path} in the container")));
            };
            let source = Source::dense(bytes, &[bytes.len() as u64], 1)?;
            Ok(writer.put_to((path, variable), &DType::Scalar(Scalar::U8), &source, Some(&[at]))?)
        };
        append(HEAP, self.heap.stored, &self.heap.pending)?;
        let heap = self.heap.stored + self.heap.pending.len() as u64;
        let catalogue = Catalogue::encode(&self.tree, heap);
        append(CATALOGUE, 0, &catalogue)?;
        self.catalogue = catalogue.len() as u64;
        Ok(())
    }

    /// Records that everything is committed.
    fn settle(&mut self) -> Result<()> {
        let pages = &mut self.heap.pages;
        if !self.heap.pending.is_empty() {
            pages.pop_last(); // it may end within the page that grew
        }
        self.heap.stored += self.heap.pending.len() as u64;
        self.heap.pending = Vec::new();
        self.uncommitted.clear();
        for resident in self.resident.values_mut() {
            resident.dirty = false;
        }
        if self.resident_bytes > RESIDENT {
            self.resident.clear();
            self.resident_bytes = 0;
        }
        self.dirty = false;
        if std::mem::take(&mut self.removed) {
            self.drop_variables()?;
        }
        Ok(())
    }
}
