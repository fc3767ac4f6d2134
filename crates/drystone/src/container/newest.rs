//! The newest snapshot: finds it, and moves a handle to it.

use std::sync::{Arc, PoisonError};

use drystone_format::keys;
use drystone_format::manifest::Manifest;
use drystone_store::{Reply, Request, StoreError, StoreExt};

use super::Inner;
use crate::base::sync::lock;
use crate::history::head::{self, Look};
use crate::history::loss::Losses;
use crate::history::snapshot::Snapshot;
use crate::history::{hint, manifests};
use crate::{ErrorKind, Result};

impl Inner {
    /// Whether there is a manifest above a version. `same` also checks that the container was not replaced, in the
    /// same round trip.
    pub(super) fn has_newer(&self, version: u64, same: bool) -> Result<bool> {
        if self.has_next(version, same)? {
            return Ok(true);
        }
        // Replies of a far store do not show whether manifests were packed.
        match self.packs.as_ref().filter(|_| self.store.features().far.is_some()) {
            Some(packs) => Ok(packs.look()?.version > version),
            None => Ok(false),
        }
    }

    pub(super) fn has_next(&self, version: u64, same: bool) -> Result<bool> {
        let store = self.store.as_ref();
        if self.watched {
            self.require_same()?;
        }
        if self.watched || !same {
            return manifests::has_newer(store, version);
        }
        let identity = Request::ReadWhole { key: keys::IDENTITY.into(), limit: hint::IDENTITY_LIMIT };
        let mut replies =
            store.together(vec![identity, Request::Len { key: keys::manifest(version + 1) }]).into_iter();
        match replies.next() {
            Some(Ok(Reply::Whole { bytes: Ok(bytes) })) => self.check_identity(Ok(bytes))?,
            Some(Err(error)) => self.check_identity(Err(error))?,
            _ => self.require_same()?, // too long: `require_same` reports it
        }
        match replies.next() {
            Some(Ok(Reply::Len { .. })) => Ok(true),
            Some(Err(StoreError::NotFound { .. })) => Ok(false),
            Some(Err(error)) => Err(error.into()),
            _ => manifests::has_newer(store, version),
        }
    }

    /// The newest snapshot in the store and the highest manifest number there.
    pub(crate) fn newest(&self) -> Result<(Arc<Snapshot>, u64)> {
        self.newest_if(true)
    }

    /// As [`newest`](Self::newest), for a caller that checks later, before its change, whether the container was
    /// replaced. On a far store this method does not check it.
    pub(crate) fn newest_to_change(&self) -> Result<(Arc<Snapshot>, u64)> {
        self.newest_if(false)
    }

    pub(super) fn newest_if(&self, same: bool) -> Result<(Arc<Snapshot>, u64)> {
        let known = self.newest_known();
        if !self.has_newer(known.1, same)? {
            return Ok(known);
        }
        let look = (Look::From(known.1), None);
        let packs = self.packs.as_deref();
        let head = head::find(&self.store, &self.pages, &self.identity, look, self.trust, packs)?;
        self.set_losses(head.losses);
        if !head.warnings.is_empty() {
            lock(&self.warnings).extend(head.warnings);
        }
        let newer = (Arc::new(head.snapshot), head.top);
        let mut found = lock(&self.found);
        if newer.1 > found.1 {
            *found = newer.clone();
        }
        Ok(newer)
    }

    /// The newest snapshot that this handle has seen, and the highest manifest number seen.
    pub(crate) fn newest_known(&self) -> (Arc<Snapshot>, u64) {
        let current = self.snapshot();
        let mut found = lock(&self.found);
        if current.version() > found.1 {
            *found = (current.clone(), current.version());
        }
        found.clone()
    }

    /// Moves to a version that was just committed, or to a newer one, without searching. `manifest` is its content,
    /// if the caller knows it.
    pub(crate) fn move_to(&self, version: u64, manifest: &[u8]) -> Result<()> {
        let current = self.snapshot();
        if current.version() >= version {
            return Ok(());
        }
        let told = Manifest::decode(manifest).ok();
        let told = told.filter(|m| m.version == version && m.uuid == self.identity.uuid);
        let found = told
            .map_or_else(|| manifests::read_manifest(self.store.as_ref(), version, &self.identity.uuid), Ok)
            .and_then(|manifest| Snapshot::after(&current, manifest, &self.pages));
        let snapshot = match found {
            Ok(snapshot) => Arc::new(snapshot),
            Err(e) if e.kind() == ErrorKind::NotFound => self.newest()?.0, // it has expired
            Err(e) => return Err(e),
        };
        self.adopt_snapshot(snapshot);
        Ok(())
    }

    /// Makes `snapshot` the handle's snapshot, unless it is older than the current one.
    pub(crate) fn adopt_snapshot(&self, snapshot: Arc<Snapshot>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if snapshot.version() >= current.version() {
            *current = snapshot;
        }
    }

    /// Fills the gaps between manifests that a power cut left.
    pub(crate) fn close_gaps(&self) -> Result<()> {
        let mut gaps = lock(&self.gaps);
        while let Some(&gap) = gaps.last() {
            manifests::put_void(self.store.as_ref(), gap, false)?;
            gaps.pop();
        }
        Ok(())
    }

    /// Records losses that a search for the newest snapshot found.
    pub(crate) fn set_losses(&self, losses: Losses) {
        *lock(&self.losses) = losses;
    }
}
