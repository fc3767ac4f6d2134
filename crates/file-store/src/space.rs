//! Space: unneeded logs, sizes, and verification of stored bytes.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use drystone_files::{Content, Record};
use drystone_format::keys::{self, FilesKey};

use crate::data::Wanted;
use crate::mount::Files;
use crate::{Failure, Result, locked};

/// Number and size of the files of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of files.
    pub files: u64,
    /// Number of folders, without the root.
    pub folders: u64,
    /// Bytes of all files, as programs see them.
    pub bytes: u64,
    /// Bytes of the objects that hold them.
    pub stored: u64,
}

/// A part of a file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The file, below the root of the files.
    pub path: String,
    /// The range.
    pub range: Range<u64>,
    /// The reason.
    pub why: String,
}

/// Bytes that are verified at a time.
const STEP: u64 = 4 << 20;

impl Files {
    /// Number and size of the files.
    pub fn usage(&self) -> Result<Usage> {
        let mut usage = self.with_state(|state| {
            let mut usage = Usage::default();
            for (_, inode) in state.inodes() {
                match &inode.content {
                    Content::File { size, .. } => {
                        usage.files += 1;
                        usage.bytes = usage.bytes.saturating_add(*size);
                    }
                    Content::Folder { .. } => usage.folders += 1,
                    Content::Link(_) => {}
                }
            }
            usage.folders = usage.folders.saturating_sub(1);
            usage
        })?;
        usage.stored = self.store.list(keys::FILES)?.iter().map(|item| item.len).sum();
        Ok(usage)
    }

    /// Paths of all files with their lengths, in order.
    pub fn list(&self) -> Result<Vec<(String, u64)>> {
        self.with_state(|state| {
            let files = state.paths().into_iter().filter_map(|(path, ino)| match &state.get(ino)?.content {
                Content::File { size, .. } => Some((String::from_utf8_lossy(&path).into_owned(), *size)),
                _ => None,
            });
            files.collect()
        })
    }

    /// Reads and verifies all files. `seen` gets the number of bytes read, and returns whether to continue.
    pub fn verify(&self, seen: &mut dyn FnMut(u64) -> bool) -> Result<Vec<Damaged>> {
        let work: Vec<(String, Vec<(u64, Wanted)>)> = self.with_state(|state| {
            let mut work = Vec::new();
            for (path, ino) in state.paths() {
                let Some(Content::File { extents, .. }) = state.get(ino).map(|inode| &inode.content) else {
                    continue;
                };
                let mut parts = Vec::new();
                for extent in extents.iter() {
                    let mut at = 0;
                    while at < extent.len {
                        let now = STEP.min(extent.len - at);
                        let sums = state.logs().get(&extent.log);
                        let wanted = Wanted::new(extent.log, extent.position + at, now as usize, sums);
                        parts.push((extent.offset + at, wanted));
                        at += now;
                    }
                }
                work.push((String::from_utf8_lossy(&path).into_owned(), parts));
            }
            work
        })?;
        let mut out = Vec::new();
        let mut buffer = Vec::new();
        for (path, parts) in work {
            for (offset, wanted) in parts {
                buffer.resize(wanted.len, 0);
                let read = self.reader.read(self.store.as_ref(), &wanted, &mut buffer);
                let uncovered = wanted.position + wanted.len as u64 > wanted.checked;
                let why = match read {
                    Err(error) => Some(error.to_string()),
                    Ok(()) if uncovered => Some("the journal has no checksums of it".to_owned()),
                    Ok(()) => None,
                };
                if let Some(why) = why {
                    let range = offset..offset + wanted.len as u64;
                    out.push(Damaged { path: path.clone(), range, why });
                }
                if !seen(wanted.len as u64) {
                    return Ok(out);
                }
            }
        }
        Ok(out)
    }

    /// Logs that files, pending writes and open files without a name need.
    fn needed(&self) -> HashSet<u64> {
        let core = locked(&self.core);
        let kept = core.journal.state.inodes().map(|(_, inode)| inode).chain(core.orphans.values());
        let mut needed = HashSet::new();
        for inode in kept {
            if let Content::File { extents, .. } = &inode.content {
                needed.extend(extents.iter().map(|extent| extent.log));
            }
        }
        for noted in core.noted.values() {
            needed.extend(noted.extents.iter().map(|extent| extent.log));
        }
        needed
    }

    /// Removes full logs of this mount that nothing needs.
    pub(crate) fn reclaim(&self) -> Result<()> {
        let full: Vec<u64> = {
            let logs = locked(&self.logs);
            let over = |log: &std::sync::Mutex<crate::data::DataLog>| {
                let log = locked(log);
                log.closed && log.pending == 0
            };
            logs.iter().filter(|(_, log)| over(log)).map(|(id, _)| *id).collect()
        };
        if full.is_empty() {
            return Ok(());
        }
        let needed = self.needed();
        let free: Vec<u64> = full.into_iter().filter(|id| !needed.contains(id)).collect();
        self.take_away(&free)
    }

    /// Removes unneeded logs from the state, and then deletes them: no record that survives a power cut names them.
    fn take_away(&self, free: &[u64]) -> Result<()> {
        if free.is_empty() {
            return Ok(());
        }
        self.sync_data()?;
        {
            let mut core = locked(&self.core);
            core.journal.commit(self.store.as_ref(), &mut |journal| {
                let known = free.iter().filter(|log| journal.state.logs().contains_key(log));
                Ok(known.map(|log| Record::Gone { log: *log }).collect())
            })?;
        }
        self.sync_journal()?;
        for log in free {
            locked(&self.logs).remove(log);
            self.store.delete(&keys::data_log(*log))?;
        }
        Ok(())
    }

    /// Removes unneeded logs of mounts that have ended; with `dry_run` only lists them. Returns keys and lengths. While
    /// another mount writes, nothing is removed, since each mount removes its own logs.
    pub fn collect(&self, dry_run: bool) -> Result<Vec<(String, u64)>> {
        let mut alive = self.others()?;
        if self.number().is_none() {
            // A reader cannot tell dead mounts from living ones, so every registered mount counts as living.
            for item in self.store.list(keys::FILES)? {
                if let Some(FilesKey::Mount(number)) = keys::parse_files(&item.key) {
                    alive.insert(number);
                }
            }
        }
        if !alive.is_empty() {
            // That mount may have files open that have no name any more.
            return Ok(Vec::new());
        }
        alive.extend(self.number());
        let objects = self.store.list(keys::FILES)?;
        self.with_state(|_| ())?;
        let needed = self.needed();
        let mut free = BTreeMap::new();
        for item in objects {
            if let Some(FilesKey::Data(log)) = keys::parse_files(&item.key)
                && !alive.contains(&((log >> 32) as u32))
                && !needed.contains(&log)
            {
                free.insert(log, (item.key, item.len));
            }
        }
        if !dry_run {
            if self.number().is_none() {
                return Err(Failure::ReadOnly);
            }
            self.take_away(&free.keys().copied().collect::<Vec<_>>())?;
        }
        Ok(free.into_values().collect())
    }
}
