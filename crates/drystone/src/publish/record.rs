//! The record of a publication. It becomes part of a manifest in a separate commit, so that earlier snapshots stay
//! unchanged.
//!
//! A shard is recorded by its stamp, its length and the CRC of its index, so that a reader can detect its
//! replacement.

use std::collections::{BTreeMap, BTreeSet};

use drystone_format::published::{Array, Shard};
use drystone_store::Store;

use super::{Target, document};
use crate::commit::transaction::{Change, Decision, transact};
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::published::stamp::Stamp;
use crate::{Error, Result};

/// The record of an existing shard object with this stamp.
pub(super) fn of_object(store: &dyn Store, key: &str, number: u64, stamp: Stamp) -> Result<Shard> {
    let length = store.len(key)?;
    let at =
        length.checked_sub(4).ok_or_else(|| Error::corrupt(format!("{key} is damaged: it has no index")))?;
    let mut check = [0; 4];
    store.read(key, at, &mut check)?;
    Ok(of(number, stamp, length, check))
}

/// The record of a shard whose bytes end with `check`.
pub(super) fn of(number: u64, stamp: Stamp, length: u64, check: [u8; 4]) -> Shard {
    let Stamp { fingerprint, version } = stamp;
    Shard { number, version, fingerprint, length, index_check: u32::from_le_bytes(check) }
}

/// All recorded shards of a snapshot, by node.
pub(super) fn known(inner: &Inner, snapshot: &Snapshot) -> Result<BTreeMap<String, BTreeMap<u64, Shard>>> {
    let mut out = BTreeMap::new();
    for array in snapshot.published(&inner.pages)?.iter() {
        out.insert(array.node.clone(), shards(inner, array)?.into_iter().map(|s| (s.number, s)).collect());
    }
    Ok(out)
}

/// The shards of one array, ascending.
pub(crate) fn shards(inner: &Inner, array: &Array) -> Result<Vec<Shard>> {
    let mut out = Vec::new();
    for page in &array.pages {
        out.extend(inner.pages.shards(&page.page)?.iter().copied());
    }
    Ok(out)
}

/// Commits the existing objects of the targets. `whole`: nothing else is published. `gone`: nodes that are no longer
/// arrays.
pub(super) fn commit(
    inner: &Inner,
    version: u64,
    targets: &[(&Target, Vec<Shard>)],
    whole: bool,
    gone: &BTreeSet<String>,
) -> Result<()> {
    let mine: Vec<(Array, Vec<Shard>)> = targets
        .iter()
        .filter(|(target, _)| {
            document::is_sharded(&target.array) && !target.array.shape.is_empty() && target.is_recorded()
        })
        .map(|(target, shards)| (described(target, version), shards.clone()))
        .collect();
    transact(inner, |base, _| {
        let before = base.published(&inner.pages)?;
        let mut all = Vec::new();
        let mut changed = false;
        for array in before.iter() {
            let replaced =
                targets.iter().any(|(t, _)| t.array.node == array.node) || gone.contains(&array.node);
            if !whole && !replaced {
                all.push((Array { pages: Vec::new(), ..array.clone() }, shards(inner, array)?));
            } else {
                changed |= mine.iter().all(|(a, _)| a.node != array.node);
            }
        }
        for (array, records) in &mine {
            let old = before.iter().find(|a| a.node == array.node);
            let same = match old {
                // A different version alone is not a change: shards with equal fingerprints hold equal values.
                Some(old) => {
                    Array { pages: Vec::new(), version, ..old.clone() } == *array
                        && shards(inner, old)? == *records
                }
                None => false,
            };
            match old.filter(|_| same) {
                Some(old) => all.push((Array { pages: Vec::new(), ..old.clone() }, records.clone())),
                None => all.push((array.clone(), records.clone())),
            }
            changed |= !same;
        }
        if !changed {
            return Ok(Decision::Keep { incomplete: Vec::new(), notes: Vec::new() });
        }
        all.sort_by(|a, b| a.0.node.cmp(&b.0.node));
        Ok(Decision::Apply(std::boxed::Box::new(Change { published: Some(all), ..Change::default() })))
    })?;
    Ok(())
}

fn described(target: &Target, version: u64) -> Array {
    let (array, grid) = (&target.array, &target.grid);
    Array {
        node: array.node.clone(),
        variable: array.id,
        uid: array.uid,
        member: array.leaf,
        version,
        shape: grid.shape.clone(),
        chunk: grid.chunk.clone(),
        shard: grid.shard.clone(),
        tail: array.element.tail.len() as u32,
        zstd: target.codec.is_zstd(),
        pages: Vec::new(),
    }
}
