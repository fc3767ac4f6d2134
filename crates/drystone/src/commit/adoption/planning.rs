//! What a commit takes: a pure function from the base snapshot and the logs to a [`Change`].
//!
//! Invariants
//! - a step of a ranked run is taken completely, from every rank, or not at all; so is a replacement of it;
//! - every group is settled (taken or given up) at most once: watermarks and the `ahead` list only grow;
//! - nothing new means no change at all.

use std::collections::{BTreeMap, BTreeSet};

use drystone_format::keys;
use drystone_format::schema::Schema;
use drystone_format::source::Source;
use drystone_format::steps::Steps;
use drystone_plan::tree::NewEntries;

use super::ledger::Books;
use crate::commit::transaction::{Change, Incomplete, RunStep};
use crate::history::snapshot::Snapshot;
use crate::log::scan::{Group, WriterLog};
use crate::{Error, Result};

/// Whose groups to look at, and which to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All adoptable groups of all writers.
    All,
    /// One writer, whose part lengths the caller gives: with steps (`nranks` = 1), or only values without step.
    Own { steps: bool },
}

/// What to do with groups, decided by the caller of [`plan`].
pub(crate) trait Verdict {
    /// Whether this closed group may be taken; `false` gives it up for ever.
    fn keep(&self, log: &WriterLog, group: &Group) -> bool;
    /// Whether everything that is not taken is given up, and ranked writers are fenced.
    fn fence(&self) -> bool;
}

/// Whether the log holds groups, closed or begun, that no commit has taken.
pub(crate) fn has_pending(log: &WriterLog, books: &Books) -> bool {
    let settled = books.settled.get(&log.header.id);
    let taken = |g: u64| settled.is_some_and(|s| s.contains(g));
    log.groups.iter().map(|g| g.number).chain(log.open_groups.iter().copied()).any(|g| !taken(g))
}

/// Whether a variable of the group was created by a commit that a power cut destroyed. Its id may have been given to
/// another variable since.
fn is_orphan(group: &Group, schema: &Schema) -> bool {
    group.variables.iter().any(|(id, uid)| match schema.variables.get(id) {
        Some(variable) => variable.uid != *uid,
        None => *id >= schema.next_id, // else it was deleted
    })
}

/// Whether the log belongs to a ranked writer that a fence shut out.
pub(crate) fn is_fenced(log: &WriterLog, base: &Snapshot) -> bool {
    log.header.rank.is_some() && log.header.fence < base.manifest.fence
}

/// Decides what a commit takes. `sources` of the result is `None` when nothing is new.
pub(crate) fn plan(
    base: &Snapshot,
    sources: Vec<Source>,
    logs: &[WriterLog],
    scope: Scope,
    version: u64,
    verdict: &dyn Verdict,
) -> Result<Change> {
    let mut books = Books::new(base, sources);
    let mut change = Change::default();
    let fencing = verdict.fence();
    // 1. what is adoptable
    let mut take: Vec<Vec<&Group>> = vec![Vec::new(); logs.len()];
    let mut ranked: BTreeMap<RunStep, OfStep<'_>> = BTreeMap::new();
    let mut given_up = false;
    for (i, log) in logs.iter().enumerate() {
        let fenced = is_fenced(log, base);
        let fresh: Vec<&Group> =
            log.groups.iter().filter(|g| !books.settled(log.header.id).contains(g.number)).collect();
        if fenced {
            if !fresh.is_empty() {
                change.notes.push(format!(
                    "writer {:016x} of run {} was fenced by a recovery: {} group(s) it closed are not taken",
                    log.header.id,
                    log.header.run,
                    fresh.len()
                ));
            }
            continue;
        }
        for group in fresh {
            if !verdict.keep(log, group) {
                given_up = true;
                continue;
            }
            if is_orphan(group, &base.schema) {
                change.notes.push(format!(
                    "group {} of writer {:016x} has a variable whose creation was never committed, or lost in a power cut: it is {}",
                    group.number,
                    log.header.id,
                    if fencing { "given up" } else { "not taken; recover() gives it up" }
                ));
                continue;
            }
            match (group.step, log.header.rank, scope) {
                (None, _, _) => take[i].push(group),
                (Some(_), _, Scope::Own { steps: false }) => {}
                (Some(_), None, _) => take[i].push(group),
                (Some(step), Some(_), _) => {
                    ranked.entry(RunStep { run: log.header.run, step }).or_default().push((i, group));
                }
            }
        }
    }
    for (at, groups) in ranked {
        let (whole, incomplete) = completeness(at, groups, logs, fencing)?;
        if let (Some(mut incomplete), Scope::All) = (incomplete, scope) {
            incomplete.again = !whole.is_empty() || base.steps.contains(at.step);
            change.incomplete.push(incomplete);
        }
        whole.into_iter().for_each(|(i, group)| take[i].push(group));
    }
    // 2. groups that are taken become entries, steps, growth
    let mut steps = (*base.steps).clone();
    let mut schema: Option<Schema> = None;
    let mut replaced: BTreeSet<u64> = BTreeSet::new();
    for (i, log) in logs.iter().enumerate() {
        take[i].sort_by_key(|g| g.number);
        for group in &take[i] {
            books.settled(log.header.id).insert(group.number);
            if let Some(step) = group.step {
                steps.insert(step);
                if group.replace {
                    replaced.insert(step);
                }
            }
        }
        for (j, group) in take[i].iter().enumerate() {
            let hidden =
                group.step.is_some() && take[i][j + 1..].iter().any(|g| g.step == group.step && g.replace);
            if !hidden {
                adopt_entries(log, group, version, base, &mut books, &mut schema, &mut change.entries)?;
            }
        }
    }
    for step in replaced {
        steps.hide(step, version);
    }
    // 3. the books
    let anything = take.iter().any(|t| !t.is_empty());
    for (i, log) in logs.iter().enumerate() {
        let shut = is_fenced(log, base) || (fencing && log.header.rank.is_some());
        if fencing {
            for group in &log.groups {
                books.settled(log.header.id).insert(group.number);
            }
        }
        for group in &log.aborted {
            books.settled(log.header.id).insert(*group);
        }
        if anything || given_up || fencing {
            books.update(log, &take[i], shut);
        }
        if !take[i].is_empty() {
            change.writers.insert(log.header.process.clone());
        }
    }
    if anything || given_up || fencing {
        change.ahead = Some(books.ahead());
        change.sources = Some(books.sources);
        change.steps = (steps != *base.steps).then_some(steps);
        change.schema = schema;
        change.fence = if fencing { Some(next_fence(base)?) } else { None };
    }
    Ok(change)
}

/// Steps of closed groups that `after` contains and the base does not. The list of all steps may be longer than memory.
pub(crate) fn new_steps(base: &Snapshot, logs: &[WriterLog], after: &Steps) -> Vec<u64> {
    let closed: BTreeSet<u64> = logs.iter().flat_map(|l| &l.groups).filter_map(|g| g.step).collect();
    closed.into_iter().filter(|s| after.contains(*s) && !base.steps.contains(*s)).collect()
}

/// The number of the run that a recovery of this snapshot begins.
pub(crate) fn next_fence(base: &Snapshot) -> Result<u64> {
    let next = base.manifest.fence.checked_add(1);
    next.ok_or_else(|| Error::corrupt(format!("{} has no fence number left", keys::manifest(base.version()))))
}

/// Groups of a step, each with the number of its log.
type OfStep<'g> = Vec<(usize, &'g Group)>;

/// The groups of a step that can be taken, and the ranks that are missing for the others. Two writers of one rank are a
/// conflict.
fn completeness<'g>(
    at: RunStep,
    groups: OfStep<'g>,
    logs: &[WriterLog],
    fencing: bool,
) -> Result<(OfStep<'g>, Option<Incomplete>)> {
    let mut by_rank: BTreeMap<u32, usize> = BTreeMap::new();
    let mut nranks = None;
    let mut doubtful = false;
    for (i, _) in &groups {
        let Some(rank) = logs[*i].header.rank else { continue };
        let said: u32 = *nranks.get_or_insert(rank.nranks);
        if said != rank.nranks {
            if !fencing {
                return Err(Error::conflict(format!(
                    "step {} of run {} was written by writers that disagree on the number of ranks ({} and {}); call recover() \
                     to settle what earlier writers left",
                    at.step,
                    at.run,
                    said.min(rank.nranks),
                    said.max(rank.nranks)
                )));
            }
            doubtful = true;
        }
        if let Some(other) = by_rank.insert(rank.rank, *i)
            && other != *i
        {
            if !fencing {
                return Err(Error::conflict(format!(
                    "rank {} of step {} (run {}) was closed by two writers ({} and {}); call recover() to settle it",
                    rank.rank, at.step, at.run, logs[other].header.origin, logs[*i].header.origin
                )));
            }
            doubtful = true;
        }
    }
    let nranks = nranks.unwrap_or(0);
    let missing: Vec<u32> = (0..nranks).filter(|r| !by_rank.contains_key(r)).collect();
    if doubtful || !missing.is_empty() {
        return Ok((Vec::new(), Some(Incomplete { at, nranks, missing, again: false })));
    }
    let (whole, behind) = replaced_by_all(groups);
    let missing: Vec<u32> =
        by_rank.iter().filter(|(_, i)| behind.contains(i)).map(|(rank, _)| *rank).collect();
    Ok((whole, (!missing.is_empty()).then_some(Incomplete { at, nranks, missing, again: false })))
}

/// Of the groups in which the ranks closed a step, those up to the last replacement that every rank has closed; and the
/// logs that have closed it less often than others.
fn replaced_by_all(mut groups: OfStep<'_>) -> (OfStep<'_>, BTreeSet<usize>) {
    groups.sort_by_key(|(i, group)| (*i, group.number));
    let mut turns: BTreeMap<usize, u64> = BTreeMap::new();
    let turn = |(i, group): &(usize, &Group)| {
        let turn = turns.entry(*i).or_insert(0);
        *turn += u64::from(group.replace);
        *turn
    };
    let of: Vec<u64> = groups.iter().map(turn).collect();
    let (least, most) = (turns.values().min().copied(), turns.values().max().copied());
    let behind = turns.iter().filter(|(_, turn)| Some(**turn) < most).map(|(i, _)| *i).collect();
    let whole: Vec<_> =
        groups.iter().zip(of).filter(|(_, turn)| Some(*turn) <= least).map(|(g, _)| *g).collect();
    let closed: BTreeSet<usize> = whole.iter().map(|(i, _)| *i).collect();
    (if closed.len() == turns.len() { whole } else { Vec::new() }, behind)
}

fn adopt_entries(
    log: &WriterLog,
    group: &Group,
    version: u64,
    base: &Snapshot,
    books: &mut Books,
    schema: &mut Option<Schema>,
    out: &mut NewEntries,
) -> Result<()> {
    let order = log.header.rank.map_or(log.header.id, |r| u64::from(r.rank));
    group.entries.each(&mut |mut entry| {
        let Some(variable) = base.schema.variables.get(&entry.variable) else { return Ok(()) }; // deleted meanwhile
        entry.commit = version;
        entry.order = order;
        entry.source = books.source(log.header.id, entry.source);
        if variable.growable.contains(&true) {
            let current = schema.as_ref().unwrap_or(&base.schema);
            let shape = current
                .variables
                .get(&entry.variable)
                .map_or_else(|| variable.shape.clone(), |v| v.shape.clone());
            let grown: Vec<u64> = (0..shape.len())
                .map(|d| {
                    let end = entry.offset[d].saturating_add(entry.count[d]);
                    if variable.growable[d] && entry.count[d] > 0 { shape[d].max(end) } else { shape[d] }
                })
                .collect();
            if grown != shape {
                let schema = schema.get_or_insert_with(|| (*base.schema).clone());
                if let Some(v) = schema.variables.get_mut(&entry.variable) {
                    v.shape = grown;
                }
            }
        }
        out.push(entry);
        Ok(())
    })
}
