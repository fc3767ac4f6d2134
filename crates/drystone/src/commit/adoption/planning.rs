//! Plans a commit: a pure function from the base snapshot and the logs to a [`Change`].
//!
//! Invariants
//! - a step of a ranked run is taken completely, from every rank, or not at all; the same holds for its replacement;
//! - a writer's own commit of a step takes the older groups of that step of other writers, which would hide it later;
//! - every group is settled (taken or given up) at most once: watermarks and `ahead` lists only grow;
//! - of groups of writers that do not write together, the one that was closed later is the newer one;
//! - if nothing is new, nothing changes.

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

/// The groups that a commit considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// All adoptable groups of all writers.
    All,
    /// Groups of one writer, whose part lengths the caller gives: with steps (`nranks` = 1), or only values without
    /// step. With them, the complete groups of the same steps in the other logs that are given; values without step
    /// only of the writers in `loose`.
    Own { writer: u64, steps: bool, loose: &'a BTreeSet<u64> },
}

impl Scope<'_> {
    /// Whether the commit takes groups of this log only along with those of its own writer.
    fn is_other(&self, log: &WriterLog) -> bool {
        matches!(self, Scope::Own { writer, .. } if *writer != log.header.id)
    }

    /// The steps of the groups of its own writer that it may take. `None` in the set: values without step.
    fn own_steps(&self, logs: &[WriterLog], books: &Books, schema: &Schema) -> BTreeSet<Option<u64>> {
        let Scope::Own { steps, .. } = self else { return BTreeSet::new() };
        let own = logs.iter().filter(|log| !self.is_other(log));
        let fresh = own.flat_map(|log| log.groups.iter().filter(|group| !books.is_settled(log, group)));
        let takes = |group: &&Group| (*steps || group.step.is_none()) && !is_orphan(group, schema);
        fresh.filter(takes).map(|group| group.step).collect()
    }

    /// Whether it may take a group of another log.
    fn joins(&self, log: &WriterLog, group: &Group, own: &BTreeSet<Option<u64>>) -> bool {
        let Scope::Own { loose, .. } = self else { return true };
        own.contains(&group.step) && (group.step.is_some() || loose.contains(&log.header.id))
    }
}

/// The caller's decisions about groups.
pub(crate) trait Verdict {
    /// Whether this closed group may be taken. `false` gives it up for ever.
    fn keep(&self, log: &WriterLog, group: &Group) -> bool;
    /// Whether all groups that are not taken are given up, and ranked writers are fenced.
    fn fence(&self) -> bool;
}

/// Whether the log holds groups, closed or begun, that no commit has settled.
pub(crate) fn has_pending(log: &WriterLog, books: &Books) -> bool {
    let settled = books.settled.get(&log.header.id);
    let taken = |g: u64| settled.is_some_and(|s| s.contains(g));
    log.groups.iter().map(|g| g.number).chain(log.open_groups.iter().copied()).any(|g| !taken(g))
}

/// The closed groups of a log that wait for a commit: step and number of each.
pub(super) fn waiting_groups(log: &WriterLog, books: &Books) -> impl Iterator<Item = (Option<u64>, u64)> {
    log.groups.iter().filter(|group| !books.is_settled(log, group)).map(|group| (group.step, group.number))
}

/// Whether the commit that created a variable of the group was lost in a power cut. Its id may have been given to
/// another variable since.
fn is_orphan(group: &Group, schema: &Schema) -> bool {
    group.variables.iter().any(|(id, uid)| match schema.variables.get(id) {
        Some(variable) => variable.uid != *uid,
        None => *id >= schema.next_id, // a smaller id was deleted
    })
}

/// Whether the log belongs to a ranked writer that a fence shut out.
pub(crate) fn is_fenced(log: &WriterLog, base: &Snapshot) -> bool {
    log.header.rank.is_some() && log.header.fence < base.manifest.fence
}

/// Decides what a commit takes. `sources` of the result is `None` if nothing is new.
pub(crate) fn plan(
    base: &Snapshot,
    sources: Vec<Source>,
    logs: &[WriterLog],
    scope: Scope<'_>,
    version: u64,
    verdict: &dyn Verdict,
) -> Result<Change> {
    let mut books = Books::new(base, sources);
    let mut change = Change::default();
    let fencing = verdict.fence();
    // 1. adoptable groups
    let mut take: Vec<Vec<&Group>> = vec![Vec::new(); logs.len()];
    let mut ranked: BTreeMap<(RunStep, Option<usize>), OfStep<'_>> = BTreeMap::new();
    let mut given_up = false;
    let own_steps = scope.own_steps(logs, &books, &base.schema);
    for (i, log) in logs.iter().enumerate() {
        let (fenced, other) = (is_fenced(log, base), scope.is_other(log));
        let fresh: Vec<&Group> = log.groups.iter().filter(|g| !books.is_settled(log, g)).collect();
        if fenced {
            if !fresh.is_empty() && !other {
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
            if other && (!scope.joins(log, group, &own_steps) || is_orphan(group, &base.schema)) {
                continue;
            }
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
                (Some(_), _, Scope::Own { steps: false, .. }) => {}
                (Some(_), None, _) => take[i].push(group),
                (Some(_), Some(_), Scope::Own { .. }) if !other => take[i].push(group),
                (Some(step), Some(rank), _) => {
                    // Several writers that are each the only rank are ordered by time.
                    let alone = (other && rank.nranks == 1).then_some(i);
                    let at = RunStep { run: log.header.run, step };
                    ranked.entry((at, alone)).or_default().push((i, group));
                }
            }
        }
    }
    for ((at, _), groups) in ranked {
        let (whole, incomplete) = match (completeness(at, groups, logs, fencing), scope) {
            (Ok(found), _) => found,
            (Err(_), Scope::Own { .. }) => continue, // in doubt until a recovery
            (Err(e), Scope::All) => return Err(e),
        };
        if let (Some(mut incomplete), Scope::All) = (incomplete, scope) {
            incomplete.again = !whole.is_empty() || base.steps.contains(at.step);
            change.incomplete.push(incomplete);
        }
        whole.into_iter().for_each(|(i, group)| take[i].push(group));
    }
    // 2. entries, steps and growth of the groups that are taken
    let mut steps = (*base.steps).clone();
    let mut schema: Option<Schema> = None;
    let mut replaced: BTreeSet<u64> = BTreeSet::new();
    take.iter_mut().for_each(|groups| groups.sort_by_key(|g| g.number));
    let ages = ages(logs, &take);
    let age = |i: usize, group: &Group| ages.as_ref().and_then(|ages| ages.get(&(i, group.number)).copied());
    let replacements: Vec<(usize, &Group)> =
        take.iter().enumerate().flat_map(|(i, groups)| groups.iter().map(move |g| (i, *g))).collect();
    let replacements: Vec<_> = replacements.into_iter().filter(|(_, g)| g.replace).collect();
    for (i, log) in logs.iter().enumerate() {
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
            let own =
                group.step.is_some() && take[i][j + 1..].iter().any(|g| g.step == group.step && g.replace);
            let by_others =
                replacements.iter().any(|(k, g)| g.step == group.step && age(*k, g) > age(i, group));
            if !own && !by_others {
                adopt_entries(
                    (log, group),
                    age(i, group),
                    version,
                    base,
                    &mut books,
                    &mut schema,
                    &mut change.entries,
                )?;
            }
        }
    }
    for step in replaced {
        steps.hide(step, version);
    }
    // 3. the ledger
    let anything = take.iter().any(|t| !t.is_empty());
    for (i, log) in logs.iter().enumerate() {
        if scope.is_other(log) && take[i].is_empty() {
            continue;
        }
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

/// The steps of closed groups that `after` contains and the base does not. The list of all steps may exceed memory.
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

/// The groups of a step that can be taken, and the ranks whose groups are missing. Errors: `Conflict` if two writers
/// closed one rank.
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

/// Takes the groups in which the ranks closed a step. Returns those up to the last replacement that every rank has
/// closed, and the logs that have closed the step less often than others.
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

/// The order of a writer's entries in a commit of its own: its rank, or its id.
fn own_order(log: &WriterLog) -> u64 {
    log.header.rank.map_or(log.header.id, |r| u64::from(r.rank))
}

/// Groups that share a place in time: those in which several ranks of a run closed one step for the n-th time, or one
/// group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Together {
    Ranks {
        team: Team,
        step: Option<u64>,
        /// Tells writers of the same rank apart.
        turn: usize,
        /// How often the writer closed the step before.
        round: usize,
    },
    Alone(usize, u64),
}

/// A run and its number of ranks.
type Team = (u64, u32);

/// The number of each group (log, number) in the order of closing, if the groups are of several writers that do not
/// write together; `None` if the order of ranks suffices.
fn ages(logs: &[WriterLog], take: &[Vec<&Group>]) -> Option<BTreeMap<(usize, u64), u64>> {
    let mut writers: Vec<usize> = (0..logs.len()).filter(|i| !take[*i].is_empty()).collect();
    let team = |i: &usize| logs[*i].header.rank.map(|rank| -> Team { (logs[*i].header.run, rank.nranks) });
    let first = writers.first().and_then(team);
    let mut ranks: BTreeMap<(Team, u32), usize> = BTreeMap::new();
    let mut doubled = false;
    writers.sort_by_key(|i| logs[*i].header.time);
    let mut turn: BTreeMap<usize, usize> = BTreeMap::new();
    for i in &writers {
        if let (Some(rank), Some(team)) = (logs[*i].header.rank, team(i)) {
            let before = ranks.entry((team, rank.rank)).or_insert(0);
            turn.insert(*i, *before);
            doubled |= *before > 0;
            *before += 1;
        }
    }
    let is_one_team = first.is_some() && writers.iter().all(|i| team(i) == first) && !doubled;
    if writers.len() < 2 || is_one_team {
        return None;
    }
    let mut times: BTreeMap<Together, u64> = BTreeMap::new();
    let mut of = BTreeMap::new();
    for i in writers {
        let header = &logs[i].header;
        let mut rounds: BTreeMap<Option<u64>, usize> = BTreeMap::new();
        for group in &take[i] {
            let together = match team(&i) {
                Some(team) if team.1 > 1 => {
                    let closed = rounds.entry(group.step).or_insert(0);
                    let round = *closed;
                    *closed += 1;
                    let (step, turn) = (group.step, turn.get(&i).copied().unwrap_or(0));
                    Together::Ranks { team, step, turn, round }
                }
                _ => Together::Alone(i, group.number),
            };
            // Writers of earlier versions did not note when they closed a group.
            let closed = if group.closed > 0 { group.closed } else { header.time };
            let time = times.entry(together).or_insert(0);
            *time = closed.max(*time);
            of.insert((i, group.number), together);
        }
    }
    let mut sorted: Vec<(u64, Together)> =
        times.into_iter().map(|(together, time)| (time, together)).collect();
    sorted.sort_unstable();
    let number: BTreeMap<Together, u64> =
        sorted.into_iter().enumerate().map(|(n, (_, together))| (together, n as u64 + 1)).collect();
    Some(of.into_iter().filter_map(|(at, together)| Some((at, *number.get(&together)?))).collect())
}

fn adopt_entries(
    (log, group): (&WriterLog, &Group),
    age: Option<u64>,
    version: u64,
    base: &Snapshot,
    books: &mut Books,
    schema: &mut Option<Schema>,
    out: &mut NewEntries,
) -> Result<()> {
    let rank = log.header.rank.map_or(0, |r| u64::from(r.rank));
    let own = own_order(log);
    let aged = age.map_or(own, |age| age << 32 | rank);
    group.entries.each(&mut |mut entry| {
        let Some(variable) = base.schema.variables.get(&entry.variable) else { return Ok(()) }; // deleted since
        entry.commit = version;
        // The arrays of a local variable belong to their writers.
        entry.order = if variable.local { own } else { aged };
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
