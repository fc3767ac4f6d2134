//! Adopts replicas of committed blocks.
//!
//! Invariants
//! - an entry is adopted only where its block exists, and only once;
//! - a log part that holds replicas holds nothing else: the commit that names its source also closes it.

use std::collections::BTreeSet;

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_format::keys;
use drystone_format::source::{Source, SourceState};
use drystone_plan::tree::{self, NewEntries, Query, StepSet};

use super::transaction::{Change, Committed, Decision, transact};
use crate::Result;
use crate::container::Inner;
use crate::history::snapshot::Snapshot;

/// Written replicas that no commit names yet.
pub(crate) struct Beside {
    writer: u64,
    process: String,
    pub(crate) parts: Vec<BesidePart>,
    /// In each entry, `commit`, `order` and `put` are those of the block; `source` is the number of the part.
    pub(crate) entries: Vec<Entry>,
}

/// A part of the log that holds them.
pub(crate) struct BesidePart {
    pub(crate) part: u32,
    /// Length of its idx.
    pub(crate) records: u64,
    /// Bytes of the segment that the entries need.
    pub(crate) bytes: u64,
}

/// Identifies a replica's block: member, commit, order, put, first cell.
type Name = (u32, u64, u64, u64, [u64; MAX_NDIM]);

fn name(e: &Entry) -> Name {
    (e.member, e.commit, e.order, e.put, e.offset)
}

impl Beside {
    /// An empty set for a writer in a process.
    pub(crate) fn of(writer: u64, process: String) -> Beside {
        Beside { writer, process, parts: Vec::new(), entries: Vec::new() }
    }

    /// The replicas whose blocks are in a snapshot that does not have the replicas themselves.
    fn missing_in(&self, inner: &Inner, base: &Snapshot) -> Result<Vec<&Entry>> {
        let Some(root) = &base.manifest.root else { return Ok(Vec::new()) };
        let mut out = Vec::with_capacity(self.entries.len());
        for some in self.entries.chunk_by(|a, b| (a.step, a.variable) == (b.step, b.variable)) {
            let Some(Entry { step, variable, .. }) = some.first() else { continue };
            if !base.schema.variables.contains_key(variable) {
                continue;
            }
            let (mut put, mut there) = (BTreeSet::new(), BTreeSet::new());
            let query = Query { steps: StepSet::one(*step), variable: *variable, member: None, bounds: None };
            tree::find(&inner.pages, root, &query, &mut |entry| {
                if entry.encoding.replica == 0 {
                    put.insert(name(&entry));
                } else {
                    there.insert((name(&entry), entry.encoding.replica));
                }
            })?;
            let is_missing = |entry: &&Entry| {
                put.contains(&name(entry)) && !there.contains(&(name(entry), entry.encoding.replica))
            };
            out.extend(some.iter().filter(is_missing));
        }
        Ok(out)
    }

    /// The source table with the added parts, and the source number of each.
    fn sources(&self, mut sources: Vec<Source>) -> (Vec<Source>, Vec<u32>) {
        let mut numbers = Vec::with_capacity(self.parts.len());
        for BesidePart { part, records, bytes } in &self.parts {
            let known = sources.iter().position(|s| (s.kind, s.writer, s.part) == (0, self.writer, *part));
            let source = Source {
                kind: 0,
                writer: self.writer,
                part: *part,
                watermark: *records,
                groups: 0,
                state: SourceState::Closed,
                idx_length: *records,
                seg_length: *bytes,
            };
            let at = known.unwrap_or(sources.len());
            match sources.get_mut(at) {
                Some(known) => *known = source,
                None => sources.push(source),
            }
            numbers.push(at as u32);
        }
        (sources, numbers)
    }

    /// Makes the replicas visible. Returns how many were adopted; if none was, removes the log.
    pub(crate) fn commit(self, inner: &Inner) -> Result<(Committed, u64)> {
        let mut adopted = 0;
        let done = transact(inner, |base, _| {
            let missing = self.missing_in(inner, base)?;
            adopted = missing.len() as u64;
            if missing.is_empty() {
                return Ok(Decision::Keep { incomplete: Vec::new(), notes: Vec::new() });
            }
            let (sources, numbers) = self.sources(base.sources(&inner.pages)?);
            let number = |part| {
                let at = self.parts.iter().position(|known| known.part == part)?;
                numbers.get(at).copied()
            };
            let mut entries = NewEntries::default();
            for entry in missing {
                let Some(source) = number(entry.source) else { continue };
                entries.push(Entry { source, ..entry.clone() });
            }
            let writers = [self.process.clone()].into();
            let change = Change { entries, sources: Some(sources), writers, ..Change::default() };
            Ok(Decision::Apply(Box::new(change)))
        })?;
        if done.changed {
            inner.adopt_snapshot(done.snapshot.clone());
        } else {
            for part in &self.parts {
                // No entry names these objects. Garbage collection removes what remains once this process has ended.
                let _ = inner.store.delete(&keys::segment(self.writer, part.part));
                let _ = inner.store.delete(&keys::idx(self.writer, part.part));
            }
        }
        Ok((done, adopted))
    }
}
