//! Options for creating and opening a container.

use std::sync::Arc;

use drystone_format::identity::Durability;
use drystone_plan::tier::redundancy::Scheme;
use drystone_store::Credentials;

use super::cache::CacheFolder;
use super::config::Config;
use super::targets::Targets;
use crate::history::loss::Trust;
use crate::{Error, Result};

/// The mode of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Read only (`r`).
    Read,
    /// Read and write; the container must exist (`r+`).
    ReadWrite,
    /// Read and write; created if absent (`a`).
    Append,
}

/// Options for the store of a container.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// Options by name: endpoint, region, credentials; docs/guide/far-stores.md lists them. A folder accepts only
    /// those of the cache.
    pub values: Vec<(String, String)>,
    /// A source of credentials, used instead of credentials in `values`.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// A cache in front of the store. `None`: the cache that `values` name, or, for a far store, the environment.
    pub cache: Option<CacheFolder>,
}

/// Options for creating a container.
#[derive(Clone)]
pub struct CreateOptions {
    /// The guarantee after a crash; recorded in the container for ever.
    pub durability: Durability,
    /// Whether parts of logs may lie in tiers before they are home
    /// ([`Container::use_tiers`](crate::Container::use_tiers)); recorded in the container for ever.
    pub tiers: bool,
    /// How data in tiers survives the loss of nodes; recorded in the container for ever. Any scheme except none needs
    /// `tiers`.
    pub redundancy: Scheme,
    /// Storage targets over which log parts and shards are spread, also by handles that open the container later. For
    /// folders only.
    pub targets: Option<Targets>,
    /// Whether the folder may hold other files, which are never touched. Without it such a folder is refused.
    pub among_files: bool,
    /// Whether the kernel starts to write appended bytes to the device at once, so that a later
    /// [`flush`](crate::Container::flush) waits for less. A `durable` container always does this.
    pub early_writeback: bool,
    /// Options for the store.
    pub store: StoreOptions,
}

/// Options for opening a container. A [`Mode`] converts by `into`.
#[derive(Clone)]
pub struct OpenOptions {
    /// Reading or writing.
    pub mode: Mode,
    /// From now on, spreads new log parts and shards over these targets, whichever process makes them. Existing ones
    /// stay where they are. For writing only, and for folders only.
    pub targets: Option<Targets>,
    /// Whether the kernel starts to write appended bytes at once; see [`CreateOptions::early_writeback`].
    pub early_writeback: bool,
    /// Opens the remains of a container that has lost files: the newest snapshot that can be read at all, with a
    /// warning. For reading only.
    pub damaged: bool,
    /// Options for the store.
    pub store: StoreOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions {
            durability: Durability::Async,
            tiers: false,
            redundancy: Scheme::None,
            targets: None,
            among_files: false,
            early_writeback: false,
            store: StoreOptions::default(),
        }
    }
}

impl From<Mode> for OpenOptions {
    fn from(mode: Mode) -> Self {
        OpenOptions {
            mode,
            targets: None,
            early_writeback: false,
            damaged: false,
            store: StoreOptions::default(),
        }
    }
}

impl From<&[(String, String)]> for StoreOptions {
    fn from(values: &[(String, String)]) -> Self {
        StoreOptions { values: values.to_vec(), ..StoreOptions::default() }
    }
}

impl CreateOptions {
    /// The options after the run-time configuration has overridden them.
    pub(super) fn configured(self, config: Option<&Config>) -> Self {
        let durability = config.and_then(|config| config.durability).unwrap_or(self.durability);
        CreateOptions { durability, ..self }
    }
}

impl OpenOptions {
    /// The options for the container that `Append` creates if there is none.
    pub(super) fn to_create(&self) -> CreateOptions {
        CreateOptions {
            targets: self.targets.clone(),
            early_writeback: self.early_writeback,
            store: self.store.clone(),
            ..CreateOptions::default()
        }
    }

    /// How to treat an incomplete snapshot.
    pub(super) fn trust(&self) -> Trust {
        match (self.damaged, self.mode) {
            (true, _) => Trust::Damaged,
            (false, Mode::Read) => Trust::Reading,
            (false, _) => Trust::Writing,
        }
    }

    /// Refuses options that exclude each other.
    pub(super) fn check(&self) -> Result<()> {
        if self.targets.is_some() && self.mode == Mode::Read {
            return Err(Error::invalid(
                "storage targets are for writing; open the container with mode \"r+\"",
            ));
        }
        if self.damaged && self.mode != Mode::Read {
            return Err(Error::invalid("a container that has lost files is opened to read, with mode \"r\""));
        }
        Ok(())
    }
}

/// The cache, with whether the program named it, and the remaining options of the store.
type Parted = (Option<(CacheFolder, bool)>, Vec<(String, String)>);

impl StoreOptions {
    /// Separates the cache in front of the store, with whether it was named for this container, from the remaining
    /// options.
    pub(super) fn parted(&self, is_far: bool) -> Result<Parted> {
        let (cache, rest) = CacheFolder::take(&self.values, is_far)?;
        Ok((self.cache.clone().map(|cache| (cache, true)).or(cache), rest))
    }
}
