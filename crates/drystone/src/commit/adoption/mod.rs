//! Adoption: which closed groups of which logs a commit takes (docs/design, "Runs and steps", "Commit").
//!
//! `planning` is pure; this module reads the logs before it and puts the manifest after it.

mod ledger;
mod planning;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::schema::Schema;
use drystone_format::source::{Source, SourceState};
use drystone_store::{ListEntry, Pending, Reply, Request, Store, StoreError, TOGETHER};

use crate::commit::transaction::{Committed, Decision, transact, transact_at_once};
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::log::scan::{self, Group, PartFrom, Tail, WriterLog};
use crate::{Error, ErrorKind, Result};

pub(crate) use ledger::Books;
pub(crate) use planning::{Scope, Verdict, has_pending, is_fenced, new_steps, next_fence, plan};

/// What to do about a log that is damaged before its end, or whose segment is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damaged {
    /// Under `durable` an error, since no crash causes that; else what follows the damage is left out.
    Refuse,
    /// Leave out what follows.
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
        // As if the schema had been changed first: the writers' blocks may belong to new variables.
        let changed = Snapshot::of(base.manifest.clone(), Arc::new(schema), base.steps.clone());
        let mut decided = plan(&changed, base.sources(&inner.pages)?, &logs, Scope::All, version, &TakeAll)?;
        decided.notes.splice(0..0, notes);
        decided.schema = decided.schema.or_else(|| Some(Arc::unwrap_or_clone(changed.schema)));
        Ok(Decision::Apply(Box::new(decided)))
    })?;
    inner.adopt_snapshot(done.snapshot.clone());
    Ok(done)
}

/// Commits groups of one writer. `fence`: for a ranked writer, the run number that was valid when it opened. `tail`:
/// what it need not read back of its log. `unsynced`: segments that the manifest has to wait for. `same`: the caller
/// has checked that the container was not replaced.
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
        // The tail is known already. A single part needs no prefetch: it is read next.
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

/// The names of all logs, requested while the caller looks for the base.
///
/// Used only for a far store where objects are put whole: elsewhere a list that is older than the base may show a log
/// shorter than the base knows it.
pub(crate) struct Listing(Option<Pending>);

impl Listing {
    pub(crate) fn begin(store: &dyn Store) -> Self {
        let features = store.features();
        let early = features.far.is_some() && !features.append;
        Listing(early.then(|| store.submit(Request::List { prefix: "log/".into() })))
    }

    /// The first call returns the listing that was submitted at the beginning; every later call lists again.
    fn names(&mut self, store: &dyn Store) -> Result<Vec<ListEntry>> {
        match self.0.take().map(Pending::wait).transpose()? {
            Some(Reply::Listed { entries }) => Ok(entries),
            _ => Ok(store.list("log/")?),
        }
    }
}

/// Reads every log (or those of some writers, which must then be complete) that may hold something after its watermark,
/// and reports irregularities.
pub(crate) fn gather(
    inner: &Inner,
    base: &Snapshot,
    damaged: Damaged,
    only: Option<&[u64]>,
) -> Result<(Vec<WriterLog>, Vec<String>)> {
    gather_from(inner, base, damaged, only, &mut Listing(None))
}

/// The same with a list that was requested before.
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
        }
        // Groups whose bytes are not in the segment: a power cut under `async`, or damage. The list may have seen the
        // segment before the bytes arrived and the step record afterwards, so the length is requested again.
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
