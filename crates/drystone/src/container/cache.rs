//! The cache of a handle: its folder, and the operations that fill it.
//!
//! A store option names the folder (`drystone_cache`, with `drystone_cache_bytes`), so that a pickle or another
//! process that opens the container again uses the same folder. Without the option, the environment names it. A local
//! home store has a cache only if an option names one.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use drystone_format::published::Shard;
use drystone_store::Store;
use drystone_store_cache::{Bypass, CacheStore, Folder, Warmed};

use super::tiers::TierRow;
use super::{Container, Inner};
use crate::base::metrics::Metrics;
use crate::base::span::{self, SpanKind};
use crate::published::shards;
use crate::{Error, Result};

/// Options that name the folder and its budget in bytes. An empty name turns the cache off.
const FOLDER: &str = "drystone_cache";
const BYTES: &str = "drystone_cache_bytes";
/// The corresponding environment variables.
const OF_ENVIRONMENT: (&str, &str) = ("DRYSTONE_CACHE", "DRYSTONE_CACHE_BYTES");

/// A folder that caches units of far stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFolder {
    /// The folder; it is created if it is absent.
    pub folder: PathBuf,
    /// The most bytes in the folder. `None`: a tenth of the free space of its device.
    pub budget: Option<u64>,
}

/// A cache folder, and whether it was named for this container. If it was, an unusable folder is an error.
type Named = (CacheFolder, bool);

fn budget(text: &str, name: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::invalid(format!("{name} is {text:?}; it is a number of bytes")))
}

/// Options of a store: names and values.
type StoreOptions = Vec<(String, String)>;

/// Whether this name is one of the cache options.
pub(super) fn is_option(name: &str) -> bool {
    [FOLDER, BYTES].contains(&name)
}

impl CacheFolder {
    /// Separates the options of a store into the cache that they name and the remaining options. For a far store
    /// without such an option, the environment may name a cache. Errors: `InvalidArgument` if a budget is not a
    /// number.
    pub(super) fn take(options: &[(String, String)], is_far: bool) -> Result<(Option<Named>, StoreOptions)> {
        let rest = options.iter().filter(|(name, _)| !is_option(name)).cloned().collect();
        let said =
            |wanted: &str| options.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let bytes = said(BYTES).map(|text| budget(text, BYTES)).transpose()?;
        if let Some(folder) = said(FOLDER) {
            let cache = CacheFolder { folder: folder.into(), budget: bytes };
            return Ok(((!folder.is_empty()).then_some((cache, true)), rest));
        }
        let of_environment = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(folder) = of_environment(OF_ENVIRONMENT.0).filter(|_| is_far) else {
            return Ok((None, rest));
        };
        let bytes =
            of_environment(OF_ENVIRONMENT.1).map(|text| budget(&text, OF_ENVIRONMENT.1)).transpose()?;
        Ok((Some((CacheFolder { folder: folder.into(), budget: bytes }, false)), rest))
    }
}

/// The store to use in place of a home store, its cache, and a warning.
pub(super) type Front = (Arc<dyn Store>, Option<Arc<CacheStore>>, Option<String>);

/// Wraps a home store in a cache, if a folder is given. Without a cache, nothing is prefetched.
pub(super) fn in_front(home: Arc<dyn Store>, uuid: [u8; 16], given: Option<&Named>) -> Result<Front> {
    let Some((given, named)) = given else { return Ok((home, None, None)) };
    match Folder::open(&given.folder, given.budget) {
        Ok(folder) => {
            let cache = Arc::new(CacheStore::new(home, uuid, Some(folder)));
            Ok((cache.clone(), Some(cache), None))
        }
        Err(error) if *named => {
            Err(Error::from(error).while_doing(format!("the cache {}", given.folder.display())))
        }
        Err(error) => {
            let warning = format!("the cache {} cannot be used: {error}", given.folder.display());
            Ok((home, None, Some(warning)))
        }
    }
}

/// The operation on the bytes of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Fetches them into the cache.
    Warm,
    /// Fetches them into the cache and pins them there.
    Pin,
    /// Unpins them, so that the cache may evict them.
    Unpin,
}

impl Container {
    /// Fetches ranges of objects into the cache, pins or unpins them. `go_on` receives the bytes done and the bytes
    /// in all. Errors: `InvalidArgument` if this handle has no cache folder; errors of the home store and of creating
    /// pins; `Cancelled` if `go_on` returns false.
    pub(crate) fn keep(
        &self,
        ranges: &[(String, Range<u64>)],
        keep: Keep,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Warmed> {
        let cache = self.inner.cache.as_ref().filter(|cache| cache.state().is_some()).ok_or_else(|| {
            Error::invalid(format!(
                "{} was opened without a cache folder: open it with cache=\"/a/folder\", or set DRYSTONE_CACHE",
                self.location()
            ))
        })?;
        let mut stopped = false;
        let mut warmed = Warmed::default();
        if keep != Keep::Unpin {
            let begun = span::begin(SpanKind::Warm);
            warmed = cache.warm(ranges, &mut |done, all| {
                let more = go_on(done, all);
                stopped |= !more && done < all;
                more
            })?;
            let values =
                span::Values { wanted_bytes: warmed.wanted, bytes: warmed.fetched, ..Default::default() };
            begun.end(SpanKind::Warm, || self.inner.store.describe(), "", values);
        }
        if stopped {
            return Err(Error::new(
                crate::ErrorKind::Cancelled,
                "warming was stopped; the fetched bytes stay in the cache",
            ));
        }
        if keep != Keep::Warm {
            cache.pin(ranges, keep == Keep::Pin)?;
        }
        Ok(warmed)
    }
}

impl Inner {
    /// The cache folder as a row of the table of tiers.
    pub(super) fn cache_row(&self) -> Option<TierRow> {
        let cache = self.cache.as_ref()?;
        let state = cache.state()?;
        let hits = cache.counts().hits;
        let (place, bytes, aside) = (state.place, state.bytes, state.aside);
        Some(TierRow { place, bytes, undrained: 0, oldest: None, rate: 0.0, hits, aside })
    }

    /// Adds the counters of the cache.
    pub(super) fn count_cache(&self, metrics: &mut Metrics) {
        let Some(cache) = &self.cache else { return };
        let counts = cache.counts();
        metrics.folder_hits = counts.hits;
        metrics.folder_misses = counts.misses;
        metrics.folder_bytes = counts.hit_bytes;
        metrics.home_bytes = counts.home_bytes;
        metrics.prefetched_bytes = counts.prefetched_bytes;
        metrics.prefetch_used_bytes = counts.prefetch_used_bytes;
        metrics.folder_repairs = counts.repaired;
        metrics.folder_failures = counts.failures;
    }

    /// The name under which a recorded shard is read: its key, or that of its generation in the cache.
    pub(crate) fn shard_name(&self, key: &str, record: &Shard) -> String {
        match &self.cache {
            Some(_) => drystone_store_cache::generation(key, &shards::first_bytes(record), record.length),
            None => key.to_owned(),
        }
    }

    /// Bypasses the cache: while the result exists, the home store answers every read.
    pub(crate) fn bypass_cache(&self) -> Option<Bypass> {
        self.cache.as_ref().map(|cache| cache.bypass())
    }

    /// Runs a read. If it fails because of wrong bytes that may come from the cache, repeats it from the home store.
    pub(crate) fn unless_cached<T>(&self, read: impl Fn() -> Result<T>) -> Result<T> {
        match read() {
            Err(error) if error.kind() == crate::ErrorKind::Corrupt => match &self.cache {
                Some(cache) if cache.evict_recent() => read(),
                _ => Err(error),
            },
            other => other,
        }
    }
}
