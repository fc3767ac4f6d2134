//! [`LocalFiles`] for parts that are files: at home, or in a tier that is a folder.

use drystone_store::{LocalFiles, PutMode, Result, Store, StoreExt, by_requests, forward_files};

use super::TieredStore;

impl TieredStore {
    /// The local files that hold an object; `None` if a read must look up where the object lies.
    fn files_of(&self, key: &str) -> Option<&dyn LocalFiles> {
        match self.find(key) {
            Some(one) => {
                let tier = self.tiers().get(one.tier).filter(|tier| tier.health.aside().is_none())?;
                self.hit(key, one.tier);
                tier.store.local()
            }
            None if self.registered(key).is_ok_and(|said| said.is_none()) => self.home.local(),
            None => None,
        }
    }
}

impl LocalFiles for TieredStore {
    forward_files!(files_of => prefetch, prefetch_shared, map, preallocate, evict);

    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        // A part of this handle may be evicted during the read, so all its bytes are read before `seen` gets any.
        match self.files_of(key).filter(|_| self.find(key).is_none()) {
            Some(files) => files.read_seen(key, offset, out, seen),
            None => by_requests::read_seen(self, key, offset, out, seen),
        }
    }

    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        match self.files_of(key).map(|files| files.read_ranges(key, ranges, out)) {
            Some(Ok(())) => Ok(()),
            _ => by_requests::read_ranges(self, key, ranges, out),
        }
    }

    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()> {
        match self.files_of(key).map(|files| files.read_parts(key, offset, parts)) {
            Some(Ok(())) => Ok(()),
            _ => by_requests::read_parts(self, key, offset, parts),
        }
    }

    fn maps_from(&self) -> Option<u64> {
        self.home.local().and_then(|files| files.maps_from())
    }

    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        for part in first {
            if self.find(part).is_some() {
                self.drain_part(part)?;
            }
        }
        match self.home.local() {
            Some(files) => files.put_after(first, key, parts, mode),
            None => self.home.put_after(first, key, parts, mode),
        }
    }
}
