//! A container: joins store, snapshot, caches and the current batch, and leaves the work to other modules.
//!
//! Invariants
//! - the handle's snapshot changes only by `refresh`, or by a commit made through this handle;
//! - a handle pinned by `at` never changes and never writes.

mod access;
pub(crate) mod batch;
mod cache;
pub mod calibrate;
mod config;
mod creating;
mod far;
mod flush;
pub(crate) mod hdf5_stub;
mod identity;
pub(crate) mod keeper_lock;
mod learn;
mod location;
mod log_packing;
mod newest;
mod opening;
mod options;
mod packing;
pub(crate) mod redundancy;
mod same;
pub(crate) mod targets;
pub(crate) mod tiers;
pub(crate) mod waiting;

use crate::base::sync::lock;
use crate::schema::near_miss::no_such;
use batch::Batch;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use drystone_format::identity::{Durability, Identity};
use drystone_format::piece::Trailer;
use drystone_format::schema::{Schema, Variable};
use drystone_format::table::Subchunk;
use drystone_plan::next::Predictor;
use drystone_plan::tier::level::Level;
use drystone_store::Store;
use drystone_store_cache::CacheStore;

use self::calibrate::Known;
use self::far::{Presence, presence};
use self::learn::Seen;
use self::targets::Placing;
use self::tiers::Tiers;
use self::waiting::{Looked, Waiting};
use crate::base::cache::Cache;
use crate::base::metrics::{Metrics, Tally};
use crate::base::prefetcher::Prefetcher;
use crate::history::hint;
use crate::history::loss::{self, Losses, Trust};
use crate::history::manifests;
use crate::history::packs::Packed;
use crate::history::pages::PageLoader;
use crate::history::snapshot::Snapshot;
use crate::log::packs::PackedLogs;
use crate::published::shards::Shards;
use crate::{Error, ErrorKind, Result};

pub use cache::{CacheFolder, Keep};
pub use config::{Config, Rule};
pub use far::{holders, open_store, public_options};
pub use location::{Location, is_url};
pub use options::{CreateOptions, Mode, OpenOptions, StoreOptions};
pub(crate) use same::Same;
pub use tiers::{StagedPart, TierFolder, TierRow};

/// Bytes of memory for subchunk tables, and for trailers, per container.
const TABLE_CACHE: usize = 8 << 20;

/// Levels of steps, with the snapshot and the newest mark at which they were determined.
type AskedLevels = Option<((u64, u64), BTreeMap<u64, Level>)>;

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    /// Set if the container's parts may lie in tiers.
    pub(crate) tiers: Option<Arc<Tiers>>,
    /// Set if the container's manifests may lie in packs.
    pub(crate) packs: Option<Arc<Packed>>,
    /// Set if the container's log parts may lie in packs.
    pub(crate) log_packs: Option<Arc<PackedLogs>>,
    /// The version after which packing is tried next.
    packing_due: AtomicU64,
    /// Whether the handle has determined which bytes of the container are on stable storage.
    stable_known: AtomicBool,
    /// The first version at which a commit may pack log parts.
    log_packing_due: AtomicU64,
    pub(crate) identity: Identity,
    pub(crate) pages: PageLoader,
    /// Subchunk tables by (source, position), trailers by (source, position of the piece).
    pub(crate) tables: Cache<(u64, u32, u64), Vec<Subchunk>>,
    pub(crate) trailers: Cache<(u64, u32, u64), Trailer>,
    pub(crate) shards: Shards,
    pub(crate) tally: Arc<Tally>,
    writable: bool,
    pinned: bool,
    closed: AtomicBool,
    /// Tells a server that the container is open, until the handle is closed.
    presence: Mutex<Option<Presence>>,
    current: RwLock<Arc<Snapshot>>,
    /// Newest version this handle has flushed or seen flushed.
    flushed: AtomicU64,
    /// The number of bytes of each key that this handle has synced.
    synced: Mutex<HashMap<String, u64>>,
    /// The newest readable snapshot, and the highest manifest number (`top`) that was found with it. `top` is higher
    /// if newer manifests had to be passed over. They change together: a commit on a snapshot that is older than what
    /// is below `top` would undo the commits in between.
    found: Mutex<(Arc<Snapshot>, u64)>,
    /// Missing manifest numbers below `top`, to be closed before anything is committed or marked.
    gaps: Mutex<Vec<u64>>,
    pub(crate) hint: hint::Hint,
    /// Missing parts of newer snapshots, or of the current one.
    pub(crate) losses: Mutex<Losses>,
    trust: Trust,
    /// Whether the store itself watches for a replacement of the container.
    watched: bool,
    /// The boot of this machine, if the store keeps its bytes here; filled at the first use.
    boot: OnceLock<Option<&'static str>>,
    /// The process in which this handle created the container, if it did.
    created_by: Option<u32>,
    /// Whether another commit took the version that a commit of this handle expected.
    pub(crate) others_commit: AtomicBool,
    /// What is closed and waits for a commit, as far as this process knows.
    pub(crate) waiting: Arc<Waiting>,
    /// When this handle last looked for what other programs closed.
    pub(crate) looked: Mutex<Looked>,
    warnings: Mutex<Vec<String>>,
    pub(crate) batch: Mutex<Option<Batch>>,
    /// The run-time configuration found at the open.
    pub(crate) config: Option<Arc<Config>>,
    /// The measured profile of the store.
    pub(crate) known: Known,
    /// The reads observed by this handle.
    pub(crate) seen: Seen,
    /// The levels of steps, as last requested from a far store.
    pub(crate) asked_levels: Mutex<AskedLevels>,
    /// Predicts the next read from the observed reads.
    pub(crate) predictor: Mutex<Predictor>,
    /// Fetches predicted reads.
    pub(crate) prefetcher: Arc<Prefetcher>,
    /// The cache in front of the home store, if the store is far or a cache folder was given.
    pub(crate) cache: Option<Arc<CacheStore>>,
    /// How objects are spread over storage targets, if there are several.
    pub(crate) placing: Option<Arc<Placing>>,
}

/// An open container. Cheap to clone; clones share the snapshot.
#[derive(Clone)]
pub struct Container {
    pub(crate) inner: Arc<Inner>,
}

impl Container {
    /// Counters of this handle, its clones and its handles at earlier snapshots, since the container was opened.
    /// Counters of caches are those of this handle.
    pub fn metrics(&self) -> Metrics {
        let inner = &self.inner;
        let mut metrics = inner.tally.metrics();
        for (hits, misses) in [inner.pages.counted(), inner.tables.counted(), inner.trailers.counted()] {
            metrics.cache_hits += hits;
            metrics.cache_misses += misses;
        }
        inner.count_cache(&mut metrics);
        if let Some(tiers) = &inner.tiers {
            tiers.count(&mut metrics);
        }
        metrics
    }

    /// A read-only handle on an earlier (or the current) snapshot.
    pub fn at(&self, version: u64) -> Result<Self> {
        self.inner.require_open()?;
        let inner = &self.inner;
        let snapshot = if version == 0 {
            Snapshot::empty(inner.identity.uuid)
        } else {
            let manifest = manifests::read_manifest(inner.store.as_ref(), version, &inner.identity.uuid);
            let found = manifest.and_then(|manifest| Snapshot::load(manifest, &inner.pages));
            found.map_err(|e| inner.reason(e, version))?
        };
        let snapshot = Arc::new(snapshot);
        let pinned = Inner {
            store: inner.store.clone(),
            tiers: inner.tiers.clone(),
            packs: inner.packs.clone(),
            log_packs: inner.log_packs.clone(),
            packing_due: AtomicU64::new(u64::MAX),
            log_packing_due: AtomicU64::new(u64::MAX),
            stable_known: AtomicBool::new(false),
            identity: inner.identity.clone(),
            pages: PageLoader::new(inner.store.clone()),
            tables: Cache::new(TABLE_CACHE),
            trailers: Cache::new(TABLE_CACHE),
            shards: Shards::default(),
            tally: inner.tally.clone(),
            writable: false,
            pinned: true,
            closed: AtomicBool::new(false),
            presence: Mutex::new(presence(&inner.store.describe())),
            flushed: AtomicU64::new(0),
            synced: Mutex::default(),
            found: Mutex::new((snapshot.clone(), snapshot.version())),
            gaps: Mutex::new(Vec::new()),
            hint: hint::Hint::default(),
            losses: Mutex::default(),
            trust: inner.trust,
            watched: inner.watched,
            boot: OnceLock::new(),
            created_by: None,
            others_commit: AtomicBool::new(false),
            waiting: inner.waiting.clone(),
            looked: Mutex::default(),
            current: RwLock::new(snapshot),
            warnings: Mutex::new(Vec::new()),
            config: inner.config.clone(),
            known: Known::default(),
            seen: Seen::default(),
            asked_levels: Mutex::default(),
            predictor: Mutex::default(),
            prefetcher: Arc::default(),
            cache: inner.cache.clone(),
            placing: inner.placing.clone(),
            batch: Mutex::new(None),
        };
        Ok(Container { inner: Arc::new(pinned) })
    }

    /// Numbers of the readable snapshots, ascending: the chain of parents of the current one.
    pub fn snapshots(&self) -> Result<Vec<u64>> {
        Ok(self.history()?.into_iter().map(|(version, _)| version).collect())
    }

    /// The readable snapshots, ascending, each with its commit time in nanoseconds since 1970.
    pub fn history(&self) -> Result<Vec<(u64, u64)>> {
        self.inner.require_open()?;
        self.inner.require_same()?;
        let mut out = Vec::new();
        let mut version = self.snapshot().version();
        while version > 0 {
            version =
                match manifests::read_manifest(self.inner.store.as_ref(), version, &self.inner.identity.uuid)
                {
                    Ok(manifest) => {
                        out.push((version, manifest.time));
                        manifest.parent // decoding checked that it is below the version
                    }
                    Err(e) => {
                        let lost = e.kind() == ErrorKind::Corrupt
                            && self.inner.identity.durability != Durability::Durable
                            || manifests::is_void(self.inner.store.as_ref(), version);
                        match e.kind() {
                            _ if lost => manifests::below(self.inner.store.as_ref(), version)?, // lost in a power cut
                            ErrorKind::NotFound => break,
                            _ => return Err(e),
                        }
                    }
                };
        }
        out.reverse();
        Ok(out)
    }

    /// Moves to the newest snapshot. Returns whether the snapshot changed.
    pub fn refresh(&self) -> Result<bool> {
        self.inner.require_open()?;
        if self.inner.pinned {
            return Ok(false);
        }
        let before = self.snapshot().version();
        let (newest, _) = self.inner.newest()?;
        let changed = newest.version() != before;
        self.inner.adopt_snapshot(newest);
        Ok(changed)
    }

    /// The handle's snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshot()
    }

    /// The schema: that of the open batch if there is one, else that of the snapshot.
    pub fn schema(&self) -> Arc<Schema> {
        let batch = lock(&self.inner.batch);
        batch.as_ref().map_or_else(|| self.inner.snapshot().schema.clone(), |b| b.preview.clone())
    }

    /// The variable at a path; links are followed. `NotFound` names similar paths.
    pub fn variable(&self, path: &str) -> Result<Variable> {
        self.inner.require_open()?;
        let schema = self.schema();
        schema.resolve(path).cloned().ok_or_else(|| no_such(&schema, path))
    }

    /// A path as the schema spells it: without leading or trailing slashes.
    pub fn normal_path(path: &str) -> &str {
        path.trim_matches('/')
    }

    /// The run-time configuration that applies to writes through this handle.
    pub fn config(&self) -> Option<&Config> {
        self.inner.config.as_deref()
    }

    /// Makes everything committed so far survive a power cut. Returns the version.
    pub fn flush(&self) -> Result<u64> {
        self.inner.flush()
    }

    /// Like [`Container::flush`], but does not sync the logs of these writers: each was sealed, and a process made it
    /// stable with [`Writer::sync`].
    pub fn flush_after(&self, synced: &[u64]) -> Result<u64> {
        self.inner.flush_after(synced)
    }

    /// The warnings since the last call, for example about snapshots that opening passed over.
    pub fn take_warnings(&self) -> Vec<String> {
        let cache = self.inner.cache.as_ref().and_then(|cache| cache.take_warning());
        std::mem::take(&mut *lock(&self.inner.warnings)).into_iter().chain(cache).collect()
    }

    /// The location of the container, for messages.
    pub fn location(&self) -> String {
        self.inner.store.describe()
    }

    /// The identity of the container.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Whether this handle may write.
    pub fn is_writable(&self) -> bool {
        self.inner.writable
    }

    /// Closes the handle: later calls fail with `InvalidArgument`. Its writers stay open until they are closed. Parts
    /// in its tiers that are not home yet stay there for the next handle that uses the tiers.
    pub fn close(&self) {
        if !self.inner.closed.swap(true, Ordering::SeqCst) {
            self.inner.prefetcher.stop();
            self.inner.stop_drain();
            self.inner.pack_at_end();
            self.inner.evict_drained();
        }
        self.inner.settle();
        *lock(&self.inner.presence) = None;
    }

    /// [`close`](Self::close), after a [`drain`](Self::drain) if the handle has tiers. If this handle created the
    /// container in this process under `async`, it also calls [`flush`](Self::flush), so that the new container
    /// survives a power cut. The handle is closed even if that fails.
    pub fn finish(&self) -> Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        let drained = self.drain_remaining();
        let flushed = self.flush_made();
        self.close();
        drained.and(flushed)
    }

    /// The flush of [`finish`](Self::finish), for a handle whose clones and writers go on.
    pub fn flush_made(&self) -> Result<()> {
        let inner = &self.inner;
        let made_here = inner.created_by == Some(drystone_store::process_id());
        let promised = inner.identity.durability == Durability::Async && inner.newest_known().1 > 0;
        if !made_here || !promised || inner.is_drain_held() || inner.require_whole().is_err() {
            return Ok(());
        }
        inner.flush_at_end().map_err(|e| e.while_doing("flushing the commits at the end"))
    }

    /// Persists hints for the next open, like closing. The handle and its clones stay usable.
    pub fn settle(&self) {
        self.inner.settle();
    }

    /// Whether `close` was called.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::SeqCst)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop_drain();
        // A closed handle has settled. When its last thread ends, the folder may be gone, or hold another container.
        if !self.closed.load(Ordering::SeqCst) {
            self.settle();
        }
    }
}

impl Inner {
    /// The hints are the newest manifest and the observed reads. Makes no request if there are no hints, so that the
    /// end of a handle never waits for a server that is gone.
    fn settle(&self) {
        let learned = self.learns() && self.seen.is_owed();
        if !learned && !self.hint.is_owed() {
            return;
        }
        if self.require_same().is_err() {
            return; // the container was replaced
        }
        self.hint.settle(self.store.as_ref(), self.identity.durability);
        if learned {
            self.seen.keep(self.store.as_ref());
        }
    }

    /// Whether there is a newer snapshot than the handle's.
    pub(crate) fn is_outdated(&self) -> Result<bool> {
        manifests::has_newer(self.store.as_ref(), self.snapshot().version())
    }

    /// Refuses a put to a path at which the open batch creates, removes or replaces a variable.
    pub(crate) fn require_settled(&self, path: &str) -> Result<()> {
        let batch = lock(&self.batch);
        let Some(what) = batch.as_ref().and_then(|batch| batch.what_becomes_of(path)) else { return Ok(()) };
        Err(Error::invalid(format!(
            "the open batch {what} the variable \"{path}\" when it ends: put to it after that"
        )))
    }

    pub(crate) fn require_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::invalid(format!("the container {} is closed", self.store.describe())));
        }
        Ok(())
    }

    pub(crate) fn require_writable(&self) -> Result<()> {
        self.require_open()?;
        self.require_unpinned()?;
        self.require_whole()
    }

    /// Whether this handle shows the newest snapshot and is open for writing.
    pub(crate) fn is_unpinned(&self) -> bool {
        self.writable && !self.pinned
    }

    /// Writers may continue after the container's handle was closed: only the mode of the open matters to them.
    pub(crate) fn require_unpinned(&self) -> Result<()> {
        if self.pinned {
            return Err(Error::invalid(
                "this is an earlier snapshot: it can only be read; open the container to write",
            ));
        }
        if !self.writable {
            return Err(Error::invalid(format!(
                "{} is open for reading only; open it with mode \"r+\"",
                self.store.describe()
            )));
        }
        Ok(())
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn last_marked(&self, base: &Snapshot) -> u64 {
        base.manifest.last_marked.max(self.flushed.load(Ordering::SeqCst))
    }

    /// The boot during which this process writes. `None` if it is unknown, or if the bytes are on another machine.
    pub(crate) fn boot(&self) -> Option<&'static str> {
        *self.boot.get_or_init(|| loss::boot_of(self.store.as_ref()))
    }

    pub(crate) fn warn(&self, warning: String) {
        lock(&self.warnings).push(warning);
    }

    /// Adds a warning, unless the same warning is waiting already.
    pub(crate) fn warn_once(&self, warning: String) {
        let mut warnings = lock(&self.warnings);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

impl Inner {
    /// Refuses a commit on top of snapshots that were passed over.
    pub(crate) fn require_whole(&self) -> Result<()> {
        match lock(&self.losses).passed_over() {
            None => Ok(()),
            Some(why) => Err(Error::corrupt(format!(
                "{} is not changed: {why}; restore the files, or call recover() (drystone recover), which reports what is given up",
                self.store.describe()
            ))),
        }
    }
}
