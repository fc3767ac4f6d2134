//! Abandoned logs: logs of writers without a rank whose process has ended and that left nothing a commit could take.
//! Also log parts that were closed after the last commit that took something from them.
//!
//! Their unfinished groups are lost: no commit ever takes a group that was not closed, and no process is left to
//! close it. Closed groups wait for a commit or for `recover`, even if their writer is dead. Logs of writers with a
//! rank are left to `recover`.
//!
//! Invariant: a process is found to have ended before its log is read to the end, so nothing can be appended
//! afterwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use drystone_format::keys;
use drystone_format::log::FileHeader;
use drystone_format::source::{Source, SourceState};

use crate::base::writer_process::Process;
use crate::container::Inner;
use crate::log::scan;
use crate::log::scan::{PartFrom, WriterLog};
use crate::{ErrorKind, Result};

/// The abandoned logs and parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Abandoned {
    writers: BTreeSet<u64>,
    /// Writer and number of parts that end with CLOSE and were taken completely, with the lengths of their step
    /// records.
    closed: BTreeMap<(u64, u32), u64>,
}

impl Abandoned {
    /// Finds abandoned logs. `sources` are those of the newest snapshot.
    pub(super) fn find(inner: &Inner, sources: &[Source]) -> Result<Abandoned> {
        let me = Process::current();
        let mut found = Abandoned::default();
        let mut ended = Vec::new();
        for (writer, left) in unsettled(inner, sources)? {
            let header = match left.idx.is_empty() {
                true => {
                    match scan::header(inner.store.as_ref(), &left.segment, left.len, &inner.identity.uuid) {
                        // It is in a tier of another node, which will collect it.
                        Err(e) if e.kind() == ErrorKind::NotYetHome => None,
                        other => other?,
                    }
                }
                false => scan(inner, writer, &left.idx)?.map(|log| {
                    if log.groups.is_empty() && log.open_groups.is_empty() {
                        let closed = log.parts.iter().filter(|part| part.closed && !part.damaged);
                        found.closed.extend(closed.map(|part| ((writer, part.part), part.end)));
                    }
                    log.header
                }),
            };
            let process = |header: FileHeader| Process::parse(header.process.as_bytes());
            let owner = header.filter(|h| h.id == writer && h.rank.is_none()).and_then(process);
            if owner.is_some_and(|owner| owner.has_ended(&me)) {
                ended.push(writer);
            }
        }
        if ended.is_empty() {
            return Ok(found);
        }
        // These processes write no more, so their logs are final.
        let mut left = unsettled(inner, sources)?;
        for writer in ended {
            let idx = left.remove(&writer).unwrap_or_default().idx;
            let nothing =
                |log: &WriterLog| log.groups.is_empty() && !log.parts.iter().any(|part| part.damaged);
            if idx.is_empty() || scan(inner, writer, &idx)?.is_some_and(|log| nothing(&log)) {
                found.writers.insert(writer);
            }
        }
        Ok(found)
    }

    /// Whether the source table marks any of these parts as still growing.
    pub(super) fn is_open_in(&self, sources: &[Source]) -> bool {
        sources.iter().any(|source| self.is_open(source))
    }

    /// The source table in which these parts are settled.
    pub(super) fn settled(&self, mut sources: Vec<Source>) -> Vec<Source> {
        for source in sources.iter_mut().filter(|source| self.is_open(source)) {
            source.state = SourceState::Fenced;
            if let Some(end) = self.closed.get(&(source.writer, source.part)) {
                source.state = SourceState::Closed;
                (source.watermark, source.idx_length) = (*end, *end);
            }
        }
        sources
    }

    /// Whether a writer's log is abandoned.
    pub(super) fn has(&self, writer: u64) -> bool {
        self.writers.contains(&writer)
    }

    fn is_open(&self, source: &Source) -> bool {
        let over = self.has(source.writer) || self.closed.contains_key(&(source.writer, source.part));
        source.kind == 0 && source.state == SourceState::Open && over
    }
}

/// The parts of a writer that are not known to be settled.
#[derive(Default)]
struct Left {
    /// The parts of the idx, ascending.
    idx: Vec<PartFrom>,
    /// The key of one of its segments.
    segment: String,
    /// The length of that segment.
    len: u64,
}

/// The unsettled parts by writer.
fn unsettled(inner: &Inner, sources: &[Source]) -> Result<BTreeMap<u64, Left>> {
    let known: HashMap<(u64, u32), &Source> =
        sources.iter().filter(|s| s.kind == 0).map(|s| ((s.writer, s.part), s)).collect();
    let mut writers: BTreeMap<u64, Left> = BTreeMap::new();
    for item in inner.store.list("log/")? {
        let Some((writer, part, is_idx)) = keys::parse_log(&item.key) else { continue };
        let source = known.get(&(writer, part));
        if source.is_some_and(|source| source.state != SourceState::Open) {
            continue;
        }
        let left = writers.entry(writer).or_default();
        if is_idx {
            let watermark = source.map_or(0, |source| source.watermark);
            left.idx.push(PartFrom { part, watermark, len: item.len });
        } else {
            (left.segment, left.len) = (item.key, item.len);
        }
    }
    writers.values_mut().for_each(|left| left.idx.sort_by_key(|part| part.part));
    Ok(writers)
}

/// The content of a log. `None` if it is damaged.
fn scan(inner: &Inner, writer: u64, parts: &[PartFrom]) -> Result<Option<WriterLog>> {
    match WriterLog::scan(inner.store.as_ref(), writer, &inner.identity.uuid, parts, None) {
        Err(e) if e.kind() == ErrorKind::Corrupt => Ok(None),
        other => other,
    }
}
