//! Checks that a container is still the one that a handle opened: it may have been removed, or replaced by another
//! one.

use drystone_format::identity::Identity;
use drystone_format::keys;
use drystone_store::{Pending, Reply, Request, Result as StoreResult, StoreError, StoreExt};

use super::Inner;
use crate::history::{hint, manifests};
use crate::{Error, ErrorKind, Result};

/// The pending check whether the container was replaced. `None` if the store watches for that.
#[derive(Debug)]
pub(crate) struct Same(Option<Pending>);

impl Same {
    /// Waits for the answer, which is that of [`Inner::require_same`].
    pub(crate) fn require(self, inner: &Inner) -> Result<()> {
        match self.0.map(Pending::wait) {
            Some(Ok(Reply::Whole { bytes: Ok(bytes) })) => inner.check_identity(Ok(bytes)),
            Some(Err(error)) => inner.check_identity(Err(error)),
            _ => inner.require_same(), // too long: `require_same` reports it
        }
    }
}

impl Inner {
    /// Refuses to read from, or write to, a container that was removed (`NotFound`) or replaced (`Conflict`).
    pub(crate) fn require_same(&self) -> Result<()> {
        if self.watched {
            return Ok(self.store.unchanged()?);
        }
        self.check_identity(self.store.read_all(keys::IDENTITY, hint::IDENTITY_LIMIT))
    }

    /// Finds the reason for a read's error. Missing or wrong bytes are not damage if the container was removed or
    /// replaced, or if the snapshot has expired.
    pub(crate) fn reason(&self, error: Error, version: u64) -> Error {
        if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) {
            return error;
        }
        match self.require_same() {
            Err(other) if matches!(other.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => other,
            _ if error.kind() == ErrorKind::Corrupt && manifests::is_gone(self.store.as_ref(), version) => {
                Error::not_found(format!("snapshot {version} has expired: garbage collection removed it"))
            }
            _ => error,
        }
    }

    pub(crate) fn check_identity(&self, read: StoreResult<Vec<u8>>) -> Result<()> {
        let (key, store) = (keys::IDENTITY.to_owned(), self.store.describe());
        match read.map(|bytes| Identity::decode(&bytes)) {
            Ok(Ok(found)) if found.uuid == self.identity.uuid => Ok(()),
            Ok(Ok(_)) => Err(StoreError::Replaced { key, store }.into()),
            Ok(Err(found)) => Err(Error::damaged(keys::IDENTITY, 0, &found)),
            Err(StoreError::NotFound { .. }) => Err(StoreError::Removed { key, store }.into()),
            Err(other) => Err(other.into()),
        }
    }

    /// Starts the check whether the container was replaced; [`require`](Same::require) returns the answer.
    pub(crate) fn ask_same(&self) -> Same {
        let identity = || Request::ReadWhole { key: keys::IDENTITY.into(), limit: hint::IDENTITY_LIMIT };
        Same((!self.watched).then(|| self.store.submit(identity())))
    }
}
