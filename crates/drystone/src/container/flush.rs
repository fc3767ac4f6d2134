//! What makes a snapshot survive a power cut where commits alone do not promise it.
//!
//! Invariants
//! - the mark of a version is written after everything that the version needs has been synced;
//! - what a handle has synced is not synced again: segments and indices only grow, pages and manifests never change.

use std::sync::atomic::Ordering;

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_store::{Pending, PutMode, StoreError, StoreExt};

use super::Inner;
use crate::base::error::must_exist;
use crate::base::sync::lock;
use crate::history::head;
use crate::history::snapshot::Snapshot;
use crate::{ErrorKind, Result};

/// So many manifests are synced by their numbers; of more a list is asked for.
const MANY_COMMITS: u64 = 1 << 14;

impl Inner {
    pub(crate) fn flush(&self) -> Result<u64> {
        self.flush_after(&[])
    }

    /// `elsewhere`: writers whose logs, as they are now, were synced by others.
    pub(crate) fn flush_after(&self, elsewhere: &[u64]) -> Result<u64> {
        self.require_writable()?;
        let (snapshot, _) = self.newest()?;
        self.bring_all_home(&snapshot)?;
        self.flush_snapshot(&snapshot, elsewhere, false)
    }

    /// The flush of a handle that ends, of what it finds; nothing where the container is another one, or cannot be asked.
    pub(crate) fn flush_at_end(&self) -> Result<()> {
        self.require_writable()?;
        let Ok((snapshot, _)) = self.newest() else { return Ok(()) };
        if self.require_whole().is_err() {
            return Ok(());
        }
        match self.bring_all_home(&snapshot) {
            // Whoever brings the last part home marks it.
            Err(e) if e.kind() == ErrorKind::NotYetHome => Ok(()),
            home => home.and_then(|()| self.flush_snapshot(&snapshot, &[], true).map(drop)),
        }
    }

    /// The flush of a snapshot all of whose parts are home. `ends`: no commit of this handle is to be expected, so that the hint may go with
    /// the mark.
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
            // All that the version needs was on stable storage before its manifest was.
            return self.mark(version, ends);
        }
        // A pack takes many manifests to stable storage by one sync.
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

    /// Brings to stable storage what a snapshot needs, and with `manifests` those that were not marked yet. `false`: a collection removed some
    /// of that, so there is a newer snapshot.
    pub(super) fn sync_needed(
        &self,
        snapshot: &Snapshot,
        elsewhere: &[u64],
        manifests: bool,
    ) -> Result<bool> {
        let (version, since) = (snapshot.version(), self.last_marked(snapshot));
        // What this handle has synced is not synced again: what a key held then stays as it is.
        let mut synced = lock(&self.synced);
        let mut keys: Vec<String> = Vec::new();
        let mut lengths: Vec<(String, u64)> = Vec::new();
        for source in snapshot.sources(&self.pages)?.iter().filter(|s| s.kind == 0) {
            let (idx, segment) =
                (keys::idx(source.writer, source.part), keys::segment(source.writer, source.part));
            let new = |key: &String, length| synced.get(key).is_none_or(|known| *known < length);
            // Without idx: a power cut took it, and what was adopted does not need it.
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
                Err(StoreError::NotFound { .. }) => {} // gone: of a commit that lost its race
                Err(e) => return Err(e.into()),
            }
        }
        if !manifests {
            // They are packed next.
        } else if version.saturating_sub(since) <= MANY_COMMITS {
            keys.extend((since + 1..=version).map(keys::manifest));
        } else {
            // Those there are: a number from a manifest does not decide how many keys are made.
            let all = self.store.list("manifest/")?.into_iter().map(|item| item.key);
            keys.extend(all.filter(|k| keys::parse_manifest(k).is_some_and(|v| v > since && v <= version)));
        }
        if !synced.contains_key(keys::IDENTITY) {
            lengths.push((keys::IDENTITY.into(), 0));
            keys.push(keys::IDENTITY.into());
        }
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        match self.store.sync(&names) {
            // A collection removed what the snapshot needed: then there is a newer one.
            Err(StoreError::NotFound { .. }) if head::has_newer(self.store.as_ref(), version)? => {
                return Ok(false);
            }
            other => other.map_err(must_exist)?,
        }
        synced.extend(lengths);
        Ok(true)
    }

    /// Writes down that a version, and all it needs, is on stable storage; with `ends`, in the same round, the hint of a far store.
    pub(super) fn mark(&self, version: u64, ends: bool) -> Result<u64> {
        let (mark, text) = (keys::mark(version), format!("{version:012}"));
        let hint = if ends { self.hint.last(self.store.as_ref()) } else { None };
        let marked = self.store.put(&mark, &[text.as_bytes()], PutMode::IfAbsent, true);
        // Without it the next open takes longer, and nothing else.
        drop(hint.map(Pending::wait));
        match marked {
            Ok(()) | Err(StoreError::AlreadyExists { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        self.flushed.fetch_max(version, Ordering::SeqCst);
        Ok(version)
    }
}
