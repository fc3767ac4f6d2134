//! Counts requests and bytes by kind: for benchmarks, `explain` and tests.
//!
//! A request is counted when it is made, whether it succeeds or not.

use std::fmt;
use std::ops::{Range, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    Features, ListEntry, LocalFiles, Mapped, Pending, PutMode, Request, Result, Store, StoreError, StoreExt,
    Upload, validate_key,
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Requests and bytes by kind. The difference of two readings is what happened between them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: u64),* }

        /// Counters that many threads increment.
        #[derive(Debug, Default)]
        pub(crate) struct Tally { $(pub(crate) $name: AtomicU64),* }

        impl Tally {
            pub(crate) fn counters(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }

        impl Sub for Counters {
            type Output = Counters;
            fn sub(self, earlier: Counters) -> Counters {
                Counters { $($name: self.$name.saturating_sub(earlier.$name)),* }
            }
        }

        impl fmt::Display for Counters {
            /// The counters that are not zero.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                $(if self.$name != 0 {
                    write!(f, "{separator}{} {}", self.$name, stringify!($name).replace('_', " "))?;
                    separator = ", ";
                })*
                if separator.is_empty() { f.write_str("no requests") } else { Ok(()) }
            }
        }
    };
}

counters! {
    /// Requests for a length.
    lens,
    /// Ranges read, including those of submitted requests.
    reads,
    /// Bytes requested by those reads.
    bytes_read,
    /// Appends, and parts of writes inside of objects.
    appends,
    /// Bytes of those appends and writes.
    bytes_appended,
    /// Puts.
    puts,
    /// Bytes of those puts.
    bytes_put,
    /// Listings.
    lists,
    /// Deletes.
    deletes,
    /// Calls of `sync`, and puts with sync.
    syncs,
    /// Calls of `exec`.
    execs,
}

impl Tally {
    pub(crate) fn read(&self, bytes: usize) {
        add(&self.reads, 1);
        add(&self.bytes_read, bytes as u64);
    }

    pub(crate) fn append(&self, parts: &[&[u8]]) {
        add(&self.appends, 1);
        add(&self.bytes_appended, parts.iter().map(|part| part.len() as u64).sum());
    }

    pub(crate) fn put(&self, bytes: usize, sync: bool) {
        add(&self.puts, 1);
        add(&self.bytes_put, bytes as u64);
        add(&self.syncs, u64::from(sync));
    }
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// A store that counts requests and forwards them.
#[derive(Debug)]
pub struct CountingStore<S> {
    inner: S,
    tally: Tally,
}

impl<S: Store> CountingStore<S> {
    /// Wraps `inner`; all counters start at zero.
    pub fn new(inner: S) -> Self {
        CountingStore { inner, tally: Tally::default() }
    }

    /// The requests and bytes so far.
    pub fn counters(&self) -> Counters {
        self.tally.counters()
    }

    /// The inner store, whose methods do not count.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn files_of(&self, _key: &str) -> Option<&dyn LocalFiles> {
        self.inner.local()
    }
}

impl<S: Store> Store for CountingStore<S> {
    crate::forward!(inner => describe, device, watch, unchanged, sweep);

    /// Uploads are turned off, so that every object is written by puts, which are counted.
    fn features(&self) -> Features {
        Features { uploads: false, ..self.inner.features() }
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        self.inner.local().map(|_| self as &dyn LocalFiles)
    }

    fn len(&self, key: &str) -> Result<u64> {
        add(&self.tally.lens, 1);
        self.inner.len(key)
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.tally.read(out.len());
        self.inner.read(key, offset, out)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let found = self.inner.read_whole(key, limit);
        self.tally.read(found.as_ref().map_or(0, |found| found.as_ref().map_or(0, Vec::len)));
        found
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        self.tally.append(parts);
        self.inner.append(key, at, parts)
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        parts.iter().for_each(|(_, data)| self.tally.append(&[data]));
        self.inner.write_at(key, parts, len)
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        self.tally.put(parts.iter().map(|part| part.len()).sum(), sync);
        self.inner.put(key, parts, mode, sync)
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        validate_key(key)?;
        Err(StoreError::Unsupported {
            operation: format!("upload in pieces (of '{key}')"),
            store: self.describe(),
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        add(&self.tally.lists, 1);
        self.inner.list(prefix)
    }

    fn delete(&self, key: &str) -> Result<()> {
        add(&self.tally.deletes, 1);
        self.inner.delete(key)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        add(&self.tally.syncs, 1);
        self.inner.sync(keys)
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        add(&self.tally.execs, 1);
        self.inner.exec(key, method, input)
    }

    fn submit(&self, request: Request) -> Pending {
        match &request {
            Request::ReadMany { ranges, .. } => ranges.iter().for_each(|range| self.tally.read(range.1)),
            Request::Expect { .. } | Request::Place { .. } => {}
            Request::Len { .. } => add(&self.tally.lens, 1),
            // The number of bytes is unknown until the request is completed, and a `Pending` cannot be inspected.
            Request::ReadWhole { .. } => self.tally.read(0),
            Request::List { .. } => add(&self.tally.lists, 1),
            Request::Delete { .. } => add(&self.tally.deletes, 1),
            Request::Append { data, .. } => self.tally.append(&[data]),
            Request::Put { data, sync, .. } => self.tally.put(data.len(), *sync),
            Request::Sync { .. } => add(&self.tally.syncs, 1),
            Request::Exec { .. } => add(&self.tally.execs, 1),
        }
        self.inner.submit(request)
    }
}

/// The inner store's local files, counted. Without local files this is not used; a call would fall back as [`StoreExt`]
/// does.
impl<S: Store> LocalFiles for CountingStore<S> {
    crate::forward_files!(files_of => prefetch, prefetch_shared, evict);

    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.tally.read(out.len());
        self.inner.read_seen(key, offset, out, seen)
    }

    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        ranges.iter().for_each(|(_, len)| self.tally.read(*len));
        self.inner.read_ranges(key, ranges, out)
    }

    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()> {
        self.tally.read(parts.iter().map(|part| part.len()).sum());
        self.inner.read_parts(key, offset, parts)
    }

    fn maps_from(&self) -> Option<u64> {
        self.inner.local()?.maps_from()
    }

    fn map(&self, key: &str, ranges: &[Range<u64>]) -> Option<Mapped> {
        let mapped = self.inner.local()?.map(key, ranges)?;
        ranges.iter().for_each(|range| self.tally.read(range.end.saturating_sub(range.start) as usize));
        Some(mapped)
    }

    fn preallocate(&self, key: &str, at: u64, end: u64) {
        self.inner.preallocate(key, at, end);
    }

    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        add(&self.tally.syncs, u64::from(!first.is_empty()));
        self.tally.put(parts.iter().map(|part| part.len()).sum(), true);
        self.inner.put_after(first, key, parts, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn requests_and_bytes_are_counted_by_kind_and_differences_can_be_taken() {
        let store = CountingStore::new(MemoryStore::new());
        store.append("k", 0, &[b"ab", b"cde"]).unwrap();
        let before = store.counters();
        store.read("k", 1, &mut [0; 3]).unwrap();
        store.submit(Request::read_many("k", vec![(0, 1), (1, 4)])).wait().unwrap();
        store.put("p", &[b"1234567"], PutMode::Replace, true).unwrap();
        assert!(store.read("missing", 0, &mut [0; 1]).is_err());
        let between = store.counters() - before;
        assert_eq!(
            between,
            Counters { reads: 4, bytes_read: 9, puts: 1, bytes_put: 7, syncs: 1, ..Counters::default() }
        );
        assert_eq!(before.to_string(), "1 appends, 5 bytes appended");
        assert_eq!(Counters::default().to_string(), "no requests");
    }
}
