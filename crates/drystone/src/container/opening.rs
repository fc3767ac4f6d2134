//! Opening: finds the container, checks it, and refuses unsuitable ones before a handle exists.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use drystone_format::hdf5_stub::{FileContent, Stub};
use drystone_format::identity::{Durability, Identity};
use drystone_format::keys;
use drystone_store::{LocalStore, PrefetchStore, Store, StoreError, StoreExt};

use super::cache::{self, CacheFolder};
use super::calibrate::Known;
use super::config::Config;
use super::far;
use super::hdf5_stub;
use super::identity::identity_of;
use super::learn::Seen;
use super::location::Location;
use super::options::{CreateOptions, Mode, OpenOptions};
use super::targets::{self, Placing};
use super::tiers::{FEATURE, Tiers};
use super::waiting::Waiting;
use super::{Container, Inner, TABLE_CACHE};
use crate::base::cache::Cache;
use crate::history::head;
use crate::history::head::Look;
use crate::history::hint;
use crate::history::loss::Trust;
use crate::history::packs::{self, Packed};
use crate::history::pages::PageLoader;
use crate::log::packs::{self as log_packs, PackedLogs};
use crate::published::shards::Shards;
use crate::{Error, ErrorKind, Result};

/// How a handle is opened.
pub(super) struct How {
    pub(super) mode: Mode,
    pub(super) trust: Trust,
    /// Whether the handle created the container.
    pub(super) created: bool,
    /// Whether the store itself watches for a replacement of the container.
    pub(super) watched: bool,
}

/// Adds prefetch hints to a far store; returns any other store unchanged.
pub(super) fn with_prefetch(store: Arc<dyn Store>) -> Arc<dyn Store> {
    match store.features().far {
        Some(_) => Arc::new(PrefetchStore::new(store)),
        None => store,
    }
}

/// Features that this program supports.
const KNOWN: [&str; 3] = [FEATURE, packs::FEATURE, log_packs::FEATURE];

impl Container {
    /// Opens a container, by a [`Mode`] or with further options.
    ///
    /// Errors: `NotFound` if there is none (and the mode does not create one); `Unsupported` if a newer version wrote
    /// it, or if it cannot be opened for writing; `Corrupt` if bytes that were promised to be on stable storage are
    /// missing; `InvalidArgument` if options exclude each other or a URL is wrong; `Io` if the store does not answer.
    pub fn open(location: impl Into<Location>, options: impl Into<OpenOptions>) -> Result<Self> {
        Self::open_at(location.into(), &options.into())
    }

    fn open_at(location: Location, options: &OpenOptions) -> Result<Self> {
        options.check()?;
        let (store, cache) = match location {
            Location::Folder(path) => return Self::open_in(&path, options),
            Location::Url(url) => {
                let (cache, values) = options.store.parted(true)?;
                let store = far::store(&url, &values, options.store.credentials.clone())?;
                far::check(&url, store.as_ref(), options.mode)?;
                (store, cache)
            }
            Location::Store(store) => (store, options.store.parted(false)?.0),
        };
        let trust = (options.mode, options.trust());
        Self::open_configured(store, trust, Config::find(None)?, None, cache.as_ref())
    }

    /// The folders over which new log parts and shards are spread, and the name of the spread ("lattice", "hilbert",
    /// "row-major").
    pub fn targets(path: impl AsRef<Path>) -> Result<Option<(Vec<std::path::PathBuf>, &'static str)>> {
        targets::shown(path.as_ref())
    }

    /// Opens, for reading, the container that an HDF5 program wrote under this name.
    fn open_behind(path: &Path, stub: &Stub, options: &OpenOptions) -> Result<Self> {
        // A link is no copy of the stub.
        let place = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let (folder, _) = hdf5_stub::folder_of(&place, stub);
        if options.mode != Mode::Read {
            return Err(Error::invalid(format!(
                "{} was written by an HDF5 program, whose catalogue other writers would not keep; change it through HDF5, or read {}",
                path.display(),
                folder.display()
            )));
        }
        let container = Self::open_in(&folder, options)
            .map_err(|e| e.while_doing(format!("opening the container of {}", path.display())))?;
        if container.identity().uuid != stub.uuid {
            return Err(Error::invalid(format!(
                "{} names {}, which is another container than it was written for",
                path.display(),
                folder.display()
            )));
        }
        Ok(container)
    }

    fn open_in(path: &Path, options: &OpenOptions) -> Result<Self> {
        let mode = options.mode;
        let is_container = || path.join(keys::IDENTITY).exists();
        if mode == Mode::Append && !is_container() {
            match Self::create_in(path, &options.to_create()) {
                Err(e) if e.kind() == ErrorKind::Conflict && is_container() => {} // another process created it first
                other => return other,
            }
        }
        if path.as_os_str().is_empty() {
            return Err(Error::not_found("the path of the container is empty"));
        }
        let Ok(found) = path.metadata() else {
            return Err(Error::not_found(format!(
                "there is nothing at {}; check the path, or create a container there",
                path.display()
            )));
        };
        if !found.is_dir() {
            if let Ok((FileContent::Stub(stub), _)) = hdf5_stub::find(path) {
                return Self::open_behind(path, &stub, options);
            }
            return Err(Error::not_found(format!(
                "{} is not a container: it is a file, a container is a directory with {}",
                path.display(),
                keys::IDENTITY
            )));
        }
        if let Some(targets) = &options.targets {
            let store = LocalStore::open(path, true)?;
            targets.settle(path, &identity_of(&store)?.uuid)?;
        }
        let config = Config::of_folder(path)?;
        let mapped = Config::map_policy(config.as_ref())?;
        let store = LocalStore::open(path, mode == Mode::Read)?.with_map_policy(mapped);
        let is_durable = || identity_of(&store).is_ok_and(|found| found.durability == Durability::Durable);
        let early = mode != Mode::Read && (options.early_writeback || is_durable());
        let (store, placing) = targets::with_targets(store.with_early_writeback(early))?;
        let (cache, _) = options.store.parted(false)?;
        let cache = cache.as_ref();
        Self::open_configured(Arc::new(store), (mode, options.trust()), config, placing, cache)
    }

    /// Another handle on the same store, at the newest snapshot. The two handles have separate snapshots.
    pub fn again(&self) -> Result<Self> {
        let inner = &self.inner;
        let mode = if inner.writable { Mode::ReadWrite } else { Mode::Read };
        let config = inner.config.as_deref().cloned();
        // Passes on the store below the packs: the new handle adds its own view of them. With tiers no log parts are
        // packed.
        let store = match (&inner.log_packs, &inner.packs) {
            (Some(_), Some(packs)) => packs.inner(),
            (Some(logs), None) => logs.inner(),
            _ => &inner.store,
        };
        Self::open_configured(store.clone(), (mode, inner.trust), config, inner.placing.clone(), None)
    }

    fn open_configured(
        store: Arc<dyn Store>,
        (mode, trust): (Mode, Trust),
        config: Option<Config>,
        placing: Option<Arc<Placing>>,
        cache: Option<&(CacheFolder, bool)>,
    ) -> Result<Self> {
        let store = with_prefetch(store);
        // The watch begins before the identity is read, so that a replacement in between is noticed.
        let watched = match store.watch(keys::IDENTITY) {
            Err(StoreError::NotFound { .. }) => false, // reading it reports the error
            other => {
                other.map_err(|e| Error::from(e).while_doing(format!("opening {}", store.describe())))?
            }
        };
        let (read, hint) = match hint::begin(store.as_ref()) {
            Some(begun) => (begun.identity, Some((begun.hint, begun.packs))),
            None => {
                // A store that watches the identity has read it already.
                if !watched {
                    hint::expect(store.as_ref());
                }
                (store.read_all(keys::IDENTITY, hint::IDENTITY_LIMIT), None)
            }
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(StoreError::NotFound { .. }) if mode == Mode::Append => {
                return match Self::create_configured(
                    store.clone(),
                    &CreateOptions::default(),
                    config.clone(),
                    cache,
                ) {
                    Err(e) if e.kind() == ErrorKind::Conflict => Self::open_configured(
                        store,
                        (Mode::ReadWrite, Trust::Writing),
                        config,
                        placing,
                        cache,
                    ),
                    other => other,
                };
            }
            Err(StoreError::NotFound { .. }) => {
                return Err(Error::not_found(format!(
                    "{} is not a container: {} is missing",
                    store.describe(),
                    keys::IDENTITY
                )));
            }
            Err(e) => return Err(Error::from(e).while_doing(format!("opening {}", store.describe()))),
        };
        let identity = Identity::decode(&bytes).map_err(|c| {
            Error::damaged(keys::IDENTITY, 0, &c).while_doing(format!("opening {}", store.describe()))
        })?;
        if identity.version > 1 {
            return Err(Error::unsupported(format!(
                "{} has format version {}, this program reads up to 1; use a newer drystone",
                store.describe(),
                identity.version
            )));
        }
        if let Some(feature) = identity.features.iter().find(|feature| !KNOWN.contains(&feature.as_str())) {
            return Err(Error::unsupported(format!(
                "{} needs the feature \"{feature}\", which this program does not have; use a newer drystone",
                store.describe()
            )));
        }
        let how = How { mode, trust, created: false, watched };
        Self::with(store, identity, how, config, (placing, cache), hint)
    }

    pub(super) fn with(
        store: Arc<dyn Store>,
        identity: Identity,
        how: How,
        config: Option<Config>,
        (placing, cache): (Option<Arc<Placing>>, Option<&(CacheFolder, bool)>),
        begun: Option<(Option<u64>, hint::Packs)>,
    ) -> Result<Self> {
        let How { mode, trust, .. } = how;
        if let Some(threads) = config.as_ref().and_then(|config| config.threads) {
            crate::base::cpus::set_threads(threads);
        }
        let (store, cache, warning) = cache::in_front(store, identity.uuid, cache)?;
        let has = |name: &str| identity.features.iter().any(|feature| feature == name);
        let (hint, told) = begun.map_or((None, hint::Packs::default()), |(hint, told)| (Some(hint), told));
        let packs = has(packs::FEATURE).then(|| Packed::over(store.clone(), identity.uuid));
        if let (Some(packs), Some(reply)) = (&packs, told.floor) {
            packs.begin(reply)?;
        }
        let store = packs.as_ref().map_or(store, |packs| packs.clone());
        let log_packs = has(log_packs::FEATURE).then(|| PackedLogs::over(store.clone(), identity.uuid));
        if let (Some(log_packs), Some(reply)) = (&log_packs, told.logs) {
            log_packs.begin(reply);
        }
        let store = log_packs.as_ref().map_or(store, |packs| packs.clone());
        let tiers = has(FEATURE).then(|| Tiers::over(store.clone(), &identity));
        let store = tiers.as_ref().map_or(store, |tiers| tiers.store.clone());
        let pages = PageLoader::new(store.clone());
        let writable = mode != Mode::Read;
        // With durable puts no manifest is lost, so there are no gaps to look for.
        let lossy = identity.durability != Durability::Durable && !store.features().put_is_durable;
        let listing = writable && lossy;
        let look = if listing { Look::List } else { Look::Hint };
        let head = head::find(&store, &pages, &identity, (look, hint), trust, packs.as_deref())
            .map_err(|e| e.while_doing(format!("opening {}", store.describe())))?;
        let newest = Arc::new(head.snapshot);
        let inner = Inner {
            tables: Cache::new(TABLE_CACHE),
            trailers: Cache::new(TABLE_CACHE),
            shards: Shards::default(),
            tally: Arc::default(),
            pages,
            waiting: Waiting::of(identity.uuid),
            looked: Mutex::default(),
            identity,
            writable,
            pinned: false,
            closed: AtomicBool::new(false),
            presence: Mutex::new(far::presence(&store.describe())),
            flushed: AtomicU64::new(newest.manifest.last_marked),
            synced: Mutex::default(),
            found: Mutex::new((newest.clone(), head.top)),
            gaps: Mutex::new(head.gaps),
            hint: hint::Hint::default(),
            losses: Mutex::new(head.losses),
            trust,
            watched: how.watched,
            boot: OnceLock::new(),
            created_by: how.created.then(drystone_store::process_id),
            others_commit: AtomicBool::new(false),
            current: RwLock::new(newest),
            warnings: Mutex::new(head.warnings.into_iter().chain(warning).collect()),
            batch: Mutex::new(None),
            config: config.map(Arc::new),
            known: Known::default(),
            seen: Seen::default(),
            asked_levels: std::sync::Mutex::default(),
            predictor: Mutex::default(),
            prefetcher: Arc::default(),
            cache,
            placing,
            store,
            tiers,
            packs,
            log_packs,
            packing_due: AtomicU64::new(0),
            log_packing_due: AtomicU64::new(0),
            stable_known: AtomicBool::new(false),
        };
        Ok(Container { inner: Arc::new(inner) })
    }
}
