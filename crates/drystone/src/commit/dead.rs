//! Dead entries of a snapshot, which no read can show any more: entries of deleted variables and replaced steps, and
//! blocks that are completely overwritten or cut away. A recovery adds the steps that it gives up.
//!
//! Local variables and empty blocks are left as they are. A replica is dead once its last original is.

use std::collections::{BTreeSet, HashSet};

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_format::keys;
use drystone_format::source::{Source, SourceState};
use drystone_plan::resolve::{Candidate, resolve};
use drystone_plan::selection::Selection;
use drystone_plan::tree::{self, Query, StepSet};

use crate::Result;
use crate::container::Inner;
use crate::history::snapshot::Snapshot;

/// Identifies an entry among all entries.
type Name = (u64, u32, u32, u64, u64, u64, u32, [u64; MAX_NDIM]);

/// The dead entries, and the sources of the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dead {
    names: HashSet<Name>,
    /// Key steps of which every entry is dead.
    steps: BTreeSet<u64>,
    live: BTreeSet<u32>,
    known: bool,
}

fn name(e: &Entry) -> Name {
    (e.step, e.variable, e.member, e.commit, e.order, e.put, e.encoding.replica, e.offset)
}

impl Dead {
    /// Finds the dead entries of a snapshot. Memory holds the entries of one member of a variable at one step, and a
    /// name per dead entry.
    pub(crate) fn find(inner: &Inner, snapshot: &Snapshot) -> Result<Dead> {
        let mut dead = Dead { known: true, ..Dead::default() };
        let Some(root) = &snapshot.manifest.root else { return Ok(dead) };
        let mut group: Vec<Entry> = Vec::new();
        tree::entries(&inner.pages, root, &mut |entry| {
            let key = |e: &Entry| (e.step, e.variable, e.member);
            if group.first().is_some_and(|first| key(first) != key(entry)) {
                dead.settle(snapshot, &mut group);
            }
            group.push(entry.clone());
        })?;
        dead.settle(snapshot, &mut group);
        Ok(dead)
    }

    /// All replicas with one number, by members of a variable: they are dead once no commit names them.
    pub(crate) fn replicas(
        inner: &Inner,
        snapshot: &Snapshot,
        (variable, members, replica): (u32, &BTreeSet<u32>, u32),
    ) -> Result<Dead> {
        let mut dead = Dead::default();
        let Some(root) = &snapshot.manifest.root else { return Ok(dead) };
        let query = Query { steps: StepSet::ALL, variable, member: None, bounds: None };
        tree::find(&inner.pages, root, &query, &mut |entry| {
            if entry.encoding.replica == replica && members.contains(&entry.member) {
                dead.names.insert(name(&entry));
            }
        })?;
        Ok(dead)
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        self.names.insert(name(entry));
    }

    /// Adds all entries of a key step.
    pub(crate) fn add_step(&mut self, key_step: u64) {
        self.steps.insert(key_step);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.steps.is_empty()
    }

    /// The number of dead entries that were found one by one.
    pub(crate) fn len(&self) -> u64 {
        self.names.len() as u64
    }

    /// Whether an entry is dead.
    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.names.contains(&name(entry)) || self.steps.contains(&entry.step)
    }

    /// The source table in which settled or lost parts without live entries need no bytes.
    pub(crate) fn sources(&self, mut sources: Vec<Source>, lost: &BTreeSet<String>) -> Vec<Source> {
        if self.known {
            for (number, source) in sources.iter_mut().enumerate() {
                let live = u32::try_from(number).is_ok_and(|n| self.live.contains(&n));
                let ended = source.state != SourceState::Open
                    || lost.contains(&keys::segment(source.writer, source.part));
                if source.kind == 0 && ended && !live {
                    source.seg_length = 0;
                }
            }
        }
        sources
    }

    /// Whether blocks of one member of a variable at one step are covered by `others`, whichever is newer.
    pub(crate) fn are_covered(snapshot: &Snapshot, blocks: &[Entry], others: &[Entry]) -> bool {
        let Some(first) = blocks.first() else { return true };
        let oldest = first.step.checked_sub(1).map_or(0, |step| snapshot.steps.hidden_below(step));
        let mut group = others.to_vec();
        group.extend(blocks.iter().map(|e| Entry { commit: oldest, order: 0, put: 0, ..e.clone() }));
        !shown(snapshot, &group)[others.len()..].contains(&true)
    }

    /// Settles the entries of one member of one variable at one step.
    fn settle(&mut self, snapshot: &Snapshot, group: &mut Vec<Entry>) {
        let shown = shown(snapshot, group);
        for (entry, shown) in group.drain(..).zip(shown) {
            if shown {
                self.live.insert(entry.source);
            } else {
                self.names.insert(name(&entry));
            }
        }
    }
}

fn shown(snapshot: &Snapshot, group: &[Entry]) -> Vec<bool> {
    let Some(first) = group.first() else { return Vec::new() };
    let Some(variable) = snapshot.schema.variables.get(&first.variable) else {
        return vec![false; group.len()];
    };
    let hidden = match first.step.checked_sub(1) {
        Some(step) => snapshot.steps.hidden_below(step),
        None => 0,
    };
    let mut shown: Vec<bool> = group.iter().map(|e| e.commit >= hidden).collect();
    let ndim = variable.shape.len();
    if variable.local || group.iter().any(|e| usize::from(e.ndim) != ndim) {
        return shown;
    }
    let limit = |entry: &Entry| {
        let mut limit = [u64::MAX; MAX_NDIM];
        for (commit, shape) in variable.clips.iter().filter(|(commit, _)| entry.commit <= *commit) {
            let _ = commit;
            limit.iter_mut().zip(shape).for_each(|(l, n)| *l = (*l).min(*n));
        }
        limit
    };
    let put: Vec<usize> = (0..group.len()).filter(|i| shown[*i] && group[*i].encoding.replica == 0).collect();
    let candidates: Vec<Candidate> =
        put.iter().map(|i| Candidate { entry: group[*i].clone(), limit: limit(&group[*i]) }).collect();
    let mut extents = vec![0u64; ndim];
    for candidate in &candidates {
        extents.iter_mut().zip(candidate.entry.end()).for_each(|(n, end)| *n = (*n).max(end));
    }
    let visible: BTreeSet<usize> =
        resolve(&candidates, &Selection::all(&extents)).visible.iter().map(|v| v.candidate).collect();
    for (number, i) in put.into_iter().enumerate() {
        shown[i] = visible.contains(&number) || group[i].cells() == Some(0);
    }
    let age = |e: &Entry| (e.commit, e.order, e.put);
    let ages: HashSet<_> = group
        .iter()
        .zip(&shown)
        .filter(|(e, s)| **s && e.encoding.replica == 0)
        .map(|(e, _)| age(e))
        .collect();
    for (entry, shown) in group.iter().zip(&mut shown).filter(|(e, _)| e.encoding.replica > 0) {
        *shown = ages.contains(&age(entry));
    }
    shown
}
