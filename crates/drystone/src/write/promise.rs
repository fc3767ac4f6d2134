//! Durability points: ends a step with the final frame of its group, commits it, and ends the log.
//!
//! Invariants
//! - the final frame of a group is appended after everything that it covers was handed to the store (`durable`:
//!   synced), or once a synced manifest covers it (docs/decisions/007-small-commits.md);
//! - a closed log has been handed over completely.

use std::collections::BTreeSet;

use drystone_format::frame::FrameKind;
use drystone_format::keys;
use drystone_format::log::{GroupEntries, GroupHead};

use drystone_plan::tier::level::Level;

use super::{State, Writer, derived};
use crate::base::random;
use crate::base::sync::lock;
use crate::commit::adoption;
use crate::commit::transaction::Committed;
use crate::log::scan::{PartFrom, Tail};
use crate::{Error, Result};

/// The record that makes a step durable in containers with durability `durable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The step record in the log: a commit may follow at any time.
    Record,
    /// The manifest of a commit that follows at once. The step record need not be synced
    /// (docs/decisions/007-small-commits.md).
    Manifest,
}

impl Writer {
    /// Ends the step: writes its step record and, for `nranks` = 1, commits it.
    pub fn end_step(&self) -> Result<Option<Committed>> {
        let mut state = self.state()?;
        let Some(open) = &state.open else {
            return Err(Error::invalid("no step is open in this writer"));
        };
        let closing = (Some(open.step), open.group.unwrap_or(state.groups));
        let alone = self.shared.rank.is_some_and(|r| r.nranks == 1);
        if !alone {
            self.waits(closing);
        }
        let same = alone && self.ask_same(&mut state);
        let finished = self.guard(&mut state, |w, state| {
            let later = w.finish_group(state)?;
            Ok((state.parts(), later))
        });
        let (parts, later) = finished.inspect_err(|_| self.waits(closing))?;
        if !alone {
            return Ok(None);
        }
        if let Some((end, tail)) = later {
            let done = self.commit_and_record(&mut state, end, &tail, closing)?;
            drop(state);
            return Ok(Some(derived::follow(&self.shared.inner, done)));
        }
        let tail = state.tail();
        drop(state);
        let log = (&parts[..], tail.as_ref());
        let done = self.commit_own(log, &BTreeSet::new(), (true, same), closing)?;
        self.remember_watermark(&mut lock(&self.shared.state), &done);
        Ok(Some(derived::follow(&self.shared.inner, done)))
    }

    /// Records that a group, by its step and number, waits for a commit. Groups that the writer commits by itself wait
    /// only if that fails.
    fn waits(&self, (step, group): (Option<u64>, u64)) {
        self.shared.inner.waiting.add(self.shared.id, step, group);
    }

    /// Commits what this writer closed, last the group `closing`.
    fn commit_own(
        &self,
        log: (&[PartFrom], Option<&Tail>),
        unsynced: &BTreeSet<String>,
        how: (bool, bool),
        closing: (Option<u64>, u64),
    ) -> Result<Committed> {
        let done =
            adoption::commit_own(&self.shared.inner, self.shared.id, self.own_fence(), log, unsynced, how);
        done.inspect_err(|_| self.waits(closing))
    }

    /// Starts the check whether the container was replaced, while the last bytes are uploaded. Nothing is
    /// recorded before the answer. Returns false if the log is appended to: then the commit checks.
    fn ask_same(&self, state: &mut State) -> bool {
        let asked = !self.appends();
        if asked {
            state.uploads.record_after(self.shared.inner.ask_same());
        }
        asked
    }

    /// Commits the step before its record, which ends at `end`, is in the log. The device can then write
    /// segment and manifest at the same time. The record is written once the segment is on stable storage
    /// (docs/decisions/007-small-commits.md).
    fn commit_and_record(
        &self,
        state: &mut State,
        end: u64,
        tail: &Tail,
        closing: (Option<u64>, u64),
    ) -> Result<Committed> {
        let s = &self.shared;
        let mut parts = state.done.clone();
        parts.push(PartFrom { part: state.part.number, watermark: 0, len: end });
        let done = self.commit_own((&parts[..], Some(tail)), &state.unsynced, (true, false), closing);
        let recorded = self.guard(state, |w, state| {
            match &done {
                Ok(done) if done.changed => state.unsynced.clear(),
                _ => w.sync_segments(state)?,
            }
            state.part.idx_flush(&s.inner, s.id)
        });
        let done = done?;
        recorded.map_err(|e| e.while_doing("continuing the log after the step was committed"))?;
        self.remember_watermark(state, &done);
        Ok(done)
    }

    /// Ends the step and returns when it has reached this level. `end_step` alone leaves it in a tier, or in
    /// the home store of a container without tiers. At level `partner`, other nodes hold a copy, or it is at
    /// home if no node can; at `stable`, it is synced at home. If other processes commit the step, the level
    /// is that of its log.
    pub fn end_step_at(&self, level: Level) -> Result<Option<Committed>> {
        let step = self.state()?.open.as_ref().map(|open| open.step);
        let done = self.end_step()?;
        match (level, step) {
            (Level::Partner, Some(step)) => {
                let ranks = self.shared.rank.map_or(1, |rank| rank.nranks);
                self.shared.inner.reach_partner(self.shared.id, step, ranks)?;
            }
            _ if level > Level::Node => self.shared.inner.drain_writer(self.shared.id)?,
            _ => {}
        }
        if level == Level::Stable {
            match &done {
                Some(_) => self.shared.inner.flush().map(drop)?,
                None => self.sync()?,
            }
        }
        Ok(done)
    }

    fn remember_watermark(&self, state: &mut State, done: &Committed) {
        if !self.durable() {
            return;
        }
        let (s, part) = (&self.shared, state.part.number);
        let own = |sources: Vec<drystone_format::source::Source>| {
            sources.into_iter().find(|at| at.kind == 0 && at.writer == s.id && at.part == part)
        };
        let found = done.snapshot.sources(&s.inner.pages).ok().and_then(own);
        state.settled = found.map(|source| (part, source.watermark));
    }

    /// Commits values that were put without a step; the writer stays open. Returns `false` and does nothing
    /// if the log cannot be appended to: then [close](Self::close) it instead. A program that changes values
    /// repeatedly thus fills one log, rather than one per change.
    pub fn commit(&self) -> Result<bool> {
        if !self.appends() {
            return Ok(false);
        }
        let mut state = self.state()?;
        if state.loose.is_empty() {
            return Ok(true);
        }
        let closing = (None, state.groups);
        let parts = self.guard(&mut state, |w, state| {
            w.end_loose(state)?;
            Ok(state.parts())
        });
        let parts = parts.inspect_err(|_| self.waits(closing))?;
        let tail = state.part.tail();
        drop(state);
        let s = &self.shared;
        let steps = s.rank.is_some_and(|r| r.nranks == 1);
        let log = (&parts[..], tail.as_ref());
        let done = self.commit_own(log, &BTreeSet::new(), (steps, false), closing)?;
        self.remember_watermark(&mut lock(&s.state), &done);
        derived::follow(&s.inner, done);
        Ok(true)
    }

    /// Closes the log and commits values without step. An open step is discarded, which is reported as an
    /// error.
    pub fn close(&self) -> Result<()> {
        self.close_and(true)
    }

    /// As [`close`](Self::close), but leaves values without step to [`crate::Container::commit_sealed`], so that the
    /// values of many writers become visible in one commit.
    pub fn seal(&self) -> Result<()> {
        self.close_and(false)
    }

    fn close_and(&self, commit: bool) -> Result<()> {
        let mut state = lock(&self.shared.state);
        if state.closed || self.shared.pid != drystone_store::process_id() {
            return Ok(());
        }
        state.closed = true;
        if state.failed.is_some() {
            return Ok(()); // reported when it happened
        }
        let dropped = state.open.take();
        let loose = !state.loose.is_empty();
        let steps = self.shared.rank.is_some_and(|r| r.nranks == 1);
        let same = loose && commit && self.ask_same(&mut state);
        if loose && commit && !steps {
            adoption::ask_for_others(&self.shared.inner);
        }
        let closing = (None, state.groups);
        if loose
            || state.part.idx_frames > 1
            || !state.done.is_empty()
            || dropped.as_ref().is_some_and(|o| o.frames > 0)
        {
            let finished = self.guard(&mut state, |w, state| {
                if dropped.as_ref().is_some_and(|o| o.frames > 0) {
                    state.part.idx_push(FrameKind::Abort, &[]);
                }
                w.finish_loose(state)
            });
            if loose && commit && finished.is_err() {
                self.waits(closing);
            }
            finished?;
        }
        let (parts, tail) = (state.parts(), state.tail());
        drop(state);
        if loose && commit {
            let done = self.commit_own((&parts, tail.as_ref()), &BTreeSet::new(), (steps, same), closing)?;
            derived::follow(&self.shared.inner, done);
        }
        match dropped {
            Some(open) => Err(Error::invalid(format!(
                "the writer was closed with step {} open: its blocks are dropped; end the step before closing",
                open.step
            ))),
            None => Ok(()),
        }
    }

    /// The fence that a recovery must not have passed. `None` for writers without ranks, which are never shut
    /// out.
    fn own_fence(&self) -> Option<u64> {
        self.shared.rank.map(|_| self.shared.fence)
    }

    /// Writes the open group's final frame in the order that makes it durable. Returns the frame and its end
    /// instead if it is to be written after the commit.
    fn finish_group(&self, state: &mut State) -> Result<Option<(u64, Tail)>> {
        let Some(mut open) = state.open.take() else { return Ok(None) };
        state.generation += 1;
        state.last_step = Some(open.step).max(state.last_step);
        let group = open.group.unwrap_or(state.groups);
        if open.group.is_none() {
            state.groups += 1;
        }
        let head = GroupHead {
            step: Some(open.step),
            last: true,
            replace: open.replace,
            group,
            part: open.frames,
            entries: open.written + open.entries.len(),
            variables: std::mem::take(&mut open.variables).into_iter().collect(),
            closed: random::later(),
        };
        self.promise(state, &head, open.entries)
    }

    /// Hands over the data, then the final frame unless that is written after the commit.
    fn promise(
        &self,
        state: &mut State,
        head: &GroupHead,
        entries: GroupEntries,
    ) -> Result<Option<(u64, Tail)>> {
        let s = &self.shared;
        state.part.idx_push_last(head, entries);
        if !self.appends() {
            self.stage(state, head.step)?;
            self.roll(state)?;
            state.uploads.settle(&s.inner, self.durable())?;
            return Ok(None);
        }
        state.part.segment.end()?;
        if state.part.segment.has_content() {
            state.unsynced.insert(state.part.segment.key().to_string());
        }
        let committed_at_once = head.step.is_some() && s.promise == Promise::Manifest;
        let alone = s.rank.is_some_and(|rank| rank.nranks == 1);
        let all_settled = state.settled == Some((state.part.number, state.part.idx_len));
        if self.durable() && committed_at_once && alone && state.part.header_synced && all_settled {
            let later = state.part.pending_tail();
            if later.is_some() {
                return Ok(later); // see `commit_and_record`
            }
        }
        self.sync_segments(state)?;
        state.part.idx_flush(&s.inner, s.id)?;
        // If a commit follows at once, the synced manifest makes the step durable. Only the header of the idx
        // must survive: a log that cannot be recognised counts as damage.
        if self.durable() && !(committed_at_once && state.part.header_synced) {
            s.inner.store.sync(&[&keys::idx(s.id, state.part.number)])?;
            state.part.header_synced = true;
        }
        Ok(None)
    }

    /// With tiers: closes the part, and registers at home the parts that are not there, before any record
    /// that needs them.
    fn stage(&self, state: &mut State, step: Option<u64>) -> Result<()> {
        let Some(tiers) = self.tiers() else { return Ok(()) };
        let s = &self.shared;
        state.part.segment.flush()?;
        tiers.store.close_part_at(state.part.segment.key(), step);
        match self.durable() {
            true => s.inner.drain_writer(s.id)?,
            false => tiers.store.register(s.id)?,
        }
        tiers.wake();
        Ok(())
    }

    /// Writes values without step as a group.
    fn end_loose(&self, state: &mut State) -> Result<()> {
        if !state.loose.is_empty() {
            let entries = std::mem::take(&mut state.loose);
            let head = GroupHead {
                step: None,
                last: true,
                replace: false,
                group: state.groups,
                part: 0,
                entries: entries.len(),
                variables: std::mem::take(&mut state.loose_variables).into_iter().collect(),
                closed: random::later(),
            };
            state.groups += 1;
            self.promise(state, &head, entries)?;
        }
        Ok(())
    }

    /// Writes values without step as a group, and closes the part.
    fn finish_loose(&self, state: &mut State) -> Result<()> {
        self.end_loose(state)?;
        if self.appends() || state.part.idx_frames > 1 {
            self.seal_log(state)?;
        }
        state.uploads.settle(&self.shared.inner, self.durable())
    }

    fn sync_segments(&self, state: &mut State) -> Result<()> {
        if self.durable() {
            let keys: Vec<&str> = state.unsynced.iter().map(String::as_str).collect();
            if !keys.is_empty() {
                self.shared.inner.store.sync(&keys)?;
            }
        }
        state.unsynced.clear();
        Ok(())
    }

    /// Ends the current part: hands over everything and writes CLOSE. On stores without append it begins the
    /// upload.
    pub(super) fn seal_log(&self, state: &mut State) -> Result<()> {
        let s = &self.shared;
        state.part.idx_push(FrameKind::Close, &[]);
        if !self.appends() {
            let segment = state.part.segment.take_whole()?;
            if let Some(tiers) = self.tiers() {
                tiers
                    .store
                    .close_part_at(state.part.segment.key(), state.open.as_ref().map(|open| open.step));
                tiers.wake();
            }
            let idx = state.part.take_idx(s.id);
            return state.uploads.push(&s.inner, segment, idx, self.durable());
        }
        state.part.segment.flush()?;
        if state.part.segment.has_content() {
            state.unsynced.insert(state.part.segment.key().to_string());
        }
        self.sync_segments(state)?;
        state.part.idx_flush(&s.inner, s.id)?;
        if self.durable() {
            s.inner.store.sync(&[&keys::idx(s.id, state.part.number)])?;
        }
        Ok(())
    }
}

impl State {
    /// The ended parts whose files may not be on stable storage.
    pub(super) fn unsynced_parts(&self) -> impl Iterator<Item = &PartFrom> {
        self.done.iter().skip(self.synced)
    }

    /// The end of the log, if known. After a part was ended, an empty one follows, and the end is that of the
    /// ended part.
    fn tail(&self) -> Option<Tail> {
        if self.part.idx_len > 0 { self.part.tail() } else { self.ended.clone() }
    }

    /// All parts with their lengths, for a commit of this writer.
    fn parts(&self) -> Vec<PartFrom> {
        let mut parts = self.done.clone();
        if self.part.idx_len > 0 {
            parts.push(PartFrom { part: self.part.number, watermark: 0, len: self.part.idx_len });
        }
        parts
    }
}
