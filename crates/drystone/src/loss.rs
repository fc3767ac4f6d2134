//! What a container has lost: manifests and bytes that are named and not there (docs/decisions/090-lost-files.md).
//!
//! A power cut may take what was not flushed, and falling back then is right. The same boot of the machine that wrote the bytes cannot
//! have lost them to a power cut: then the files were removed or cut, and an older snapshot would be a wrong answer.
//!
//! Invariants
//! - no payload is read: what is checked here is names and lengths;
//! - nothing is committed over snapshots that were passed over, until a recovery has settled them.

use std::collections::BTreeSet;

use drystone_format::keys;
use drystone_format::log::FileHeader;
use drystone_format::steps::{StepRun, Steps};
use drystone_store::Store;

use crate::container::{Container, Inner, lock};
use crate::snapshot::Snapshot;
use crate::verify::{Damage, check_logs};
use crate::{Error, ErrorKind, Result, head, log_scan, process};

/// What opening does about a snapshot that is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Falls back only where a power cut explains the loss.
    Reading,
    /// Falls back, and commits nothing before a recovery.
    Writing,
    /// Falls back to whatever can be read: the caller asked for it.
    Damaged,
}

/// One object, or the snapshot it stands for, that is not there whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) key: String,
    pub(crate) message: String,
    /// A snapshot above the one that is shown; `false`: bytes that the shown one needs.
    pub(crate) passed_over: bool,
}

/// Everything that was found lost on the way to a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) found: Vec<Loss>,
    /// Steps that the snapshots passed over show, as far as these can be read, and the one that was reached does not.
    pub(crate) steps: BTreeSet<u64>,
}

impl Losses {
    pub(crate) fn add(&mut self, key: String, message: String, passed_over: bool) {
        self.found.push(Loss { key, message, passed_over });
    }

    /// Why nothing may be committed, if so.
    pub(crate) fn passed_over(&self) -> Option<&str> {
        self.found.iter().find(|loss| loss.passed_over).map(|loss| loss.message.as_str())
    }
}

/// Log files whose headers are looked at for the boot in which they were written.
const MOST_HEADERS: usize = 256;

/// Were the newest things that can be read, up to a version, written within this boot of the machine? Then no power cut has taken what
/// came after them.
pub(crate) fn is_of_this_boot(store: &dyn Store, uuid: &[u8; 16], version: u64) -> Result<bool> {
    let Some(boot) = boot_of(store) else { return Ok(false) };
    let mut version = version;
    while version > 0 {
        match head::read_manifest(store, version, uuid) {
            Ok(manifest) => return Ok(manifest.boot.as_deref() == Some(boot)),
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {}
            Err(e) => return Err(e),
        }
        version = head::below(store, version)?;
    }
    let headers = headers(store, uuid, MOST_HEADERS)?;
    Ok(!headers.is_empty() && headers.iter().all(|(_, h)| process::is_of_boot(&h.process, boot)))
}

/// The boot of this machine, where the store is one whose bytes it keeps.
pub(crate) fn boot_of(store: &dyn Store) -> Option<&'static str> {
    process::boot().filter(|_| store.device().is_some())
}

/// Keys and headers of files of step records, at most so many.
pub(crate) fn headers(store: &dyn Store, uuid: &[u8; 16], most: usize) -> Result<Vec<(String, FileHeader)>> {
    let mut out = Vec::new();
    for item in store.list("log/")? {
        if matches!(keys::parse_log(&item.key), Some((.., true))) && out.len() < most {
            out.extend(log_scan::header(store, &item.key, uuid)?.map(|header| (item.key, header)));
        }
    }
    Ok(out)
}

/// Steps of a snapshot that was passed over which the one that was reached does not show.
pub(crate) fn given_up(passed: &[Snapshot], reached: &Snapshot) -> BTreeSet<u64> {
    // The newest of them have the most steps.
    passed.iter().take(16).flat_map(|snapshot| missing(&snapshot.steps, &reached.steps)).collect()
}

/// The newest steps of a list that another one has not.
pub(crate) fn missing(steps: &Steps, others: &Steps) -> BTreeSet<u64> {
    // From the end: a list may claim any number of steps.
    let of = |run: &StepRun| {
        let run = *run;
        (0..run.count).rev().map(move |n| run.first.saturating_add(n.saturating_mul(run.stride)))
    };
    let newest = steps.runs.iter().rev().flat_map(of).take(MOST_STEPS);
    newest.filter(|step| !others.contains(*step)).collect()
}

/// Older steps are not named one by one.
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

impl Inner {
    /// Takes note of what a look for the newest snapshot found lost.
    pub(crate) fn set_losses(&self, losses: Losses) {
        *lock(&self.losses) = losses;
    }

    /// Refuses what would be committed over snapshots that were passed over.
    pub(crate) fn require_whole(&self) -> Result<()> {
        match lock(&self.losses).passed_over() {
            None => Ok(()),
            Some(why) => Err(Error::corrupt(format!(
                "{} is not changed: {why}; restore the files, or call recover() (drystone recover), which says what is given up",
                self.store.describe()
            ))),
        }
    }
}

impl Container {
    /// What the newest snapshot names and that is not there: lost manifests, and files of the log that are missing or too short. Looks at
    /// names and lengths only; [`Container::verify`] reads everything.
    pub fn lost(&self) -> Result<Vec<Damage>> {
        self.inner.require_open()?;
        let mut out: Vec<Damage> = Vec::new();
        for Loss { key, message, .. } in lock(&self.inner.losses).clone().found {
            out.push(Damage { key, variable: None, step: None, message });
        }
        let known: BTreeSet<String> = out.iter().map(|damage| damage.key.clone()).collect();
        match check_logs(&self.inner, &self.snapshot()) {
            Ok(short) => out.extend(short.into_iter().filter(|d| !known.contains(&d.key))),
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                out.push(Damage { key: "index".into(), variable: None, step: None, message: e.to_string() });
            }
            Err(e) => return Err(e),
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn steps_are_named_as_runs() {
        assert_eq!(super::in_words(&[4].into()), "step 4");
        assert_eq!(super::in_words(&[1, 3, 4, 5, 9].into()), "steps 1, 3..5, 9");
    }
}
