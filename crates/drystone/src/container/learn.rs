//! Observed reads: the extents of reads are counted, and kept in a small object of the container.
//!
//! They determine the layout of variables without declared reads (`access`). Only handles that may write store their
//! observations, when they end. With `learn = false` in the configuration nothing is stored.
//!
//! Invariants
//! - observing never fails a read, and hardly delays one;
//! - stored observations are a hint: a missing or damaged object does no harm;
//! - memory and object size are bounded, however many reads are made.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock};

use drystone_format::keys;
use drystone_format::reads::{self, ReadShape, Reads};
use drystone_plan::layout::{PRIOR, kind_of};
use drystone_plan::listing::{Leg, Listing};
use drystone_plan::selection::Selection;
use drystone_store::{PutMode, Store, StoreExt};

use crate::base::sync::lock;
use crate::container::{Container, Inner};

/// The most kinds of reads that one handle counts per variable. Further kinds are ignored.
const MOST_KINDS: usize = 64;
/// The most reads as which the cells of one listing are counted.
const MOST_CELLS: u64 = 1 << 12;
/// If the weights of a variable sum to more, all are halved, so that older reads count less.
const FADING: u64 = 1 << 14;

/// The observations of one handle. Also the stored observations, on stores where fetching them again costs a round
/// trip.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<u64, BTreeMap<Vec<u64>, u64>>>, OnceLock<Vec<Reads>>);

impl Seen {
    fn add(&self, uid: u64, extents: Vec<u64>, weight: u64) {
        let mut all = lock(&self.0);
        if all.len() >= reads::MOST_VARIABLES && !all.contains_key(&uid) {
            return;
        }
        let kinds = all.entry(uid).or_default();
        if kinds.len() < MOST_KINDS || kinds.contains_key(&extents) {
            let sum = kinds.entry(extents).or_default();
            *sum = sum.saturating_add(weight);
        }
    }

    /// Records a read of a box.
    pub(crate) fn note_box(&self, uid: u64, selection: &Selection, shape: &[u64], steps: bool) {
        let reach = |a: &drystone_plan::selection::Axis| {
            a.count.saturating_sub(1).saturating_mul(a.step.unsigned_abs()).saturating_add(1)
        };
        let count: Vec<u64> = selection.axes.iter().map(reach).collect();
        self.add(uid, kind_of(&count, shape, steps), 1);
    }

    /// Records listed cells: each counts as a read of one cell along the axes of its list.
    pub(crate) fn note_listing(&self, uid: u64, listing: &Listing, shape: &[u64], steps: bool) {
        let mut count = vec![1; shape.len()];
        let mut cells = 1u64;
        for leg in &listing.legs {
            match &**leg {
                Leg::Axis { axis, cells } => {
                    if let Some(n) = count.get_mut(*axis) {
                        *n = cells.count;
                    }
                }
                Leg::List { .. } => cells = cells.saturating_mul(leg.count()),
            }
        }
        self.add(uid, kind_of(&count, shape, steps), cells.clamp(1, MOST_CELLS));
    }

    /// Whether there are enough observations to store.
    pub(crate) fn is_owed(&self) -> bool {
        let counts = |seen: &HashMap<u64, BTreeMap<Vec<u64>, u64>>| {
            seen.values().flat_map(BTreeMap::values).fold(0u64, |sum, n| sum.saturating_add(*n))
        };
        counts(&lock(&self.0)) >= PRIOR
    }

    /// Merges the observations into the stored ones. Does nothing if there are too few, or if they cannot be stored.
    pub(crate) fn keep(&self, store: &dyn Store) {
        if !self.is_owed() {
            return;
        }
        let seen = std::mem::take(&mut *lock(&self.0));
        let kept = merged(load(store), seen);
        // A hint only: a failure to store it is no error.
        let _ = store.put(keys::READS, &[&reads::encode(&kept)], PutMode::Replace, false);
    }
}

fn load(store: &dyn Store) -> Vec<Reads> {
    store.read_all(keys::READS, reads::MOST_LEN).ok().and_then(|b| reads::decode(&b).ok()).unwrap_or_default()
}

/// Merges observations: keeps the variables that were read most, and their most frequent kinds.
fn merged(before: Vec<Reads>, seen: HashMap<u64, BTreeMap<Vec<u64>, u64>>) -> Vec<Reads> {
    let mut all: BTreeMap<u64, BTreeMap<Vec<u64>, u64>> = BTreeMap::new();
    let old = before
        .into_iter()
        .flat_map(|reads| reads.kinds.into_iter().map(move |kind| (reads.uid, kind.extents, kind.weight)));
    let new = seen
        .into_iter()
        .flat_map(|(uid, kinds)| kinds.into_iter().map(move |(extents, weight)| (uid, extents, weight)));
    for (uid, extents, weight) in old.chain(new) {
        let sum = all.entry(uid).or_default().entry(extents).or_default();
        *sum = sum.saturating_add(weight).min(reads::MOST_WEIGHT);
    }
    let mut out: Vec<(u64, Reads)> = all
        .into_iter()
        .map(|(uid, kinds)| {
            let mut kinds: Vec<ReadShape> =
                kinds.into_iter().map(|(extents, weight)| ReadShape { weight, extents }).collect();
            let sum =
                |kinds: &[ReadShape]| kinds.iter().fold(0u64, |sum, kind| sum.saturating_add(kind.weight));
            while sum(&kinds) > FADING {
                kinds.iter_mut().for_each(|kind| kind.weight /= 2);
                kinds.retain(|kind| kind.weight > 0);
            }
            kinds.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.extents.cmp(&b.extents)));
            kinds.truncate(reads::MOST_KINDS);
            (sum(&kinds), Reads { uid, kinds })
        })
        .collect();
    out.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.uid.cmp(&b.1.uid)));
    out.truncate(reads::MOST_VARIABLES);
    out.into_iter().map(|(_, reads)| reads).collect()
}

impl Inner {
    /// Whether reads through this handle are observed.
    pub(crate) fn learns(&self) -> bool {
        self.is_unpinned() && self.config.as_ref().is_none_or(|config| config.learn)
    }

    /// The observed kinds of reads of a variable, with weights. Empty if observation is off.
    pub(crate) fn learnt(&self, uid: u64) -> Vec<(u64, Vec<u64>)> {
        if self.config.as_ref().is_some_and(|config| !config.learn) {
            return Vec::new();
        }
        let of = |all: &[Reads]| {
            let found = all.iter().find(|reads| reads.uid == uid);
            let kinds = found.map(|reads| reads.kinds.as_slice()).unwrap_or_default();
            kinds.iter().map(|kind| (kind.weight, kind.extents.clone())).collect()
        };
        match self.window() {
            // A container that this handle created has no stored observations, and looking for them would cost a
            // round trip.
            Some(_) if self.created_by.is_some() => Vec::new(),
            Some(_) => of(self.seen.1.get_or_init(|| load(self.store.as_ref()))),
            None => of(&load(self.store.as_ref())),
        }
    }
}

impl Container {
    /// The observed reads of a variable, the most frequent first: count, and extents with the step axis first (0 for
    /// a whole axis). The reads of this handle are added when it is closed.
    pub fn learnt_reads(&self, path: &str) -> crate::Result<Vec<(u64, Vec<u64>)>> {
        Ok(self.inner.learnt(self.variable(path)?.uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(reads: &[(u64, &[u64], u64)]) -> HashMap<u64, BTreeMap<Vec<u64>, u64>> {
        let seen = Seen::default();
        reads.iter().for_each(|(uid, extents, weight)| seen.add(*uid, extents.to_vec(), *weight));
        seen.0.into_inner().unwrap()
    }

    #[test]
    fn frequent_reads_are_kept_and_old_reads_fade() {
        let before = merged(Vec::new(), seen(&[(1, &[1, 0], 100), (2, &[0], 3)]));
        let after = merged(before, seen(&[(1, &[0, 1], 20_000)]));
        let weights: Vec<u64> = after[0].kinds.iter().map(|kind| kind.weight).collect();
        assert_eq!((after[0].uid, weights), (1, vec![10_000, 50]));
        assert_eq!(after[1].kinds, [ReadShape { weight: 3, extents: vec![0] }]);
    }

    #[test]
    fn nothing_grows_without_bound() {
        let seen = Seen::default();
        for n in 0..5000u64 {
            seen.add(n % 700, vec![n], 1);
        }
        let all = seen.0.into_inner().unwrap();
        assert!(all.len() == reads::MOST_VARIABLES && all.values().all(|kinds| kinds.len() <= MOST_KINDS));
        let kept = merged(Vec::new(), all);
        assert!(
            kept.len() <= reads::MOST_VARIABLES && kept.iter().all(|r| r.kinds.len() <= reads::MOST_KINDS)
        );
    }
}
