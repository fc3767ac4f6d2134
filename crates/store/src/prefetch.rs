//! Implements hints for a far store: [`Request::Expect`] starts reads, and later reads of the ranges wait for those.
//!
//! Code that reads one object after another, such as a check of a container, first announces its reads. Then it waits
//! for one round trip instead of one per read.
//!
//! Invariants
//! - a read returns the bytes that the store had after the hint. A change of the object through this store is seen;
//!   another change within [`FRESH`] may not be. So hints are for objects whose bytes never change;
//! - a failed prefetch is dropped, and the read itself reports the error;
//! - prefetched ranges that were not read take [`MOST`] bytes at most.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{LocalFiles, Pending, PutMode, Reply, Request, Result, Store};

/// Most bytes that are under way or waiting to be read.
const MOST: u64 = 8 << 20;
/// Prefetched bytes that were not read for this long are dropped.
pub const FRESH: Duration = Duration::from_secs(10);

/// A store that prefetches the ranges of hints.
#[derive(Debug)]
pub struct PrefetchStore<S> {
    inner: S,
    held: Mutex<VecDeque<Held>>,
}

/// A prefetched range.
#[derive(Debug)]
struct Held {
    key: String,
    range: Range<u64>,
    since: Instant,
    /// Bytes of it that have not been read yet.
    left: u64,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug)]
enum Content {
    UnderWay(Option<Pending>),
    Here(Vec<u8>),
    Failed,
}

impl<S: Store> PrefetchStore<S> {
    /// Wraps a far store. For other stores it gains nothing.
    pub fn new(inner: S) -> Self {
        PrefetchStore { inner, held: Mutex::default() }
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to read the ranges that are not prefetched yet, as far as there is space; returns whether there were
    /// none.
    fn prefetch(&self, key: &str, ranges: &[(u64, u64)]) -> bool {
        let mut held = self.held();
        held.retain(|one| one.since.elapsed() < FRESH);
        let wanted = ranges.iter().fold(0u64, |sum, (_, len)| sum.saturating_add(*len));
        let bytes =
            |held: &VecDeque<Held>| held.iter().map(|one| one.range.end - one.range.start).sum::<u64>();
        if bytes(&held).saturating_add(wanted) > MOST {
            // A range that was read in part is most likely not read further.
            held.retain(|one| one.left == one.range.end - one.range.start);
        }
        let mut room = MOST.saturating_sub(bytes(&held));
        let mut needless = true;
        for &(at, len) in ranges {
            let range = at..at.saturating_add(len);
            let covered =
                |one: &Held| one.key == key && one.range.start <= range.start && range.end <= one.range.end;
            if len == 0 || len > room || held.iter().any(covered) {
                continue;
            }
            let Ok(bytes) = usize::try_from(len) else { continue };
            room -= len;
            needless = false;
            let pending = self.inner.submit(Request::read_many(key, vec![(at, bytes)]));
            let content = Arc::new(Mutex::new(Content::UnderWay(Some(pending))));
            held.push_back(Held { key: key.to_owned(), range, since: Instant::now(), left: len, content });
        }
        needless
    }

    /// Fills `out` if its range was prefetched successfully.
    fn joined(&self, key: &str, offset: u64, out: &mut [u8]) -> bool {
        let Some(end) = offset.checked_add(out.len() as u64) else { return false };
        let (content, from) = {
            let mut held = self.held();
            let holds = |one: &Held| one.key == key && one.range.start <= offset && end <= one.range.end;
            let Some(at) = held.iter().position(holds) else { return false };
            let Some(one) = held.get_mut(at) else { return false };
            one.left = one.left.saturating_sub(out.len() as u64);
            let found = (Arc::clone(&one.content), (offset - one.range.start) as usize);
            if one.left == 0 {
                held.remove(at);
            }
            found
        };
        // Other readers of the range wait here for the same reply.
        let mut content = content.lock().unwrap_or_else(PoisonError::into_inner);
        if let Content::UnderWay(pending) = &mut *content {
            let reply = pending.take().map(Pending::wait);
            *content = match reply {
                Some(Ok(reply)) => Content::Here(reply.into_buffers().pop().unwrap_or_default()),
                _ => Content::Failed,
            };
        }
        match &*content {
            Content::Here(bytes) => match bytes.get(from..from + out.len()) {
                Some(bytes) => {
                    out.copy_from_slice(bytes);
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Drops what was prefetched of an object that is about to change.
    fn changes(&self, key: &str) {
        self.held().retain(|one| one.key != key);
    }
}

impl<S: Store> Store for PrefetchStore<S> {
    crate::forward! {
        inner =>
        features, describe, device, watch, unchanged, len, read_whole, append, upload, list, sweep,
        sync, exec
    }

    /// The local files of the inner store: for them, the kernel reads ahead.
    fn local(&self) -> Option<&dyn LocalFiles> {
        self.inner.local()
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        if !out.is_empty() && self.joined(key, offset, out) {
            return Ok(());
        }
        self.inner.read(key, offset, out)
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        self.changes(key);
        let done = self.inner.write_at(key, parts, len);
        self.changes(key);
        done
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        let done = self.inner.put(key, parts, mode, sync);
        self.changes(key);
        done
    }

    fn delete(&self, key: &str) -> Result<()> {
        let done = self.inner.delete(key);
        self.changes(key);
        done
    }

    fn submit(&self, request: Request) -> Pending {
        match &request {
            Request::Expect { key, ranges } if self.inner.features().far.is_some() => {
                let needless = self.prefetch(key, ranges);
                return Pending::completed(Ok(Reply::Expected { needless }));
            }
            Request::Put { key, .. } | Request::Delete { key } => self.changes(key),
            _ => {}
        }
        self.inner.submit(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DelayStore, MemoryStore, StoreError};

    fn store() -> PrefetchStore<DelayStore<MemoryStore>> {
        let inner = MemoryStore::new();
        let bytes: Vec<u8> = (0..100_u8).collect();
        inner.put("k", &[&bytes], PutMode::IfAbsent, false).unwrap();
        PrefetchStore::new(DelayStore::new(inner, Duration::from_millis(30), 1e9))
    }

    fn expect(store: &impl Store, ranges: Vec<(u64, u64)>) -> bool {
        let reply = store.submit(Request::Expect { key: "k".into(), ranges }).wait().unwrap();
        reply == Reply::Expected { needless: true }
    }

    #[test]
    fn reads_of_what_was_hinted_at_take_one_round_together() {
        let store = store();
        assert!(!expect(&store, vec![(0, 50), (60, 10), (0, 0)]));
        assert!(expect(&store, vec![(10, 20)]), "it is on its way");
        for (at, len) in [(0, 10), (10, 40), (60, 10)] {
            let mut out = vec![0; len];
            store.read("k", at as u64, &mut out).unwrap();
            assert!(out.iter().enumerate().all(|(n, byte)| *byte as usize == at + n));
        }
        let log = store.inner().take_log();
        assert_eq!(
            log.iter().map(|asked| (asked.round, asked.bytes)).collect::<Vec<_>>(),
            [(1, 50), (1, 10)]
        );
        store.read("k", 0, &mut [0; 10]).unwrap();
        assert_eq!(store.inner().take_log().len(), 1, "what was read once is read again");
    }

    #[test]
    fn a_hint_at_what_is_not_there_changes_nothing() {
        let store = store();
        expect(&store, vec![(90, 20), (u64::MAX - 1, 7), (5, 1 << 40)]);
        let short = store.read("k", 95, &mut [0; 10]);
        assert!(matches!(short, Err(StoreError::ShortRead { offset: 95, got: 5, .. })), "{short:?}");
        store.read("k", 90, &mut [0; 10]).unwrap();
    }

    #[test]
    fn an_object_that_is_replaced_is_read_anew() {
        let store = store();
        expect(&store, vec![(0, 3)]);
        store.put("k", &[b"new"], PutMode::Replace, false).unwrap();
        let mut out = [0; 3];
        store.read("k", 0, &mut out).unwrap();
        assert_eq!(&out, b"new");
        expect(&store, vec![(0, 3)]);
        store.delete("k").unwrap();
        assert!(matches!(store.read("k", 0, &mut out), Err(StoreError::NotFound { .. })));
    }

    #[test]
    fn prefetched_bytes_that_are_not_read_take_bounded_memory() {
        let inner = MemoryStore::new();
        inner.put("k", &[&vec![1; 20 << 20]], PutMode::IfAbsent, false).unwrap();
        let store = PrefetchStore::new(DelayStore::new(inner, Duration::from_millis(1), 1e10));
        expect(&store, (0..20).map(|n| (n << 20, 1 << 20)).collect());
        let bytes: u64 = store.inner().take_log().iter().map(|asked| asked.bytes).sum();
        assert_eq!(bytes, MOST);
    }
}
