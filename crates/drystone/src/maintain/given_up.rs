//! What a recovery gives up because its bytes are lost or damaged, in tiers or in the log, and no power cut explains
//! it: the snapshot stays, since everything else in it is sound.
//!
//! Invariants
//! - lost values never read as fill: a step is removed from the list of steps as a whole, or reads of it fail;
//! - a step is removed only if nothing of another run, writer or commit is in it; values without steps are never
//!   removed;
//! - if all that was lost had overwritten older blocks of the step, which are whole, the step has their values again;
//! - an entry that reads, or that a newer block covers, is not lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drystone_format::entry::Entry;
use drystone_format::keys;
use drystone_format::source::Source;
use drystone_plan::tree;
use drystone_store::StoreError;

use crate::commit::dead::Dead;
use crate::commit::transaction::{Change, Decision, transact};
use crate::container::Inner;
use crate::history::loss;
use crate::history::snapshot::Snapshot;
use crate::log::scan;
use crate::maintain::verify::check_logs;
use crate::read::checker::Checker;
use crate::{ErrorKind, Result};

/// Parts of logs: writer and number.
pub(super) type Parts = BTreeSet<(u64, u32)>;

/// Closed together, so lost together: the commit, and the run or the writer.
type Unit = (u64, Option<u64>, u64);

/// Commits the newest snapshot without the steps of which blocks are lost. `broken`: the parts that may hold such
/// blocks. Returns the newest snapshot, and the steps that have the values again which the lost ones had overwritten.
pub(super) fn drop_steps(inner: &Arc<Inner>, broken: &Parts) -> Result<(Arc<Snapshot>, BTreeSet<u64>)> {
    let mut back = BTreeSet::new();
    let done = transact(inner, |base, _| {
        Ok(match without_lost(inner, base, broken)? {
            Some((change, steps)) => {
                back = steps;
                Decision::Apply(Box::new(change))
            }
            None => Decision::Keep { incomplete: Vec::new(), notes: Vec::new() },
        })
    })?;
    Ok((done.snapshot, back))
}

/// The change that removes lost steps, and the steps that go back to older values; `None` if there are none.
fn without_lost(inner: &Inner, base: &Snapshot, broken: &Parts) -> Result<Option<(Change, BTreeSet<u64>)>> {
    let Some(root) = &base.manifest.root else { return Ok(None) };
    let mut sources = base.sources(&inner.pages)?;
    let is_broken: Vec<bool> =
        sources.iter().map(|s| s.kind == 0 && broken.contains(&(s.writer, s.part))).collect();
    if !is_broken.contains(&true) {
        return Ok(None);
    }
    let mut entries: Vec<Entry> = Vec::new();
    tree::entries(&inner.pages, root, &mut |entry| {
        if is_broken.get(entry.source as usize) == Some(&true) {
            entries.push(entry.clone());
        }
    })?;
    let covered = Dead::find(inner, base)?;
    let mut checker = Checker::new(inner, base);
    let (mut sound, mut lost, mut unneeded) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        if covered.has(&entry) {
            unneeded.push(entry);
            continue;
        }
        match is_sound(&mut checker, &entry)? {
            true => sound.push(entry),
            false => lost.push(entry),
        }
    }
    let mut drop = Dead::default();
    let (mut gone, mut back) = (BTreeSet::new(), BTreeSet::new());
    for (key_step, step) in gone_steps(inner, base, &sources, &covered, &lost)? {
        if step.has_older_values(base, &mut checker)? {
            // What may be computed from the lost values goes with them.
            step.newest.iter().chain(&step.computed).for_each(|entry| drop.add(entry));
            back.insert(key_step);
        } else {
            drop.add_step(key_step);
            gone.insert(key_step);
        }
    }
    for entry in unneeded {
        match back.contains(&entry.step) && !drop.has(&entry) {
            true => sound.push(entry),
            false => drop.add(&entry),
        }
    }
    // Parts of which nothing is needed any more need no bytes; of others only what is there.
    for (number, source) in sources.iter_mut().enumerate().filter(|(number, _)| is_broken[*number]) {
        let needs = |entry: &&Entry| entry.source as usize == number && !drop.has(entry);
        if lost.iter().any(|entry| needs(&entry)) {
            continue;
        }
        let most = match sound.iter().any(|entry| needs(&entry) && entry.subchunks > 0) {
            true => match inner.store.len(&keys::segment(source.writer, source.part)) {
                Err(StoreError::NotFound { .. }) => 0,
                len => len?,
            },
            false => 0,
        };
        source.seg_length = source.seg_length.min(most);
    }
    let mut steps = (*base.steps).clone();
    gone.iter().filter_map(|key_step| key_step.checked_sub(1)).for_each(|step| steps.remove(step));
    let same = drop.is_empty() && sources == base.sources(&inner.pages)?;
    let change = Change { dead: Some(drop), steps: Some(steps), sources: Some(sources), ..Change::default() };
    let back = back.into_iter().filter_map(|key_step| key_step.checked_sub(1)).collect();
    Ok((!same).then_some((change, back)))
}

/// Whether the bytes of a block are there, or wait on another node for their drain.
fn is_sound(checker: &mut Checker<'_>, entry: &Entry) -> Result<bool> {
    match checker.entry(entry) {
        Err(e) if e.kind() == ErrorKind::Corrupt => Ok(false),
        Err(e) if e.kind() != ErrorKind::NotYetHome => Err(e),
        _ => Ok(true),
    }
}

/// The blocks of a step in which nothing is visible but what was closed together with lost blocks.
#[derive(Default)]
struct GoneStep {
    /// What was closed together with the lost blocks.
    newest: Vec<Entry>,
    /// What they cover.
    older: Vec<Entry>,
    /// Values that are computed from either, and replicas.
    computed: Vec<Entry>,
}

impl GoneStep {
    /// Whether the older blocks are whole, and have all cells of the newest ones.
    fn has_older_values(&self, base: &Snapshot, checker: &mut Checker<'_>) -> Result<bool> {
        let member = |entry: &Entry| (entry.variable, entry.member);
        let of = |entries: &[Entry], one| -> Vec<Entry> {
            entries.iter().filter(|entry| member(entry) == one).cloned().collect()
        };
        let members: BTreeSet<(u32, u32)> = self.newest.iter().map(member).collect();
        let covers =
            |one: &(u32, u32)| Dead::are_covered(base, &of(&self.newest, *one), &of(&self.older, *one));
        if self.older.is_empty() || !members.iter().all(covers) {
            return Ok(false);
        }
        for entry in &self.older {
            if !is_sound(checker, entry)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The steps of lost blocks in which nothing else is visible, by key step.
fn gone_steps(
    inner: &Inner,
    base: &Snapshot,
    sources: &[Source],
    covered: &Dead,
    lost: &[Entry],
) -> Result<BTreeMap<u64, GoneStep>> {
    let mut writers = Writers { inner, sources, known: BTreeMap::new() };
    let mut units: BTreeMap<u64, BTreeSet<Unit>> = BTreeMap::new();
    for entry in lost.iter().filter(|entry| entry.step > 0) {
        units.entry(entry.step).or_default().insert(writers.unit(entry.commit, entry.source)?);
    }
    let mut all: Vec<Entry> = Vec::new();
    if let Some(root) = base.manifest.root.as_ref().filter(|_| !units.is_empty()) {
        tree::entries(&inner.pages, root, &mut |entry| {
            if units.contains_key(&entry.step) {
                all.push(entry.clone());
            }
        })?;
    }
    // Values that are computed from others, and replicas of them, do not keep a step.
    let is_computed = |entry: &Entry| {
        let variable = base.schema.variables.get(&entry.variable);
        entry.encoding.replica > 0 || variable.is_none_or(|variable| variable.derived.is_some())
    };
    let mut steps: BTreeMap<u64, GoneStep> = BTreeMap::new();
    let mut kept = BTreeSet::new();
    for entry in all {
        let step = steps.entry(entry.step).or_default();
        if is_computed(&entry) {
            step.computed.push(entry);
        } else if units[&entry.step].contains(&writers.unit(entry.commit, entry.source)?) {
            step.newest.push(entry);
        } else {
            if !covered.has(&entry) {
                kept.insert(entry.step);
            }
            step.older.push(entry);
        }
    }
    steps.retain(|step, _| !kept.contains(step));
    Ok(steps)
}

/// The run or the writer of each source.
struct Writers<'a> {
    inner: &'a Inner,
    sources: &'a [Source],
    known: BTreeMap<u64, Option<u64>>,
}

impl Writers<'_> {
    fn unit(&mut self, commit: u64, number: u32) -> Result<Unit> {
        let Some(source) = self.sources.get(number as usize) else { return Ok((commit, None, 0)) };
        let run = match self.known.get(&source.writer) {
            Some(run) => *run,
            None => {
                let (key, uuid) = (keys::idx(source.writer, source.part), &self.inner.identity.uuid);
                let len = source.idx_length.min(scan::HEAD);
                let header = scan::header(self.inner.store.as_ref(), &key, len, uuid)?;
                let run = header.filter(|header| header.rank.is_some()).map(|header| header.run);
                self.known.insert(source.writer, run);
                run
            }
        };
        Ok((commit, run, if run.is_some() { 0 } else { source.writer }))
    }
}

/// Reports the values that need lost log files, if no power cut explains the loss. Their snapshot stays, and reads of
/// these values fail. A flush continues without the files.
pub(super) fn give_up_lost(inner: &Arc<Inner>) -> Result<Vec<String>> {
    let (newest, _) = inner.newest_known();
    let lost: Vec<String> = check_logs(inner, &newest)?.into_iter().map(|damage| damage.key).collect();
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    inner.give_up_syncing(&lost);
    let sources = newest.sources(&inner.pages)?;
    let key = |source: &Source| keys::segment(source.writer, source.part);
    let mut needed: BTreeMap<String, (BTreeSet<u64>, bool)> = BTreeMap::new();
    let mut visit = |entry: &Entry| {
        let hidden = entry.step > 0 && entry.commit < newest.steps.hidden_below(entry.step - 1);
        let source = sources.get(entry.source as usize).map(key).filter(|key| !hidden && lost.contains(key));
        if let Some(key) = source {
            let (steps, without) = needed.entry(key).or_default();
            match entry.step {
                0 => *without = true,
                step => drop(steps.insert(step - 1)),
            }
        }
    };
    if let Some(root) = &newest.manifest.root {
        tree::entries(&inner.pages, root, &mut visit)?;
    }
    let note = |(key, (steps, without)): (String, (BTreeSet<u64>, bool))| {
        let steps = (!steps.is_empty()).then(|| loss::in_words(&steps));
        let what = steps.into_iter().chain(without.then(|| "variables without steps".to_owned()));
        let what = what.collect::<Vec<_>>().join(" and ");
        format!("{key} is lost: values of {what} cannot be read until they are written again")
    };
    Ok(needed.into_iter().map(note).collect())
}
