//! Adoption: decides which closed groups of which logs a commit takes (docs/design, "Runs and steps", "Commit").
//!
//! `planning` is pure. This module reads the logs before planning, and puts the manifest afterwards.

mod ledger;
mod planning;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::schema::Schema;
use drystone_format::source::{Source, SourceState};
use drystone_store::{ListEntry, Pending, Reply, Request, Store, StoreError, TOGETHER};

use crate::base::sync::lock;
use crate::base::writer_process::Process;
use crate::commit::transaction::{Committed, Decision, transact, transact_at_once};
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::log::scan::{self, Group, PartFrom, Tail, WriterLog};
use crate::{Error, ErrorKind, Result};

pub(crate) use ledger::Books;
pub(crate) use planning::{Scope, Verdict, has_pending, is_fenced, new_steps, next_fence, plan};

/// How to treat a log that is damaged before its end, or whose segment is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damaged {
    /// Report an error under `durable`, since no crash causes such damage; otherwise leave out what follows the
    /// damage.
    Refuse,
    /// Leave out what follows the damage, and of a log whose segments are too short only the groups that lack bytes.
    GiveUp,
}

/// An ordinary commit: takes what is complete and gives nothing up.
struct TakeAll;
impl Verdict for TakeAll {
    fn keep(&self, _: &WriterLog, _: &Group) -> bool {
        true
    }
    fn fence(&self) -> bool {
        false
    }
}

/// Commits all adoptable groups of all writers.
pub(crate) fn commit_all(inner: &Arc<Inner>) -> Result<Committed> {
    let mut listing = Listing::begin(inner.store.as_ref());
    let done = transact(inner, |base, version| {
        let (logs, notes) = gather_from(inner, base, Damaged::Refuse, Logs::All, &mut listing)?;
        decide(inner, base, &logs, Scope::All, version, notes)
    })?;
    inner.adopt_snapshot(done.snapshot.clone());
    forget_settled(inner, &done.snapshot);
    Ok(done)
}

/// Which logs are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Logs<'a> {
    All,
    /// Those of some writers, which must be complete.
    Of(&'a [u64]),
    /// Those of all other writers. Damaged ones are left out.
    Besides(u64),
}

impl Logs<'_> {
    fn contains(&self, writer: u64) -> bool {
        match self {
            Logs::All => true,
            Logs::Of(some) => some.contains(&writer),
            Logs::Besides(one) => writer != *one,
        }
    }
}

/// Records what these logs hold that waits for a commit.
pub(crate) fn remember_waiting<'l>(inner: &Inner, logs: impl Iterator<Item = &'l WriterLog>, books: &Books) {
    for log in logs {
        for (step, group) in planning::waiting_groups(log, books) {
            inner.waiting.add(log.header.id, step, group);
        }
    }
}

/// The time for which the logs of other programs are not looked at again before values without step are committed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Requests the names of all logs, so that a commit of values without step does not wait for them later.
pub(crate) fn ask_for_others(inner: &Inner) {
    let mut looked = lock(&inner.looked);
    if looked.is_due(LOOK_AGAIN) {
        looked.names = Listing::begin(inner.store.as_ref()).0;
    }
}

/// Before values without step are committed: records what other programs closed, such as one that died before its
/// commit. Its older values would win with a later commit. A program that certainly lives commits its values itself:
/// those of several writers belong together.
fn look_at_others(inner: &Inner, writer: u64) -> Result<()> {
    let mut looked = lock(&inner.looked);
    if !looked.is_due(LOOK_AGAIN) {
        return Ok(());
    }
    looked.last = Some(Instant::now());
    let mut listing = Listing(looked.names.take());
    drop(looked);
    let base = inner.snapshot();
    let (logs, notes) = gather_from(inner, &base, Damaged::Refuse, Logs::Besides(writer), &mut listing)?;
    notes.into_iter().for_each(|note| inner.warn_once(note));
    let books = Books::new(&base, base.sources(&inner.pages)?);
    let me = Process::current();
    let lives =
        |log: &WriterLog| Process::parse(log.header.process.as_bytes()).is_some_and(|of| of.lives(&me));
    let left = logs.iter().filter(|log| !is_fenced(log, &base) && !lives(log));
    remember_waiting(inner, left, &books);
    Ok(())
}

/// Forgets what waited for a commit and is settled by this snapshot.
fn forget_settled(inner: &Inner, snapshot: &Snapshot) {
    if inner.waiting.is_empty() {
        return;
    }
    if let Ok(sources) = snapshot.sources(&inner.pages) {
        let books = Books::new(snapshot, sources);
        inner.waiting.retain(|writer, groups| !books.are_settled(writer, groups));
    }
}

/// Commits all adoptable groups of some writers without ranks, together with a change of the schema.
pub(crate) fn commit_of(
    inner: &Arc<Inner>,
    writers: &[u64],
    mut change: impl FnMut(&mut Schema, u64) -> Result<bool>,
) -> Result<Committed> {
    let mut listing = Listing::begin(inner.store.as_ref());
    let done = transact(inner, |base, version| {
        let (logs, notes) = gather_from(inner, base, Damaged::Refuse, Logs::Of(writers), &mut listing)?;
        let sources = base.sources(&inner.pages)?;
        let taken = |id: u64| {
            let mut parts = sources.iter().filter(|s| (s.kind, s.writer) == (0, id)).peekable();
            parts.peek().is_some() && parts.all(|part| part.state == SourceState::Closed)
        };
        // Another commit may have taken what a writer closed.
        let closed =
            |id: u64| logs.iter().any(|log| log.header.id == id && !log.groups.is_empty()) || taken(id);
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
        // The schema change takes effect first: the writers' blocks may belong to new variables.
        let changed = Snapshot::of(base.manifest.clone(), Arc::new(schema), base.steps.clone());
        let mut decided = plan(&changed, sources, &logs, Scope::All, version, &TakeAll)?;
        decided.notes.splice(0..0, notes);
        decided.schema = decided.schema.or_else(|| Some(Arc::unwrap_or_clone(changed.schema)));
        Ok(Decision::Apply(Box::new(decided)))
    })?;
    inner.adopt_snapshot(done.snapshot.clone());
    forget_settled(inner, &done.snapshot);
    Ok(done)
}

/// Commits groups of one writer, together with the complete groups of other writers of the same steps that wait for a
/// commit: with a later commit their older values would win. For steps, only what [`Inner::waiting`] records causes the
/// logs to be listed. `fence`: for a ranked writer, the run number that was valid when it opened. `tail`:
/// the end of its log, which need not be read back. `unsynced`: segments that must be synced before the manifest is
/// put. `same`: the caller has checked that the container was not replaced.
pub(crate) fn commit_own(
    inner: &Arc<Inner>,
    writer: u64,
    fence: Option<u64>,
    (parts, tail): (&[PartFrom], Option<&Tail>),
    unsynced: &BTreeSet<String>,
    (steps, same): (bool, bool),
) -> Result<Committed> {
    if !steps {
        look_at_others(inner, writer)?;
    }
    let closed = inner.waiting.groups_of(writer);
    let mut joined = false;
    let done = transact_at_once(inner, same, |base, version| {
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
        // The tail is known already. A single part needs no prefetch, since it is read next.
        let unread = from.iter().filter(|p| !tail.is_some_and(|tail| tail.is(p)));
        let unread: Vec<PartFrom> = unread.cloned().collect();
        if unread.len() > 1 {
            scan::prefetch(inner.store.as_ref(), std::iter::once((writer, unread.as_slice())));
        }
        let log = WriterLog::scan(inner.store.as_ref(), writer, &inner.identity.uuid, &from, tail)?;
        let mut logs: Vec<WriterLog> = log.into_iter().collect();
        let mut loose = BTreeSet::new();
        if let Some(others) = others_of(inner, base, (writer, steps), logs.first())? {
            joined = true;
            loose = inner.waiting.others(writer, &[None].into());
            logs.extend(others);
        }
        let scope = Scope::Own { writer, steps, loose: &loose };
        let mut decided = decide(inner, base, &logs, scope, version, Vec::new())?;
        if let Decision::Apply(change) = &mut decided {
            change.unsynced = unsynced.iter().cloned().collect();
        }
        Ok(decided)
    })?;
    inner.waiting.took(writer, steps, closed);
    if joined {
        forget_settled(inner, &done.snapshot);
    }
    Ok(done)
}

/// The logs of all other writers, if any of them is known to have closed something of what a writer commits: the steps
/// in its log, or without `steps` values without step. Damage there does not stop the writer, and is reported as a
/// warning.
fn others_of(
    inner: &Inner,
    base: &Snapshot,
    (writer, steps): (u64, bool),
    log: Option<&WriterLog>,
) -> Result<Option<Vec<WriterLog>>> {
    if !inner.waiting.has_others(writer) {
        return Ok(None);
    }
    let closed = log.iter().flat_map(|log| &log.groups).map(|group| group.step);
    let taken: BTreeSet<Option<u64>> = closed.filter(|step| steps || step.is_none()).collect();
    if inner.waiting.others(writer, &taken).is_empty() {
        return Ok(None);
    }
    let (logs, notes) = gather(inner, base, Damaged::Refuse, Logs::Besides(writer))?;
    notes.into_iter().for_each(|note| inner.warn_once(note));
    Ok(Some(logs))
}

fn decide(
    inner: &Inner,
    base: &Arc<Snapshot>,
    logs: &[WriterLog],
    scope: Scope<'_>,
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

/// The names of all logs, requested while the caller looks for the base.
///
/// It is used only on far stores that put objects whole. On other stores, a list older than the base could show a log
/// shorter than the base knows it.
pub(crate) struct Listing(Option<Pending>);

impl Listing {
    pub(crate) fn begin(store: &dyn Store) -> Self {
        let features = store.features();
        let early = features.far.is_some() && !features.append;
        Listing(early.then(|| store.submit(Request::List { prefix: "log/".into() })))
    }

    /// Returns the listing that was requested at the beginning; later calls list again.
    fn names(&mut self, store: &dyn Store) -> Result<Vec<ListEntry>> {
        match self.0.take().map(Pending::wait).transpose()? {
            Some(Reply::Listed { entries }) => Ok(entries),
            _ => Ok(store.list("log/")?),
        }
    }
}

/// Reads the logs that may hold something after their watermark, and reports irregularities.
pub(crate) fn gather(
    inner: &Inner,
    base: &Snapshot,
    damaged: Damaged,
    only: Logs<'_>,
) -> Result<(Vec<WriterLog>, Vec<String>)> {
    gather_from(inner, base, damaged, only, &mut Listing(None))
}

/// As [`gather`], with a list that was requested before.
pub(crate) fn gather_from(
    inner: &Inner,
    base: &Snapshot,
    damaged: Damaged,
    only: Logs<'_>,
    listing: &mut Listing,
) -> Result<(Vec<WriterLog>, Vec<String>)> {
    let refuse = damaged == Damaged::Refuse && inner.identity.durability == Durability::Durable;
    let leaves_out = refuse && matches!(only, Logs::Besides(_));
    let strict = matches!(only, Logs::Of(_)) || refuse && !leaves_out;
    let store = inner.store.as_ref();
    let sources = base.sources(&inner.pages)?;
    let known: HashMap<(u64, u32), &Source> =
        sources.iter().filter(|s| s.kind == 0).map(|s| ((s.writer, s.part), s)).collect();
    let mut writers: BTreeMap<u64, Vec<PartFrom>> = BTreeMap::new();
    let mut segments: HashMap<(u64, u32), u64> = HashMap::new();
    for item in listing.names(store)? {
        match keys::parse_log(&item.key) {
            Some((writer, ..)) if !only.contains(writer) => {}
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
                notes.push(format!("{e}; uncommitted steps of writer {writer:016x} are left out"));
                continue;
            }
            Err(e) => {
                return Err(e.while_doing("reading the logs of writers (recover() gives up damaged ones)"));
            }
        };
        if let Some(part) = log.parts.iter().find(|p| p.damaged) {
            let message = format!(
                "{} is damaged at byte {}: valid records follow it{}",
                keys::idx(writer, part.part),
                part.end,
                part.torn.as_ref().map_or(String::new(), |t| format!(" ({})", t.what))
            );
            if strict {
                return Err(Error::corrupt(format!(
                    "{message}; recover(adopt=True) takes the valid groups and gives up the rest"
                )));
            }
            notes.push(message);
            if leaves_out {
                continue;
            }
        }
        let short = short_groups(store, &log, &mut segments)?;
        if let Some((first, part, end)) = short.first().copied() {
            let message = format!(
                "{} ends before byte {end}, which a step record of writer {writer:016x} promised",
                keys::segment(writer, part)
            );
            if strict {
                return Err(Error::corrupt(message));
            }
            match damaged {
                Damaged::Refuse if leaves_out => {
                    notes.push(format!("{message}; the writer's uncommitted steps are left out"));
                    continue;
                }
                Damaged::Refuse => {
                    notes.push(format!("{message}; its content is left out"));
                    log.groups.truncate(first);
                }
                Damaged::GiveUp => {
                    let given_up = log.give_up(&short.iter().map(|(number, ..)| *number).collect());
                    let what = match given_up {
                        1 => "its content is left out".into(),
                        n => format!("{n} groups of the writer are left out"),
                    };
                    notes.push(format!("{message}; {what}"));
                }
            }
        }
        logs.push(log);
    }
    Ok((logs, notes))
}

/// The groups whose bytes are not in the segments: number in the log, part, and the end that a step record states. A
/// power cut under `async`, damage, or the loss of a tier is the cause. A list may have seen the segment before the
/// bytes arrived and the step record afterwards, so the length is requested again.
fn short_groups(
    store: &dyn Store,
    log: &WriterLog,
    segments: &mut HashMap<(u64, u32), u64>,
) -> Result<Vec<(usize, u32, u64)>> {
    let writer = log.header.id;
    let mut asked: BTreeSet<u32> = BTreeSet::new();
    let mut out = Vec::new();
    for (number, group) in log.groups.iter().enumerate() {
        for (part, end) in group.ends.iter().map(|(part, end)| (*part, *end)) {
            let mut found = segments.get(&(writer, part)).copied().unwrap_or(0);
            if found < end && asked.insert(part) {
                found = match store.len(&keys::segment(writer, part)) {
                    Ok(len) => len,
                    Err(StoreError::NotFound { .. }) => 0,
                    Err(e) => return Err(e.into()),
                };
                segments.insert((writer, part), found);
            }
            if found < end {
                out.push((number, part, end));
                break;
            }
        }
    }
    Ok(out)
}
