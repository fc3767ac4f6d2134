//! Recovery after a run that died: settles steps that were closed and not committed, and fences the run's writers.
//!
//! Under `async` it also checks the commits after the last flush. Commits whose bytes a power cut destroyed are
//! passed over completely, and the surviving groups are verified and adopted again. The result is flushed before
//! `recover` returns. If a later power cut destroyed the fence, groups of the dead run and of the next run would be
//! adopted together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drystone_format::entry::Entry;
use drystone_format::identity::Durability;
use drystone_plan::tree;
use drystone_store_tiers::Rebuilt;

use crate::base::span::{self, SpanKind};
use crate::base::sync::lock;
use crate::commit::adoption;
use crate::commit::adoption::{Damaged, Logs, Scope, Verdict};
use crate::commit::transaction;
use crate::commit::transaction::Incomplete;
use crate::container::{Container, Inner, StagedPart};
use crate::history::descent;
use crate::history::loss::{self, Losses};
use crate::history::manifests;
use crate::history::snapshot::Snapshot;
use crate::log::scan::{Group, WriterLog};
use crate::maintain::given_up::{Parts, drop_steps, give_up_lost};
use crate::read::checker::Checker;
use crate::{Error, ErrorKind, Result};

/// The decision about complete but uncommitted steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopt {
    /// Commit them.
    All,
    /// Drop them.
    None,
    /// Commit these, drop the others.
    Steps(BTreeSet<u64>),
    /// Drop these, commit the others.
    AllBut(BTreeSet<u64>),
}

/// The result of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoverReport {
    /// Steps that became visible.
    pub adopted: Vec<u64>,
    /// Complete steps that were dropped at the caller's request.
    pub discarded: Vec<u64>,
    /// Steps that were dropped because not all ranks had closed them.
    pub incomplete: Vec<Incomplete>,
    /// Steps with parts that were rebuilt from other nodes, and without lost parts.
    pub rebuilt: Vec<u64>,
    /// Steps that were dropped because their bytes did not survive, and other remarks for the user.
    pub notes: Vec<String>,
    /// The number of the run that begins now.
    pub run: u64,
    /// The version of the snapshot that contains the result.
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
            (Adopt::AllBut(steps), Some(step)) => !steps.contains(&step),
            (Adopt::Steps(_) | Adopt::AllBut(_), None) => true,
        };
        wanted && !self.broken.contains(&(log.header.id, group.number))
    }
    fn fence(&self) -> bool {
        true
    }
}

impl Container {
    /// Settles what a dead run left. It commits or drops complete uncommitted steps (`adopt`), drops incomplete ones,
    /// and fences the run's writers, so that nothing they still do becomes visible. A new run begins.
    ///
    /// Parts that are missing in all tiers of this node are rebuilt if other nodes keep parity of them, and otherwise
    /// given up. Other parts wait for their drain, wherever they are. `lost_nodes` are lost for good, with everything
    /// in their tiers that is not home.
    pub fn recover(&self, adopt: &Adopt, lost_nodes: &[String]) -> Result<RecoverReport> {
        let begun = span::begin(SpanKind::Recover);
        let report = self.settle_runs(adopt, lost_nodes)?;
        let values = span::Values { blocks: report.adopted.len() as u64, ..Default::default() };
        begun.end(SpanKind::Recover, || self.inner.store.describe(), "", values);
        Ok(report)
    }

    fn settle_runs(&self, adopt: &Adopt, lost_nodes: &[String]) -> Result<RecoverReport> {
        let inner = &self.inner;
        inner.require_open()?;
        inner.require_unpinned()?;
        inner.require_same()?;
        let mended: Vec<String> = inner.mend_floor()?.into_iter().chain(inner.mend_log_packs()?).collect();
        let (mut gone, mut rebuilt) = (Vec::new(), Rebuilt::default());
        if let Some(tiers) = &inner.tiers {
            gone = tiers.store.lost_parts(lost_nodes)?;
            rebuilt = tiers.store.rebuild(&gone, lost_nodes).map_err(|e| {
                Error::from(e).while_doing("rebuilding parts that were lost with their tiers")
            })?;
            gone.retain(|part| !rebuilt.parts.contains(part));
            tiers.store.mark_missing(&gone)?;
        }
        let lost_parts: Parts = gone.iter().map(|part| part.part).collect();
        let mut staged: Parts = inner.away()?.into_iter().map(|part| part.part).collect();
        staged.extend(&lost_parts);
        let mut broken: BTreeMap<(u64, u32), String> = BTreeMap::new();
        loop {
            let (newest, top) = inner.newest()?;
            let losses = lock(&inner.losses).clone();
            let mut seen = losses.steps.clone();
            let (base, mut notes) = sound_base(inner, newest.clone(), &staged, &mut broken)?;
            let (logs, strange) = adoption::gather(inner, &base, Damaged::GiveUp, Logs::All)?;
            notes.extend(strange);
            let damaged = broken.iter().filter(|(part, _)| !lost_parts.contains(part));
            notes.extend(damaged.map(|(_, why)| why.clone()));
            let choice = Choice { adopt, broken: broken_groups(inner, &base, &logs, &mut notes)? };
            let sources = base.sources(&inner.pages)?;
            let version = top + 1;
            // Steps that are dropped on request, but were incomplete anyway, are reported as incomplete.
            let incomplete = match adopt {
                Adopt::All => None,
                _ => {
                    let all = Choice { adopt: &Adopt::All, broken: choice.broken.clone() };
                    let all = adoption::plan(&base, sources.clone(), &logs, Scope::All, version, &all)?;
                    Some(all.incomplete)
                }
            };
            let change = adoption::plan(&base, sources, &logs, Scope::All, version, &choice)?;
            let mut report =
                RecoverReport { run: adoption::next_fence(&base)?, version, ..RecoverReport::default() };
            report.adopted = adoption::new_steps(&base, &logs, change.steps.as_ref().unwrap_or(&base.steps));
            report.discarded = discarded(&base, &logs, &choice);
            report.incomplete = incomplete.unwrap_or_else(|| change.incomplete.clone());
            let never_whole =
                |step: &u64| report.incomplete.iter().any(|one| one.at.step == *step && !one.again);
            report.discarded.retain(|s| !report.adopted.contains(s) && !never_whole(s));
            notes.extend(change.notes.iter().cloned());
            notes.extend(mended.clone());
            notes.extend(part_notes(&gone, "that were not home are lost with the tiers of"));
            notes.extend(part_notes(&rebuilt.parts, "were rebuilt after the loss of the tiers of"));
            notes.extend(rebuilt.notes.iter().cloned());
            let lost: BTreeSet<u64> = gone.iter().filter_map(|part| part.step).collect();
            let back: BTreeSet<u64> = rebuilt.parts.iter().filter_map(|part| part.step).collect();
            report.rebuilt = back.difference(&lost).copied().collect();
            report.notes = notes;
            if let Some(snapshot) = transaction::attempt(inner, &base, version, change, false)? {
                inner.adopt_snapshot(Arc::new(snapshot));
                inner.set_losses(Losses::default());
                if !losses.found.is_empty() {
                    inner.hint.renew(inner.store.as_ref(), version, inner.identity.durability);
                }
                let may_lack: Parts = lost_parts.iter().chain(broken.keys()).copied().collect();
                let (left, back) = match may_lack.is_empty() {
                    true => (inner.newest_known().0, BTreeSet::new()),
                    false => drop_steps(inner, &may_lack)?,
                };
                if !back.is_empty() {
                    let have = if back.len() == 1 { "has" } else { "have" };
                    let what = loss::in_words(&back);
                    report.notes.push(format!(
                        "{what} {have} older values again: those that overwrote them are lost"
                    ));
                }
                report.version = report.version.max(left.version());
                report.adopted.retain(|step| left.steps.contains(*step));
                seen.extend(loss::missing(&newest.steps, &left.steps));
                seen.retain(|step| !left.steps.contains(*step) && !report.discarded.contains(step));
                if !seen.is_empty() {
                    let (were, their) = match seen.len() {
                        1 => ("was committed and is", "its"),
                        _ => ("were committed and are", "their"),
                    };
                    let what = loss::in_words(&seen);
                    report.notes.push(format!("{what} {were} given up: {their} bytes are not there"));
                }
                report.notes.extend(give_up_lost(inner)?);
                // If a power cut could destroy the fence, the dead run would mix with the next one.
                let flushed = inner.flush();
                // Parts on other nodes are still to be drained. The version is marked when they are home.
                if !flushed.as_ref().is_err_and(|e| e.kind() == ErrorKind::NotYetHome) {
                    flushed
                        .map_err(|e| e.while_doing("the recovery is committed, but could not be flushed"))?;
                }
                if let Some(tiers) = &inner.tiers {
                    tiers.store.unregister_missing()?;
                }
                return Ok(report);
            }
        }
    }
}

/// Notes on the parts that tiers have lost, by node and step.
fn part_notes(gone: &[StagedPart], became: &str) -> Vec<String> {
    let mut by: BTreeMap<(&str, Option<u64>), u64> = BTreeMap::new();
    for part in gone {
        *by.entry((part.node.as_str(), part.step)).or_default() += part.bytes;
    }
    let note = |((node, step), bytes): ((&str, Option<u64>), u64)| {
        let what = step.map_or_else(|| "values without step".to_owned(), |step| format!("step {step}"));
        format!("{what}: {bytes} bytes {became} node \"{node}\"")
    };
    by.into_iter().map(note).collect()
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

/// The newest snapshot whose unflushed objects are all intact: pages, and the bytes of every entry.
///
/// Lost or damaged bytes of parts that were only in tiers (`staged`), or that an earlier recovery gave up, undo no
/// snapshot: everything else is home. Such parts are added to `broken`, with the reason.
fn sound_base(
    inner: &Arc<Inner>,
    newest: Arc<Snapshot>,
    staged: &Parts,
    broken: &mut BTreeMap<(u64, u32), String>,
) -> Result<(Arc<Snapshot>, Vec<String>)> {
    let mut notes = Vec::new();
    if inner.identity.durability == Durability::Durable {
        return Ok((newest, notes));
    }
    let marked = inner.last_marked(&newest).max(descent::newest_mark(inner.store.as_ref())?);
    let mut base = newest;
    let judged = judged(inner, &base, marked)?;
    while base.version() > marked {
        let Some((commit, why)) = unsound(inner, &base, (marked, judged), (staged, broken))? else { break };
        let from = base.version();
        base = Arc::new(before(inner, &base, commit.min(from), marked, &why)?);
        notes.push(format!(
            "snapshots {}..{from} are undone, their data did not survive: {why}",
            base.version() + 1
        ));
    }
    Ok((base, notes))
}

/// The snapshot of the last recovery, if that is above `marked`, else `marked`. A recovery cannot mark its snapshot
/// while parts wait in tiers of other nodes. What it gave up is no effect of a power cut, and undoes nothing later.
fn judged(inner: &Inner, base: &Snapshot, marked: u64) -> Result<u64> {
    let fence = base.manifest.fence;
    if inner.tiers.is_none() || fence == 0 {
        return Ok(marked);
    }
    let (mut version, mut parent) = (base.version(), base.manifest.parent);
    while parent > 0 {
        match manifests::read_manifest(inner.store.as_ref(), parent, &inner.identity.uuid) {
            Ok(manifest) if manifest.fence != fence => break,
            Ok(_) if parent <= marked => return Ok(marked),
            Ok(manifest) => (version, parent) = (parent, manifest.parent),
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
                parent = manifests::below(inner.store.as_ref(), parent)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(version.max(marked))
}

/// The earliest commit above `marked` whose pages or bytes are damaged, with the reason. Bytes of commits up to
/// `judged` undo none: their parts are added to `broken`.
fn unsound(
    inner: &Arc<Inner>,
    snapshot: &Snapshot,
    (marked, judged): (u64, u64),
    (staged, broken): (&Parts, &mut BTreeMap<(u64, u32), String>),
) -> Result<Option<(u64, String)>> {
    let part_of = |entry: &Entry| {
        let source = snapshot.source(&inner.pages, entry.source).ok()?;
        let part = (source.writer, source.part);
        (entry.commit <= judged || staged.contains(&part)).then_some(part)
    };
    let mut checker = Checker::new(inner, snapshot);
    let mut bad: Option<(u64, String)> = None;
    let mut failed = None;
    let mut check = |entry: &Entry, checker: &mut Checker<'_>| {
        if entry.commit <= marked || failed.is_some() || bad.as_ref().is_some_and(|(c, _)| *c <= entry.commit)
        {
            return;
        }
        match checker.entry(entry) {
            Ok(_) => {}
            // The bytes are on another node, and not home yet.
            Err(e) if e.kind() == ErrorKind::NotYetHome => {}
            Err(e) if e.kind() == ErrorKind::Corrupt => match part_of(entry) {
                Some(part) => drop(broken.entry(part).or_insert_with(|| e.to_string())),
                None => bad = Some((entry.commit, e.to_string())),
            },
            Err(e) => failed = Some(e),
        }
    };
    let most = checker.batch();
    let mut batch: Vec<Entry> = Vec::with_capacity(most);
    let mut check_all = |batch: &mut Vec<Entry>| {
        checker.prefetch(batch);
        batch.drain(..).for_each(|entry| check(&entry, &mut checker));
    };
    let mut visit = |entry: &Entry| {
        if entry.commit > marked {
            batch.push(entry.clone());
        }
        if batch.len() >= most {
            check_all(&mut batch);
        }
    };
    let walked = snapshot.sources(&inner.pages).and_then(|_| match &snapshot.manifest.root {
        Some(root) => tree::entries(&inner.pages, root, &mut visit),
        None => Ok(()),
    });
    check_all(&mut batch);
    match (walked, failed) {
        (_, Some(error)) => Err(error),
        (Err(e), None) if e.kind() == ErrorKind::Corrupt => {
            Ok(Some(bad.unwrap_or_else(|| (snapshot.version(), e.to_string()))))
        }
        (Err(e), None) => Err(e),
        (Ok(()), None) => Ok(bad),
    }
}

/// The newest readable snapshot before `commit` among the ancestors of `of`. Flushed ones must be readable.
fn before(inner: &Inner, of: &Snapshot, commit: u64, marked: u64, why: &str) -> Result<Snapshot> {
    let mut version = of.manifest.parent;
    loop {
        if version < marked {
            return Err(Error::corrupt(format!("data of a flushed snapshot is damaged: {why}")));
        }
        if version == 0 {
            return Ok(Snapshot::empty(inner.identity.uuid));
        }
        let found = manifests::read_manifest(inner.store.as_ref(), version, &inner.identity.uuid);
        let parent = match &found {
            Ok(manifest) => manifest.parent,
            Err(_) => manifests::below(inner.store.as_ref(), version)?,
        };
        if version < commit {
            match found.and_then(|manifest| Snapshot::load(manifest, &inner.pages)) {
                Ok(snapshot) => return Ok(snapshot),
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {}
                Err(e) => return Err(e),
            }
        }
        version = parent;
    }
}

/// The closed groups whose bytes do not match their checksums: (writer, group).
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
    let checked =
        group.entries.each(&mut |entry| checker.entry_in(log.header.id, entry.source, &entry).map(drop));
    match checked {
        Ok(()) => Ok(None),
        // The bytes are on another node, and not home yet.
        Err(e) if e.kind() == ErrorKind::NotYetHome => Ok(None),
        Err(e) if e.kind() == ErrorKind::Corrupt => Ok(Some(e.to_string())),
        Err(e) => Err(e),
    }
}
