//! Creating and opening: what is looked for, in which order, and what is refused before a handle is given away.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};

use drystone_format::identity::{Durability, Identity};
use drystone_format::keys;
use drystone_store::{LocalStore, PrefetchStore, PutMode, Store, StoreError, StoreExt};

use super::{Container, Inner, TABLE_CACHE};
use crate::cache::Cache;
use crate::calibrate::Known;
use crate::config::Config;
use crate::error::must_exist;
use crate::head::Look;
use crate::learn::Seen;
use crate::pages::PageLoader;
use crate::shards::Shards;
use crate::targets::{self, Placing, Targets};
use crate::{Error, ErrorKind, Result, head, random};

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

/// How to create.
#[derive(Debug, Clone, Copy)]
pub struct CreateOptions {
    /// What is promised about crashes; recorded in the container for ever.
    pub durability: Durability,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions { durability: Durability::Async }
    }
}

/// What is to be done when the configuration has its say.
fn configured(options: CreateOptions, config: &Option<Config>) -> CreateOptions {
    let durability = config.as_ref().and_then(|config| config.durability);
    CreateOptions { durability: durability.unwrap_or(options.durability) }
}

/// A far store, with hints that begin reads; any other as it is.
fn with_prefetch(store: Arc<dyn Store>) -> Arc<dyn Store> {
    match store.features().far {
        Some(_) => Arc::new(PrefetchStore::new(store)),
        None => store,
    }
}

impl Container {
    /// Creates a container in a directory of the local file system.
    ///
    /// `Conflict` if one is there already, `Io` if the directory cannot be made.
    pub fn create_local(path: impl AsRef<Path>, options: CreateOptions) -> Result<Self> {
        Self::create_in(path.as_ref(), options, None, false)
    }

    /// [`Container::create_local`] for who is going to [`flush`](Self::flush): the system begins at once to bring appended bytes to the
    /// device, while the program computes, and a flush waits for the rest. In a `durable` container that is so anyway.
    pub fn create_to_flush(path: impl AsRef<Path>, options: CreateOptions) -> Result<Self> {
        Self::create_in(path.as_ref(), options, None, true)
    }

    /// The same; log parts and shards are spread over storage targets, also by whoever opens it later.
    pub fn create_placed(
        path: impl AsRef<Path>,
        options: CreateOptions,
        targets: Option<&Targets>,
    ) -> Result<Self> {
        Self::create_in(path.as_ref(), options, targets, false)
    }

    fn create_in(
        path: &Path,
        options: CreateOptions,
        targets: Option<&Targets>,
        early: bool,
    ) -> Result<Self> {
        if path.is_file() {
            return Err(Error::conflict(format!(
                "cannot create a container at {}: a file is there; choose another path or remove it",
                path.display()
            )));
        }
        let config = Config::find(Some(path))?;
        let durable = configured(options, &config).durability == Durability::Durable;
        let mapped = Config::map_policy(config.as_ref())?;
        let is_new = !path.exists();
        let store = LocalStore::create(path)?.with_early_writeback(durable || early).with_map_policy(mapped);
        let created = Self::create_configured(Arc::new(store), options, config).inspect_err(|e| {
            if is_new && e.kind() == ErrorKind::Io {
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

    /// [`Container::open_local`] for who is going to [`flush`](Self::flush), as [`Container::create_to_flush`].
    pub fn open_to_flush(path: impl AsRef<Path>, mode: Mode) -> Result<Self> {
        Self::open_in(path.as_ref(), mode, true)
    }

    fn open_in(path: &Path, mode: Mode, early: bool) -> Result<Self> {
        if mode == Mode::Append && !path.join(keys::IDENTITY).exists() {
            match Self::create_in(path, CreateOptions::default(), None, early) {
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
        Self::open_configured(Arc::new(store), mode, config, placing)
    }

    /// Creates a container in a store. A run-time configuration overrides the options ([`Config`]).
    pub fn create(store: Arc<dyn Store>, options: CreateOptions) -> Result<Self> {
        Self::create_configured(store, options, Config::find(None)?)
    }

    fn create_configured(
        store: Arc<dyn Store>,
        options: CreateOptions,
        config: Option<Config>,
    ) -> Result<Self> {
        let store = with_prefetch(store);
        let options = configured(options, &config);
        let identity = Identity {
            version: 1,
            uuid: random::id128(),
            durability: options.durability,
            features: Vec::new(),
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
        Self::with(store, identity, Mode::ReadWrite, config, None, Some(None))
    }

    /// Opens a container in a store.
    pub fn open(store: Arc<dyn Store>, mode: Mode) -> Result<Self> {
        Self::open_configured(store, mode, Config::find(None)?, None)
    }

    fn open_configured(
        store: Arc<dyn Store>,
        mode: Mode,
        config: Option<Config>,
        placing: Option<Arc<Placing>>,
    ) -> Result<Self> {
        let store = with_prefetch(store);
        let (read, hint) = match head::begin(store.as_ref()) {
            Some((identity, hint)) => (identity, Some(hint)),
            None => {
                head::expect(store.as_ref());
                (store.read_all(keys::IDENTITY, head::IDENTITY_LIMIT), None)
            }
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(StoreError::NotFound { .. }) if mode == Mode::Append => {
                return match Self::create_configured(store.clone(), CreateOptions::default(), config.clone())
                {
                    Err(e) if e.kind() == ErrorKind::Conflict => {
                        Self::open_configured(store, Mode::ReadWrite, config, placing)
                    }
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
        if let Some(feature) = identity.features.first() {
            return Err(Error::unsupported(format!(
                "{} needs the feature \"{feature}\", which this program does not have; use a newer drystone",
                store.describe()
            )));
        }
        Self::with(store, identity, mode, config, placing, hint)
    }

    fn with(
        store: Arc<dyn Store>,
        identity: Identity,
        mode: Mode,
        config: Option<Config>,
        placing: Option<Arc<Placing>>,
        hint: Option<Option<u64>>,
    ) -> Result<Self> {
        if let Some(threads) = config.as_ref().and_then(|config| config.threads) {
            crate::processors::set_threads(threads);
        }
        let pages = PageLoader::new(store.clone());
        let writable = mode != Mode::Read;
        // Where puts are durable no manifest is lost, so there are no gaps to look for.
        let lossy = identity.durability != Durability::Durable && !store.features().put_is_durable;
        let listing = writable && lossy;
        let look = if listing { Look::List } else { Look::Hint };
        let head = head::find(&store, &pages, &identity, look, hint)
            .map_err(|e| e.while_doing(format!("opening {}", store.describe())))?;
        let newest = Arc::new(head.snapshot);
        let inner = Inner {
            tables: Cache::new(TABLE_CACHE),
            trailers: Cache::new(TABLE_CACHE),
            shards: Shards::default(),
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
            others_commit: AtomicBool::new(false),
            current: RwLock::new(newest),
            warnings: Mutex::new(head.warnings),
            batch: Mutex::new(None),
            config: config.map(Arc::new),
            known: Known::default(),
            seen: Seen::default(),
            following: Mutex::default(),
            placing,
            store,
        };
        Ok(Container { inner: Arc::new(inner) })
    }
}
