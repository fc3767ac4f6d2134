//! Creating and opening: what is looked for, in which order, and what is refused before a handle is given away.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use drystone_format::hdf5_stub::{FileContent, Stub};
use drystone_format::identity::{Durability, Identity};
use drystone_format::keys;
use drystone_plan::tier::redundancy::Scheme;
use drystone_store::{LocalStore, PrefetchStore, PutMode, Store, StoreError, StoreExt};

use super::cache::{self, CacheFolder};
use super::calibrate::Known;
use super::config::Config;
use super::hdf5_stub;
use super::learn::Seen;
use super::redundancy;
use super::targets;
use super::targets::{Placing, Targets};
use super::tiers::{FEATURE, Tiers};
use super::{Container, Inner, TABLE_CACHE};
use crate::base::cache::Cache;
use crate::base::error::must_exist;
use crate::base::random;
use crate::history::head;
use crate::history::head::Look;
use crate::history::loss::Trust;
use crate::history::packs::{self, Packed};
use crate::history::pages::PageLoader;
use crate::published::shards::Shards;
use crate::{Error, ErrorKind, Result};

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Read only (`r`).
    Read,
    /// Read and write; the container must exist (`r+`).
    ReadWrite,
    /// Read and write; created if absent (`a`).
    Append,
}

/// How a handle comes about.
struct How {
    mode: Mode,
    trust: Trust,
    /// It made the container.
    created: bool,
    /// The store sees for itself whether it is still this container's.
    watched: bool,
}

/// What a mode makes of a snapshot that is not whole.
fn trust(mode: Mode) -> Trust {
    if mode == Mode::Read { Trust::Reading } else { Trust::Writing }
}

/// How to create.
#[derive(Debug, Clone, Copy)]
pub struct CreateOptions {
    /// What is promised about crashes; recorded in the container for ever.
    pub durability: Durability,
    /// Parts of logs may lie in tiers before they are home ([`Container::use_tiers`]); recorded in the container for ever.
    pub tiers: bool,
    /// How what lies in tiers survives the loss of nodes; recorded in the container for ever. Other than none it asks for `tiers`.
    pub redundancy: Scheme,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions { durability: Durability::Async, tiers: false, redundancy: Scheme::None }
    }
}

/// What is to be done when the configuration has its say.
fn configured(options: CreateOptions, config: &Option<Config>) -> CreateOptions {
    let durability = config.as_ref().and_then(|config| config.durability);
    CreateOptions { durability: durability.unwrap_or(options.durability), ..options }
}

/// Folders of a container.
const PARTS: [&str; 4] = ["log", "index", "manifest", "zarr"];

/// Refuses a folder that holds files and is no container: it would become one around them. With `among_files` only those are refused whose
/// names are those of a container's parts. Temporary names, which contain `~`, are those of a process that creates the container at
/// the same moment.
fn require_room(path: &Path, among_files: bool) -> Result<()> {
    let identity = path.join(keys::IDENTITY);
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) }; // None, or one that the store will not take either.
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let in_the_way = |name: &str| !name.contains('~') && (!among_files || PARTS.contains(&name));
    match names.find(|name| in_the_way(name)) {
        Some(other) if !identity.exists() && among_files => Err(Error::conflict(format!(
            "cannot create a container at {}: {other:?} is there already, where the container would put files of its own; choose a \
             new or empty folder",
            path.display()
        ))),
        Some(other) if !identity.exists() => Err(Error::conflict(format!(
            "cannot create a container at {}: the folder holds other files (such as {other:?}); choose a new or empty folder, or \
             permit it to lie among them (into_existing=True, --into-existing)",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// A far store, with hints that begin reads; any other as it is.
fn with_prefetch(store: Arc<dyn Store>) -> Arc<dyn Store> {
    match store.features().far {
        Some(_) => Arc::new(PrefetchStore::new(store)),
        None => store,
    }
}

/// Features that a container may ask its readers for.
const KNOWN: [&str; 2] = [FEATURE, packs::FEATURE];

/// What a reader of a new container must know. Manifests are packed where each is a file; to ask whether they were costs a far store a
/// round trip per commit.
fn features(store: &dyn Store, options: CreateOptions) -> Vec<String> {
    let offered = store.features();
    let packed = offered.append && offered.far.is_none();
    let named = [(packs::FEATURE, packed), (FEATURE, options.tiers)];
    named.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name.to_owned()).collect()
}

impl Container {
    /// Creates a container in a directory of the local file system.
    ///
    /// `Conflict` if one is there already or the directory holds other files, `Io` if the directory cannot be made.
    pub fn create_local(path: impl AsRef<Path>, options: CreateOptions) -> Result<Self> {
        Self::create_in(path.as_ref(), options, None, false, false)
    }

    /// [`Container::create_local`] for who is going to [`flush`](Self::flush): the system begins at once to bring appended bytes to the
    /// device, while the program computes, and a flush waits for the rest. In a `durable` container that is so anyway.
    pub fn create_to_flush(path: impl AsRef<Path>, options: CreateOptions) -> Result<Self> {
        Self::create_in(path.as_ref(), options, None, true, false)
    }

    /// The same; log parts and shards are spread over storage targets, also by whoever opens it later.
    pub fn create_placed(
        path: impl AsRef<Path>,
        options: CreateOptions,
        targets: Option<&Targets>,
    ) -> Result<Self> {
        Self::create_in(path.as_ref(), options, targets, false, false)
    }

    /// The same, also in a folder that holds other files: the container lies among them, which it never touches.
    pub fn create_among_files(
        path: impl AsRef<Path>,
        options: CreateOptions,
        targets: Option<&Targets>,
    ) -> Result<Self> {
        Self::create_in(path.as_ref(), options, targets, false, true)
    }

    fn create_in(
        path: &Path,
        options: CreateOptions,
        targets: Option<&Targets>,
        early: bool,
        among_files: bool,
    ) -> Result<Self> {
        if path.is_file() {
            return Err(Error::conflict(format!(
                "cannot create a container at {}: a file is there; choose another path or remove it",
                path.display()
            )));
        }
        require_room(path, among_files)?;
        let config = Config::find(Some(path))?;
        // Of what is made here `finish` waits until it is on the device, unless nothing is promised.
        let waits = configured(options, &config).durability != Durability::Memory;
        let mapped = Config::map_policy(config.as_ref())?;
        let is_new = !path.exists();
        let store = LocalStore::create(path)?.with_early_writeback(waits || early).with_map_policy(mapped);
        let created = Self::create_configured(Arc::new(store), options, config, None).inspect_err(|e| {
            if is_new && matches!(e.kind(), ErrorKind::Io | ErrorKind::Permission) {
                // Of a full disk an empty folder would be left. If somebody else has put something there it stays.
                let _ = std::fs::remove_dir(path);
            }
        })?;
        match targets {
            None => Ok(created),
            Some(targets) => {
                targets.settle(path, &created.inner.identity.uuid)?;
                Self::open_local(path, Mode::ReadWrite)
            }
        }
    }

    /// [`Container::open_local`]; log parts and shards that are made from now on, by anybody, are spread over these targets. What lies
    /// on others stays there. `InvalidArgument` if it is opened for reading.
    pub fn open_placed(path: impl AsRef<Path>, mode: Mode, targets: &Targets) -> Result<Self> {
        let path = path.as_ref();
        if mode == Mode::Read {
            return Err(Error::invalid(
                "storage targets are for writing; open the container with mode \"r+\"",
            ));
        }
        if mode == Mode::Append && !path.join(keys::IDENTITY).exists() {
            return Self::create_placed(path, CreateOptions::default(), Some(targets));
        }
        let store = LocalStore::open(path, true)?;
        let bytes = store.read_all(keys::IDENTITY, 64 << 10).map_err(must_exist)?;
        let identity = Identity::decode(&bytes).map_err(|c| Error::damaged(keys::IDENTITY, 0, &c))?;
        targets.settle(path, &identity.uuid)?;
        Self::open_local(path, mode)
    }

    /// The folders on which log parts and shards that are made are spread, and how ("lattice", "hilbert", "row-major").
    pub fn targets(path: impl AsRef<Path>) -> Result<Option<(Vec<std::path::PathBuf>, &'static str)>> {
        targets::shown(path.as_ref())
    }

    /// Opens a container in a directory of the local file system.
    ///
    /// `NotFound` if there is none (and `mode` does not create), `Unsupported` if it was written by a newer version, `Corrupt`
    /// if what was promised to be on stable storage is not there.
    pub fn open_local(path: impl AsRef<Path>, mode: Mode) -> Result<Self> {
        Self::open_in(path.as_ref(), mode, false)
    }

    /// Opens for reading what is left of a container that has lost files: the newest snapshot that can be read at all, with a warning.
    pub fn open_damaged(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_trusting(path.as_ref(), Mode::Read, false, Trust::Damaged)
    }

    /// [`Container::open_local`] for who is going to [`flush`](Self::flush), as [`Container::create_to_flush`].
    pub fn open_to_flush(path: impl AsRef<Path>, mode: Mode) -> Result<Self> {
        Self::open_in(path.as_ref(), mode, true)
    }

    /// Opens the container of an HDF5 program by the name that the program gave, to read.
    fn open_behind(path: &Path, stub: &Stub, mode: Mode, early: bool, trust: Trust) -> Result<Self> {
        let folder = path.with_file_name(&stub.container);
        if mode != Mode::Read {
            return Err(Error::invalid(format!(
                "{} was written by an HDF5 program, whose catalogue other writers would not keep; change it through HDF5, or read {}",
                path.display(),
                folder.display()
            )));
        }
        let container = Self::open_trusting(&folder, mode, early, trust)
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

    fn open_in(path: &Path, mode: Mode, early: bool) -> Result<Self> {
        Self::open_trusting(path, mode, early, trust(mode))
    }

    fn open_trusting(path: &Path, mode: Mode, early: bool, trust: Trust) -> Result<Self> {
        if mode == Mode::Append && !path.join(keys::IDENTITY).exists() {
            match Self::create_in(path, CreateOptions::default(), None, early, false) {
                Err(e) if e.kind() == ErrorKind::Conflict && path.join(keys::IDENTITY).exists() => {} // another was faster
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
                return Self::open_behind(path, &stub, mode, early, trust);
            }
            return Err(Error::not_found(format!(
                "{} is not a container: it is a file, a container is a directory with {}",
                path.display(),
                keys::IDENTITY
            )));
        }
        let config = Config::of_folder(path)?;
        let mapped = Config::map_policy(config.as_ref())?;
        let store = LocalStore::open(path, mode == Mode::Read)?.with_map_policy(mapped);
        let early = mode != Mode::Read
            && (early
                || store
                    .read_all(keys::IDENTITY, 64 << 10)
                    .is_ok_and(|b| Identity::decode(&b).is_ok_and(|i| i.durability == Durability::Durable)));
        let (store, placing) = targets::with_targets(store.with_early_writeback(early))?;
        Self::open_configured(Arc::new(store), (mode, trust), config, placing, None)
    }

    /// Opens a container in a local directory with a cache in front of it: worth it where the directory is on a slow file system.
    pub fn open_local_cached(path: impl AsRef<Path>, mode: Mode, cache: &CacheFolder) -> Result<Self> {
        let path = path.as_ref();
        let config = Config::of_folder(path)?;
        let (store, placing) = targets::with_targets(LocalStore::open(path, mode == Mode::Read)?)?;
        Self::open_configured(Arc::new(store), (mode, trust(mode)), config, placing, Some(cache))
    }

    /// Creates a container in a store. A run-time configuration overrides the options ([`Config`]).
    pub fn create(store: Arc<dyn Store>, options: CreateOptions) -> Result<Self> {
        Self::create_configured(store, options, Config::find(None)?, None)
    }

    /// The same, with a cache.
    pub(super) fn create_cached(
        store: Arc<dyn Store>,
        options: CreateOptions,
        cache: Option<&CacheFolder>,
    ) -> Result<Self> {
        Self::create_configured(store, options, Config::find(None)?, cache)
    }

    fn create_configured(
        store: Arc<dyn Store>,
        options: CreateOptions,
        config: Option<Config>,
        cache: Option<&CacheFolder>,
    ) -> Result<Self> {
        let store = with_prefetch(store);
        let options = configured(options, &config);
        redundancy::check(options.redundancy, options.tiers)?;
        let identity = Identity {
            version: 1,
            uuid: random::id128(),
            durability: options.durability,
            features: features(store.as_ref(), options),
            redundancy: redundancy::recorded(options.redundancy),
            created: random::timestamp(),
        };
        let sync = options.durability == Durability::Durable;
        match store.put(keys::IDENTITY, &[&identity.encode()], PutMode::IfAbsent, sync) {
            Ok(()) => {}
            Err(StoreError::AlreadyExists { .. }) => {
                return Err(Error::conflict(format!(
                    "{} already holds a container; open it with mode \"r+\" or \"a\", or remove it first",
                    store.describe()
                )));
            }
            Err(e) => {
                return Err(
                    Error::from(e).while_doing(format!("creating a container in {}", store.describe()))
                );
            }
        }
        let watched = store.watch(keys::IDENTITY)?;
        let how = How { mode: Mode::ReadWrite, trust: Trust::Writing, created: true, watched };
        Self::with(store, identity, how, config, (None, cache), Some(None))
    }

    /// Opens a container in a store.
    pub fn open(store: Arc<dyn Store>, mode: Mode) -> Result<Self> {
        Self::open_cached(store, mode, None)
    }

    /// The same, with a cache.
    pub fn open_cached(store: Arc<dyn Store>, mode: Mode, cache: Option<&CacheFolder>) -> Result<Self> {
        Self::open_configured(store, (mode, trust(mode)), Config::find(None)?, None, cache)
    }

    /// Another handle on the same store, on the newest snapshot: what one does does not move the other.
    pub fn again(&self) -> Result<Self> {
        let inner = &self.inner;
        let mode = if inner.writable { Mode::ReadWrite } else { Mode::Read };
        let config = inner.config.as_deref().cloned();
        Self::open_configured(inner.store.clone(), (mode, inner.trust), config, inner.placing.clone(), None)
    }

    fn open_configured(
        store: Arc<dyn Store>,
        (mode, trust): (Mode, Trust),
        config: Option<Config>,
        placing: Option<Arc<Placing>>,
        cache: Option<&CacheFolder>,
    ) -> Result<Self> {
        let store = with_prefetch(store);
        // Before it is read: what replaces it in between is noticed.
        let watched = match store.watch(keys::IDENTITY) {
            Err(StoreError::NotFound { .. }) => false, // which reading says
            other => {
                other.map_err(|e| Error::from(e).while_doing(format!("opening {}", store.describe())))?
            }
        };
        let (read, hint) = match head::begin(store.as_ref()) {
            Some((identity, hint)) => (identity, Some(hint)),
            None => {
                // What a store watches, it has read.
                if !watched {
                    head::expect(store.as_ref());
                }
                (store.read_all(keys::IDENTITY, head::IDENTITY_LIMIT), None)
            }
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(StoreError::NotFound { .. }) if mode == Mode::Append => {
                return match Self::create_configured(
                    store.clone(),
                    CreateOptions::default(),
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

    fn with(
        store: Arc<dyn Store>,
        identity: Identity,
        how: How,
        config: Option<Config>,
        (placing, cache): (Option<Arc<Placing>>, Option<&CacheFolder>),
        hint: Option<Option<u64>>,
    ) -> Result<Self> {
        let How { mode, trust, .. } = how;
        if let Some(threads) = config.as_ref().and_then(|config| config.threads) {
            crate::base::cpus::set_threads(threads);
        }
        let (store, cache, warning) = cache::in_front(store, identity.uuid, cache)?;
        let has = |name: &str| identity.features.iter().any(|feature| feature == name);
        let packs = has(packs::FEATURE).then(|| Packed::over(store.clone(), identity.uuid));
        let store = packs.as_ref().map_or(store, |packs| packs.clone());
        let tiers = has(FEATURE).then(|| Tiers::over(store.clone(), &identity));
        let store = tiers.as_ref().map_or(store, |tiers| tiers.store.clone());
        let pages = PageLoader::new(store.clone());
        let writable = mode != Mode::Read;
        // Where puts are durable no manifest is lost, so there are no gaps to look for.
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
            identity,
            writable,
            pinned: false,
            closed: AtomicBool::new(false),
            flushed: AtomicU64::new(newest.manifest.last_marked),
            synced: Mutex::default(),
            found: Mutex::new((newest.clone(), head.top)),
            gaps: Mutex::new(head.gaps),
            hint: head::Hint::default(),
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
            packing_due: AtomicU64::new(0),
        };
        Ok(Container { inner: Arc::new(inner) })
    }
}
