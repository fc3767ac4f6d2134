//! The parts that lie in tiers of any node, according to the registrations in the home store (docs/format/staged.md).
//!
//! A part is registered before a manifest names it, and stays registered until the home store has it. A reader
//! therefore reads the manifest first and the registrations second. It then knows for each part that is missing at home
//! whether the part still waits for its drain or is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use drystone_format::keys;
use drystone_format::staged::{MAX_REGISTRATION, Registration, StagedPart};
use drystone_store::{Result, Store, StoreError, StoreExt};

/// The node on which this process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The failure group: nodes of one group fail together.
    pub group: String,
    /// The current boot of the node; empty if unknown.
    pub boot: String,
}

/// A registered part.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) node: String,
    /// The failure group of its node.
    pub(crate) group: String,
    pub(crate) folders: Vec<String>,
    pub(crate) part: StagedPart,
}

/// The registrations, as last read.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Registered parts, by key.
    pub(crate) parts: BTreeMap<String, Registered>,
    /// Damaged registrations by key, each with the reason.
    pub(crate) broken: BTreeMap<String, String>,
}

/// The registrations of a container.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) uuid: [u8; 16],
    pub(crate) node: Node,
    found: Mutex<Found>,
    /// Whether the registrations must be read again, since a manifest was read after them.
    stale: AtomicBool,
    /// One thread reads the registrations, and the others wait for its result.
    reading: Mutex<()>,
    /// Parts that a recovery has declared lost.
    lost: Mutex<BTreeMap<String, Registered>>,
}

pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    pub(crate) fn new(uuid: [u8; 16], node: Node) -> Self {
        let (found, lost) = (Mutex::default(), Mutex::default());
        Registry { uuid, node, found, stale: AtomicBool::new(true), reading: Mutex::new(()), lost }
    }

    /// Marks the registrations as outdated. It is called before a manifest is read, which may name parts that are not
    /// known yet.
    pub(crate) fn is_outdated(&self) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// The registrations. They are read again if they are outdated.
    pub(crate) fn look(&self, home: &dyn Store) -> Result<MutexGuard<'_, Found>> {
        let _reading = guard(&self.reading);
        if self.stale.swap(false, Ordering::SeqCst) {
            self.reread(home).inspect_err(|_| self.is_outdated())?;
        }
        Ok(guard(&self.found))
    }

    /// Reads the registrations.
    fn reread(&self, home: &dyn Store) -> Result<()> {
        let mut now = Found::default();
        let listed = match home.list(keys::STAGED) {
            // A web server cannot list, so every part that is not at home counts as missing.
            Err(StoreError::Unsupported { .. }) => Vec::new(),
            listed => listed?,
        };
        for item in listed {
            let Some(writer) = keys::parse_staged(&item.key) else { continue };
            match self.read(home, &item.key, writer) {
                Ok(None) => {}
                Ok(Some(said)) => {
                    let lost = guard(&self.lost);
                    for part in &said.parts {
                        let key = keys::segment(writer, part.part);
                        if lost.contains_key(&key) {
                            continue;
                        }
                        let (node, group, folders) =
                            (said.node.clone(), said.group.clone(), said.folders.clone());
                        now.parts.insert(key, Registered { node, group, folders, part: *part });
                    }
                }
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::InvalidData => {
                    now.broken.insert(item.key, source.to_string());
                }
                Err(other) => return Err(other),
            }
        }
        *guard(&self.found) = now;
        Ok(())
    }

    /// Reads one registration. Returns `None` if it does not exist or belongs to another container, and an error of
    /// kind `InvalidData` if it is damaged.
    pub(crate) fn read(&self, home: &dyn Store, key: &str, writer: u64) -> Result<Option<Registration>> {
        let bytes = match home.read_all(key, MAX_REGISTRATION) {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        let damaged = |what: String| StoreError::Io {
            key: key.to_owned(),
            store: home.describe(),
            operation: "read",
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, what),
        };
        let said = Registration::decode(&bytes).map_err(|found| damaged(found.to_string()))?;
        if said.writer != writer {
            return Err(damaged("it is of another writer".into()));
        }
        Ok((said.uuid == self.uuid).then_some(said))
    }

    /// Treats these parts as missing from now on.
    pub(crate) fn mark_missing(&self, parts: BTreeMap<String, Registered>) {
        self.is_outdated();
        guard(&self.lost).extend(parts);
    }

    /// The parts that were given up.
    pub(crate) fn given_up(&self) -> BTreeMap<String, Registered> {
        guard(&self.lost).clone()
    }
}
