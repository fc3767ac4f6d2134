//! A byte-bounded cache of decoded, immutable values: index pages, subchunk tables, check arrays.
//!
//! Cached values never change, so there is nothing to invalidate: eviction only bounds memory. There are two
//! generations. An entry that is used moves to the young one. When that is full, the old generation is dropped as a
//! whole.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::metrics::add;

struct Generations<K, V> {
    young: HashMap<K, (Arc<V>, usize)>,
    old: HashMap<K, (Arc<V>, usize)>,
    young_bytes: usize,
}

/// The cache described above. `V` is shared; the caller states the sizes.
pub(crate) struct Cache<K, V> {
    half: usize,
    inner: Mutex<Generations<K, V>>,
    hits: AtomicU64,
    loads: AtomicU64,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// A cache of at most `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let inner = Generations { young: HashMap::new(), old: HashMap::new(), young_bytes: 0 };
        Cache { half: bytes / 2, inner: Mutex::new(inner), hits: AtomicU64::new(0), loads: AtomicU64::new(0) }
    }

    /// The cached value, if there is one.
    pub(crate) fn find(&self, key: &K) -> Option<Arc<V>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((value, _)) = inner.young.get(key) {
            add(&self.hits, 1);
            return Some(value.clone());
        }
        let (value, bytes) = inner.old.remove(key)?;
        add(&self.hits, 1);
        self.insert(&mut inner, key.clone(), value.clone(), bytes);
        Some(value)
    }

    /// The cached value, or the one that `load` makes. `load` runs outside the lock, so two threads may load the same
    /// value.
    pub(crate) fn get<E>(&self, key: &K, load: impl FnOnce() -> Result<(V, usize), E>) -> Result<Arc<V>, E> {
        if let Some(value) = self.find(key) {
            return Ok(value);
        }
        let (value, bytes) = load()?;
        Ok(self.put(key.clone(), value, bytes))
    }

    /// Caches a value that the caller has already, and returns it to be shared.
    pub(crate) fn put(&self, key: K, value: V, bytes: usize) -> Arc<V> {
        let value = Arc::new(value);
        add(&self.loads, 1);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.insert(&mut inner, key, value.clone(), bytes);
        value
    }

    /// Numbers of hits and of misses.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.loads.load(Ordering::Relaxed))
    }

    /// Drops a value that is unlikely to be used again.
    pub(crate) fn forget(&self, key: &K) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.old.remove(key);
        if let Some((_, bytes)) = inner.young.remove(key) {
            inner.young_bytes -= bytes;
        }
    }

    fn insert(&self, inner: &mut Generations<K, V>, key: K, value: Arc<V>, bytes: usize) {
        if bytes > self.half {
            return;
        }
        if inner.young_bytes + bytes > self.half {
            inner.old = std::mem::take(&mut inner.young);
            inner.young_bytes = 0;
        }
        inner.young_bytes += bytes;
        if let Some((_, before)) = inner.young.insert(key, (value, bytes)) {
            inner.young_bytes -= before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_survive_and_unused_ones_are_dropped() {
        let cache: Cache<u32, u32> = Cache::new(100);
        let load = |k: u32, n: &mut u32| {
            *n += 1;
            Ok::<_, ()>((k, 10))
        };
        let mut loads = 0;
        for round in 0..20 {
            cache.get(&0, || load(0, &mut loads)).unwrap();
            cache.get(&(round + 1), || load(round + 1, &mut loads)).unwrap();
        }
        assert_eq!(loads, 21, "the entry used in every round is loaded once");
        cache.get(&1, || load(1, &mut loads)).unwrap();
        assert_eq!(loads, 22, "an entry unused for two generations is gone");
    }

    #[test]
    fn a_value_that_was_put_is_not_loaded() {
        let cache: Cache<u32, u32> = Cache::new(100);
        cache.put(1, 7, 10);
        let found = cache.get(&1, || Err("loaded"));
        assert_eq!(found.as_deref(), Ok(&7));
    }

    #[test]
    fn a_forgotten_value_leaves_its_space_to_others() {
        let cache: Cache<u32, u32> = Cache::new(100);
        let keep = |key, value| drop(cache.put(key, value, 10));
        (0..5).for_each(|key| keep(key, key));
        for round in 5..50 {
            cache.forget(&round);
            cache.forget(&(round - 1));
            keep(round, round);
            assert_eq!((cache.find(&(round - 1)), cache.find(&round)), (None, Some(Arc::new(round))));
        }
        assert!((0..4).all(|key| cache.find(&key).is_some()), "nothing was evicted");
    }

    #[test]
    fn a_value_beyond_the_bound_is_not_cached() {
        let cache: Cache<u32, u32> = Cache::new(100);
        for _ in 0..2 {
            assert_eq!(*cache.get(&1, || Ok::<_, ()>((7, 51))).unwrap(), 7);
        }
        assert!(cache.inner.lock().unwrap().young.is_empty());
    }
}
