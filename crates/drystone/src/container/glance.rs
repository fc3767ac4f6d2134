//! What a container shows without being opened: whether it is the same container, and the same snapshot, as before.
//!
//! Two small requests; the index is not read. Catalogues ask this for every answer.

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
use crate::history::hint;
use crate::{Error, Result};

/// What was known of a container when it was last open.
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
    /// Whether a container is another one, or has a newer snapshot, than before. The look leaves no trace in the
    /// container.
    ///
    /// `NotFound` if it does not exist any more, `Io` if it cannot be read.
    pub fn moved_on(location: &str, options: &[(String, String)], seen: SeenBefore) -> Result<bool> {
        if !is_url(location) && Path::new(location).is_file() {
            // The stub of an HDF5 program: opening it finds the container that it names.
            let now = Self::open(location, super::Mode::Read)?;
            return Ok(now.identity().uuid != seen.uuid || now.snapshot().version() != seen.version);
        }
        let store = store_at(location, options)?;
        let bytes = store.read_all(keys::IDENTITY, hint::IDENTITY_LIMIT)?;
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
