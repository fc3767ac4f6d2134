//! What files can do better, for parts that lie in files: at home, or in a tier that is a folder.

use std::ops::Range;

use drystone_store::{LocalFiles, Mapped, PutMode, Result, Store, StoreExt};

use super::TieredStore;

impl TieredStore {
    /// The files where an object lies whose place is known; `None`: its reads look for it.
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
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        // Of an own part that is evicted meanwhile nothing may have been shown, so it is read first.
        if let Some(files) = self.files_of(key).filter(|_| self.find(key).is_none()) {
            return files.read_seen(key, offset, out, seen);
        }
        self.read(key, offset, out)?;
        seen(out);
        Ok(())
    }

    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        if let Some(files) = self.files_of(key)
            && files.read_ranges(key, ranges, out).is_ok()
        {
            return Ok(());
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
        if let Some(files) = self.files_of(key)
            && files.read_parts(key, offset, parts).is_ok()
        {
            return Ok(());
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
        self.home.local().and_then(|files| files.maps_from())
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
        for part in first {
            if self.find(part).is_some() {
                self.bring_home(part)?;
            }
        }
        match self.home.local() {
            Some(files) => files.put_after(first, key, parts, mode),
            None => self.home.put_after(first, key, parts, mode),
        }
    }

    fn evict(&self, key: &str) -> Result<Option<bool>> {
        self.files_of(key).map_or(Ok(None), |files| files.evict(key))
    }
}
