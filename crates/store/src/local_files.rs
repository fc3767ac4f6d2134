//! What only a store of local files can do, or can do faster than by the requests of [`Store`](crate::Store).

use std::ops::Range;

use crate::{Mapped, PutMode, Result};

/// The optional second half of a store whose objects are files of this machine's file systems, reached by
/// [`Store::local`](crate::Store::local).
///
/// Callers that want these as comfort, whatever the store, use [`StoreExt`](crate::StoreExt), which takes the requests of `Store` where
/// there are no local files. Like those of `Store`, all methods are required: a wrapper forwards each of them, or returns no local files at all.
/// The promises of `Store` about threads, keys and errors hold here, too.
pub trait LocalFiles: Send + Sync {
    /// [`read`](crate::Store::read), and shows `seen` every byte once, in order, part by part, while the part is in the processor's cache.
    /// Each part but the last is a multiple of 2^[`SEEN_LOG2`](crate::SEEN_LOG2) bytes long. It is one request.
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// [`read`](crate::Store::read) of several ranges, offset and length, one behind the other into `out`, whose length is their sum. The
    /// object is looked up once; each range is a request.
    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()>;

    /// [`read`](crate::Store::read) of one range into several buffers: `parts` get the bytes from `offset` one behind the other. It is one
    /// request. It is for objects whose bytes never change: a caller that read one before may find them after the object was deleted, or
    /// another one has its name.
    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()>;

    /// Starts the system's sequential read-ahead on a range, unless it seems to be in memory. A hint: it promises nothing, and what it
    /// names need not exist.
    fn prefetch(&self, key: &str, range: Range<u64>);

    /// The same for a range of which only parts will be read here: it is prefetched where other processes seem to read the rest of it now.
    fn prefetch_shared(&self, key: &str, range: Range<u64>);

    /// Least size of a read, in bytes, that is worth a call of [`map`](LocalFiles::map); `None`: nothing is mapped.
    fn maps_from(&self) -> Option<u64>;

    /// Maps ranges of the object, none empty, ascending and disjoint. Each is a request. `None`: nothing is mapped here, or the bytes are
    /// not in memory; [`read`](crate::Store::read) fetches them, or says what is wrong.
    fn map(&self, key: &str, ranges: &[Range<u64>]) -> Option<Mapped>;

    /// Reserves space on the device for the bytes from `at`, the end of the object, to `end`, which are about to be appended in several
    /// calls. Neither length nor bytes change. It promises nothing; where there is no space, the append says so.
    fn preallocate(&self, key: &str, at: u64, end: u64);

    /// [`put`](crate::Store::put) with `sync`, of an object that names the objects `first`, as
    /// [`StoreExt::put_after`](crate::StoreExt::put_after) describes; the device gets both syncs at once.
    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()>;

    /// Drops the object's bytes from memory, so that the next read comes from the medium; unsynced bytes may stay. For measurements.
    /// Whether nothing was left of it: looked at, not assumed; `None` where the system cannot tell.
    fn evict(&self, key: &str) -> Result<Option<bool>>;
}
