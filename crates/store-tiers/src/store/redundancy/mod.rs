//! Parity over staged parts, kept by other nodes, so that a lost node loses no step (docs/format/redundancy.md).
//!
//! Invariants
//! - a group is put at home after all its parity objects are complete, and removed when all its parts are at home;
//! - a folder named in a registration counts as that writer's only if the writer's lock is in it: nodes may give
//!   different folders the same name.

mod encode;
mod object;
mod rebuild;
mod team;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use drystone_format::keys;
use drystone_format::redundancy::{Group, MAX_GROUP};
use drystone_plan::tier::redundancy::Scheme;
use drystone_store::{Result, Store, StoreError, StoreExt};

use super::TieredStore;
use super::owner::writer_of;
use crate::registry::{Registered, guard};
use crate::tier::{lock_of, parity_of};

pub use encode::{Kept, Turn};
pub use rebuild::Rebuilt;
pub use team::ParityObject;

/// The scheme of a container's tiers, and the groups read so far.
#[derive(Debug, Default)]
pub(crate) struct Redundancy {
    pub(crate) scheme: Scheme,
    /// Groups by key. The content of a group never changes.
    groups: Mutex<BTreeMap<String, Arc<Group>>>,
}

impl Redundancy {
    pub(crate) fn new(scheme: Scheme) -> Self {
        Redundancy { scheme, groups: Mutex::default() }
    }
}

/// A writer with registered parts of a step that have no parity yet.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) writer: u64,
    /// Its registered parts, by key.
    pub(crate) parts: BTreeMap<String, Registered>,
    pub(crate) node: String,
    pub(crate) group: String,
    pub(crate) folders: Vec<String>,
}

impl Candidate {
    /// Folders of its tiers that contain its lock and are therefore its own, nearest first.
    fn own_folders(&self) -> Vec<PathBuf> {
        let own = |folder: &PathBuf| lock_of(folder, self.writer).exists();
        self.folders.iter().map(PathBuf::from).filter(own).collect()
    }
}

/// The parts of a group, as writer and number.
fn parts_of(group: &Group) -> impl Iterator<Item = (u64, u32)> + '_ {
    group.members.iter().flat_map(|member| member.parts.iter().map(|part| (member.writer, part.part)))
}

impl TieredStore {
    /// The scheme by which data in tiers survives the loss of nodes.
    pub fn scheme(&self) -> Scheme {
        self.redundancy.scheme
    }

    /// Whether this build supports a scheme.
    pub fn codes(scheme: Scheme) -> bool {
        drystone_parity::is_supported(scheme.parity())
    }

    /// The groups at home, by key. Damaged ones are ignored, since they protect nothing.
    pub(crate) fn groups(&self, prefix: &str) -> Result<BTreeMap<String, Arc<Group>>> {
        let mut found = BTreeMap::new();
        let Some(registry) = self.registry.as_ref().filter(|_| self.redundancy.scheme != Scheme::None) else {
            return Ok(found);
        };
        let listed = match self.home.list(prefix) {
            Err(StoreError::Unsupported { .. }) => Vec::new(),
            listed => listed?,
        };
        for entry in listed {
            let Some((_, step)) = keys::parse_group(&entry.key) else { continue };
            if let Some(known) = guard(&self.redundancy.groups).get(&entry.key) {
                found.insert(entry.key, known.clone());
                continue;
            }
            let bytes = match self.home.read_all(&entry.key, MAX_GROUP) {
                Err(StoreError::NotFound { .. }) => continue,
                bytes => bytes?,
            };
            let Ok(group) = Group::decode(&bytes) else { continue };
            if group.uuid == registry.uuid && group.step == step {
                let group = Arc::new(group);
                guard(&self.redundancy.groups).insert(entry.key.clone(), group.clone());
                found.insert(entry.key, group);
            }
        }
        Ok(found)
    }

    /// Parts whose parity other nodes keep, as writer and number.
    pub fn kept(&self) -> Result<BTreeSet<(u64, u32)>> {
        Ok(self
            .groups(keys::PARITY)?
            .values()
            .flat_map(|group| parts_of(group).collect::<Vec<_>>())
            .collect())
    }

    /// Steps with closed parts of this handle's writers that are not at home and, as far as known without a request,
    /// have no parity.
    pub fn steps_without_parity(&self) -> BTreeSet<u64> {
        if self.redundancy.scheme == Scheme::None {
            return BTreeSet::new();
        }
        let kept: BTreeSet<String> = {
            let groups = guard(&self.redundancy.groups);
            groups
                .values()
                .flat_map(|group| parts_of(group).map(|(w, p)| keys::segment(w, p)).collect::<Vec<_>>())
                .collect()
        };
        let staged = self.lock();
        let unkept =
            staged.iter().filter(|(key, one)| one.closed.is_some() && !one.is_home() && !kept.contains(*key));
        unkept.filter_map(|(_, one)| one.step).collect()
    }

    /// Returns the writers that have registered parts of this step without parity, and the other writers, which may
    /// keep parity.
    fn candidates(&self, step: u64) -> Result<(Vec<Candidate>, Vec<Candidate>)> {
        let Some(registry) = &self.registry else { return Ok(Default::default()) };
        registry.is_outdated();
        let said: BTreeMap<String, Registered> = registry.look(self.home.as_ref())?.parts.clone();
        // Read after the registrations: parts in a group stay registered until they are at home.
        let groups = self.groups(&keys::groups_of(step))?;
        let kept: BTreeSet<(u64, u32)> =
            groups.values().flat_map(|group| parts_of(group).collect::<Vec<_>>()).collect();
        let mut of_step: BTreeMap<(String, u64), Candidate> = BTreeMap::new();
        let mut others: BTreeMap<(String, u64), Candidate> = BTreeMap::new();
        for (key, said) in said {
            let Some(id) = writer_of(&key) else { continue };
            let wanted = said.part.step == Some(step) && !kept.contains(&id);
            let among = if wanted { &mut of_step } else { &mut others };
            let one = among.entry((said.node.clone(), id.0)).or_insert_with(|| Candidate {
                writer: id.0,
                parts: BTreeMap::new(),
                node: said.node.clone(),
                group: said.group.clone(),
                folders: said.folders.clone(),
            });
            if wanted {
                one.parts.insert(key, said);
            }
        }
        others.retain(|id, _| !of_step.contains_key(id));
        Ok((of_step.into_values().collect(), others.into_values().collect()))
    }

    /// Whether all parts of a step that `writer` of this handle wrote are at home or protected by other nodes.
    pub fn is_kept(&self, writer: u64, step: u64) -> Result<bool> {
        let own: Vec<(u64, u32)> = {
            let staged = self.lock();
            let mine = staged.iter().filter(|(_, one)| one.step == Some(step) && !one.is_home());
            mine.filter_map(|(key, _)| writer_of(key)).filter(|(of, _)| *of == writer).collect()
        };
        if own.is_empty() {
            return Ok(true);
        }
        let groups = self.groups(&keys::groups_of(step))?;
        let kept: BTreeSet<(u64, u32)> =
            groups.values().flat_map(|group| parts_of(group).collect::<Vec<_>>()).collect();
        Ok(own.iter().all(|part| kept.contains(part)))
    }

    /// The store that holds a registered part completely: a folder of its node that this process sees, or the home
    /// store.
    fn part_at(&self, folders: &[PathBuf], key: &str, length: u64) -> Option<Arc<dyn Store>> {
        let whole = |store: &dyn Store| store.len(key).is_ok_and(|len| len == length);
        for folder in folders {
            if let Some(store) = self.folders.open(folder).filter(|store| whole(store.as_ref())) {
                return Some(store);
            }
        }
        whole(self.home.as_ref()).then(|| self.home.clone())
    }

    /// Removes groups whose parts are all at home, with the parity objects that this process sees. Also removes objects
    /// without a group from the tiers of this handle if their parts are at home.
    pub fn collect_parity(&self) -> Result<()> {
        if self.redundancy.scheme == Scheme::None || !self.has_tiers() {
            return Ok(());
        }
        let Some(registry) = &self.registry else { return Ok(()) };
        let groups = self.groups(keys::PARITY)?;
        let mut own: Vec<(PathBuf, Group)> = Vec::new();
        for tier in self.tiers() {
            let Some(folder) = tier.folder().map(parity_of) else { continue };
            let Ok(listed) = std::fs::read_dir(&folder) else { continue };
            for entry in listed.flatten() {
                let name = entry.file_name();
                let Some((name, _)) = name.to_str().and_then(keys::parse_parity_object) else { continue };
                if groups.contains_key(&keys::group(name)) {
                    continue;
                }
                if let Ok(group) = object::group_in(&entry.path()) {
                    own.push((entry.path(), group));
                }
            }
        }
        if groups.is_empty() && own.is_empty() {
            return Ok(());
        }
        registry.is_outdated();
        let registered: BTreeSet<(u64, u32)> = {
            let found = registry.look(self.home.as_ref())?;
            found.parts.keys().filter_map(|key| writer_of(key)).collect()
        };
        let is_done = |group: &Group| !parts_of(group).any(|part| registered.contains(&part));
        for (key, group) in groups.iter().filter(|(_, group)| is_done(group)) {
            self.remove_group(key, group)?;
        }
        for (path, _) in own.iter().filter(|(_, group)| is_done(group)) {
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// Removes a group, then those of its parity objects that this process sees.
    fn remove_group(&self, key: &str, group: &Group) -> Result<()> {
        self.home.delete(key)?;
        guard(&self.redundancy.groups).remove(key);
        let Some((name, _)) = keys::parse_group(key) else { return Ok(()) };
        for (number, member) in group.members.iter().enumerate() {
            let folder = parity_of(Path::new(&member.folder));
            if std::fs::remove_file(folder.join(keys::parity_object(name, number))).is_ok() {
                // The object may have been the last file of the container in that folder.
                for folder in [folder.as_path(), Path::new(&member.folder)] {
                    let _ = std::fs::remove_dir(folder);
                }
            }
        }
        Ok(())
    }
}
