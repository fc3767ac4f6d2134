//! What a container shows without being opened: whether it is still the one, and the snapshot, that was seen before.
//!
//! Two small requests; nothing of the index is read. Catalogues ask this of every answer.

use std::path::Path;
use std::sync::Arc;

use drystone_format::identity::Identity;
use drystone_format::keys;
use drystone_format::packs::{Floor, MAX_FLOOR};
use drystone_store::{LocalStore, Store, StoreExt};

use super::Container;
use super::far::open_store;
use super::location::is_url;
use crate::base::error::must_exist;
use crate::{Error, Result};

/// What was seen of a container when it was last open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenBefore {
    /// Its identity.
    pub uuid: [u8; 16],
    /// Number of its newest snapshot.
    pub version: u64,
}

/// The objects at a path or a URL, for reading.
fn store_at(location: &str, options: &[(String, String)]) -> Result<Arc<dyn Store>> {
    if is_url(location) {
        return open_store(location, options);
    }
    let path = Path::new(location.strip_prefix("file://").unwrap_or(location));
    Ok(Arc::new(LocalStore::open(path, true)?))
}

impl Container {
    /// Whether a container is another one, or shows a newer snapshot, than was seen. Nobody is told that it was looked at.
    ///
    /// `NotFound` if there is none any more, `Io` if it cannot be read.
    pub fn moved_on(location: &str, options: &[(String, String)], seen: SeenBefore) -> Result<bool> {
        if !is_url(location) && Path::new(location).is_file() {
            // The stub of an HDF5 program: what it names is found by opening it.
            let now = Self::open(location, super::Mode::Read)?;
            return Ok(now.identity().uuid != seen.uuid || now.snapshot().version() != seen.version);
        }
        let store = store_at(location, options)?;
        let bytes = store.read_all(keys::IDENTITY, 64 << 10)?;
        let identity = Identity::decode(&bytes).map_err(|c| Error::damaged(keys::IDENTITY, 0, &c))?;
        if identity.uuid != seen.uuid || store.exists(&keys::manifest(seen.version.saturating_add(1)))? {
            return Ok(true);
        }
        let floor = match store.read_all(keys::FLOOR, MAX_FLOOR) {
            Ok(bytes) => Floor::decode(&bytes).map_err(|c| Error::damaged(keys::FLOOR, 0, &c))?.version,
            Err(e) if e.is_not_found() => 0,
            Err(e) => return Err(e.into()),
        };
        if floor >= seen.version {
            return Ok(true); // what is packed has newer ones above it
        }
        if seen.version > 0 {
            store.len(&keys::manifest(seen.version)).map_err(must_exist)?;
        }
        Ok(false)
    }
}
