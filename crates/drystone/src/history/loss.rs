//! Losses of a container: manifests, and bytes that are named and do not exist (docs/decisions/090-lost-files.md).
//!
//! A power cut may destroy bytes that were not flushed; then falling back to an older snapshot is right. If the
//! machine has not been restarted since the bytes were written, no power cut explains the loss: files were removed or
//! truncated, and an older snapshot would be a wrong answer.
//!
//! Invariants
//! - no payload is read: only names and lengths are checked;
//! - no commit is made above snapshots that were passed over until a recovery has dealt with them.

use std::collections::BTreeSet;

use drystone_format::keys;
use drystone_format::log::FileHeader;
use drystone_format::steps::{StepRun, Steps};
use drystone_store::{Request, Store, StoreError};

use super::snapshot::Snapshot;
use crate::Result;
use crate::base::writer_process;
use crate::log::scan;

/// How opening treats an incomplete snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Falls back only if a power cut explains the loss.
    Reading,
    /// Falls back, and permits no commit before a recovery.
    Writing,
    /// Falls back to whatever can be read, as the caller requested.
    Damaged,
}

/// One lost object, or a snapshot that was lost with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) key: String,
    pub(crate) message: String,
    /// Whether it is a snapshot above the shown one. `false`: bytes that the shown snapshot needs.
    pub(crate) passed_over: bool,
}

/// All losses that were found on the way to a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) found: Vec<Loss>,
    /// Steps that the passed-over snapshots contain, as far as they can be read, and that the reached snapshot does
    /// not.
    pub(crate) steps: BTreeSet<u64>,
}

impl Losses {
    pub(crate) fn add(&mut self, key: String, message: String, passed_over: bool) {
        self.found.push(Loss { key, message, passed_over });
    }

    /// The reason why commits are refused, if they are.
    pub(crate) fn passed_over(&self) -> Option<&str> {
        self.found.iter().find(|loss| loss.passed_over).map(|loss| loss.message.as_str())
    }
}

/// The most log files whose headers are read to find the boot in which they were written.
pub(super) const MOST_HEADERS: usize = 256;

/// The boot of this machine, if the store keeps its bytes on this machine.
pub(crate) fn boot_of(store: &dyn Store) -> Option<&'static str> {
    writer_process::boot().filter(|_| store.device().is_some())
}

/// The number of headers that are prefetched together from a far store.
const TOGETHER: usize = 128;

/// Keys and headers of files of step records, up to a maximum. Empty if the store cannot list.
pub(crate) fn headers(store: &dyn Store, uuid: &[u8; 16], most: usize) -> Result<Vec<(String, FileHeader)>> {
    let mut out = Vec::new();
    let items = match store.list("log/") {
        Err(StoreError::Unsupported { .. }) => Vec::new(),
        items => items?,
    };
    let logs =
        items.into_iter().filter(|item| matches!(keys::parse_log(&item.key), Some((.., true)))).take(most);
    let logs: Vec<_> = logs.map(|item| (item.key, item.len.min(scan::HEAD))).collect();
    for some in logs.chunks(TOGETHER) {
        if store.features().far.is_some() {
            for (key, len) in some {
                // A hint only: the read itself reports a failure.
                drop(store.submit(Request::Expect { key: key.clone(), ranges: vec![(0, *len)] }));
            }
        }
        for (key, len) in some {
            out.extend(scan::header(store, key, *len, uuid)?.map(|header| (key.clone(), header)));
        }
    }
    Ok(out)
}

/// The steps of passed-over snapshots that the reached snapshot does not contain.
pub(crate) fn given_up(passed: &[Snapshot], reached: &Snapshot) -> BTreeSet<u64> {
    // The newest snapshots have the most steps.
    passed.iter().take(16).flat_map(|snapshot| missing(&snapshot.steps, &reached.steps)).collect()
}

/// The newest steps of one list that another list does not contain.
pub(crate) fn missing(steps: &Steps, others: &Steps) -> BTreeSet<u64> {
    // Counts from the end, since a list may claim any number of steps.
    let of = |run: &StepRun| {
        let run = *run;
        (0..run.count).rev().map(move |n| run.first.saturating_add(n.saturating_mul(run.stride)))
    };
    let newest = steps.runs.iter().rev().flat_map(of).take(MOST_STEPS);
    newest.filter(|step| !others.contains(*step)).collect()
}

/// The most steps that are listed individually.
const MOST_STEPS: usize = 1 << 12;

/// "step 3" or "steps 3..5, 9".
pub(crate) fn in_words(steps: &BTreeSet<u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &step in steps {
        match runs.last_mut() {
            Some((_, last)) if step == last.saturating_add(1) => *last = step,
            _ => runs.push((step, step)),
        }
    }
    let one = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}..{last}") }
    };
    let shown: Vec<String> = runs.iter().take(16).map(one).collect();
    let more = if runs.len() > 16 { ", …" } else { "" };
    format!("{} {}{more}", if steps.len() == 1 { "step" } else { "steps" }, shown.join(", "))
}

#[cfg(test)]
mod tests {
    #[test]
    fn steps_are_named_as_runs() {
        assert_eq!(super::in_words(&[4].into()), "step 4");
        assert_eq!(super::in_words(&[1, 3, 4, 5, 9].into()), "steps 1, 3..5, 9");
    }
}
