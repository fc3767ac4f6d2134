//! Closed groups that wait for a commit, as far as this process knows: what its writers closed, and what it found in
//! the logs when a ranked writer was opened or values without step were committed.
//!
//! Why: a writer that commits its own step must take older values of that step into the same commit, or they would win
//! with a later one. Without this record, every such commit would have to list the logs.
//!
//! Invariants
//! - a step that others commit is recorded before it takes the time of closing, so no step that is closed later misses
//!   it;
//! - a record that is out of date costs a listing, and changes no commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use drystone_format::steps::Steps;
use drystone_store::Pending;

use crate::base::sync::lock;

/// What one writer closed.
#[derive(Default)]
struct Closed {
    /// Runs of steps: a process that never commits must not fill its memory.
    steps: Steps,
    /// Values without step.
    loose: bool,
    /// The number of groups up to the last closed one.
    groups: u64,
}

impl Closed {
    fn is_of(&self, step: Option<u64>) -> bool {
        step.map_or(self.loose, |step| self.steps.contains(step))
    }
}

/// The waiting groups of one container, shared by all handles of the process.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<BTreeMap<u64, Closed>>);

/// When a handle looked last at the logs of other programs, and the list of these logs if it has been requested.
#[derive(Default)]
pub(crate) struct Looked {
    pub(crate) last: Option<Instant>,
    pub(crate) names: Option<Pending>,
}

impl Looked {
    /// Whether the last look is at least this old.
    pub(crate) fn is_due(&self, age: Duration) -> bool {
        self.last.is_none_or(|last| last.elapsed() >= age)
    }
}

impl Waiting {
    /// Those of the container with this uuid.
    pub(super) fn of(uuid: [u8; 16]) -> Arc<Waiting> {
        static CONTAINERS: Mutex<BTreeMap<[u8; 16], Weak<Waiting>>> = Mutex::new(BTreeMap::new());
        let mut containers = lock(&CONTAINERS);
        if let Some(known) = containers.get(&uuid).and_then(Weak::upgrade) {
            return known;
        }
        containers.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Waiting::default());
        containers.insert(uuid, Arc::downgrade(&new));
        new
    }

    /// Records that a group of a writer, by its number, waits or will wait for a commit.
    pub(crate) fn add(&self, writer: u64, step: Option<u64>, group: u64) {
        let mut writers = lock(&self.0);
        let closed = writers.entry(writer).or_default();
        match step {
            Some(step) => closed.steps.insert(step),
            None => closed.loose = true,
        }
        closed.groups = closed.groups.max(group.saturating_add(1));
    }

    /// The number of groups up to the last one that this writer is recorded to have closed.
    pub(crate) fn groups_of(&self, writer: u64) -> u64 {
        lock(&self.0).get(&writer).map_or(0, |closed| closed.groups)
    }

    /// Records that a commit took the first `groups` groups of this writer; without `steps`, only values without step.
    pub(crate) fn took(&self, writer: u64, steps: bool, groups: u64) {
        let mut writers = lock(&self.0);
        // The writer may have closed more since.
        let Some(closed) = writers.get_mut(&writer).filter(|closed| closed.groups == groups) else { return };
        closed.loose = false;
        if steps || closed.steps.is_empty() {
            writers.remove(&writer);
        }
    }

    /// Whether nothing is recorded.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Whether anything of other writers is recorded.
    pub(crate) fn has_others(&self, writer: u64) -> bool {
        lock(&self.0).keys().any(|other| *other != writer)
    }

    /// The other writers that closed something of these steps; `None` stands for values without step.
    pub(crate) fn others(&self, writer: u64, steps: &BTreeSet<Option<u64>>) -> BTreeSet<u64> {
        let writers = lock(&self.0);
        let others = writers.iter().filter(|(other, _)| **other != writer);
        others.filter(|(_, closed)| steps.iter().any(|step| closed.is_of(*step))).map(|(id, _)| *id).collect()
    }

    /// Keeps the writers for which `waits` holds, given how many groups each has closed.
    pub(crate) fn retain(&self, mut waits: impl FnMut(u64, u64) -> bool) {
        lock(&self.0).retain(|writer, closed| waits(*writer, closed.groups));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(step: Option<u64>) -> BTreeSet<Option<u64>> {
        [step].into()
    }

    #[test]
    fn handles_of_one_container_share_what_waits() {
        let (a, b) = (Waiting::of([1; 16]), Waiting::of([1; 16]));
        a.add(7, Some(3), 0);
        assert_eq!(b.others(8, &asked(Some(3))), [7].into());
        assert!(b.others(7, &asked(Some(3))).is_empty(), "a writer does not wait for itself");
        assert!(b.others(8, &asked(Some(4))).is_empty() && b.others(8, &asked(None)).is_empty());
        assert!(Waiting::of([2; 16]).is_empty());
    }

    #[test]
    fn what_a_commit_took_waits_no_more() {
        let waiting = Waiting::default();
        waiting.add(7, Some(3), 0);
        waiting.add(7, None, 1);
        waiting.took(7, false, 1);
        assert_eq!(waiting.others(8, &asked(None)), [7].into(), "closed since");
        waiting.took(7, false, waiting.groups_of(7));
        assert!(waiting.others(8, &asked(None)).is_empty());
        assert_eq!(waiting.others(8, &asked(Some(3))), [7].into());
        waiting.retain(|writer, groups| (writer, groups) == (7, 2));
        assert!(!waiting.is_empty());
        waiting.took(7, true, 2);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_million_steps_in_a_row_are_one_run() {
        let waiting = Waiting::default();
        (0..1_000_000).for_each(|step| waiting.add(7, Some(step), step));
        assert_eq!(lock(&waiting.0)[&7].steps.runs.len(), 1);
    }
}
