//! Exact counts of requests and bytes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests by kind: `GET`, `HEAD`, `PUT`, `LIST`, `DELETE`, `CREATE_UPLOAD`, `PUT_PART`, and so on.
    pub requests: BTreeMap<String, u64>,
    /// Answers by status; 0 counts replies that were never sent.
    pub answers: BTreeMap<u16, u64>,
    /// Bytes of request bodies.
    pub bytes_in: u64,
    /// Bytes of reply bodies that were sent.
    pub bytes_out: u64,
    /// The longest chain of requests in which each began after the previous one had ended.
    pub rounds: u64,
    /// The largest number of requests under way at once.
    pub peak: u64,
}

impl Counts {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }

    /// Requests of one kind.
    pub fn of(&self, kind: &str) -> u64 {
        self.requests.get(kind).copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
struct Now {
    counts: Counts,
    under_way: u64,
    // Requests of earlier generations, before a reset, are not counted.
    generation: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Now>);

/// A request under way.
pub(crate) struct Started {
    generation: u64,
    round: u64,
}

impl Tally {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.now().counts.clone()
    }

    pub(crate) fn reset(&self) {
        let mut now = self.now();
        *now = Now { generation: now.generation + 1, ..Now::default() };
    }

    pub(crate) fn start(&self, kind: &str) -> Started {
        let mut now = self.now();
        *now.counts.requests.entry(kind.to_owned()).or_default() += 1;
        now.under_way += 1;
        now.counts.peak = now.counts.peak.max(now.under_way);
        Started { generation: now.generation, round: now.counts.rounds + 1 }
    }

    /// Records that the last byte of the reply is about to be sent, or that nothing will be.
    pub(crate) fn end(&self, started: &Started, status: u16) {
        let mut now = self.now();
        if now.generation == started.generation {
            now.under_way = now.under_way.saturating_sub(1);
            *now.counts.answers.entry(status).or_default() += 1;
            now.counts.rounds = now.counts.rounds.max(started.round);
        }
    }

    pub(crate) fn bytes(&self, inward: u64, outward: u64) {
        let mut now = self.now();
        now.counts.bytes_in += inward;
        now.counts.bytes_out += outward;
    }
}
