//! The mounts that write, by their registrations in the store.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use drystone_format::keys::{self, FilesKey};
use drystone_store::{Store, StoreError, StoreExt};

use super::now;
use crate::Result;

/// A random number, which most likely no other mount has; if one has it, its registration shows that.
pub(super) fn number() -> u32 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_i64(now());
    hasher.write_u32(std::process::id());
    (hasher.finish() >> 16) as u32
}

/// Numbers of the other mounts that write. Removes registrations of dead mounts.
pub(super) fn others(store: &dyn Store, me: u32, dead: fn(&str) -> bool) -> Result<HashSet<u32>> {
    let mut out = HashSet::new();
    for item in store.list(keys::FILES)? {
        let Some(FilesKey::Mount(number)) = keys::parse_files(&item.key) else { continue };
        if number == me {
            continue;
        }
        match store.read_all(&item.key, 4096) {
            Ok(text) if dead(&String::from_utf8_lossy(&text)) => store.delete(&item.key)?,
            Ok(_) => _ = out.insert(number),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(out)
}

/// Claims on generations; they mean nothing to mounts that register later.
pub(super) fn claims(store: &dyn Store) -> Result<Vec<String>> {
    let objects = store.list(keys::FILES)?.into_iter().map(|item| item.key);
    Ok(objects.filter(|key| matches!(keys::parse_files(key), Some(FilesKey::Claim(_)))).collect())
}
