//! Adoption: which closed groups of which logs a commit takes (DESIGN §6, "Runs and steps", "Commit").
//!
//! [`plan`] is a pure function from the base snapshot and the logs to a [`Change`]; reading logs and putting the manifest
//! happen around it.
//!
//! Invariants
//! - a step of a ranked run is taken whole or not at all: by every rank, and what replaces it, too;
//! - every group is settled (taken or given up) at most once: watermarks and the `ahead` list only grow;
//! - nothing new means no change at all.

use super::transaction::{Incomplete, RunStep};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::schema::Schema;
use drystone_format::source::{Source, SourceState};
use drystone_format::steps::Steps;
use drystone_plan::tree::NewEntries;
use drystone_store::{ListEntry, Pending, Reply, Request, Store, StoreError, TOGETHER};

use super::transaction::{Change, Committed, Decision, transact, transact_at_once};
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::log::scan::{self, Group, PartFrom, Tail, WriterLog};
use crate::{Error, ErrorKind, Result};

/// Whose groups to look at, and which to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All writers, all adoptable groups.
    All,
    /// One writer (with its parts' lengths given by the caller): steps too (`nranks` = 1), or only values without step.
    Own { steps: bool },
}

/// What to do about a log that is damaged in the middle, or whose segment is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damaged {
    /// An error under `durable`, where no crash does that; else what follows is left out.
    Refuse,
    /// Leave out what follows.
    GiveUp,
}

/// What to do with groups, decided by the caller of [`plan`].
pub(crate) trait Verdict {
    /// May this closed group be taken? `false` gives it up for ever.
    fn keep(&self, log: &WriterLog, group: &Group) -> bool;
    /// Give up everything that is not taken, and fence ranked writers?
    fn fence(&self) -> bool;
}

/// An ordinary commit: takes what is complete, gives nothing up.
struct TakeAll;
impl Verdict for TakeAll {
    fn keep(&self, _: &WriterLog, _: &Group) -> bool {
        true
    }
    fn fence(&self) -> bool {
        false
    }
}

/// Commits everything adoptable of all writers.
pub(crate) fn commit_all(inner: &Arc<Inner>) -> Result<Committed> {
    let mut listing = Listing::begin(inner.store.as_ref());
    let done = transact(inner, |base, version| {
        let (logs, notes) = gather_from(inner, base, Damaged::Refuse, None, &mut listing)?;
        decide(inner, base, &logs, Scope::All, version, notes)
    })?;
    inner.adopt_snapshot(done.snapshot.clone());
    Ok(done)
}

/// Commits everything adoptable of some writers without ranks, and a change of the schema.
pub(crate) fn commit_of(
    inner: &Arc<Inner>,
    writers: &[u64],
    mut change: impl FnMut(&mut Schema, u64) -> Result<bool>,
) -> Result<Committed> {
    let mut listing = Listing::begin(inner.store.as_ref());
    let done = transact(inner, |base, version| {
        let (logs, notes) = gather_from(inner, base, Damaged::Refuse, Some(writers), &mut listing)?;
        let closed = |id: u64| logs.iter().any(|log| log.header.id == id && !log.groups.is_empty());
        if let Some(missing) = writers.iter().find(|id| !closed(**id)) {
            let why = "was not closed, or its log cannot be read here yet";
            return Err(Error::new(
                ErrorKind::Io,
                format!("writer {missing:016x} {why}: nothing was committed"),
            ));
        }
        let mut schema = (*base.schema).clone();
        if !change(&mut schema, version)? {
            return decide(inner, base, &logs, Scope::All, version, notes);
        }
        // As if the schema had been changed before: what the writers hold may be of variables that are new.
        let changed = Snapshot::of(base.manifest.clone(), Arc::new(schema), base.steps.clone());
        let mut decided = plan(&changed, base.sources(&inner.pages)?, &logs, Scope::All, version, &TakeAll)?;
        decided.notes.splice(0..0, notes);
        decided.schema = decided.schema.or_else(|| Some(Arc::unwrap_or_clone(changed.schema)));
        Ok(Decision::Apply(Box::new(decided)))
    })?;
    inner.adopt_snapshot(done.snapshot.clone());
    Ok(done)
}

/// Commits groups of one writer. `fence`, of a ranked one, is the number that held when it opened; `tail` what it need not read
/// back of its log; `unsynced` segments that the manifest has to wait for; `same` whether the caller has asked if it is still this container.
pub(crate) fn commit_own(
    inner: &Arc<Inner>,
    writer: u64,
    fence: Option<u64>,
    (parts, tail): (&[PartFrom], Option<&Tail>),
    unsynced: &BTreeSet<String>,
    (steps, same): (bool, bool),
) -> Result<Committed> {
    transact_at_once(inner, same, |base, version| {
        if fence.is_some_and(|f| f < base.manifest.fence) {
            return Err(Error::conflict(format!(
                "writer {writer:016x} was shut out by a recovery, which settled what it had closed before: nothing it closes is \
                 committed any more; open another writer, and see the steps that are there"
            )));
        }
        let sources = base.sources(&inner.pages)?;
        let mine: HashMap<u32, &Source> =
            sources.iter().filter(|s| s.kind == 0 && s.writer == writer).map(|s| (s.part, s)).collect();
        let from: Vec<PartFrom> = parts
            .iter()
            .filter(|p| mine.get(&p.part).is_none_or(|s| s.state == SourceState::Open))
            .map(|p| PartFrom { watermark: mine.get(&p.part).map_or(0, |s| s.watermark), ..*p })
            .collect();
        // What is the tail is known; a single part is read at once.
        let unread = from.iter().filter(|p| !tail.is_some_and(|tail| tail.is(p)));
        let unread: Vec<PartFrom> = unread.cloned().collect();
        if unread.len() > 1 {
            scan::prefetch(inner.store.as_ref(), std::iter::once((writer, unread.as_slice())));
        }
        let log = WriterLog::scan(inner.store.as_ref(), writer, &inner.identity.uuid, &from, tail)?;
        let logs: Vec<WriterLog> = log.into_iter().collect();
        let mut decided = decide(inner, base, &logs, Scope::Own { steps }, version, Vec::new())?;
        if let Decision::Apply(change) = &mut decided {
            change.unsynced = unsynced.iter().cloned().collect();
        }
        Ok(decided)
    })
}

fn decide(
    inner: &Inner,
    base: &Arc<Snapshot>,
    logs: &[WriterLog],
    scope: Scope,
    version: u64,
    notes: Vec<String>,
) -> Result<Decision> {
    let sources = base.sources(&inner.pages)?;
    let mut change = plan(base, sources, logs, scope, version, &TakeAll)?;
    change.notes.splice(0..0, notes);
    Ok(if change.sources.is_some() {
        Decision::Apply(Box::new(change))
    } else {
        Decision::Keep { incomplete: change.incomplete, notes: change.notes }
    })
}

/// The names of all logs, asked for while the caller looks for the base.
///
/// Only of a far store where objects are put whole: elsewhere a list that is older than the base may show a log shorter than the base knows it.
pub(crate) struct Listing(Option<Pending>);

impl Listing {
    pub(crate) fn begin(store: &dyn Store) -> Self {
        let features = store.features();
        let early = features.far.is_some() && !features.append;
        Listing(early.then(|| store.submit(Request::List { prefix: "log/".into() })))
    }

    /// What was asked for, once; from then on what is there now.
    fn names(&mut self, store: &dyn Store) -> Result<Vec<ListEntry>> {
        match self.0.take().map(Pending::wait).transpose()? {
            Some(Reply::Listed { entries }) => Ok(entries),
            _ => Ok(store.list("log/")?),
        }
    }
}

/// Reads every log (or those of some writers, which must then be whole) that may hold something beyond its watermark, and says
/// what is strange about them.
pub(crate) fn gather(
    inner: &Inner,
    base: &Snapshot,
    damaged: Damaged,
    only: Option<&[u64]>,
) -> Result<(Vec<WriterLog>, Vec<String>)> {
    gather_from(inner, base, damaged, only, &mut Listing(None))
}

/// The same, with a list that was asked for before.
pub(crate) fn gather_from(
    inner: &Inner,
    base: &Snapshot,
    damaged: Damaged,
    only: Option<&[u64]>,
    listing: &mut Listing,
) -> Result<(Vec<WriterLog>, Vec<String>)> {
    let strict =
        only.is_some() || damaged == Damaged::Refuse && inner.identity.durability == Durability::Durable;
    let store = inner.store.as_ref();
    let sources = base.sources(&inner.pages)?;
    let known: HashMap<(u64, u32), &Source> =
        sources.iter().filter(|s| s.kind == 0).map(|s| ((s.writer, s.part), s)).collect();
    let mut writers: BTreeMap<u64, Vec<PartFrom>> = BTreeMap::new();
    let mut segments: HashMap<(u64, u32), u64> = HashMap::new();
    for item in listing.names(store)? {
        match keys::parse_log(&item.key) {
            Some((writer, ..)) if only.is_some_and(|only| !only.contains(&writer)) => {}
            Some((writer, part, true)) => {
                let source = known.get(&(writer, part));
                if source.is_some_and(|s| {
                    s.state != SourceState::Open || (s.idx_length == item.len && s.watermark == item.len)
                }) {
                    continue;
                }
                let watermark = source.map_or(0, |s| s.watermark);
                writers.entry(writer).or_default().push(PartFrom { part, watermark, len: item.len });
            }
            Some((writer, part, false)) => {
                segments.insert((writer, part), item.len);
            }
            None => {}
        }
    }
    let mut logs = Vec::new();
    let mut notes = Vec::new();
    writers.values_mut().for_each(|parts| parts.sort_by_key(|p| p.part));
    for (number, (writer, parts)) in writers.iter().enumerate() {
        if number % TOGETHER == 0 {
            let next = writers.iter().skip(number).take(TOGETHER);
            scan::prefetch(store, next.map(|(writer, parts)| (*writer, parts.as_slice())));
        }
        let writer = *writer;
        let mut log = match WriterLog::scan(store, writer, &inner.identity.uuid, parts, None) {
            Ok(Some(log)) => log,
            Ok(None) => continue,
            Err(e) if e.kind() == ErrorKind::Corrupt && !strict => {
                notes
                    .push(format!("{e}; what writer {writer:016x} closed and was not committed is left out"));
                continue;
            }
            Err(e) => {
                return Err(
                    e.while_doing("looking for what writers closed (recover() gives up what is damaged)")
                );
            }
        };
        if let Some(part) = log.parts.iter().find(|p| p.damaged) {
            let message = format!(
                "{} is damaged at byte {}: sound records stand behind it{}",
                keys::idx(writer, part.part),
                part.end,
                part.torn.as_ref().map_or(String::new(), |t| format!(" ({})", t.what))
            );
            if strict {
                return Err(Error::corrupt(format!(
                    "{message}; recover(adopt=True) takes what is sound and gives up the rest"
                )));
            }
            notes.push(message);
        }
        // Groups whose bytes are not in the segment: a power cut under `async`, or damage. The list may have seen the segment
        // before the bytes came, and the step record after: so it is asked again.
        let mut short = None;
        'groups: for (number, group) in log.groups.iter().enumerate() {
            for (part, end) in group.ends.iter().map(|(part, end)| (*part, *end)) {
                let mut found = segments.get(&(writer, part)).copied().unwrap_or(0);
                if found < end {
                    found = match store.len(&keys::segment(writer, part)) {
                        Ok(len) => len,
                        Err(StoreError::NotFound { .. }) => 0,
                        Err(e) => return Err(e.into()),
                    };
                    segments.insert((writer, part), found);
                }
                if found < end {
                    short = Some((number, part, end));
                    break 'groups;
                }
            }
        }
        if let Some((bad, part, end)) = short {
            let message = format!(
                "{} ends before byte {end}, which a step record of writer {writer:016x} promised",
                keys::segment(writer, part)
            );
            if strict {
                return Err(Error::corrupt(message));
            }
            notes.push(format!("{message}; what it held is left out"));
            log.groups.truncate(bad);
        }
        logs.push(log);
    }
    Ok((logs, notes))
}

/// Groups a writer has settled.
struct Settled {
    next: u64,
    ahead: BTreeSet<u64>,
}

impl Settled {
    fn contains(&self, group: u64) -> bool {
        group < self.next || self.ahead.contains(&group)
    }
    fn insert(&mut self, group: u64) {
        if group >= self.next {
            self.ahead.insert(group);
        }
        while self.ahead.remove(&self.next) {
            self.next = self.next.saturating_add(1);
        }
    }
}

pub(crate) struct Books {
    sources: Vec<Source>,
    number: HashMap<(u64, u32), u32>,
    settled: HashMap<u64, Settled>,
}

impl Books {
    pub(crate) fn new(base: &Snapshot, sources: Vec<Source>) -> Self {
        let mut number = HashMap::new();
        let mut settled: HashMap<u64, Settled> = HashMap::new();
        for (i, s) in sources.iter().enumerate().filter(|(_, s)| s.kind == 0) {
            number.insert((s.writer, s.part), i as u32);
            let slot = settled.entry(s.writer).or_insert(Settled { next: 0, ahead: BTreeSet::new() });
            slot.next = slot.next.max(s.groups);
        }
        for (source, group) in &base.manifest.ahead {
            if let Some(s) = sources.get(*source as usize)
                && let Some(slot) = settled.get_mut(&s.writer)
            {
                slot.insert(*group);
            }
        }
        Books { sources, number, settled }
    }

    fn settled(&mut self, writer: u64) -> &mut Settled {
        self.settled.entry(writer).or_insert(Settled { next: 0, ahead: BTreeSet::new() })
    }

    fn source(&mut self, writer: u64, part: u32) -> u32 {
        let next = self.sources.len() as u32;
        *self.number.entry((writer, part)).or_insert_with(|| {
            self.sources.push(Source {
                kind: 0,
                writer,
                part,
                watermark: 0,
                groups: 0,
                state: SourceState::Open,
                idx_length: 0,
                seg_length: 0,
            });
            next
        })
    }

    /// Writes watermarks and states of a log back into the source table.
    fn update(&mut self, log: &WriterLog, taken: &[&Group], fenced: bool) {
        let writer = log.header.id;
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        for group in taken {
            for (part, end) in &group.ends {
                let slot = ends.entry(*part).or_insert(0);
                *slot = (*end).max(*slot);
            }
        }
        for part in &log.parts {
            let number = self.source(writer, part.part) as usize;
            let settled = self.settled(writer);
            let watermark = log.watermark(part, |g| settled.contains(g));
            let groups = settled.next;
            let source = &mut self.sources[number];
            source.watermark = if fenced { part.end } else { watermark };
            source.groups = groups;
            source.idx_length = part.end;
            source.state = match (fenced, part.closed && watermark == part.end) {
                (true, _) => SourceState::Fenced,
                (_, true) => SourceState::Closed,
                _ => SourceState::Open,
            };
        }
        for (part, end) in ends {
            let number = self.source(writer, part) as usize;
            self.sources[number].seg_length = self.sources[number].seg_length.max(end);
        }
    }

    fn ahead(&self) -> Vec<(u32, u64)> {
        let mut first: HashMap<u64, u32> = HashMap::new();
        for (i, s) in self.sources.iter().enumerate().filter(|(_, s)| s.kind == 0) {
            first.entry(s.writer).or_insert(i as u32);
        }
        let mut out: Vec<(u32, u64)> = self
            .settled
            .iter()
            .filter_map(|(w, s)| first.get(w).map(|n| (*n, s)))
            .flat_map(|(n, s)| s.ahead.iter().map(move |g| (n, *g)))
            .collect();
        out.sort_unstable();
        out
    }
}

/// Does the log hold groups, closed or begun, that no commit has taken?
pub(crate) fn has_pending(log: &WriterLog, books: &Books) -> bool {
    let settled = books.settled.get(&log.header.id);
    let taken = |g: u64| settled.is_some_and(|s| s.contains(g));
    log.groups.iter().map(|g| g.number).chain(log.open_groups.iter().copied()).any(|g| !taken(g))
}

/// Was a variable of the group created by a commit that a power cut took? Its id may have been given to another since.
fn is_orphan(group: &Group, schema: &Schema) -> bool {
    group.variables.iter().any(|(id, uid)| match schema.variables.get(id) {
        Some(variable) => variable.uid != *uid,
        None => *id >= schema.next_id, // else it was deleted
    })
}

/// Is the log one of a ranked writer that a fence shut out?
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
    // 2. what is taken becomes entries, steps, growth
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

/// Steps of closed groups that `after` shows and the base does not. The list of all steps may be longer than memory.
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

/// Those of a step's groups that can be taken, and who is missing for the others. Two writers of one rank are a conflict.
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

/// Of the groups in which the ranks closed a step those up to the last replacement that is every rank's; and the logs that have not closed it as
/// often as others.
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
