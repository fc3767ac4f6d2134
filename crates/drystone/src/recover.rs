//! Recovery after a run that died: decides about what was closed but not committed, and fences what is left.
//!
//! Under `async` it also looks behind the last flush: commits whose bytes a power cut took are passed over as a whole, and the
//! groups that survived are adopted again, each verified.

use std::collections::BTreeSet;
use std::sync::Arc;

use drystone_format::identity::Durability;
use drystone_plan::tree;

use crate::adoption::{self, Damaged, Incomplete, Scope, Verdict};
use crate::container::{Container, Inner};
use crate::log_scan::{Group, WriterLog};
use crate::snapshot::Snapshot;
use crate::verify::Checker;
use crate::{Error, ErrorKind, Result, transaction};

/// What to do with complete but uncommitted steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopt {
    /// Commit them.
    All,
    /// Drop them.
    None,
    /// Commit these, drop the others.
    Steps(BTreeSet<u64>),
}

/// What a recovery did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoverReport {
    /// Steps that became visible.
    pub adopted: Vec<u64>,
    /// Complete steps that were dropped because the caller said so.
    pub discarded: Vec<u64>,
    /// Steps that not all ranks had closed: dropped.
    pub incomplete: Vec<Incomplete>,
    /// Steps dropped because their bytes did not survive, and other things a person should know.
    pub notes: Vec<String>,
    /// Number of the run that begins now.
    pub run: u64,
    /// Snapshot that holds the result.
    pub version: u64,
}

struct Choice<'a> {
    adopt: &'a Adopt,
    broken: BTreeSet<(u64, u64)>,
}

impl Verdict for Choice<'_> {
    fn keep(&self, log: &WriterLog, group: &Group) -> bool {
        let wanted = match (self.adopt, group.step) {
            (Adopt::All, _) => true,
            (Adopt::None, _) => false,
            (Adopt::Steps(steps), Some(step)) => steps.contains(&step),
            (Adopt::Steps(_), None) => true,
        };
        wanted && !self.broken.contains(&(log.header.id, group.number))
    }
    fn fence(&self) -> bool {
        true
    }
}

impl Container {
    /// Settles what a dead run left: commits (`adopt`) its complete uncommitted steps or drops them, drops incomplete ones, and
    /// fences its writers, so that nothing they still do becomes visible. A new run begins.
    pub fn recover(&self, adopt: &Adopt) -> Result<RecoverReport> {
        let inner = &self.inner;
        inner.require_writable()?;
        loop {
            let (newest, top) = inner.newest()?;
            let (base, mut notes) = sound_base(inner, newest)?;
            let (logs, strange) = adoption::gather(inner, &base, Damaged::GiveUp)?;
            notes.extend(strange);
            let broken = broken_groups(inner, &base, &logs, &mut notes)?;
            let choice = Choice { adopt, broken };
            let sources = base.sources(&inner.pages)?;
            let version = top + 1;
            let change = adoption::plan(&base, sources, &logs, Scope::All, version, &choice)?;
            let mut report =
                RecoverReport { run: base.manifest.fence + 1, version, ..RecoverReport::default() };
            report.adopted = new_steps(&base, change.steps.as_ref().unwrap_or(&base.steps));
            report.discarded = discarded(&base, &logs, &choice);
            report.discarded.retain(|s| !report.adopted.contains(s));
            report.incomplete = change.incomplete.clone();
            notes.extend(change.notes.iter().cloned());
            report.notes = notes;
            if let Some(snapshot) = transaction::attempt(inner, &base, version, change)? {
                inner.adopt_snapshot(Arc::new(snapshot));
                return Ok(report);
            }
        }
    }
}

fn new_steps(base: &Snapshot, after: &drystone_format::steps::Steps) -> Vec<u64> {
    after.iter().filter(|s| !base.steps.contains(*s)).collect()
}

fn discarded(base: &Snapshot, logs: &[WriterLog], choice: &Choice<'_>) -> Vec<u64> {
    let mut out: BTreeSet<u64> = BTreeSet::new();
    for log in logs.iter().filter(|l| !adoption::is_fenced(l, base)) {
        for group in log.groups.iter().filter(|g| !choice.keep(log, g)) {
            out.extend(group.step);
        }
    }
    out.into_iter().collect()
}

/// The newest snapshot all of whose unflushed entries are sound.
fn sound_base(inner: &Arc<Inner>, newest: Arc<Snapshot>) -> Result<(Arc<Snapshot>, Vec<String>)> {
    let marked = inner.last_marked(&newest);
    if inner.identity.durability == Durability::Durable
        || newest.manifest.marked
        || marked >= newest.version()
    {
        return Ok((newest, Vec::new()));
    }
    let Some(root) = newest.manifest.root else { return Ok((newest, Vec::new())) };
    let mut checker = Checker::new(inner, &newest);
    let mut first_bad: Option<(u64, String)> = None;
    let mut failed = None;
    tree::entries(&inner.pages, &root, &mut |entry| {
        if entry.commit <= marked
            || failed.is_some()
            || first_bad.as_ref().is_some_and(|(c, _)| *c <= entry.commit)
        {
            return;
        }
        match checker.entry(entry) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Corrupt => first_bad = Some((entry.commit, e.to_string())),
            Err(e) => failed = Some(e),
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let Some((bad, why)) = first_bad else { return Ok((newest, Vec::new())) };
    let mut version = newest.version();
    while version >= bad {
        let manifest = crate::head::read_manifest(inner.store.as_ref(), version, &inner.identity.uuid)?;
        version = manifest.parent.min(version - 1);
    }
    if version < marked {
        return Err(Error::corrupt(format!("data of a flushed snapshot is damaged: {why}")));
    }
    let note = format!(
        "snapshots {}..{} are undone, their data did not survive: {why}",
        version + 1,
        newest.version()
    );
    let base = if version == 0 {
        Snapshot::empty(inner.identity.uuid)
    } else {
        let manifest = crate::head::read_manifest(inner.store.as_ref(), version, &inner.identity.uuid)?;
        Snapshot::load(manifest, &inner.pages)?
    };
    Ok((Arc::new(base), vec![note]))
}

/// Closed groups whose bytes are not what their checksums say: (writer, group).
fn broken_groups(
    inner: &Arc<Inner>,
    base: &Snapshot,
    logs: &[WriterLog],
    notes: &mut Vec<String>,
) -> Result<BTreeSet<(u64, u64)>> {
    let mut broken = BTreeSet::new();
    let mut checker = Checker::new(inner, base);
    for log in logs {
        for group in &log.groups {
            if let Some(why) = group_damage(&mut checker, log, group)? {
                let what = group.step.map_or_else(|| "values without step".into(), |s| format!("step {s}"));
                notes.push(format!("{what} of writer {:016x} is given up: {why}", log.header.id));
                broken.insert((log.header.id, group.number));
            }
        }
    }
    Ok(broken)
}

fn group_damage(checker: &mut Checker<'_>, log: &WriterLog, group: &Group) -> Result<Option<String>> {
    for entry in &group.entries {
        match checker.entry_in(log.header.id, entry.source, entry) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Corrupt => return Ok(Some(e.to_string())),
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}
