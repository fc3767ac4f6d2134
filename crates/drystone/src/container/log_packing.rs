//! Packing of log parts: moves the files of small closed parts into a few packs, so that many short writers leave few
//! files.
//!
//! ```text
//! closed parts that are files, and the last packs -> plan: which to merge
//! ─► put and sync the pack ─► name it in the directory, sync ─► delete its files
//! ```
//!
//! Invariants
//! - one process packs at a time ([`keeper_lock`]);
//! - a part is packed only if the newest snapshot records it as closed: nothing is ever added to it. The pack has the
//!   same bytes that older snapshots need, so no process has to wait for a flush;
//! - packs that the directory does not name are deleted only while there is a sound directory. Without one, the
//!   directory is made again from the existing packs;
//! - a process that dies during packing leaves only things that the next packing removes: a pack that the directory
//!   does not name, or files that are also in a pack.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering;

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::log_packs::{Directory, Files, MAX_DIRECTORY, MAX_PARTS, PackRef, Table};
use drystone_format::source::{Source, SourceState};
use drystone_plan::packs::merged;
use drystone_store::{PutMode, Reply, Request, StoreError, StoreExt, TOGETHER};

use super::packing::BATCH;
use super::{Inner, keeper_lock};
use crate::base::random;
use crate::history::snapshot::Snapshot;
use crate::log::packs::{self, Known, PackedLogs};
use crate::{Error, ErrorKind, Result};

/// The number of closed parts that stay files until a commit or the end of a handle packs them.
const FEW: usize = 4;
/// The greatest total length of a part's two files that is packed, in bytes.
const SMALL: u64 = 1 << 20;
/// The most bytes that one packing reads from files, as part of a commit or at the end of a handle.
const BUDGET: u64 = 16 << 20;
/// Neighbouring packs of at most this many bytes together are merged.
const TINY: u64 = 1 << 20;
/// The greatest length of a pack, in bytes.
const LONG: u64 = 32 << 20;

/// A part that is to be packed, and the lengths of its files.
#[derive(Debug, Clone, Copy, Default)]
struct Loose {
    idx: u64,
    segment: u64,
}

impl Loose {
    fn bytes(&self) -> u64 {
        self.idx.saturating_add(self.segment)
    }
}

impl Inner {
    /// After a commit: packs if due. The first commit of a handle does not pack, since most handles make few commits.
    pub(super) fn pack_logs_after(&self, snapshot: &Snapshot) {
        let (version, due) = (snapshot.version(), self.log_packing_due.load(Ordering::Relaxed));
        if self.log_packs.is_none() || version < due {
            return;
        }
        self.log_packing_due.store(version + BATCH, Ordering::Relaxed);
        if due > 0 {
            self.pack_logs_if_due(snapshot);
        }
    }

    /// At the close of a handle that has committed. Returns whether logs were packed.
    pub(super) fn pack_logs_at_end(&self) -> bool {
        let (snapshot, _) = self.newest_known();
        self.hint.is_ours() && self.pack_logs_if_due(&snapshot)
    }

    /// Packs if due, within a budget: after some commits, and when a handle that has committed closes. A failure does
    /// not fail the caller; the next packing tries again. Returns whether packing was due and done.
    fn pack_logs_if_due(&self, snapshot: &Snapshot) -> bool {
        let Some(logs) = &self.log_packs else { return false };
        let is_due = |known: &Known| {
            snapshot.sources(&self.pages).is_ok_and(|sources| {
                sources
                    .iter()
                    .filter(|source| is_small(source) && !known.has(source.writer, source.part))
                    .count()
                    > FEW
            })
        };
        // Before the directory is read, the handle may not know of any packs.
        if !is_due(&logs.known())
            || self.require_same().is_err()
            || !logs.look().is_ok_and(|known| is_due(&known))
        {
            return false;
        }
        let done = keeper_lock::take(self).and_then(|held| {
            let done = self.pack_logs_locked(snapshot, BUDGET);
            held.release().and(done)
        });
        done.is_ok()
    }

    /// Packs closed parts of at most `budget` bytes in all. The caller holds the lock.
    pub(crate) fn pack_logs_locked(&self, snapshot: &Snapshot, budget: u64) -> Result<()> {
        let Some(logs) = &self.log_packs else { return Ok(()) };
        let store = logs.inner();
        self.mend_log_packs()?;
        let known = logs.look()?;
        let listed = store.list("log/")?;
        let left: Vec<String> =
            listed.iter().filter(|item| is_left(&known, &item.key)).map(|item| item.key.clone()).collect();
        store.delete_all(&left)?;
        let sources = snapshot.sources(&self.pages)?;
        let closed: HashSet<(u64, u32)> =
            sources.iter().filter(|s| is_closed(s)).map(|s| (s.writer, s.part)).collect();
        let mut loose: BTreeMap<(u64, u32), Loose> = BTreeMap::new();
        for item in &listed {
            let Some((writer, part, is_idx)) = keys::parse_log(&item.key) else { continue };
            if closed.contains(&(writer, part)) && !known.has(writer, part) {
                let files = loose.entry((writer, part)).or_default();
                *(if is_idx { &mut files.idx } else { &mut files.segment }) = item.len;
            }
        }
        loose.retain(|_, files| files.bytes() <= SMALL);
        if loose.len() < 2 {
            return Ok(());
        }
        let mut left = budget;
        let mut loose = loose.into_iter().peekable();
        while loose.peek().is_some() && left > 0 {
            let (mut some, mut bytes) = (Vec::new(), 0);
            while let Some((name, files)) = loose.next_if(|(_, files)| {
                bytes + files.bytes() <= (LONG / 2).min(left) && some.len() < MAX_PARTS / 4
            }) {
                bytes += files.bytes();
                some.push((name, files));
            }
            if some.is_empty() {
                break;
            }
            left -= bytes.min(left);
            self.pack_parts(logs, &some, bytes)?;
        }
        Ok(())
    }

    /// Packs these parts, together with the last packs that are to be merged.
    fn pack_parts(&self, logs: &PackedLogs, some: &[((u64, u32), Loose)], bytes: u64) -> Result<()> {
        let known = logs.look()?;
        let mut files = self.loose_files(some)?;
        let sizes: Vec<(u64, u64)> = known.packs.iter().map(|pack| (pack.parts, pack.length)).collect();
        let mut taken = merged(&sizes, (some.len() as u64, bytes), (TINY, LONG));
        while known.packs.iter().rev().take(taken).map(|pack| pack.parts).sum::<u64>() > MAX_PARTS as u64 / 2
        {
            taken -= 1;
        }
        let mut packs = known.packs.clone();
        for pack in known.packs.iter().rev().take(taken) {
            match packed_files(logs, &known, pack) {
                Ok(old) => files.extend(old),
                // A damaged pack stays as it is, so that `verify` can report it.
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => break,
                Err(e) => return Err(e),
            }
            packs.pop();
        }
        packs.extend(self.put_log_pack(logs, files)?);
        self.put_directory(logs, &known, packs)
    }

    /// The bytes of parts that are files.
    fn loose_files(&self, some: &[((u64, u32), Loose)]) -> Result<Vec<Files>> {
        let Some(logs) = &self.log_packs else { return Ok(Vec::new()) };
        let mut out = Vec::with_capacity(some.len());
        for some in some.chunks(TOGETHER / 2) {
            let asked = some.iter().flat_map(|((writer, part), files)| {
                let idx = (files.idx > 0).then(|| keys::idx(*writer, *part));
                let segment = (files.segment > 0).then(|| keys::segment(*writer, *part));
                idx.into_iter().chain(segment).map(|key| Request::ReadWhole { key, limit: SMALL })
            });
            let mut replies = logs.inner().together(asked.collect()).into_iter();
            let mut next = |length: u64| -> Result<Vec<u8>> {
                match (length > 0).then(|| replies.next()).flatten() {
                    None => Ok(Vec::new()),
                    Some(Ok(Reply::Whole { bytes: Ok(bytes) })) if bytes.len() as u64 == length => Ok(bytes),
                    Some(Err(e)) => Err(e.into()),
                    Some(_) => Err(Error::corrupt("a closed part of the log has another length than it had")),
                }
            };
            for ((writer, part), files) in some {
                let (idx, segment) = (next(files.idx)?, next(files.segment)?);
                out.push(Files { writer: *writer, part: *part, idx, segment });
            }
        }
        Ok(out)
    }

    /// Puts a pack of these parts. `None` if there are no parts.
    fn put_log_pack(&self, logs: &PackedLogs, mut files: Vec<Files>) -> Result<Option<PackRef>> {
        files.sort_by_key(|files| (files.writer, files.part));
        files.dedup_by_key(|files| (files.writer, files.part));
        if files.is_empty() {
            return Ok(None);
        }
        let sync = self.identity.durability != Durability::Memory;
        let (pack, bytes) = Table::pack(self.identity.uuid, random::id64(), &files)?;
        logs.inner().put(&keys::log_pack(pack.id), &[&bytes], PutMode::IfAbsent, sync)?;
        Ok(Some(pack))
    }

    /// Replaces the directory, and removes the objects that the new one makes superfluous.
    fn put_directory(&self, logs: &PackedLogs, before: &Known, packs: Vec<PackRef>) -> Result<()> {
        let sync = self.identity.durability != Durability::Memory;
        if logs.look()?.packs != before.packs {
            return Err(Error::conflict("another process has packed log parts meanwhile; try again"));
        }
        let directory = Directory { uuid: self.identity.uuid, packs };
        logs.inner().put(keys::LOG_PACKS, &[&directory.encode()], PutMode::Replace, sync)?;
        let known = logs.look()?;
        let listed = logs.inner().list("log/")?;
        let left: Vec<String> =
            listed.into_iter().map(|item| item.key).filter(|key| is_left(&known, key)).collect();
        logs.inner().delete_all(&left)?;
        Ok(())
    }

    /// Removes parts from packs. The caller holds the lock.
    pub(crate) fn drop_packed_logs(&self, parts: &BTreeSet<(u64, u32)>) -> Result<()> {
        let Some(logs) = &self.log_packs else { return Ok(()) };
        let known = logs.look()?;
        let (mut packs, mut changed) = (Vec::new(), false);
        for pack in &known.packs {
            let table = known.table(pack.id);
            let goes = |table: &Table| table.parts.iter().any(|p| parts.contains(&(p.writer, p.part)));
            if !table.is_some_and(|table| goes(table)) {
                packs.push(*pack);
                continue;
            }
            changed = true;
            let mut files = packed_files(logs, &known, pack)?;
            files.retain(|files| !parts.contains(&(files.writer, files.part)));
            packs.extend(self.put_log_pack(logs, files)?);
        }
        match changed {
            true => self.put_directory(logs, &known, packs),
            false => Ok(()),
        }
    }

    /// Puts the directory again if it was lost or damaged while packs exist. Returns a message about that.
    pub(crate) fn mend_log_packs(&self) -> Result<Option<String>> {
        let Some(logs) = &self.log_packs else { return Ok(None) };
        logs.look()?;
        let store = logs.inner().as_ref();
        match store.read_all(keys::LOG_PACKS, MAX_DIRECTORY) {
            Ok(bytes) if Directory::decode(&bytes).is_ok_and(|d| d.uuid == self.identity.uuid) => {
                return Ok(None);
            }
            Ok(_) | Err(StoreError::NotFound { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        let directory = packs::rebuilt(store, &self.identity.uuid)?;
        if directory.packs.is_empty() {
            return Ok(None);
        }
        store.put(keys::LOG_PACKS, &[&directory.encode()], PutMode::Replace, true)?;
        logs.look()?;
        Ok(Some(format!("{} was made again from {} packs", keys::LOG_PACKS, directory.packs.len())))
    }

    /// Damage of the directory and its packs: key and message.
    pub(crate) fn broken_log_packs(&self) -> Result<Vec<(String, String)>> {
        let Some(logs) = &self.log_packs else { return Ok(Vec::new()) };
        logs.look()?;
        let store = logs.inner().as_ref();
        let mut out = Vec::new();
        let directory = match store.read_whole(keys::LOG_PACKS, MAX_DIRECTORY) {
            Ok(bytes) => match Directory::decode(&bytes.unwrap_or_default()) {
                Ok(directory) => directory,
                Err(found) => {
                    out.push((
                        keys::LOG_PACKS.into(),
                        Error::damaged(keys::LOG_PACKS, 0, &found).to_string(),
                    ));
                    packs::rebuilt(store, &self.identity.uuid)?
                }
            },
            Err(e) if e.is_not_found() => {
                let directory = match packs::rebuilt(store, &self.identity.uuid) {
                    Err(StoreError::Unsupported { .. }) => return Ok(out),
                    other => other?,
                };
                // The files of a pack that was put before the first directory still exist, so nothing is lost.
                for pack in &directory.packs {
                    let (table, _) = packs::read_table(store, pack.id)?;
                    let Some(first) = table.parts.first() else { continue };
                    if !store.exists(&keys::idx(first.writer, first.part))?
                        && !store.exists(&keys::segment(first.writer, first.part))?
                    {
                        let key = keys::LOG_PACKS;
                        out.push((key.into(), format!("{key} is missing; recover() makes it again")));
                        break;
                    }
                }
                directory
            }
            Err(e) => return Err(e.into()),
        };
        for pack in &directory.packs {
            let key = keys::log_pack(pack.id);
            let sound = packs::read_table(store, pack.id).map_err(Error::from).and_then(|(table, _)| {
                let len = store.len(&key)?;
                match len == pack.length && table.length == len && table.uuid == self.identity.uuid {
                    true => Ok(()),
                    false => Err(Error::corrupt(format!("{key} is {len} bytes long, not {}", pack.length))),
                }
            });
            match sound {
                Ok(()) => {}
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
                    out.push((key, e.to_string()))
                }
                Err(e) => return Err(e),
            }
        }
        Ok(out)
    }
}

fn is_closed(source: &Source) -> bool {
    source.kind == 0 && source.state == SourceState::Closed
}

/// Whether a part has files worth packing, as far as the source table shows.
fn is_small(source: &Source) -> bool {
    is_closed(source) && source.seg_length > 0 && source.seg_length.saturating_add(source.idx_length) <= SMALL
}

/// Whether an object is superfluous: a pack that the directory does not name, or a file that is also in a pack.
fn is_left(known: &Known, key: &str) -> bool {
    match keys::parse_log_pack(key) {
        Some(id) => !known.packs.iter().any(|pack| pack.id == id),
        None => keys::parse_log(key).is_some_and(|(writer, part, _)| known.has(writer, part)),
    }
}

/// The parts in a pack, with their bytes.
fn packed_files(logs: &PackedLogs, known: &Known, pack: &PackRef) -> Result<Vec<Files>> {
    let key = keys::log_pack(pack.id);
    let Some(table) = known.table(pack.id) else {
        return Err(Error::corrupt(format!("{key} cannot be read")));
    };
    let bytes = logs.inner().read_all(&key, pack.length)?;
    let cut = |(at, length): (u64, u64)| {
        let range = at as usize..at.saturating_add(length) as usize;
        match length {
            0 => Ok(Vec::new()),
            _ => bytes
                .get(range)
                .map(<[u8]>::to_vec)
                .ok_or_else(|| Error::corrupt(format!("{key} is too short"))),
        }
    };
    let files = table.parts.iter().map(|part| {
        Ok(Files { writer: part.writer, part: part.part, idx: cut(part.idx)?, segment: cut(part.segment)? })
    });
    files.collect()
}
