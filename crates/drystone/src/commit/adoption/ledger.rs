//! The ledger of a commit: the settled groups of each writer, and the numbers of log parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use drystone_format::source::{Source, SourceState};

use crate::history::snapshot::Snapshot;
use crate::log::scan::{Group, WriterLog};

/// The groups of a writer that are settled.
pub(super) struct Settled {
    next: u64,
    ahead: BTreeSet<u64>,
}

impl Settled {
    pub(super) fn contains(&self, group: u64) -> bool {
        group < self.next || self.ahead.contains(&group)
    }
    pub(super) fn insert(&mut self, group: u64) {
        if group >= self.next {
            self.ahead.insert(group);
        }
        while self.ahead.remove(&self.next) {
            self.next = self.next.saturating_add(1);
        }
    }
}

/// The settled groups of all logs, and the log parts that entries of the index name.
pub(crate) struct Books {
    pub(super) sources: Vec<Source>,
    number: HashMap<(u64, u32), u32>,
    pub(super) settled: HashMap<u64, Settled>,
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

    pub(super) fn settled(&mut self, writer: u64) -> &mut Settled {
        self.settled.entry(writer).or_insert(Settled { next: 0, ahead: BTreeSet::new() })
    }

    /// Whether a group of a log is settled.
    pub(super) fn is_settled(&self, log: &WriterLog, group: &Group) -> bool {
        self.settled.get(&log.header.id).is_some_and(|settled| settled.contains(group.number))
    }

    /// Whether this many first groups of a writer are settled.
    pub(super) fn are_settled(&self, writer: u64, groups: u64) -> bool {
        groups == 0 || self.settled.get(&writer).is_some_and(|settled| settled.next >= groups)
    }

    pub(super) fn source(&mut self, writer: u64, part: u32) -> u32 {
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

    /// Records watermarks and states of a log in the source table.
    pub(super) fn update(&mut self, log: &WriterLog, taken: &[&Group], fenced: bool) {
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

    pub(super) fn ahead(&self) -> Vec<(u32, u64)> {
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
