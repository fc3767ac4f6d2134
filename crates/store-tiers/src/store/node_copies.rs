//! Finds and reads parts that this handle did not write: in tiers of this node, at home, or in tiers of another node.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use drystone_store::{LocalStore, Result, Store, StoreError};

use super::TieredStore;
use crate::patient::{PATIENCE, Patient, Threads, is_memory};
use crate::registry::{Registered, guard};
use crate::tier::parts_of;

/// Whether a registered part is in the tiers of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A tier has it.
    Here,
    /// No tier has it.
    Gone,
    /// A tier that may have it fails or does not answer.
    Silent,
}

/// Whether a store answers that it does not have the first `len` bytes of an object.
pub(crate) fn is_gone(store: &dyn Store, key: &str, len: u64) -> bool {
    match store.len(key) {
        Ok(found) => found < len,
        Err(error) => matches!(error, StoreError::NotFound { .. }),
    }
}

/// A container's folder in a tier.
enum Opened {
    Store(Arc<dyn Store>),
    Absent,
    Silent,
}

/// Folders of tiers on this node that registrations name, opened for reading.
#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<BTreeMap<PathBuf, Known>>);

/// An opened folder.
#[derive(Debug, Clone)]
struct Known {
    store: Arc<dyn Store>,
    identity: Identity,
    threads: Arc<Threads>,
}

/// Device and inode. The last handle of a run removes its empty folder, and the next run makes another one.
type Identity = (u64, u64);

/// The identity of a folder; `None` if there is none.
fn identity(folder: &Path) -> std::io::Result<Option<Identity>> {
    match std::fs::metadata(folder) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Folders {
    /// The store in a container's folder of a tier, if there is one.
    pub(crate) fn open(&self, folder: &Path) -> Option<Arc<dyn Store>> {
        match self.look(folder) {
            Opened::Store(store) => Some(store),
            Opened::Absent | Opened::Silent => None,
        }
    }

    fn look(&self, folder: &Path) -> Opened {
        let known = guard(&self.0).get(folder).cloned();
        let threads = known.as_ref().map_or_else(Arc::default, |known| known.threads.clone());
        let before = known.as_ref().map(|known| known.identity);
        let parts = parts_of(folder);
        let opened = threads.ask(PATIENCE, move || {
            let found = identity(&parts).ok()?;
            if found.is_none() || found == before {
                return Some((found, None));
            }
            let store = LocalStore::open(parts.clone(), true).ok()?;
            let same = identity(&parts).is_ok_and(|now| now == found);
            same.then(|| (found, Some((store, is_memory(&parts)))))
        });
        match opened.flatten() {
            None => Opened::Silent,
            Some((None, _)) => {
                guard(&self.0).remove(folder);
                Opened::Absent
            }
            Some((Some(_), None)) => known.map_or(Opened::Absent, |known| Opened::Store(known.store)),
            Some((Some(identity), Some((store, is_memory)))) => {
                let store: Arc<dyn Store> = match is_memory {
                    true => Arc::new(store),
                    false => Arc::new(Patient::new(Arc::new(store), threads.clone(), PATIENCE)),
                };
                let known = Known { store: store.clone(), identity, threads };
                guard(&self.0).insert(folder.to_path_buf(), known);
                Opened::Store(store)
            }
        }
    }
}

/// Whether there is no such folder.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

impl TieredStore {
    /// The registration of a part of another handle.
    pub(crate) fn registered(&self, key: &str) -> Result<Option<Registered>> {
        let Some(registry) = self.registry.as_ref().filter(|_| (self.is_part)(key)) else { return Ok(None) };
        Ok(registry.look(self.home.as_ref())?.parts.get(key).cloned())
    }

    /// Reads the registrations again, and returns that of a part of another handle.
    pub(crate) fn registered_now(&self, key: &str) -> Result<Option<Registered>> {
        if let Some(registry) = &self.registry {
            registry.is_outdated();
        }
        self.registered(key)
    }

    /// Stores on this node that may hold a registered part: the tiers of this handle, then the folders that its
    /// registration names.
    pub(crate) fn copies_on_node(&self, said: &Registered) -> Vec<Arc<dyn Store>> {
        let here = self.registry.as_ref().is_some_and(|registry| registry.node.name == said.node);
        let mut stores: Vec<Arc<dyn Store>> = self.tiers().iter().map(|tier| tier.store.clone()).collect();
        let own: Vec<&Path> = self.tiers().iter().filter_map(crate::Tier::folder).collect();
        for folder in
            said.folders.iter().filter(|_| here).map(Path::new).filter(|folder| !own.contains(folder))
        {
            stores.extend(self.folders.open(folder));
        }
        stores
    }

    /// Whether this node has the first `len` bytes of a registered part. Looks in the tiers of this handle and, if the
    /// registration is of this node, in the folders that it names.
    pub(crate) fn presence(&self, key: &str, said: &Registered, len: u64) -> Presence {
        let here = self.registry.as_ref().is_some_and(|registry| registry.node.name == said.node);
        let mut silent = false;
        let mut has = |store: &dyn Store| match store.len(key) {
            Ok(found) => found >= len,
            Err(StoreError::NotFound { .. }) => false,
            Err(_) => {
                silent = true;
                false
            }
        };
        if self.tiers().iter().any(|tier| has(tier.store.as_ref())) {
            return Presence::Here;
        }
        let own: Vec<&Path> = self.tiers().iter().filter_map(crate::Tier::folder).collect();
        let mut unopened = false;
        for folder in said.folders.iter().filter(|_| here).map(Path::new).filter(|one| !own.contains(one)) {
            match self.folders.look(folder) {
                Opened::Store(store) if has(store.as_ref()) => return Presence::Here,
                Opened::Store(_) | Opened::Absent => {}
                Opened::Silent => unopened = true,
            }
        }
        if silent || unopened { Presence::Silent } else { Presence::Gone }
    }

    /// Reads a part that this handle did not write.
    pub(crate) fn read_other(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let Some(said) = self.registered(key)? else { return self.home.read(key, offset, out) };
        for store in self.copies_on_node(&said) {
            if store.read(key, offset, out).is_ok() {
                return Ok(());
            }
        }
        match self.home.read(key, offset, out) {
            Err(StoreError::NotFound { .. } | StoreError::ShortRead { .. }) => {}
            other => return other,
        }
        match self.registered_now(key)? {
            Some(said) => Err(self.not_yet_home(key, &said)),
            // The part was drained meanwhile.
            None => self.home.read(key, offset, out),
        }
    }

    /// The length of a part that this handle did not write. A step record may name a part that was registered after the
    /// registrations were read, so they are read again before a part counts as absent.
    pub(crate) fn len_other(&self, key: &str) -> Result<u64> {
        let said = match self.registered(key)? {
            None => match self.home.len(key) {
                Err(StoreError::NotFound { .. }) => self.registered_now(key)?,
                other => return other,
            },
            said => said,
        };
        let Some(said) = said else { return self.home.len(key) };
        match self.home.len(key) {
            Err(StoreError::NotFound { .. }) => Ok(said.part.length),
            other => Ok(other?.max(said.part.length)),
        }
    }

    /// The error that says where the bytes of a registered part are, and what to do.
    pub(crate) fn not_yet_home(&self, key: &str, said: &Registered) -> StoreError {
        let here = self.registry.as_ref().is_some_and(|registry| registry.node.name == said.node);
        let folders = said.folders.join(", ");
        let silent = here && self.presence(key, said, said.part.length) == Presence::Silent;
        let remedy = match (here, said.part.step) {
            (true, _) if silent => format!(
                "this is that node, but its tier ({folders}) fails or does not answer: read again when its device \
                 works, or call recover(lost_nodes=[\"{}\"]), which gives up the bytes that it had",
                said.node
            ),
            (true, _) => format!(
                "this is that node, but its tier ({folders}) does not have them: open the container with tiers= where \
                 they are now, or call recover(), which reports the lost parts and gives them up"
            ),
            (false, Some(step)) => format!(
                "wait for them with c.wait({step}, \"home\"), or read on that node; if it is lost for good, \
                 recover(lost_nodes=[...]) gives up the bytes that it had"
            ),
            (false, None) => "drain them on that node with c.drain(), or read there".to_owned(),
        };
        StoreError::NotHome {
            key: key.to_owned(),
            store: self.describe(),
            node: said.node.clone(),
            left: self.left_on(&said.node),
            step: said.part.step,
            remedy: remedy.into(),
        }
    }

    /// Bytes of registered parts of a node that the home store does not have.
    fn left_on(&self, node: &str) -> u64 {
        let away = self.away().unwrap_or_default();
        away.iter().filter(|away| away.node == node).map(|away| away.bytes).sum()
    }
}
