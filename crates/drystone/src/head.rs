//! Finding the newest manifest (docs/format/manifest.md, "Marks, hint, and finding the newest").
//!
//! Invariants
//! - opening never falls back past a manifest known to be on stable storage, and never without a warning;
//! - under `durable` it never falls back at all.

use std::sync::Arc;

use drystone_format::identity::{self, Durability, Identity};
use drystone_format::keys;
use drystone_format::manifest::{MAX_MANIFEST, MAX_PAGES, Manifest};
use drystone_plan::tree::Pages;
use drystone_store::{Store, StoreError, StoreExt};

use crate::error::must_exist;
use crate::pages::PageLoader;
use crate::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result};

/// Manifests with their pages are at most this long.
const MANIFEST_LIMIT: u64 = (MAX_PAGES + MAX_MANIFEST + 4096) as u64;

/// The newest usable snapshot, and what had to be passed over to reach it.
pub(crate) struct Head {
    pub(crate) snapshot: Snapshot,
    /// Highest manifest number in the store, sound or not: the next commit goes above it.
    pub(crate) top: u64,
    pub(crate) warnings: Vec<String>,
}

/// Reads one manifest.
pub(crate) fn read_manifest(store: &dyn Store, version: u64, uuid: &[u8; 16]) -> Result<Manifest> {
    let key = keys::manifest(version);
    let bytes = match store.read_all(&key, MANIFEST_LIMIT) {
        Ok(bytes) => bytes,
        Err(StoreError::NotFound { .. }) => {
            return Err(Error::not_found(format!("there is no snapshot {version}: {key} is not there")));
        }
        Err(e) => return Err(e.into()),
    };
    let manifest = Manifest::decode(&bytes).map_err(|c| Error::damaged(&key, 0, &c))?;
    if manifest.version != version || manifest.uuid != *uuid {
        return Err(Error::corrupt(format!(
            "{key} is damaged: it is manifest {} of another name or container",
            manifest.version
        )));
    }
    Ok(manifest)
}

/// Writes the hint; a failure costs only time at the next open.
pub(crate) fn write_hint(store: &dyn Store, version: u64) {
    let _ = store.put(keys::HINT, &identity::encode_hint(version), drystone_store::PutMode::Replace, false);
}

fn read_hint(store: &dyn Store) -> Option<u64> {
    let bytes = store.read_all(keys::HINT, 64).ok()?;
    identity::decode_hint(&bytes)
}

/// Highest manifest number, from `at_least` forward.
fn top(store: &dyn Store, hint: Option<u64>) -> Result<u64> {
    let mut version = match hint {
        Some(v) if v == 0 || store.exists(&keys::manifest(v))? => v,
        _ => listed(store, keys::parse_manifest)?,
    };
    while store.exists(&keys::manifest(version + 1))? {
        version += 1;
    }
    Ok(version)
}

fn listed(store: &dyn Store, parse: impl Fn(&str) -> Option<u64>) -> Result<u64> {
    Ok(store.list("manifest/")?.iter().filter_map(|e| parse(&e.key)).max().unwrap_or(0))
}

/// Is there a manifest above `version`?
pub(crate) fn has_newer(store: &dyn Store, version: u64) -> Result<bool> {
    Ok(store.exists(&keys::manifest(version + 1))?)
}

/// Finds the newest snapshot.
pub(crate) fn find(store: &Arc<dyn Store>, pages: &PageLoader, identity: &Identity) -> Result<Head> {
    let durable = identity.durability == Durability::Durable;
    let hint = read_hint(store.as_ref());
    let top = top(store.as_ref(), hint)?;
    let mut warnings = Vec::new();
    if hint.is_none_or(|h| h > top) {
        let marked = newest_mark(store.as_ref())?;
        let known = hint.unwrap_or(0).max(marked);
        if marked > top || (durable && known > top) {
            return Err(Error::corrupt(format!(
                "{} is missing although snapshot {known} was on stable storage; restore it from a backup",
                keys::manifest(top + 1)
            )));
        }
        if known > top {
            warnings.push(format!(
                "snapshots {}..{known} are lost: they were not flushed before a crash",
                top + 1
            ));
        }
    }
    let mut version = top;
    loop {
        let failure = match load(store, pages, identity, version) {
            Ok(snapshot) => return Ok(Head { snapshot, top, warnings }),
            Err(e) if e.kind() == ErrorKind::Corrupt => e,
            Err(e) => return Err(e),
        };
        if durable || version == 0 {
            return Err(failure);
        }
        if newest_mark(store.as_ref())? >= version {
            return Err(failure.while_doing(format!("snapshot {version} was flushed, but cannot be read")));
        }
        warnings.push(format!(
            "snapshot {version} is passed over, it was not flushed before a crash: {failure}; see recover()"
        ));
        version -= 1;
        while version > 0 && !store.exists(&keys::manifest(version))? {
            version -= 1;
        }
    }
}

fn newest_mark(store: &dyn Store) -> Result<u64> {
    listed(store, keys::parse_mark)
}

/// Loads one version and, unless it is marked, checks that what it names survived.
fn load(store: &Arc<dyn Store>, pages: &PageLoader, identity: &Identity, version: u64) -> Result<Snapshot> {
    if version == 0 {
        return Ok(Snapshot::empty(identity.uuid));
    }
    let manifest = read_manifest(store.as_ref(), version, &identity.uuid)?;
    let snapshot = Snapshot::load(manifest, pages)?;
    if !snapshot.manifest.marked && identity.durability == Durability::Async {
        check_survived(store, pages, &snapshot)?;
    }
    Ok(snapshot)
}

fn check_survived(store: &Arc<dyn Store>, pages: &PageLoader, snapshot: &Snapshot) -> Result<()> {
    if let Some(root) = &snapshot.manifest.root {
        if root.height == 0 {
            pages.leaf(&root.page)?;
        } else {
            pages.branch(&root.page)?;
        }
    }
    for source in snapshot.sources(pages)?.iter().filter(|s| s.kind == 0 && s.seg_length > 0) {
        let key = keys::segment(source.writer, source.part);
        let len = store.len(&key).map_err(must_exist)?;
        if len < source.seg_length {
            return Err(Error::corrupt(format!(
                "{key} ends at byte {len}, {} are needed",
                source.seg_length
            )));
        }
    }
    Ok(())
}
