//! Checks, without opening a container, whether it has changed since it was examined: whether it is another container,
//! or has a newer snapshot.
//!
//! A check takes two small requests, and does not read the index. A catalogue checks every container that it returns.

use std::path::Path;
use std::sync::Arc;

use drystone::{Container, Error, ErrorKind, Mode, Result, is_url, open_store};
use drystone_format::identity::Identity as ContainerIdentity;
use drystone_format::keys;
use drystone_format::packs::{Floor, MAX_FLOOR};
use drystone_store::{LocalStore, Store, StoreError, StoreExt};

use crate::identity::Identity;

/// Greatest length of a container's identity, in bytes.
const MAX_IDENTITY: u64 = 64 << 10;

/// The objects at a path or a URL, for reading.
fn store_at(location: &str, options: &[(String, String)]) -> Result<Arc<dyn Store>> {
    if is_url(location) {
        return open_store(location, options);
    }
    let path = Path::new(location.strip_prefix("file://").unwrap_or(location));
    Ok(Arc::new(LocalStore::open(path, true)?))
}

/// Whether a container is another one than `seen`, or has a newer snapshot. Changes nothing in the container.
///
/// Errors: `NotFound` if it no longer exists, `Corrupt` if its identity or manifest is damaged, `Io` if it cannot be
/// read.
pub(crate) fn moved_on(location: &str, options: &[(String, String)], seen: &Identity) -> Result<bool> {
    if !is_url(location) && Path::new(location).is_file() {
        // The path is a stub of the HDF5 connector: opening it finds the container that it names.
        let now = Container::open(location, Mode::Read)?;
        return Ok(now.identity().uuid != seen.uuid || now.snapshot().version() != seen.version);
    }
    let store = store_at(location, options)?;
    let bytes = store.read_all(keys::IDENTITY, MAX_IDENTITY)?;
    let identity = ContainerIdentity::decode(&bytes).map_err(|e| damaged(keys::IDENTITY, &e))?;
    if identity.uuid != seen.uuid || store.exists(&keys::manifest(seen.version.saturating_add(1)))? {
        return Ok(true);
    }
    match store.read_all(keys::FLOOR, MAX_FLOOR) {
        Ok(bytes) => {
            let floor = Floor::decode(&bytes).map_err(|e| damaged(keys::FLOOR, &e))?.version;
            if floor >= seen.version {
                return Ok(true); // its manifest is in a pack, so there are newer ones
            }
        }
        Err(e) if e.is_not_found() => {}
        Err(e) => return Err(e.into()),
    }
    if seen.version > 0 {
        store.len(&keys::manifest(seen.version)).map_err(|e| match e {
            StoreError::NotFound { .. } => damaged(&keys::manifest(seen.version), &"it is missing"),
            other => other.into(),
        })?;
    }
    Ok(false)
}

fn damaged(key: &str, what: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{key} is damaged: {what}"))
}
