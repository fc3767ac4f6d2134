//! Creates containers: refuses unsuitable places, and writes the identity that makes a store a container.

use std::path::Path;
use std::sync::Arc;

use drystone_format::identity::{Durability, Identity};
use drystone_format::keys;
use drystone_store::{LocalStore, PutMode, Store, StoreError};

use super::Container;
use super::cache::CacheFolder;
use super::config::Config;
use super::far;
use super::location::Location;
use super::opening::{How, with_prefetch};
use super::options::{CreateOptions, Mode};
use super::redundancy;
use super::tiers::FEATURE;
use crate::base::random;
use crate::history::loss::Trust;
use crate::history::{hint, packs};
use crate::log::packs as log_packs;
use crate::{Error, ErrorKind, Result};

/// The folders of a container that hold nothing else. In `zarr/` arrays of other programs may lie beside its own.
const PARTS: [&str; 3] = ["log", "index", "manifest"];

/// Refuses a folder that holds files and is not a container: the new container would enclose them. With
/// `among_files`, refuses only files with names of a container's parts. Names with `~` are temporary and belong to a
/// process that is creating the container at the same moment.
fn require_room(path: &Path, among_files: bool) -> Result<()> {
    let identity = path.join(keys::IDENTITY);
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(()) }; // absent, or unreadable, which the store reports
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
             permit it to lie among them (into_existing=True in Python, --into-existing of the command)",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Features that a reader of a new container must support. Manifests are packed only where each is a file: on a far
/// store, checking whether they were packed costs a round trip per commit.
fn features(store: &dyn Store, options: &CreateOptions) -> Vec<String> {
    let offered = store.features();
    let packed = offered.append && offered.far.is_none();
    // Parts in tiers are drained to home one by one, under their own names, so they are not packed.
    let logs = offered.far.is_none() && !options.tiers;
    let named = [(packs::FEATURE, packed), (log_packs::FEATURE, logs), (FEATURE, options.tiers)];
    named.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name.to_owned()).collect()
}

impl Container {
    /// Creates a container. A run-time configuration overrides the options ([`Config`]).
    ///
    /// Errors: `Conflict` if a container exists there or the folder holds other files; `Io` if the folder cannot be
    /// made or the store does not answer; `Unsupported` if a URL's scheme is not built in or is read-only;
    /// `InvalidArgument` if a URL or an option is wrong.
    pub fn create(location: impl Into<Location>, options: CreateOptions) -> Result<Self> {
        Self::create_at(location.into(), options)
    }

    fn create_at(location: Location, options: CreateOptions) -> Result<Self> {
        let (store, cache) = match location {
            Location::Folder(path) => return Self::create_in(&path, &options),
            Location::Url(url) => {
                let (cache, values) = options.store.parted(true)?;
                (far::store(&url, &values, options.store.credentials.clone())?, cache)
            }
            Location::Store(store) => (store, options.store.parted(false)?.0),
        };
        Self::create_configured(store, &options, Config::find(None)?, cache.as_ref())
    }

    /// Creates a container in a folder.
    pub(super) fn create_in(path: &Path, options: &CreateOptions) -> Result<Self> {
        if path.is_file() {
            return Err(Error::conflict(format!(
                "cannot create a container at {}: a file is there; choose another path or remove it",
                path.display()
            )));
        }
        require_room(path, options.among_files)?;
        let config = Config::find(Some(path))?;
        // `finish` waits until the created folders are on the device, unless nothing is guaranteed.
        let waits = options.clone().configured(config.as_ref()).durability != Durability::Memory;
        let mapped = Config::map_policy(config.as_ref())?;
        let is_new = !path.exists();
        let early = waits || options.early_writeback;
        let store = LocalStore::create(path)?.with_early_writeback(early).with_map_policy(mapped);
        let created = Self::create_configured(Arc::new(store), options, config, None).inspect_err(|e| {
            if is_new && matches!(e.kind(), ErrorKind::Io | ErrorKind::Permission) {
                // Removes the folder, which would otherwise stay empty after a full disk. If another process has put
                // something there, it stays.
                let _ = std::fs::remove_dir(path);
            }
        })?;
        match &options.targets {
            None => Ok(created),
            Some(targets) => {
                targets.settle(path, &created.inner.identity.uuid)?;
                Self::open(path, Mode::ReadWrite)
            }
        }
    }

    pub(super) fn create_configured(
        store: Arc<dyn Store>,
        options: &CreateOptions,
        config: Option<Config>,
        cache: Option<&(CacheFolder, bool)>,
    ) -> Result<Self> {
        let store = with_prefetch(store);
        let options = options.clone().configured(config.as_ref());
        redundancy::check(options.redundancy, options.tiers)?;
        let identity = Identity {
            version: 1,
            uuid: random::id128(),
            durability: options.durability,
            features: features(store.as_ref(), &options),
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
        Self::with(store, identity, how, config, (None, cache), Some((None, hint::Packs::default())))
    }
}
