//! What files can do better, for all but manifests.

use std::ops::Range;

use drystone_format::keys;
use drystone_store::{LocalFiles, Mapped, PutMode, Result, Store, StoreExt};

use super::Packed;

impl Packed {
    /// The files, unless the key is that of a manifest.
    fn files_of(&self, key: &str) -> Option<&dyn LocalFiles> {
        self.inner.local().filter(|_| keys::parse_manifest(key).is_none())
    }
}

impl LocalFiles for Packed {
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(files) = self.files_of(key) {
            return files.read_seen(key, offset, out, seen);
        }
        self.read(key, offset, out)?;
        seen(out);
        Ok(())
    }

    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        if let Some(files) = self.files_of(key) {
            return files.read_ranges(key, ranges, out);
        }
        let mut rest = out;
        for &(offset, len) in ranges {
            let (part, behind) = rest.split_at_mut(len.min(rest.len()));
            self.read(key, offset, part)?;
            rest = behind;
        }
        Ok(())
    }

    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()> {
        if let Some(files) = self.files_of(key) {
            return files.read_parts(key, offset, parts);
        }
        let mut at = offset;
        for part in parts {
            self.read(key, at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn prefetch(&self, key: &str, range: Range<u64>) {
        if let Some(files) = self.files_of(key) {
            files.prefetch(key, range);
        }
    }

    fn prefetch_shared(&self, key: &str, range: Range<u64>) {
        if let Some(files) = self.files_of(key) {
            files.prefetch_shared(key, range);
        }
    }

    fn maps_from(&self) -> Option<u64> {
        self.inner.local().and_then(|files| files.maps_from())
    }

    fn map(&self, key: &str, ranges: &[Range<u64>]) -> Option<Mapped> {
        self.files_of(key)?.map(key, ranges)
    }

    fn preallocate(&self, key: &str, at: u64, end: u64) {
        if let Some(files) = self.files_of(key) {
            files.preallocate(key, at, end);
        }
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

    fn evict(&self, key: &str) -> Result<Option<bool>> {
        self.files_of(key).map_or(Ok(None), |files| files.evict(key))
    }
}
