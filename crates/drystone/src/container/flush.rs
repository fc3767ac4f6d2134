//! Flushing: makes a snapshot stable where commits alone do not guarantee that.
//!
//! Invariants
//! - a version is marked after everything that it needs has been synced;
//! - a handle never syncs the same bytes twice: segments and idx files only grow, pages and manifests never change.

use std::sync::atomic::Ordering;

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_store::{Pending, PutMode, StoreError, StoreExt};

use super::Inner;
use crate::base::error::must_exist;
use crate::base::sync::lock;
use crate::history::descent;
use crate::history::manifests;
use crate::history::snapshot::Snapshot;
use crate::log::scan;
use crate::{ErrorKind, Result};

/// The most manifests that are synced by their numbers. For more, a list is requested.
const MANY_COMMITS: u64 = 1 << 14;

impl Inner {
    pub(crate) fn flush(&self) -> Result<u64> {
        self.flush_after(&[])
    }

    /// `elsewhere`: writers whose logs were synced, in their present state, by other handles.
    pub(crate) fn flush_after(&self, elsewhere: &[u64]) -> Result<u64> {
        self.require_writable()?;
        let (snapshot, _) = self.newest()?;
        self.drain_all_parts(&snapshot)?;
        self.flush_snapshot(&snapshot, elsewhere, false)
    }

    /// The flush at the end of a handle. Does nothing if the container was replaced, or cannot be checked.
    pub(crate) fn flush_at_end(&self) -> Result<()> {
        self.require_writable()?;
        let Ok((snapshot, _)) = self.newest() else { return Ok(()) };
        if self.require_whole().is_err() {
            return Ok(());
        }
        match self.drain_all_parts(&snapshot) {
            // The handle that drains the last part to home marks the version.
            Err(e) if e.kind() == ErrorKind::NotYetHome => Ok(()),
            home => home.and_then(|()| self.flush_snapshot(&snapshot, &[], true).map(drop)),
        }
    }

    /// Flushes a snapshot whose parts are all home. `ends`: this handle makes no further commit, so the hint may be
    /// written together with the mark.
    pub(super) fn flush_snapshot(&self, snapshot: &Snapshot, elsewhere: &[u64], ends: bool) -> Result<u64> {
        let version = snapshot.version();
        if self.identity.durability == Durability::Durable {
            return Ok(version);
        }
        if version == 0 {
            self.store.sync(&[keys::IDENTITY])?;
            return Ok(version);
        }
        self.close_gaps()?;
        let since = self.last_marked(snapshot);
        if since >= version {
            return Ok(version);
        }
        if self.store.features().put_is_durable {
            // Everything that the version needs was on stable storage before its manifest was put.
            return self.mark(version, ends);
        }
        // A pack takes many manifests to stable storage with one sync.
        if self.packs_many(version, since) {
            if !self.sync_needed(snapshot, elsewhere, false)? {
                return self.flush_after(elsewhere);
            }
            self.pack_below(version);
        }
        match self.sync_needed(snapshot, elsewhere, true)? {
            true => self.mark(version, ends),
            false => self.flush_after(elsewhere),
        }
    }

    /// Treats everything that a marked version needs as synced. A handle that was just opened has synced nothing
    /// itself.
    pub(super) fn know_stable(&self, marked: u64) {
        if marked == 0 || self.stable_known.swap(true, Ordering::SeqCst) {
            return;
        }
        let manifest = manifests::read_manifest(self.store.as_ref(), marked, &self.identity.uuid);
        let found = manifest.and_then(|manifest| Snapshot::load(manifest, &self.pages));
        // If the marked version has expired, everything is synced again.
        let Ok(sources) = found.and_then(|snapshot| snapshot.sources(&self.pages)) else { return };
        let mut synced = lock(&self.synced);
        for source in sources.iter().filter(|source| source.kind == 0) {
            let (writer, part) = (source.writer, source.part);
            let files = [
                (keys::idx(writer, part), source.idx_length),
                (keys::segment(writer, part), source.seg_length),
            ];
            for (key, length) in files {
                let known = synced.entry(key).or_default();
                *known = length.max(*known);
            }
        }
    }

    /// Treats lost files as synced, so that the remaining ones can be flushed.
    pub(crate) fn give_up_syncing(&self, lost: &[String]) {
        lock(&self.synced).extend(lost.iter().map(|key| (key.clone(), u64::MAX)));
    }

    /// The segments that are missing, of writers that were opened before the last recovery: it gave them up and
    /// reported the values. It could not mark its version where parts still waited on other nodes, so other handles do
    /// not know.
    fn lost_before_recovery(&self, snapshot: &Snapshot) -> Result<Vec<String>> {
        let mut lost = Vec::new();
        for source in snapshot.sources(&self.pages)?.iter().filter(|s| s.kind == 0 && s.seg_length > 0) {
            let segment = keys::segment(source.writer, source.part);
            if self.store.exists(&segment)? {
                continue;
            }
            let (idx, len) = (keys::idx(source.writer, source.part), source.idx_length.min(scan::HEAD));
            let header = scan::header(self.store.as_ref(), &idx, len, &self.identity.uuid)?;
            if header.is_some_and(|header| header.fence < snapshot.manifest.fence) {
                lost.push(segment);
            }
        }
        Ok(lost)
    }

    /// Syncs what a snapshot needs, and with `manifests` also the manifests that are not marked yet. Returns `false`
    /// if a collection removed some of it; then there is a newer snapshot.
    pub(super) fn sync_needed(
        &self,
        snapshot: &Snapshot,
        elsewhere: &[u64],
        manifests: bool,
    ) -> Result<bool> {
        let (version, since) = (snapshot.version(), self.last_marked(snapshot));
        self.know_stable(since);
        // Bytes that this handle has synced never change, so they are not synced again.
        let mut synced = lock(&self.synced);
        let mut keys: Vec<String> = Vec::new();
        let mut lengths: Vec<(String, u64)> = Vec::new();
        for source in snapshot.sources(&self.pages)?.iter().filter(|s| s.kind == 0) {
            let (idx, segment) =
                (keys::idx(source.writer, source.part), keys::segment(source.writer, source.part));
            let new = |key: &String, length| synced.get(key).is_none_or(|known| *known < length);
            // The idx file may be missing after a power cut; adopted blocks do not need it.
            let left = !elsewhere.contains(&source.writer);
            if new(&idx, source.idx_length) && (!left || self.store.exists(&idx)?) {
                keys.extend(left.then(|| idx.clone()));
                lengths.push((idx, source.idx_length));
            }
            if source.seg_length > 0 && new(&segment, source.seg_length) {
                keys.extend(left.then(|| segment.clone()));
                lengths.push((segment, source.seg_length));
            }
        }
        for page in self.store.list("index/")? {
            if synced.contains_key(&page.key) {
                continue;
            }
            match self.store.sync(&[&page.key]) {
                Ok(()) => lengths.push((page.key, page.len)),
                Err(StoreError::NotFound { .. }) => {} // already removed: it belonged to a commit that lost its race
                Err(e) => return Err(e.into()),
            }
        }
        if !manifests {
            // Manifests that are packed next are skipped.
        } else if version.saturating_sub(since) <= MANY_COMMITS {
            keys.extend((since + 1..=version).map(keys::manifest));
        } else {
            // Lists the existing manifests: a number in a manifest must not decide how many keys are built.
            let all = self.store.list("manifest/")?.into_iter().map(|item| item.key);
            keys.extend(all.filter(|k| keys::parse_manifest(k).is_some_and(|v| v > since && v <= version)));
        }
        if !synced.contains_key(keys::IDENTITY) {
            lengths.push((keys::IDENTITY.into(), 0));
            keys.push(keys::IDENTITY.into());
        }
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        match self.store.sync(&names) {
            // A collection removed what the snapshot needed, so there is a newer snapshot.
            Err(StoreError::NotFound { .. }) if manifests::has_newer(self.store.as_ref(), version)? => {
                return Ok(false);
            }
            // The file was lost after it reached stable storage, or a recovery gave it up. The mark may be newer than
            // the one that the manifest records.
            Err(StoreError::NotFound { key, store }) => {
                let marked = descent::newest_mark(self.store.as_ref())?;
                drop(synced);
                if marked <= since {
                    let lost = self.lost_before_recovery(snapshot)?;
                    if !lost.contains(&key) {
                        return Err(must_exist(StoreError::NotFound { key, store }));
                    }
                    self.give_up_syncing(&lost);
                } else {
                    self.flushed.fetch_max(marked, Ordering::SeqCst);
                    self.stable_known.store(false, Ordering::SeqCst);
                }
                return self.sync_needed(snapshot, elsewhere, manifests);
            }
            Err(e) => return Err(e.into()),
            Ok(()) => {}
        }
        synced.extend(lengths);
        Ok(true)
    }

    /// Records that a version and everything it needs is on stable storage. With `ends`, also writes the hint of a
    /// far store, in the same round trip.
    pub(super) fn mark(&self, version: u64, ends: bool) -> Result<u64> {
        let (mark, text) = (keys::mark(version), format!("{version:012}"));
        let hint = if ends { self.hint.last(self.store.as_ref()) } else { None };
        let marked = self.store.put(&mark, &[text.as_bytes()], PutMode::IfAbsent, true);
        // Without the hint the next open takes longer; nothing else depends on it.
        drop(hint.map(Pending::wait));
        match marked {
            Ok(()) | Err(StoreError::AlreadyExists { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        self.flushed.fetch_max(version, Ordering::SeqCst);
        Ok(version)
    }
}
