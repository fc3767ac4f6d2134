//! A writer of all ranks together. Blocks wait until the step ends; then as many ranks write as is cheapest.
//!
//! Blocks that would exceed [`STAGE`] on a rank do not wait: that rank then writes for itself, and so do all.
//!
//! Invariant: the writers of a step are numbered `0..n` of `n`, whichever ranks they are, so a commit takes the step
//! only when all have ended it.

use std::sync::{Arc, Mutex, MutexGuard};

use drystone_format::dtype::DType;
use drystone_format::identity::Durability;
use drystone_format::schema::Variable;
use drystone_plan::aggregation::{Aggregation, Costs};
use drystone_plan::tier::level::Level;

use super::meeting::{Act, Meeting, attempt};
use super::redundancy;
use super::staged::{Staged, append, put_all, room, together};
use crate::base::array::Source;
use crate::base::cpus::available;
use crate::base::sync::lock;
use crate::container::Container;
use crate::history::snapshot::Snapshot;
use crate::schema::member::Column;
use crate::write::accept::{blob_columns, check_box, check_strings, members, require_fixed, require_settled};
use crate::write::{BlockSink, Promise, Writer, WriterOptions};
use crate::{Error, ErrorKind, Result};

/// The most bytes of a step that wait on one rank.
const STAGE: u64 = 8 << 20;

/// Options for opening a writer of a team.
#[derive(Debug, Clone, Copy, Default)]
pub struct TeamWriterOptions {
    /// The number of ranks that write, at most all. `None` leaves it to the model.
    pub writers: Option<u32>,
}

/// The writer of one rank of a team. Steps and `close` are collective; `put` is not.
pub struct TeamWriter {
    container: Container,
    meeting: Meeting,
    run: u64,
    /// The number of ranks that run at the same time on a node; equal on all ranks.
    processors: usize,
    options: TeamWriterOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The open step, and whether it replaces an earlier one.
    step: Option<(u64, bool)>,
    last: Option<u64>,
    /// Waiting blocks, in the form in which they are sent.
    staged: Vec<u8>,
    /// Memory for received and joined blocks. Like that of `staged`, it is kept from step to step: new memory costs
    /// more than copying into it.
    received: Vec<u8>,
    joined: Vec<u8>,
    bytes: u64,
    /// Other ranks cannot write this step: part of it is written already, or belongs to this rank only.
    direct: bool,
    /// Whether the following steps are expected to be large.
    large: bool,
    /// This rank's writer, its number among the step's writers, the number of these, and whether the step has begun
    /// in it.
    own: Option<Own>,
    /// The writer of values without steps.
    loose: Option<Writer>,
    failed: Option<Error>,
    closed: bool,
}

impl State {
    /// Drops waiting blocks. Frees memory that similar steps will not use, or that is too much to keep.
    fn forget(&mut self) {
        self.staged.clear();
        let large = self.large;
        for kept in [&mut self.staged, &mut self.received, &mut self.joined] {
            if large || kept.capacity() as u64 > 2 * STAGE {
                *kept = Vec::new();
            }
        }
    }
}

struct Own {
    writer: Writer,
    rank: u32,
    nranks: u32,
    begun: bool,
}

/// The cost of a step on this container's device, as far as it was measured.
fn costs(container: &Container, processors: usize) -> Costs {
    let (write, sync) = container.profile().map_or((2.2e9, 1e-3), |profile| (profile.write, profile.sync));
    rough(container.identity().durability, write, sync, processors)
}

/// Approximate costs, from the medians of bench/collective on two cores and one disk, with 8 ranks, 1 KiB to 1 MiB
/// each, 1 to 8 writers. Concurrent syncs of several writers share a journal, so each adds only a part of a sync.
fn rough(durability: Durability, write: f64, sync: f64, processors: usize) -> Costs {
    let syncing = if durability == Durability::Durable { sync } else { 0.0 };
    let (per_writer, together) = (4e-5 + syncing / 8.0, 1e-4 + syncing / 4.0);
    Costs { per_writer, together, copy: 4e9, write, processors }
}

/// The number of ranks that run at the same time on a node, given the processors that each may use. All ranks do if
/// each has a processor to itself.
fn at_once(allowed: impl Iterator<Item = u64>) -> usize {
    let most = allowed.max().unwrap_or(0);
    if most < 2 { usize::MAX } else { usize::try_from(most).unwrap_or(usize::MAX) }
}

impl BlockSink for TeamWriter {
    fn put_columns(
        &self,
        path: &str,
        columns: &[Column],
        data: &Source<'_>,
        offset: Option<&[u64]>,
    ) -> Result<()> {
        let path = Container::normal_path(path);
        let variable = self.variable(path)?;
        columns.iter().try_for_each(|column| require_fixed(path, &column.leaf))?;
        let place = check_box(path, &variable, data.shape(), offset)?;
        let item = u32::try_from(data.item()).map_err(|_| Error::invalid("the elements are too large"))?;
        let bytes = data.shape().iter().fold(u64::from(item), |n, c| n.saturating_mul(*c));
        self.take(
            path,
            &variable,
            (bytes, variable.local),
            |writer| writer.put_columns(path, columns, data, offset),
            |kept| {
                let columns: Vec<_> = columns.iter().map(Column::numbers).collect();
                let elements = |out: &mut Vec<u8>| append(data, out);
                Staged::keep((path, &columns, item), (&place, data.shape()), elements, kept)
            },
        )
    }
}

impl TeamWriter {
    pub(super) fn open(container: Container, meeting: Meeting, options: TeamWriterOptions) -> Result<Self> {
        let checked = attempt(|| {
            if options.writers == Some(0) {
                return Err(Error::invalid("0 writers; at least one rank writes"));
            }
            if meeting.rank() == 0 { require_settled(&container) } else { Ok(0) }
        });
        let run = *checked.as_ref().unwrap_or(&0);
        let said = meeting.hold(Act::OpenWriter, [run, available() as u64, 0, 0], checked.map(|_| ()))?;
        let run = said.first().map_or(0, |values| values[0]);
        let processors = at_once(said.iter().map(|values| values[1]));
        if let Some(tiers) = &container.inner.tiers {
            tiers.in_team.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(TeamWriter { container, meeting, run, processors, options, state: Mutex::default() })
    }

    /// The run of the writer.
    pub fn run(&self) -> u64 {
        self.run
    }

    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        match &state.failed {
            Some(failed) => Err(failed
                .clone()
                .while_doing("an earlier step of this writer failed: close it and open another")),
            None if state.closed => Err(Error::invalid("the writer is closed")),
            None => Ok(state),
        }
    }

    /// Begins a step on all ranks: the given one, which must be the same on all ranks, or the one after the last.
    /// Returns its number.
    pub fn begin_step(&self, step: Option<u64>, replace: bool) -> Result<u64> {
        let state = self.state();
        let checked = state.as_ref().map_err(Clone::clone).and_then(|state| match state.step {
            Some((open, _)) => {
                Err(Error::invalid(format!("step {open} is open in this writer; end it before the next")))
            }
            None if step.is_some_and(|s| s >= 1 << 62) => {
                Err(Error::invalid("the step is too large; steps are below 2^62"))
            }
            None => Ok(self.container.snapshot().steps.last().max(state.last).map_or(0, |s| s + 1)),
        });
        let wanted = step.map_or(0, |s| s + 1);
        let next = *checked.as_ref().unwrap_or(&0);
        let said =
            self.meeting.hold(Act::BeginStep, [wanted, next, replace.into(), 0], checked.map(|_| ()))?;
        let first = *said.first().unwrap_or(&[0; 4]);
        if let Some(rank) = said.iter().position(|v| v[0] != first[0] || v[2] != first[2]) {
            return Err(Error::invalid(format!(
                "ranks 0 and {rank} begin different steps, or replace differently"
            )));
        }
        let number = first[0].checked_sub(1).unwrap_or(first[1]);
        let mut state = state?;
        state.step = Some((number, replace));
        (state.bytes, state.direct) = (0, false);
        if state.large {
            // A failure here is reported at the end of the step.
            if let Err(e) = attempt(|| self.write_for_itself(&mut state)) {
                state.failed = Some(e);
            }
        }
        Ok(number)
    }

    /// Writes a block, like [`Writer::put`]. Not collective.
    pub fn put(
        &self,
        path: &str,
        dtype: &DType,
        data: &Source<'_>,
        offset: Option<&[u64]>,
        field: Option<&str>,
    ) -> Result<()> {
        let path = Container::normal_path(path);
        let columns = members(path, &self.variable(path)?, field, dtype, data.item())?;
        self.put_columns(path, &columns, data, offset)
    }

    /// Writes a block of strings or lists; as [`Writer::put_strings`]. Not collective.
    pub fn put_strings(
        &self,
        path: &str,
        shape: &[u64],
        values: &[&[u8]],
        offset: Option<&[u64]>,
        field: Option<&str>,
    ) -> Result<()> {
        let path = Container::normal_path(path);
        let variable = self.variable(path)?;
        let columns = blob_columns(path, &variable, field)?;
        let place = check_strings(path, (&variable, &columns), shape, values, offset)?;
        let bytes = values.iter().map(|value| 4 + value.len() as u64).sum();
        self.take(
            path,
            &variable,
            (bytes, variable.local || field.is_some()),
            |writer| writer.put_strings(path, shape, values, offset, field),
            |kept| Staged::keep((path, &[], 0), (&place, shape), |out| together(values, out), kept),
        )
    }

    /// Looks a variable up. Another process may have just created it.
    fn variable(&self, path: &str) -> Result<Variable> {
        self.container.inner.require_settled(path)?;
        match self.container.variable(path) {
            Err(e) if e.kind() == ErrorKind::NotFound && !self.container.is_closed() => {
                self.container.refresh()?;
                self.container.variable(path)
            }
            other => other,
        }
    }

    /// Keeps a block of this many bytes until the step ends, or puts it into this rank's own writer. `own`: another
    /// rank cannot write it, because a local variable keeps one value per writer, or because blocks that ranks send
    /// name no member of strings or lists.
    fn take(
        &self,
        path: &str,
        variable: &Variable,
        (bytes, own): (u64, bool),
        put: impl Fn(&Writer) -> Result<()>,
        keep: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state()?;
        if !variable.steps {
            if state.loose.is_none() {
                state.loose = Some(self.container.writer(WriterOptions::default())?);
            }
            return state.loose.as_ref().map_or_else(|| Err(Error::invalid("no writer")), put);
        }
        if state.step.is_none() {
            return Err(Error::invalid(format!("\"{path}\" has steps: put it inside a step of the writer")));
        }
        state.bytes = state.bytes.saturating_add(bytes);
        if !state.direct && (own || state.bytes > STAGE) {
            self.write_for_itself(&mut state)?;
        }
        if let (true, Some(own)) = (state.direct, &state.own) {
            return put(&own.writer);
        }
        keep(&mut state.staged)
    }

    /// Takes part in a collective call of this writer that this rank cannot make
    /// ([`Team::decline`](super::Team::decline)).
    pub fn declined(&self, call: super::Call, error: Error) -> Error {
        super::Team::decline(self.meeting.communicator.clone(), call, error)
    }

    /// Ends the step on all ranks, writes waiting blocks, and commits. Returns the snapshot that contains the step.
    /// In a container with redundancy, ranks on several nodes then make parity of each other's parts.
    ///
    /// An error on one rank is an error on all, and nothing of the step becomes visible.
    pub fn end_step(&self) -> Result<u64> {
        self.end_step_at(None)
    }

    /// As [`end_step`](Self::end_step), but returns when the step has reached this level.
    pub fn end_step_at(&self, level: Option<Level>) -> Result<u64> {
        let step = lock(&self.state).step;
        let version = self.commit_step()?;
        let writer = lock(&self.state).own.as_ref().map(|own| own.writer.id());
        let kept = match step {
            Some((step, _)) => redundancy::protect(&self.container, &self.meeting, step, writer)?,
            None => false,
        };
        // Each rank drains home what other nodes do not keep.
        let asked = level.filter(|level| *level > Level::Node && !(kept && *level == Level::Partner));
        let Some(level) = asked else { return Ok(version) };
        let home = attempt(|| writer.map_or(Ok(()), |writer| self.container.inner.drain_writer(writer)));
        self.meeting.hold(Act::Safe, [0; 4], home)?;
        if level == Level::Stable {
            let first = self.meeting.rank() == 0;
            let flushed = attempt(|| if first { self.container.flush().map(drop) } else { Ok(()) });
            self.meeting.hold(Act::Safe, [0; 4], flushed)?;
        }
        Ok(version)
    }

    fn commit_step(&self) -> Result<u64> {
        let state = self.state();
        let checked = state.as_ref().map_err(Clone::clone).and_then(|state| {
            let step = state.step.ok_or_else(|| Error::invalid("no step is open in this writer"))?;
            Ok((step, state.bytes, state.staged.len() as u64, state.direct))
        });
        let (bytes, sent, direct) = checked.as_ref().map_or((0, 0, false), |(_, b, s, d)| (*b, *s, *d));
        let node = self.meeting.communicator.node();
        let said = self.meeting.hold(
            Act::EndStep,
            [bytes, sent, direct.into(), node],
            checked.as_ref().map(|_| ()).map_err(Clone::clone),
        )?;
        let mut state = state?;
        // From here on the step may become visible, whatever fails.
        state.last = state.step.map(|(step, _)| step).or(state.last);
        let plan = self.plan(&said);
        let any_direct = said.iter().any(|values| values[2] != 0);
        state.large = plan.is_none() && bytes > STAGE / 4;
        let written = if any_direct || plan.is_none() {
            attempt(|| {
                self.write_for_itself(&mut state)?;
                self.end_own(&mut state)
            })
        } else {
            self.write_for_others(&mut state, &plan, &said)
        };
        let writers = if any_direct { said.len() } else { plan.groups.len() };
        let outcome = if writers == 1 {
            self.written_by_one(&mut state, written)
        } else {
            self.meeting.hold(Act::Written, [0; 4], written.map(|_| ())).and_then(|_| {
                let done =
                    if self.meeting.rank() == 0 { attempt(|| self.commit().map(Some)) } else { Ok(None) };
                self.committed(done)
            })
        };
        state.step = None;
        state.forget();
        if let Err(e) = &outcome {
            if let Some(own) = state.own.as_mut().filter(|own| own.begun) {
                let _ = own.writer.abort_step(); // if it has ended already, a recovery settles it
                own.begun = false;
            }
            state.failed = Some(e.clone());
        }
        outcome
    }

    fn plan(&self, said: &[[u64; 4]]) -> Aggregation {
        let loads: Vec<u64> = said.iter().map(|values| values[0]).collect();
        let nodes: Vec<u64> = said.iter().map(|values| values[3]).collect();
        match self.options.writers {
            Some(writers) => Aggregation::of_writers(loads.len(), writers as usize),
            None => Aggregation::cheapest(&loads, &nodes, &costs(&self.container, self.processors)),
        }
    }

    /// The end of a step with one writer, rank 0, which has committed. The others can only have failed to close what
    /// they wrote in earlier steps. That does not affect this step, and waits for the next meeting.
    fn written_by_one(&self, state: &mut State, written: Result<Option<Arc<Snapshot>>>) -> Result<u64> {
        if self.meeting.rank() == 0 {
            return self.committed(written);
        }
        let version = self.committed(Ok(None))?;
        state.failed = written.err();
        Ok(version)
    }

    /// Commits the blocks that all ranks have written.
    fn commit(&self) -> Result<Arc<Snapshot>> {
        let done = self.container.commit()?;
        // The report of a team has no place for notes.
        done.notes.iter().for_each(|note| self.container.inner.warn(note.clone()));
        match done.incomplete.first() {
            Some(step) => Err(Error::conflict(step.to_string())),
            None => Ok(done.snapshot),
        }
    }

    /// Passes the snapshot that rank 0 committed to all ranks, which move their handles there. The manifest is sent
    /// along; otherwise all ranks would open its file.
    fn committed(&self, done: Result<Option<Arc<Snapshot>>>) -> Result<u64> {
        let done = done.and_then(|snapshot| match snapshot {
            Some(snapshot) => {
                Ok(([snapshot.version(), 0, 0, 0], snapshot.manifest.encode().unwrap_or_default()))
            }
            None if self.meeting.rank() > 0 => Ok(Default::default()),
            None => Err(Error::invalid("the writer of a step has not committed it")),
        });
        let (values, manifest) = self.meeting.tell(Act::Committed, done)?;
        let version = values[0];
        if !self.container.is_closed() {
            self.container.inner.move_to(version, &manifest)?;
        }
        Ok(version)
    }

    /// This rank's writer as number `rank` of `nranks`, with the step begun in it.
    fn own(&self, state: &mut State, rank: u32, nranks: u32) -> Result<()> {
        let (step, replace) = state.step.ok_or_else(|| Error::invalid("no step is open in this writer"))?;
        if let Some(own) = state.own.take_if(|own| (own.rank, own.nranks) != (rank, nranks)) {
            own.writer.close()?;
        }
        if state.own.is_none() {
            let options =
                WriterOptions { rank: Some((rank, nranks)), run: Some(self.run), ..WriterOptions::default() };
            // The commit follows once all ranks have written.
            let writer = Writer::open_as(self.container.inner.clone(), options, Promise::Manifest)?;
            state.own = Some(Own { writer, rank, nranks, begun: false });
        }
        if let Some(own) = state.own.as_mut().filter(|own| !own.begun) {
            own.writer.begin_step(Some(step), replace)?;
            own.begun = true;
        }
        Ok(())
    }

    /// Makes this rank write its blocks itself, now and until the step ends.
    fn write_for_itself(&self, state: &mut State) -> Result<()> {
        if state.direct {
            return Ok(());
        }
        self.own(state, self.meeting.rank(), self.meeting.size())?;
        state.direct = true;
        let staged = std::mem::take(&mut state.staged);
        match &state.own {
            Some(own) => put_all(&self.container, &own.writer, &Staged::receive(&staged)?, &mut Vec::new()),
            None => Ok(()),
        }
    }

    /// Ends the step of this rank's writer. Returns the snapshot if that was the only writer and has committed.
    fn end_own(&self, state: &mut State) -> Result<Option<Arc<Snapshot>>> {
        let Some(own) = state.own.as_mut() else { return Ok(None) };
        let committed = own.writer.end_step()?;
        own.begun = false;
        Ok(committed.map(|done| {
            done.notes.iter().for_each(|note| self.container.inner.warn(note.clone()));
            done.snapshot
        }))
    }

    /// Sends waiting blocks to the rank that writes them. If this rank is such a rank, writes the received blocks.
    fn write_for_others(
        &self,
        state: &mut State,
        plan: &Aggregation,
        said: &[[u64; 4]],
    ) -> Result<Option<Arc<Snapshot>>> {
        let me = self.meeting.rank() as usize;
        let number = plan.group_of(me);
        let group = plan.groups.get(number).cloned().unwrap_or(me..me + 1);
        let writes = group.start == me;
        let mut send_sizes = vec![0; said.len()];
        let mut receive_sizes = vec![0; said.len()];
        let mut own_blocks = std::mem::take(&mut state.staged);
        let mut received = std::mem::take(&mut state.received);
        if writes {
            for rank in group.start + 1..group.end {
                receive_sizes[rank] = said[rank][1];
            }
        } else {
            send_sizes[group.start] = own_blocks.len() as u64;
        }
        let all = receive_sizes.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
        let all =
            usize::try_from(all).map_err(|_| Error::corrupt("ranks say they send more than memory holds"))?;
        let sent = if writes { &[][..] } else { &own_blocks[..] };
        let others = room(&mut received, all);
        self.meeting.communicator.exchange(sent, &send_sizes, others, &receive_sizes)?;
        let written = attempt(|| {
            if !writes {
                return match state.own.take() {
                    Some(own) => own.writer.close().map(|()| None),
                    None => Ok(None),
                };
            }
            self.own(state, number as u32, plan.groups.len() as u32)?;
            // This rank is the first of the ranks for which it writes, so its blocks come first.
            let mut blocks = Staged::receive(&own_blocks)?;
            blocks.extend(Staged::receive(others)?);
            let State { own, joined, .. } = state;
            if let Some(own) = own {
                put_all(&self.container, &own.writer, &blocks, joined)?;
            }
            self.end_own(state)
        });
        own_blocks.clear();
        (state.staged, state.received) = (own_blocks, received);
        written
    }

    /// Discards the open step on all ranks.
    pub fn abort_step(&self) -> Result<()> {
        let mut state = lock(&self.state);
        state.forget();
        let dropped = match state.own.as_mut().filter(|own| own.begun) {
            Some(own) => {
                own.begun = false;
                attempt(|| own.writer.abort_step())
            }
            None => Ok(()),
        };
        state.step = None;
        self.meeting.hold(Act::AbortStep, [0; 4], dropped).map(|_| ())
    }

    /// Closes the writer on all ranks, and commits values without step. An open step is discarded, which is reported
    /// as an error.
    pub fn close(&self) -> Result<()> {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.closed, true) {
            return Ok(());
        }
        let (own, loose, step) = (state.own.take(), state.loose.take(), state.step.take());
        state.staged.clear();
        let closed = attempt(|| {
            let closed = own.map_or(Ok(()), |own| own.writer.close());
            loose.map_or(Ok(()), |loose| loose.close())?;
            match step {
                Some((open, _)) => Err(Error::invalid(format!(
                    "the writer was closed with step {open} open: its blocks are dropped; end the step before closing"
                ))),
                None => closed,
            }
        });
        if self.meeting.has_parted() {
            return closed;
        }
        self.meeting.hold(Act::Close, [0; 4], closed)?;
        if self.container.is_closed() {
            return Ok(());
        }
        self.container.refresh().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use drystone_format::identity::Durability;
    use drystone_plan::aggregation::Aggregation;

    use super::{at_once, rough};

    /// Symptom: 8 ranks of 64 KiB on two cores each wrote for themselves, which took 1.6 times as long as one writer.
    /// The model assumed messages to be four times as slow as they are, and two writers to be twice as fast as one
    /// while six other ranks wait.
    #[test]
    fn small_blocks_on_few_processors_are_written_by_one() {
        let writers = |load: u64, durability| {
            let costs = rough(durability, 2.2e9, 1e-3, 2);
            Aggregation::cheapest(&[load; 8], &[0; 8], &costs).groups.len()
        };
        let sizes = [1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
        assert_eq!(sizes.map(|load| writers(load, Durability::Async)), [1, 1, 1, 8, 8]);
        assert_eq!(sizes.map(|load| writers(load, Durability::Durable)), [1, 1, 1, 1, 8]);
    }

    #[test]
    fn ranks_that_have_a_processor_each_run_all_at_once() {
        let found = [&[1, 1, 1][..], &[2, 2], &[1, 4], &[]].map(|allowed| at_once(allowed.iter().copied()));
        assert_eq!(found, [usize::MAX, 2, 4, usize::MAX]);
    }
}
