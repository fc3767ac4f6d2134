//! Ownership of parts: locks of writers, registrations, and parts of dead processes.
//!
//! Invariants
//! - a part is registered before any object at home names it, and stays so until the home store has it on stable
//!   storage;
//! - only the holder of a writer's lock drains its parts, evicts them, or changes its registration.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use drystone_format::keys;
use drystone_format::staged::{MAX_FOLDERS, MAX_PARTS, Registration, StagedPart};
use drystone_store::{PutMode, Reply, Request, Result, Store, StoreError, StoreExt};

use super::TieredStore;
use super::node_copies::{Presence, is_gone};
use crate::registry::{Newest, Node, Registered, guard};
use crate::staged::{Staged, Sum};

/// A writer whose parts belong to this handle, and its last registration.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// The writer's lock in each tier where it could be taken.
    locks: Vec<File>,
    /// Whether other handles may adopt the parts: the locks were released.
    released: bool,
    registered: Option<Vec<u8>>,
    /// The numbers of the registrations that may be at home; the last one was put.
    numbers: Vec<u32>,
    /// The greatest number there ever was.
    greatest: u32,
    /// The node in whose name the parts are registered, if it is not this one: an earlier name of this machine.
    of: Option<Node>,
    /// Whether it was left by a process that died.
    adopted: bool,
    /// Registered parts that are neither in a tier nor at home. Only a recovery gives them up.
    missing: Vec<StagedPart>,
}

/// A part that is not at home.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Away {
    /// The node in whose tiers it lies.
    pub node: String,
    /// Writer and number of the part.
    pub part: (u64, u32),
    /// The step in which it was closed.
    pub step: Option<u64>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether a tier of this node should have it and answers that it does not. A tier that does not answer may have
    /// it.
    pub missing: bool,
}

impl Owned {
    /// Goes on from the newest registration. Returns its parts by number.
    fn take(&mut self, found: Newest) -> BTreeMap<u32, StagedPart> {
        self.greatest = found.numbers.last().copied().unwrap_or(0).max(self.greatest);
        self.numbers = found.numbers;
        let parts = found.said.iter().flat_map(|said| &said.parts).map(|part| (part.part, *part)).collect();
        self.registered = found.said.map(|said| said.encode());
        parts
    }
}

pub(crate) fn writer_of(key: &str) -> Option<(u64, u32)> {
    keys::parse_log(key).map(|(writer, part, _)| (writer, part))
}

impl TieredStore {
    /// Takes ownership of a writer's parts, before the first one is begun.
    pub(crate) fn own(&self, key: &str) -> Result<()> {
        let (Some((writer, _)), true) = (writer_of(key), self.registry.is_some()) else { return Ok(()) };
        let mut owners = guard(&self.owners);
        let before = owners.get(&writer);
        if before.is_some_and(|owned| !owned.released) {
            return Ok(());
        }
        let mut owned = Owned::default();
        if let Some(before) = before {
            owned.greatest = before.greatest;
        }
        let is_known = before.is_some();
        for tier in self.tiers() {
            match tier.lock(writer) {
                Ok(Some(file)) => owned.locks.push(file),
                Ok(None) if tier.folder().is_none() => {}
                Ok(None) => {
                    return Err(StoreError::Io {
                        key: key.to_owned(),
                        store: tier.store.describe(),
                        operation: "lock",
                        source: std::io::ErrorKind::WouldBlock.into(),
                    });
                }
                // Without the lock, other processes could not see that the owner is alive, so the tier gets no parts.
                Err(error) => tier.health.failed(error.to_string()),
            }
        }
        if is_known {
            self.keep_registered(writer, &mut owned)?;
        }
        owners.insert(writer, owned);
        Ok(())
    }

    /// Lets other handles adopt the parts of writers that have no open part.
    pub(crate) fn release(&self) {
        let open: BTreeSet<u64> = {
            let staged = self.lock();
            let open = staged.iter().filter(|(_, one)| one.closed.is_none());
            open.filter_map(|(key, _)| writer_of(key)).map(|(writer, _)| writer).collect()
        };
        for (_, owned) in guard(&self.owners).iter_mut().filter(|(writer, _)| !open.contains(writer)) {
            owned.locks.clear();
            owned.released = true;
        }
    }

    /// The writers whose locks this handle holds.
    pub(crate) fn locked_writers(&self) -> Vec<u64> {
        let owners = guard(&self.owners);
        owners.iter().filter(|(_, owned)| !owned.released).map(|(writer, _)| *writer).collect()
    }

    /// Takes a writer back whose parts were released: those that others have drained since are dropped, and registered
    /// ones that this handle does not find stay registered.
    fn keep_registered(&self, writer: u64, owned: &mut Owned) -> Result<()> {
        let Some(registry) = &self.registry else { return Ok(()) };
        let found = registry.newest(self.home.as_ref(), &registry.node.name, writer)?;
        let mut left = owned.take(found);
        self.lock().retain(|key, one| {
            let part = writer_of(key).filter(|(of, _)| *of == writer).map(|(_, part)| part);
            part.is_none_or(|part| left.remove(&part).is_some() || one.closed.is_none())
        });
        owned.missing.extend(left.into_values());
        Ok(())
    }

    /// Registers the closed parts of a writer that the home store does not have on stable storage; removes the
    /// registration if there are none.
    pub fn register(&self, writer: u64) -> Result<()> {
        let Some(registry) = &self.registry else { return Ok(()) };
        self.drain_memory(writer)?;
        let mut owners = guard(&self.owners);
        let Some(owned) = owners.get_mut(&writer) else { return Ok(()) };
        let mut parts = owned.missing.clone();
        for (key, one) in
            self.lock().iter().filter(|(_, one)| one.closed.is_some() && !(one.is_home() && one.stable))
        {
            let Some((_, part)) = writer_of(key).filter(|(of, _)| *of == writer) else { continue };
            let Some(crc) = one.crc() else { continue };
            parts.push(StagedPart { part, length: one.len, crc, step: one.step });
        }
        parts.retain(|part| part.length > 0);
        parts.sort_by_key(|part| part.part);
        if parts.len() > MAX_PARTS {
            return Err(StoreError::NoSpace {
                key: keys::staged_of(&registry.node.name, writer),
                store: format!("{}: {} parts wait in its tiers", self.describe(), parts.len()),
                operation: "register one more part in",
            });
        }
        let node = owned.of.clone().unwrap_or_else(|| registry.node.clone());
        if parts.is_empty() {
            if owned.registered.is_some() || !owned.numbers.is_empty() {
                self.remove_registrations(&node.name, writer, &mut owned.numbers)?;
                owned.registered = None;
            }
            return Ok(());
        }
        let text = |folder: &std::path::Path| folder.to_string_lossy().into_owned();
        let mut folders: Vec<String> =
            self.tiers().iter().filter_map(|tier| tier.folder().map(text)).collect();
        // The parts that this handle does not find may lie in a folder that an earlier handle used.
        if !owned.missing.is_empty() {
            let before = owned.registered.as_ref().and_then(|bytes| Registration::decode(bytes).ok());
            folders.extend(before.into_iter().flat_map(|said| said.folders));
            let mut seen = BTreeSet::new();
            folders.retain(|folder| seen.insert(folder.clone()));
            folders.truncate(MAX_FOLDERS);
        }
        let registration = Registration {
            uuid: registry.uuid,
            writer,
            node: node.name.clone(),
            group: node.group,
            boot: node.boot,
            folders,
            parts,
        };
        let bytes = registration.encode();
        if owned.registered.as_ref() != Some(&bytes) {
            self.put_registration(&node.name, writer, &bytes, &mut owned.numbers, &mut owned.greatest)?;
            owned.registered = Some(bytes);
        }
        Ok(())
    }

    /// Puts a registration of a writer. A near home replaces the one before. A far home may execute a request late,
    /// which must not overwrite a newer registration: there each one has a greater number, and the one before the last
    /// is removed. Readers that listed the last one still find it.
    fn put_registration(
        &self,
        node: &str,
        writer: u64,
        bytes: &[u8],
        numbers: &mut Vec<u32>,
        greatest: &mut u32,
    ) -> Result<()> {
        if self.home.features().far.is_some() {
            *greatest = greatest.saturating_add(1);
        }
        let number = *greatest;
        numbers.retain(|other| *other != number);
        // The last registration that was put stays; earlier ones are removed.
        let older: Vec<u32> = numbers.iter().rev().skip(1).copied().collect();
        let put = Request::Put {
            key: keys::staged(node, writer, number),
            data: bytes.to_vec(),
            mode: PutMode::Replace,
            sync: false,
        };
        let deletes = older.iter().map(|number| Request::Delete { key: keys::staged(node, writer, *number) });
        let mut replies = self.home.together(std::iter::once(put).chain(deletes).collect()).into_iter();
        let put = replies.next().transpose();
        // A removal that failed is repeated with the next registration.
        for (number, _) in older.iter().zip(replies).filter(|(_, reply)| reply.is_ok()) {
            numbers.retain(|other| other != number);
        }
        match put {
            Ok(_) => numbers.push(number),
            // It may be there nevertheless, and is removed later. It is not the one that stays.
            Err(error) => {
                numbers.insert(0, number);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes all registrations of a writer.
    fn remove_registrations(&self, node: &str, writer: u64, numbers: &mut Vec<u32>) -> Result<()> {
        let keys: Vec<String> = numbers.iter().map(|number| keys::staged(node, writer, *number)).collect();
        self.home.delete_all(&keys)?;
        numbers.clear();
        Ok(())
    }

    /// Drains closed parts of a writer that are in the memory of this process.
    fn drain_memory(&self, writer: u64) -> Result<()> {
        let volatile = |number: usize| self.tiers().get(number).is_some_and(|tier| tier.volatile);
        let of = |key: &str| writer_of(key).is_some_and(|(of, _)| of == writer);
        let held: Vec<String> = {
            let staged = self.lock();
            let held =
                staged.iter().filter(|(key, one)| volatile(one.tier) && one.closed.is_some() && of(key));
            held.map(|(key, _)| key.clone()).collect()
        };
        for key in held {
            self.drain_part(&key)?;
            self.home.sync(&[&key])?;
            if let Some(one) = self.lock().remove(&key)
                && let Some(tier) = self.tiers().get(one.tier)
            {
                let _ = tier.doing(|store| store.delete(&key));
            }
        }
        Ok(())
    }

    /// Registers the parts of all writers again after a drain. Dead writers whose parts are all at home are forgotten.
    pub fn register_all(&self) -> Result<()> {
        let writers: Vec<u64> = guard(&self.owners).keys().copied().collect();
        for writer in writers {
            self.register(writer)?;
            let done = {
                let owners = guard(&self.owners);
                owners.get(&writer).is_some_and(|owned| owned.adopted && owned.registered.is_none())
            };
            if done {
                self.forget(writer);
            }
        }
        Ok(())
    }

    /// Evicts all copies of a writer's parts and releases its locks. All parts must be at home.
    fn forget(&self, writer: u64) {
        let of = |key: &str| writer_of(key).is_some_and(|(of, _)| of == writer);
        let mine: Vec<(String, usize)> = {
            let mut staged = self.lock();
            let mine =
                staged.iter().filter(|(key, _)| of(key)).map(|(key, one)| (key.clone(), one.tier)).collect();
            staged.retain(|key, _| !of(key));
            mine
        };
        for (key, tier) in mine {
            if let Some(tier) = self.tiers().get(tier) {
                let _ = tier.doing(|store| store.delete(&key));
            }
        }
        self.tiers().iter().for_each(|tier| tier.forget_lock(writer));
        guard(&self.owners).remove(&writer);
    }

    /// Adopts the parts that dead processes of this node left in the tiers. Registered parts are drained from now on;
    /// others were never guaranteed and are removed. Returns how many parts wait.
    pub fn adopt_orphans(&self) -> Result<usize> {
        let Some(registry) = &self.registry else { return self.adopt() };
        let mut left: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for tier in self.tiers() {
            let Ok(found) = tier.doing(|store| store.list("log/")) else { continue };
            for entry in found {
                if let Some((writer, _)) = writer_of(&entry.key) {
                    left.entry(writer).or_default().insert(entry.key);
                }
            }
        }
        registry.is_outdated();
        // The nodes that have registered parts of each writer.
        let mut nodes: BTreeMap<u64, BTreeMap<String, Node>> = BTreeMap::new();
        for (key, said) in &registry.look(self.home.as_ref())?.parts {
            let Some((writer, _)) = writer_of(key) else { continue };
            let node = Node { name: said.node.clone(), group: said.group.clone(), boot: said.boot.clone() };
            nodes.entry(writer).or_default().insert(said.node.clone(), node);
            if said.node == registry.node.name {
                left.entry(writer).or_default();
            }
        }
        let mut waiting = 0;
        for (writer, found) in left {
            if guard(&self.owners).contains_key(&writer) {
                continue;
            }
            let nodes = nodes.remove(&writer).unwrap_or_default();
            waiting += match nodes.into_values().collect::<Vec<_>>().as_slice() {
                [] => self.adopt_parts_of(writer, found, None)?,
                [node] if node.name == registry.node.name => self.adopt_parts_of(writer, found, None)?,
                // This machine had another name.
                [node] if !node.boot.is_empty() && node.boot == registry.node.boot => {
                    self.adopt_parts_of(writer, found, Some(node.clone()))?
                }
                // They are parts of another node, which may share the folder, and whose locks may not be seen here.
                _ => 0,
            };
        }
        Ok(waiting)
    }

    /// Adopts the parts that one writer left, unless it is alive. `seen` has the keys of parts that were seen in the
    /// tiers before, when the writer may still have been alive; `of` is the node in whose name they are registered, if
    /// it is not this one.
    fn adopt_parts_of(&self, writer: u64, seen: BTreeSet<String>, of: Option<Node>) -> Result<usize> {
        let Some(registry) = &self.registry else { return Ok(0) };
        let node = of.as_ref().unwrap_or(&registry.node).name.clone();
        let mut owned = Owned { adopted: true, of, ..Owned::default() };
        for tier in self.tiers() {
            match tier.lock(writer) {
                Ok(Some(file)) => owned.locks.push(file),
                Ok(None) if tier.folder().is_none() => {}
                Ok(None) | Err(_) => return Ok(0),
            }
        }
        // After the lock is taken, no other process changes the registration or the parts.
        let Ok(said) = registry.newest(self.home.as_ref(), &node, writer) else { return Ok(0) };
        let mut known = owned.take(said);
        let lost = registry.given_up();
        let mut keys = seen;
        keys.extend(known.keys().map(|part| keys::segment(writer, *part)));
        let mut found: Vec<(String, usize, u64)> = Vec::new();
        for key in keys {
            for (number, tier) in self.tiers().iter().enumerate() {
                match tier.doing(|store| store.len(&key)) {
                    Ok(len) => found.push((key.clone(), number, len)),
                    Err(StoreError::NotFound { .. }) => {}
                    // Without an answer of every tier nothing is known to be missing. The next adoption asks again.
                    Err(_) => return Ok(0),
                }
            }
        }
        let mut waiting = 0;
        for (key, number, len) in found {
            let Some(tier) = self.tiers().get(number) else { continue };
            let part = writer_of(&key).map(|(_, part)| part).filter(|_| !lost.contains_key(&key));
            let Some(said) =
                part.and_then(|part| known.get(&part).copied()).filter(|said| said.length <= len)
            else {
                // It is a prefix of a part that moved to the next tier, or belongs to a step that was never closed.
                let _ = tier.doing(|store| store.delete(&key));
                continue;
            };
            known.remove(&said.part);
            let one = Staged {
                len: said.length,
                sum: Sum::Said(said.crc),
                closed: Some(said.step.map_or(0, |step| step.saturating_add(1))),
                step: said.step,
                home: self.length_at_home(&key)?,
                ..Staged::new(number)
            };
            self.lock().insert(key, one);
            waiting += 1;
        }
        for (part, said) in known {
            let key = keys::segment(writer, part);
            if !lost.contains_key(&key) && self.length_at_home(&key)?.is_none_or(|len| len < said.length) {
                owned.missing.push(said);
            }
        }
        guard(&self.owners).insert(writer, owned);
        Ok(waiting)
    }

    fn length_at_home(&self, key: &str) -> Result<Option<u64>> {
        match self.home.len(key) {
            Ok(len) => Ok(Some(len)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Registered parts that no tier has: those of this node, and those of nodes that the caller declares lost. Parts
    /// in a tier that does not answer are not lost, unless their node was declared so.
    pub fn lost_parts(&self, lost_nodes: &[String]) -> Result<Vec<Away>> {
        if self.registry.is_none() {
            return Ok(Vec::new());
        }
        let mut lost = Vec::new();
        for away in self.away()? {
            let key = keys::segment(away.part.0, away.part.1);
            let said_lost = lost_nodes.contains(&away.node);
            if !away.missing && !said_lost {
                continue;
            }
            self.is_missing_from_now(&key, away.missing);
            if self.find(&key).is_some() {
                continue;
            }
            let Some(said) = self.registered(&key)? else { continue };
            if self.presence(&key, &said, away.bytes) != Presence::Here {
                lost.push(away);
            }
        }
        Ok(lost)
    }

    /// The folders that the registration of a part names, for messages.
    pub fn folders_in_words(&self, (writer, part): (u64, u32)) -> String {
        match self.registered(&keys::segment(writer, part)) {
            Ok(Some(said)) => said.folders.join(", "),
            _ => "unknown folders".to_owned(),
        }
    }

    /// If `missing`, and this handle wrote or adopted the part: drops the part from the staged ones and keeps it
    /// registered.
    fn is_missing_from_now(&self, key: &str, missing: bool) {
        let Some((writer, part)) = writer_of(key).filter(|_| missing) else { return };
        let Some(one) = self.lock().remove(key) else { return };
        if let (Some(crc), Some(owned)) = (one.crc(), guard(&self.owners).get_mut(&writer)) {
            owned.missing.push(StagedPart { part, length: one.len, crc, step: one.step });
        }
    }

    /// Treats these parts as missing in this handle from now on.
    pub fn mark_missing(&self, lost: &[Away]) -> Result<()> {
        let Some(registry) = &self.registry else { return Ok(()) };
        let mut parts = BTreeMap::new();
        for away in lost {
            let key = keys::segment(away.part.0, away.part.1);
            if let Some(said) = self.registered(&key)? {
                parts.insert(key, said);
            }
        }
        registry.mark_missing(parts);
        Ok(())
    }

    /// Removes the registrations of parts that were given up, once no object names them any more.
    pub fn unregister_missing(&self) -> Result<()> {
        let Some(registry) = &self.registry else { return Ok(()) };
        let given_up = registry.given_up();
        self.unregister(given_up.into_iter().filter_map(|(key, said)| Some((said.node, writer_of(&key)?))))
    }

    /// Removes parts from their registrations. Each part is given as node, writer and number.
    pub(crate) fn unregister(&self, parts: impl Iterator<Item = (String, (u64, u32))>) -> Result<()> {
        let Some(registry) = &self.registry else { return Ok(()) };
        let mut of: BTreeMap<(String, u64), BTreeSet<u32>> = BTreeMap::new();
        for (node, (writer, part)) in parts {
            of.entry((node, writer)).or_default().insert(part);
        }
        for ((node, writer), parts) in of {
            if let Some(owned) = guard(&self.owners).get_mut(&writer) {
                owned.missing.retain(|part| !parts.contains(&part.part));
            }
            if guard(&self.owners).contains_key(&writer) {
                self.register(writer)?;
                continue;
            }
            let mut found = registry.newest(self.home.as_ref(), &node, writer)?;
            let Some(mut said) = found.said.take() else { continue };
            said.parts.retain(|part| !parts.contains(&part.part));
            let numbers = &mut found.numbers;
            match said.parts.is_empty() {
                true => self.remove_registrations(&node, writer, numbers)?,
                false => {
                    let mut greatest = numbers.last().copied().unwrap_or(0);
                    self.put_registration(&node, writer, &said.encode(), numbers, &mut greatest)?;
                }
            }
        }
        registry.is_outdated();
        Ok(())
    }

    /// The parts of all nodes that are not at home now.
    pub fn away(&self) -> Result<Vec<Away>> {
        let mut all = Vec::new();
        let Some(registry) = &self.registry else { return Ok(all) };
        let node = registry.node.name.clone();
        let own: BTreeSet<String> = self.lock().keys().cloned().collect();
        registry.is_outdated();
        let said: Vec<(String, Registered)> = {
            let found = registry.look(self.home.as_ref())?;
            found
                .parts
                .iter()
                .filter(|(key, _)| !own.contains(*key))
                .map(|(k, p)| (k.clone(), p.clone()))
                .collect()
        };
        let lens = said.iter().map(|(key, _)| Request::Len { key: key.clone() }).collect();
        for ((key, said), at_home) in said.into_iter().zip(self.home.together(lens)) {
            let is_home = match at_home {
                Ok(Reply::Len { len }) => len >= said.part.length,
                Err(StoreError::NotFound { .. }) | Ok(_) => false,
                Err(other) => return Err(other),
            };
            if let (false, Some(part)) = (is_home, writer_of(&key)) {
                let (step, bytes) = (said.part.step, said.part.length);
                let missing = said.node == node
                    && self.presence(&key, &said, bytes) == Presence::Gone
                    && self.length_at_home(&key)?.is_none_or(|len| len < bytes);
                all.push(Away { node: said.node, part, step, bytes, missing });
            }
        }
        let is_away = |one: &Staged| one.closed.is_some() && !one.is_home() && one.len > 0;
        let own: Vec<(String, Staged)> = {
            let staged = self.lock();
            staged
                .iter()
                .filter(|(_, one)| is_away(one))
                .map(|(key, one)| (key.clone(), one.clone()))
                .collect()
        };
        for (key, one) in own {
            let Some(part) = writer_of(&key) else { continue };
            let gone =
                self.tiers().get(one.tier).is_none_or(|tier| is_gone(tier.store.as_ref(), &key, one.len));
            // The part may have been drained and evicted meanwhile.
            if gone && !self.find(&key).is_some_and(|now| is_away(&now)) {
                continue;
            }
            all.push(Away { node: node.clone(), part, step: one.step, bytes: one.len, missing: gone });
        }
        all.sort();
        Ok(all)
    }

    /// Damaged registrations by key, each with the reason.
    pub fn broken(&self) -> Result<BTreeMap<String, String>> {
        let Some(registry) = &self.registry else { return Ok(BTreeMap::new()) };
        Ok(registry.look(self.home.as_ref())?.broken.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use drystone_format::keys;
    use drystone_plan::tier::redundancy::Scheme;
    use drystone_store::{MemoryStore, Store, StoreExt};

    use crate::{Node, Tier, TieredStore};

    /// Symptom: committed steps were lost. A tier was listed while a part grew; then its writer registered it and
    /// ended. The listed length differed from the registered one, so the part was removed.
    #[test]
    fn parts_that_grew_after_they_were_listed_are_adopted() {
        let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
        let handle = || {
            let node = Node { name: "a".into(), group: "a".into(), boot: String::new() };
            let store = TieredStore::of_container(home.clone(), [7; 16], node, Scheme::None);
            let tier = Tier::in_folder(dir.path(), &[7; 16], None).expect("a folder can be made");
            assert!(store.attach(vec![tier.with_free(|| None, 0)]));
            store
        };
        let (first, next) = (handle(), handle());
        for part in 0..2 {
            let key = keys::segment(5, part);
            first.append(&key, 0, &[&[part as u8; 1000]]).expect("there is room");
            first.close_part_at(&key, Some(part.into()));
        }
        first.register(5).expect("home takes it");
        drop(first);
        // One part was seen when it was short, the other one not at all.
        assert_eq!(next.adopt_parts_of(5, BTreeSet::from([keys::segment(5, 0)]), None).expect("looked"), 2);
        next.drain(|| true).expect("home takes all");
        for part in 0..2 {
            let found = home.read_all(&keys::segment(5, part), 1 << 20).expect("it is home");
            assert_eq!(found, [part as u8; 1000]);
        }
    }
}
