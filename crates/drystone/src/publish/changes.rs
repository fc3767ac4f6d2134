//! One fingerprint per shard, over the visible index entries: it changes when the shard's content does.
//!
//! The entries are visited once, in any order, and only sums are kept. So memory grows with the number of shards, not
//! of blocks. Shards with equal fingerprints hold equal values. A shard without entries holds no values and has no
//! object.

use std::collections::BTreeMap;

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_plan::tree::{self, Query, StepSet};

use super::{Target, document};
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::published::grid::Box;
use crate::{Error, Result};

/// The most shards of one array.
pub(super) const MOST_SHARDS: u64 = 1 << 24;

/// The shards that have values, with their fingerprints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) shards: BTreeMap<u64, u128>,
}

/// Two lanes of 64 bits, mixed by a bijection. They protect against coincidence, not against forgery.
#[derive(Clone, Copy)]
pub(super) struct Fingerprint(u64, u64);

impl Fingerprint {
    pub(super) const fn new() -> Self {
        Fingerprint(0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f)
    }

    pub(super) fn absorb(&mut self, value: u64) {
        self.0 = stir(self.0 ^ value);
        self.1 = stir(self.1.rotate_left(23) ^ value.wrapping_mul(0x2545_f491_4f6c_dd1d));
    }

    pub(super) fn absorb_bytes(&mut self, bytes: &[u8]) {
        self.absorb(bytes.len() as u64);
        bytes.iter().for_each(|&b| self.absorb(b.into()));
    }

    pub(super) fn value(self) -> u128 {
        u128::from(stir(self.0)) << 64 | u128::from(stir(self.1 ^ self.0))
    }
}

fn stir(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Finds the fingerprints of all shards of all targets that hold values of their own, not computed ones.
pub(super) fn find(inner: &Inner, snapshot: &Snapshot, targets: &mut [Target]) -> Result<()> {
    let mut from = 0;
    while from < targets.len() {
        let id = targets[from].array.id;
        let many = targets[from..].iter().take_while(|t| t.array.id == id).count();
        let group = &mut targets[from..from + many];
        from += many;
        if group[0].array.derived {
            continue;
        }
        find_in(inner, snapshot, id, group)
            .map_err(|e| e.while_doing(format!("variable \"{}\"", group[0].array.variable)))?;
    }
    Ok(())
}

/// Adds bytes that influence a shard in addition to its values.
pub(super) fn count(sum: &mut u128, bytes: &[u8]) {
    let mut more = Fingerprint::new();
    more.absorb_bytes(bytes);
    *sum = sum.wrapping_add(more.value());
}

/// Finds the fingerprints of one variable; `targets` are its leaf members.
fn find_in(inner: &Inner, snapshot: &Snapshot, id: u32, targets: &mut [Target]) -> Result<()> {
    let steps = targets[0].array.steps;
    let seeds: Vec<u128> = targets.iter().map(|t| seed(t, &inner.identity.uuid)).collect();
    let too_many = || Error::unsupported(format!("more than {MOST_SHARDS} shards; give larger chunks"));
    for target in targets.iter_mut().filter(|t| t.array.fill != t.array.missing) {
        // Missing chunks would not read as the array's fill value, so every shard exists.
        let all = target.grid.shards().iter().try_fold(1u64, |n, s| n.checked_mul(*s));
        let all = all.filter(|n| *n <= MOST_SHARDS).ok_or_else(too_many)?;
        target.changes.shards.extend((0..all).map(|shard| (shard, 0)));
    }
    if let Some(root) = &snapshot.manifest.root {
        let set = match steps {
            true => StepSet { first: 1, count: snapshot.step_axis(), stride: 1 },
            false => StepSet::one(0),
        };
        let query = Query { steps: set, variable: id, member: None, bounds: None };
        let mut overflow = false;
        tree::find(&inner.pages, root, &query, &mut |entry| {
            let hidden = entry.step > 0 && entry.commit < snapshot.steps.hidden_below(entry.step - 1);
            let Some(target) = targets.iter_mut().find(|t| t.array.leaf == entry.member) else { return };
            // A replica has the same cells as its original.
            if hidden || overflow || entry.encoding.replica > 0 {
                return;
            }
            let Some(cells) = visible(&entry, target) else { return };
            let Some(meeting) = target.grid.meeting(&cells, MOST_SHARDS) else {
                overflow = true;
                return;
            };
            let value = fingerprint(&entry, &cells);
            for shard in meeting {
                let sum = target.changes.shards.entry(shard).or_default();
                *sum = sum.wrapping_add(value);
            }
            overflow |= target.changes.shards.len() as u64 > MOST_SHARDS;
        })?;
        if overflow {
            return Err(too_many());
        }
    }
    for (target, seed) in targets.iter_mut().zip(seeds) {
        target.changes.shards.values_mut().for_each(|sum| *sum = sum.wrapping_add(seed));
    }
    Ok(())
}

/// Whether commits after a given one (0: any) wrote to these cells of an array, steps first.
pub(super) fn any(
    inner: &Inner,
    snapshot: &Snapshot,
    target: &Target,
    cells: &Box,
    after: u64,
) -> Result<bool> {
    let array = &target.array;
    if cells.is_empty() {
        return Ok(false);
    }
    // Missing chunks would not read as the array's fill value, so every chunk exists until it is deleted.
    let always = after == 0 && array.fill != array.missing;
    let Some(root) = snapshot.manifest.root.as_ref().filter(|_| !always) else {
        return Ok(always);
    };
    let first = usize::from(array.steps);
    let steps = match array.steps {
        true => StepSet { first: cells.lo[0] + 1, count: cells.hi[0] - cells.lo[0], stride: 1 },
        false => StepSet::one(0),
    };
    let mut bounds = ([0; MAX_NDIM], [0; MAX_NDIM]);
    for d in first..cells.lo.len().min(MAX_NDIM + first) {
        (bounds.0[d - first], bounds.1[d - first]) = (cells.lo[d], cells.hi[d]);
    }
    let query = Query { steps, variable: array.id, member: Some(array.leaf), bounds: Some(bounds) };
    let mut found = false;
    tree::find(&inner.pages, root, &query, &mut |entry| {
        let hidden = entry.step > 0 && entry.commit < snapshot.steps.hidden_below(entry.step - 1);
        found |= !hidden
            && entry.commit > after
            && entry.encoding.replica == 0
            && visible(&entry, target).is_some_and(|v| v.meets(cells));
    })?;
    Ok(found)
}

/// The visible cells of an entry in the array, step axis first.
fn visible(entry: &Entry, target: &Target) -> Option<Box> {
    let array = &target.array;
    let ndim = usize::from(entry.ndim).min(MAX_NDIM);
    let first = usize::from(array.steps);
    if ndim + first != array.shape.len() {
        return None;
    }
    let mut cells = Box { lo: Vec::with_capacity(ndim + 1), hi: Vec::with_capacity(ndim + 1) };
    if array.steps {
        cells.lo.push(entry.step.checked_sub(1)?);
        cells.hi.push(entry.step);
    }
    for d in 0..ndim {
        let mut end = entry.offset[d].saturating_add(entry.count[d]).min(array.shape[first + d]);
        for (commit, shape) in &array.clips {
            if entry.commit <= *commit {
                end = end.min(shape.get(d).copied().unwrap_or(u64::MAX));
            }
        }
        cells.lo.push(entry.offset[d]);
        cells.hi.push(end);
    }
    (!cells.is_empty()).then_some(cells)
}

pub(super) fn fingerprint(entry: &Entry, cells: &Box) -> u128 {
    let mut sum = Fingerprint::new();
    for value in [entry.commit, entry.order, entry.put, entry.source.into(), entry.piece.position] {
        sum.absorb(value);
    }
    sum.absorb(u64::from(entry.piece.check));
    cells.lo.iter().chain(&cells.hi).for_each(|&n| sum.absorb(n));
    sum.value()
}

/// A fingerprint of everything besides entries that determines a shard's bytes: variable, layout, encoding.
pub(super) fn seed(target: &Target, uuid: &[u8; 16]) -> u128 {
    let mut json = document::describe(&target.array, &target.grid, &target.codec);
    if let Some(members) = json.as_object_mut() {
        members.remove("shape");
        members.remove("dimension_names");
    }
    let mut sum = Fingerprint::new();
    sum.absorb_bytes(uuid);
    sum.absorb_bytes(&target.array.fill);
    sum.absorb(target.array.id.into());
    sum.absorb(target.array.uid);
    sum.absorb(target.array.leaf.into());
    sum.absorb_bytes(json.to_string().as_bytes());
    sum.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_distinguish_entries_by_every_number() {
        let cells = Box { lo: vec![1, 2], hi: vec![3, 4] };
        let base = Entry { ndim: 1, commit: 3, ..Entry::default() };
        let mut all = vec![fingerprint(&base, &cells)];
        for change in [
            |e: &mut Entry| e.commit += 1,
            |e: &mut Entry| e.order += 1,
            |e: &mut Entry| e.put += 1,
            |e: &mut Entry| e.source += 1,
            |e: &mut Entry| e.piece.position += 1,
            |e: &mut Entry| e.piece.check += 1,
        ] {
            let mut entry = base.clone();
            change(&mut entry);
            all.push(fingerprint(&entry, &cells));
        }
        all.push(fingerprint(&base, &Box { lo: vec![1, 2], hi: vec![3, 5] }));
        all.push(fingerprint(&base, &Box { lo: vec![2, 1], hi: vec![3, 4] }));
        let many = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), many);
    }
}
