//! Counters of a cache.

use std::sync::atomic::{AtomicU64, Ordering};

use super::CacheStore;
use crate::folder::Folder;

/// Counters of a cache, which only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of ranges read without a request to the home store.
    pub hits: u64,
    /// Number of ranges read with a request to the home store.
    pub misses: u64,
    /// Bytes read from the folder.
    pub hit_bytes: u64,
    /// Bytes from the home store that reads waited for.
    pub home_bytes: u64,
    /// Bytes that were prefetched.
    pub prefetched_bytes: u64,
    /// Prefetched bytes that were then read.
    pub prefetch_used_bytes: u64,
    /// Number of units that were removed because they failed their checksums or were distrusted.
    pub repaired: u64,
    /// Number of units that could not be stored or loaded, because the folder was full or failed.
    pub failures: u64,
    /// Bytes that were evicted.
    pub evicted_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) hit_bytes: AtomicU64,
    pub(super) home_bytes: AtomicU64,
    pub(super) prefetched_bytes: AtomicU64,
    pub(super) prefetch_used_bytes: AtomicU64,
    pub(super) repaired: AtomicU64,
    pub(super) failures: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl CacheStore {
    /// The current values.
    pub fn counts(&self) -> Counts {
        let (tally, get) = (&self.shared.tally, |counter: &AtomicU64| counter.load(Ordering::Relaxed));
        Counts {
            hits: get(&tally.hits),
            misses: get(&tally.misses),
            hit_bytes: get(&tally.hit_bytes),
            home_bytes: get(&tally.home_bytes),
            prefetched_bytes: get(&tally.prefetched_bytes),
            // Bytes that arrived while they were read may be counted twice.
            prefetch_used_bytes: get(&tally.prefetch_used_bytes).min(get(&tally.prefetched_bytes)),
            repaired: get(&tally.repaired),
            failures: get(&tally.failures),
            evicted_bytes: self.shared.folder.as_ref().map_or(0, Folder::evicted),
        }
    }
}
