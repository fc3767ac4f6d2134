//! A model of the medium: a disk behind a write cache.
//!
//! The model keeps, per object, the durable state and the changes since. After a power cut, any of these may
//! remain:
//! - of name changes (creations, replacements, deletions): the first few, in order; each object
//!   independently;
//! - of appended bytes: any subset of 512-byte sectors, with zeros or garbage in the others, up to any length;
//! - of an unsynced put: the same as of appended bytes, or everything;
//! - of bytes written over durable ones: any subset of sectors, the others unchanged.
//!
//! A sync, or a put with sync, makes the object's present state durable.

use std::collections::BTreeMap;

use super::random::Xorshift;
use crate::{MemoryStore, PutMode, Store};

const SECTOR: usize = 512;

/// A change of the store.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Append { key: String, at: u64, data: Vec<u8> },
    Inside { key: String, parts: Vec<(u64, Vec<u8>)>, len: u64 },
    Put { key: String, data: Vec<u8>, sync: bool },
    Delete { key: String },
    Sync { keys: Vec<String> },
}

#[derive(Debug, Default)]
pub(crate) struct Medium {
    objects: BTreeMap<String, Object>,
}

#[derive(Debug, Default)]
struct Object {
    durable: Option<Vec<u8>>,
    current: Option<Vec<u8>>,
    since: Vec<Unsynced>,
}

#[derive(Debug)]
enum Unsynced {
    Created,
    Appended(Vec<u8>),
    Inside(Vec<(u64, Vec<u8>)>, u64),
    Put(Vec<u8>),
    Deleted,
}

impl Medium {
    pub(crate) fn begin_with(&mut self, key: String, bytes: Vec<u8>) {
        self.objects
            .insert(key, Object { durable: Some(bytes.clone()), current: Some(bytes), since: Vec::new() });
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Append { key, at, data } => {
                let object = self.objects.entry(key).or_default();
                if at == 0 {
                    object.current = Some(Vec::new());
                    object.since.push(Unsynced::Created);
                }
                object.current.get_or_insert_default().extend_from_slice(&data);
                object.since.push(Unsynced::Appended(data));
            }
            Change::Inside { key, parts, len } => {
                let object = self.objects.entry(key).or_default();
                let bytes = object.current.get_or_insert_default();
                bytes.resize(bytes.len().max(len as usize), 0);
                for (at, data) in &parts {
                    bytes[*at as usize..][..data.len()].copy_from_slice(data);
                }
                object.since.push(Unsynced::Inside(parts, len));
            }
            Change::Put { key, data, sync } => {
                let object = self.objects.entry(key).or_default();
                object.current = Some(data.clone());
                object.since.push(Unsynced::Put(data));
                if sync {
                    object.make_durable();
                }
            }
            Change::Delete { key } => {
                let object = self.objects.entry(key).or_default();
                object.current = None;
                object.since.push(Unsynced::Deleted);
            }
            Change::Sync { keys } => {
                for key in keys {
                    self.objects.entry(key).or_default().make_durable();
                }
            }
        }
    }

    pub(crate) fn after_kill(&self) -> MemoryStore {
        store_of(self.objects.iter().map(|(key, object)| (key, object.current.clone())))
    }

    pub(crate) fn after_power_cut(&self, random: &mut Xorshift) -> MemoryStore {
        store_of(self.objects.iter().map(|(key, object)| (key, object.after_power_cut(random))))
    }
}

impl Object {
    fn make_durable(&mut self) {
        self.durable.clone_from(&self.current);
        self.since.clear();
    }

    fn after_power_cut(&self, random: &mut Xorshift) -> Option<Vec<u8>> {
        let names_only = |change: &&Unsynced| !matches!(change, Unsynced::Appended(_) | Unsynced::Inside(..));
        let names = self.since.iter().filter(names_only).count() as u64;
        let mut names_kept = random.below(names + 1);
        let mut left = self.durable.clone();
        // Bytes before this offset are durable. Bytes after it are torn once the object's last change is known.
        let mut sure = left.as_ref().map_or(0, Vec::len);
        for change in &self.since {
            if let Unsynced::Appended(data) = change {
                if let Some(bytes) = &mut left {
                    bytes.extend_from_slice(data);
                }
                continue;
            }
            if let Unsynced::Inside(parts, len) = change {
                if let Some(bytes) = &mut left {
                    bytes.resize(bytes.len().max(*len as usize), 0);
                    parts.iter().for_each(|(at, data)| write_some(bytes, *at as usize, data, sure, random));
                }
                continue;
            }
            if names_kept == 0 {
                // Bytes appended from here on belong to an object whose name is not durable.
                break;
            }
            names_kept -= 1;
            sure = 0;
            left = match change {
                Unsynced::Created => Some(Vec::new()),
                Unsynced::Put(data) => Some(data.clone()),
                Unsynced::Appended(_) | Unsynced::Inside(..) | Unsynced::Deleted => None,
            };
        }
        left.map(|bytes| tear(bytes, sure, random))
    }
}

/// Writes a random subset of the sectors of `data` at `at` that end before `sure`.
fn write_some(bytes: &mut [u8], at: usize, data: &[u8], sure: usize, random: &mut Xorshift) {
    let mut from = 0;
    while from < data.len() {
        let place = at + from;
        let to = ((place / SECTOR + 1) * SECTOR - at).min(data.len());
        if place >= sure || random.one_in(2) {
            bytes[place..at + to].copy_from_slice(&data[from..to]);
        }
        from = to;
    }
}

/// Loses random sectors after `sure`, and the end from a random length on.
fn tear(mut bytes: Vec<u8>, sure: usize, random: &mut Xorshift) -> Vec<u8> {
    if bytes.len() == sure || random.one_in(4) {
        return bytes;
    }
    let unsure = (bytes.len() - sure) as u64;
    // Half of the time the length is right and only the content is wrong, which checksums must detect.
    if random.one_in(2) {
        bytes.truncate(sure + random.below(unsure + 1) as usize);
    }
    let mut start = sure;
    while start < bytes.len() {
        let end = (start / SECTOR + 1).saturating_mul(SECTOR).min(bytes.len());
        match random.below(4) {
            0 => bytes[start..end].fill(0),
            1 => bytes[start..end].iter_mut().for_each(|byte| *byte = random.next() as u8),
            _ => {}
        }
        start = end;
    }
    bytes
}

fn store_of<'k>(objects: impl Iterator<Item = (&'k String, Option<Vec<u8>>)>) -> MemoryStore {
    let store = MemoryStore::new();
    for (key, bytes) in objects {
        if let Some(bytes) = bytes {
            // If a name was at different times an object and a folder, both may survive a power cut; then the object
            // wins.
            let _ = store.put(key, &[&bytes], PutMode::IfAbsent, false);
        }
    }
    store
}
