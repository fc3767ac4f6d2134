//! The interface of local files, for all objects but manifests.

use drystone_format::keys;
use drystone_store::{LocalFiles, PutMode, Result, Store, StoreExt, forward_files};

use super::Packed;

impl Packed {
    /// The files, unless the key is that of a manifest.
    fn files_of(&self, key: &str) -> Option<&dyn LocalFiles> {
        self.inner.local().filter(|_| keys::parse_manifest(key).is_none())
    }
}

impl LocalFiles for Packed {
    forward_files! {
        files_of =>
        read_seen, read_ranges, read_parts, prefetch, prefetch_shared, map, preallocate, evict
    }

    fn maps_from(&self) -> Option<u64> {
        self.inner.local().and_then(|files| files.maps_from())
    }

    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        let version = self.refuse_packed(key, mode)?;
        let first = self.synced(first)?;
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        self.inner.put_after(&first, key, parts, mode)?;
        match version {
            Some(version) if mode == PutMode::IfAbsent => self.is_first(key, version),
            _ => Ok(()),
        }
    }
}
