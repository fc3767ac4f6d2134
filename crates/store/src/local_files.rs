//! The operations that only a store of local files supports, or for which it is faster than the requests of
//! [`Store`](crate::Store).

use std::ops::Range;

use crate::{Mapped, PutMode, Result};

/// The optional second half of a store whose objects are files in this machine's file systems.
/// [`Store::local`](crate::Store::local) returns it.
///
/// Callers that want these operations on any store use [`StoreExt`](crate::StoreExt), which falls back to the requests
/// of `Store`. As in `Store`, all methods are required: a wrapper forwards each of them, or returns no local files at
/// all. The guarantees of `Store` about threads, keys and errors hold here too.
pub trait LocalFiles: Send + Sync {
    /// A [`read`](crate::Store::read) that also passes every byte to `seen`, once and in order, part by part while the
    /// part is in the processor's cache. Each part but the last is a multiple of 2^[`SEEN_LOG2`](crate::SEEN_LOG2)
    /// bytes long. It is one request.
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Reads several ranges (offset and length), one after the other, into `out`, whose length is their sum. The object
    /// is looked up once; each range is a request.
    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()>;

    /// Reads one range into several buffers: `parts` get the bytes from `offset` on, one after the other. It is one
    /// request. It is for objects whose bytes never change: a caller that has read the object before may still reach it
    /// after it was deleted or its name was reused.
    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()>;

    /// Triggers the kernel's sequential read-ahead for a range, unless the range seems to be in memory. It is a hint:
    /// it promises nothing, and the object need not exist.
    fn prefetch(&self, key: &str, range: Range<u64>);

    /// The same for a range of which this process reads only parts: it is prefetched if other processes seem to read
    /// the rest now.
    fn prefetch_shared(&self, key: &str, range: Range<u64>);

    /// The least size of a read, in bytes, that is worth a call of [`map`](LocalFiles::map); `None` if nothing is
    /// mapped.
    fn maps_from(&self) -> Option<u64>;

    /// Maps ranges of the object, none empty, ascending and disjoint. Each is a request. `None` if nothing is mapped
    /// here, or the bytes are not in memory; a [`read`](crate::Store::read) then fetches them or reports the error.
    fn map(&self, key: &str, ranges: &[Range<u64>]) -> Option<Mapped>;

    /// Reserves space on the device for the bytes from `at`, the end of the object, to `end`, which are about to be
    /// appended in several calls. Neither length nor bytes change. It promises nothing; if there is no space, the
    /// append reports it.
    fn preallocate(&self, key: &str, at: u64, end: u64);

    /// A [`put`](crate::Store::put) with `sync` of an object that names the objects `first`, as
    /// [`StoreExt::put_after`](crate::StoreExt::put_after) describes. The device gets both syncs at once.
    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()>;

    /// Drops the object's bytes from memory, so that the next read comes from the medium; unsynced bytes may stay. For
    /// measurements. Returns whether probing found no byte in memory; `None` if the kernel cannot tell.
    fn evict(&self, key: &str) -> Result<Option<bool>>;
}
