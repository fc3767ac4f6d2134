//! Uploads parts of a log to a store without append: several segments are in flight while the next one is
//! filled.
//!
//! Invariants
//! - the idx of a part is put after its segment, and after segment and idx of every earlier part, are stored
//!   (and synced if requested): a reader that finds a step record finds the bytes that it names, and parts
//!   are recorded in order;
//! - a part whose commit follows at once is recorded only after the check whether the container was replaced;
//! - after a failure nothing more is put: parts that were handed over are dropped, and the writer is
//!   unusable;
//! - segments in flight have at most [`ROOM`] bytes together, unless a single one is longer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use drystone_store::{Pending, PutMode, Request};

use crate::Result;
use crate::base::metrics::add;
use crate::container::{Inner, Same};
use crate::log::segment::Whole;

/// The most bytes in flight. With a part of [`FAR_PART_LIMIT`](super::FAR_PART_LIMIT) that is being filled,
/// or a piece of one, this makes 32 MiB.
const ROOM: u64 = 24 << 20;

/// Parts that were handed over and may not be stored yet.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    parts: VecDeque<Upload>,
    /// The idx of the part before the first one.
    idx: Option<Pending>,
    /// The check that must be answered before the next idx is put.
    same: Option<Same>,
}

#[derive(Debug)]
struct Upload {
    segment: Option<Pending>,
    /// The key of the segment, if it is stored without a sync and needs one.
    unsynced: Option<String>,
    bytes: u64,
    idx: (String, Vec<u8>),
}

/// Counts waits for the link and their duration.
fn count(inner: &Inner, times: u64, time: Duration) {
    add(&inner.tally.stalls, times);
    add(&inner.tally.stall_microseconds, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
}

impl Uploads {
    /// Puts no further idx before this check is answered.
    pub(super) fn record_after(&mut self, same: Same) {
        self.same = Some(same);
    }

    /// Hands over a part: its segment, if it has one, and its idx with the key. Waits until the bytes in
    /// flight leave space for it.
    pub(super) fn push(
        &mut self,
        inner: &Inner,
        segment: Option<Whole>,
        idx: (String, Vec<u8>),
        sync: bool,
    ) -> Result<()> {
        let bytes = match &segment {
            None => 0,
            Some(Whole::Held(_, data)) => data.len() as u64,
            Some(Whole::Rising { bytes, waits, .. }) => {
                count(inner, waits.times, waits.time);
                *bytes
            }
        };
        let rises = matches!(segment, Some(Whole::Rising { .. }));
        if !self.has_room(bytes) {
            let begun = Instant::now();
            while !self.has_room(bytes) {
                self.next(inner, sync, true)?;
            }
            count(inner, 1, begun.elapsed());
        }
        let mut unsynced = None;
        let put = |segment| match segment {
            Whole::Held(key, data) => {
                inner.store.submit(Request::Put { key, data, mode: PutMode::IfAbsent, sync })
            }
            Whole::Rising { key, pending, .. } => {
                unsynced = Some(key).filter(|_| sync && !inner.store.features().put_is_durable);
                pending
            }
        };
        let segment = segment.map(put);
        self.parts.push_back(Upload { segment, unsynced, bytes, idx });
        // Waits for all uploads if this part came in pieces: the next part may, too, and pieces use the whole
        // budget.
        while self.next(inner, sync, rises)? {}
        Ok(())
    }

    /// Waits until everything handed over is stored.
    pub(super) fn settle(&mut self, inner: &Inner, sync: bool) -> Result<()> {
        while self.next(inner, sync, true)? {}
        self.same.take().map_or(Ok(()), |same| same.require(inner))
    }

    fn has_room(&self, bytes: u64) -> bool {
        let under_way: u64 = self.parts.iter().map(|part| part.bytes).sum();
        self.parts.is_empty() || under_way.saturating_add(bytes) <= ROOM
    }

    /// Takes the next step that is possible without waiting, or with `wait` the next one. Returns `false` if
    /// there is none.
    fn next(&mut self, inner: &Inner, sync: bool, wait: bool) -> Result<bool> {
        let done = self.advance(inner, sync, wait);
        if done.is_err() {
            self.parts.clear();
        }
        done
    }

    fn advance(&mut self, inner: &Inner, sync: bool, wait: bool) -> Result<bool> {
        if let Some(idx) = self.idx.take_if(|idx| wait || idx.is_ready()) {
            idx.wait()?;
            return Ok(true);
        }
        let Some(first) = self.parts.front_mut().filter(|_| self.idx.is_none()) else { return Ok(false) };
        if let Some(segment) = first.segment.take_if(|segment| wait || segment.is_ready()) {
            segment.wait()?;
            let sync = |key| inner.store.submit(Request::Sync { keys: vec![key] });
            first.segment = first.unsynced.take().map(sync);
            if first.segment.is_some() {
                return Ok(true);
            }
        }
        if first.segment.is_some() {
            return Ok(false);
        }
        if let Some(same) = self.same.take() {
            same.require(inner)?;
        }
        let Some(Upload { idx: (key, data), .. }) = self.parts.pop_front() else { return Ok(false) };
        self.idx = Some(inner.store.submit(Request::Put { key, data, mode: PutMode::IfAbsent, sync }));
        Ok(true)
    }
}
