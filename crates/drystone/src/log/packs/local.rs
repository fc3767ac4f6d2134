//! The interface of local files, for files of log parts and all other objects.

use std::ops::Range;

use drystone_format::keys;
use drystone_store::{LocalFiles, Mapped, PutMode, Result, Store, StoreExt, by_requests};

use super::{PackedLogs, Place};

impl PackedLogs {
    fn files(&self) -> Option<&dyn LocalFiles> {
        self.inner.local()
    }

    fn known_place(&self, key: &str) -> Option<Place> {
        self.known().place(keys::parse_log(key)?)
    }
}

/// The pack and the range in it that a range of a file is.
fn moved(place: &Place, range: Range<u64>) -> (&str, Range<u64>) {
    let end = range.end.min(place.length);
    (&place.pack, place.at + range.start.min(end)..place.at + end)
}

impl LocalFiles for PackedLogs {
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Some(files) = self.files() else { return by_requests::read_seen(self, key, offset, out, seen) };
        self.with(key, |place| match place {
            Some(place) => {
                place.check(key, self.inner.as_ref(), offset, out.len())?;
                files.read_seen(&place.pack, place.at + offset, out, seen)
            }
            None => files.read_seen(key, offset, out, seen),
        })
    }

    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        let Some(files) = self.files() else { return by_requests::read_ranges(self, key, ranges, out) };
        self.with(key, |place| match place {
            Some(place) => {
                let ranges = place.check_all(key, self.inner.as_ref(), ranges)?;
                files.read_ranges(&place.pack, &ranges, out)
            }
            None => files.read_ranges(key, ranges, out),
        })
    }

    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()> {
        let Some(files) = self.files() else { return by_requests::read_parts(self, key, offset, parts) };
        let wanted = parts.iter().map(|part| part.len()).sum();
        self.with(key, |place| match place {
            Some(place) => {
                place.check(key, self.inner.as_ref(), offset, wanted)?;
                files.read_parts(&place.pack, place.at + offset, parts)
            }
            None => files.read_parts(key, offset, parts),
        })
    }

    fn prefetch(&self, key: &str, range: Range<u64>) {
        let Some(files) = self.files() else { return };
        match self.known_place(key) {
            Some(place) => {
                let (pack, range) = moved(&place, range);
                files.prefetch(pack, range);
            }
            None => files.prefetch(key, range),
        }
    }

    fn prefetch_shared(&self, key: &str, range: Range<u64>) {
        let Some(files) = self.files() else { return };
        match self.known_place(key) {
            Some(place) => {
                let (pack, range) = moved(&place, range);
                files.prefetch_shared(pack, range);
            }
            None => files.prefetch_shared(key, range),
        }
    }

    fn maps_from(&self) -> Option<u64> {
        self.files()?.maps_from()
    }

    fn map(&self, key: &str, ranges: &[Range<u64>]) -> Option<Mapped> {
        match self.known_place(key) {
            // What is packed is small: it is read.
            Some(_) => None,
            None => self.files()?.map(key, ranges),
        }
    }

    fn preallocate(&self, key: &str, at: u64, end: u64) {
        if let Some(files) = self.files() {
            files.preallocate(key, at, end);
        }
    }

    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        self.sync_by(first, |first| self.inner.put_after(first, key, parts, mode))
    }

    fn evict(&self, key: &str) -> Result<Option<bool>> {
        let Some(files) = self.files() else { return Ok(None) };
        match self.known_place(key) {
            Some(place) => files.evict(&place.pack),
            None => files.evict(key),
        }
    }
}
