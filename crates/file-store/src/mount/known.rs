//! The state of a mount: the journal, writes that the journal does not have yet, and open files.

use std::collections::HashMap;
use std::time::Instant;

use drystone_files::{Attrs, Body, Content, Extent, Extents, Inode, Record, Refused};

use super::now;
use crate::data::Wanted;
use crate::journal::Journal;
use crate::{Failure, Result};

/// Most extents of a file that are pending before they are committed.
const NOTED: usize = 1 << 16;
/// A file with more extents is freed in a thread of its own, so that its removal does not wait.
const LARGE: usize = 10_000;

/// The attributes of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub ino: u64,
    pub attrs: Attrs,
    pub size: u64,
    pub links: u32,
    pub kind: Body,
    /// Bytes of the file in logs.
    pub stored: u64,
}

/// The state of the mount.
pub(crate) struct Core {
    pub(crate) journal: Journal,
    pub(crate) noted: HashMap<u64, Noted>,
    /// How often each inode is in use: open handles, and lookups that the kernel has not forgotten.
    pub(super) used: HashMap<u64, u64>,
    /// Inodes in use that have no name any more.
    pub(crate) orphans: HashMap<u64, Inode>,
}

/// Writes to a file that the journal does not have yet.
pub(crate) struct Noted {
    pub(crate) extents: Extents,
    pub(super) mtime: i64,
    /// Whether the times of the file stay as they are.
    pub(super) kept: bool,
    pub(super) since: Instant,
}

impl Core {
    /// Keeps inodes that records removed for as long as they are in use.
    pub(super) fn sort_out(&mut self) {
        for (ino, mut inode) in std::mem::take(&mut self.journal.gone) {
            let noted = self.noted.remove(&ino);
            // It was removed before, and may have been written since: the journal was only read again.
            if self.is_orphan(ino) {
                continue;
            }
            if self.used.contains_key(&ino) {
                if let Some(noted) = noted {
                    let (attrs, extents) = (inode.attrs, noted.extents.iter().collect());
                    inode.change(&Record::Extents { ino, mtime: noted.mtime, extents });
                    if noted.kept {
                        inode.attrs = attrs;
                    }
                }
                self.orphans.insert(ino, inode);
            } else {
                drop_apart(inode);
            }
        }
    }

    /// Records that an inode is in use.
    pub(super) fn keep(&mut self, ino: u64) {
        *self.used.entry(ino).or_default() += 1;
    }

    /// Ends `times` uses of an inode; returns whether its bytes are needed no longer.
    pub(super) fn release(&mut self, ino: u64, times: u64) -> bool {
        let Some(uses) = self.used.get_mut(&ino) else { return false };
        *uses = uses.saturating_sub(times);
        if *uses > 0 {
            return false;
        }
        self.used.remove(&ino);
        self.orphans.remove(&ino).map(drop_apart).is_some()
    }

    pub(super) fn is_orphan(&self, ino: u64) -> bool {
        self.orphans.contains_key(&ino)
    }

    pub(super) fn inode(&self, ino: u64) -> Result<&Inode> {
        let found = self.journal.state.get(ino).or_else(|| self.orphans.get(&ino));
        found.ok_or(Failure::Stale)
    }

    pub(super) fn stat(&self, ino: u64) -> Result<Stat> {
        let inode = self.inode(ino)?;
        let (mut attrs, mut size) = (inode.attrs, inode.size());
        let mut stored = 0;
        let kind = match &inode.content {
            Content::File { extents, .. } => {
                stored = extents.bytes();
                Body::File
            }
            Content::Folder { .. } => Body::Folder,
            Content::Link(target) => Body::Link(target.clone()),
        };
        if let Some(noted) = self.noted.get(&ino) {
            size = size.max(noted.extents.end());
            if !noted.kept {
                (attrs.mtime, attrs.ctime) = (noted.mtime, noted.mtime);
            }
            // Bytes below a pending write count until the write is committed.
            stored += noted.extents.bytes();
        }
        let links = if self.is_orphan(ino) { 0 } else { inode.links() };
        Ok(Stat { ino, attrs, size, links, kind, stored: stored.min(size) })
    }

    /// Adds a pending write; returns whether there are many now.
    ///
    /// If `timed`, the file was modified now. Otherwise the kernel sets its times.
    pub(super) fn note(&mut self, ino: u64, extent: Extent, timed: bool) -> Result<bool> {
        let mtime = if timed { now() } else { self.inode(ino)?.attrs.mtime };
        if let Some(orphan) = self.orphans.get_mut(&ino) {
            let attrs = orphan.attrs;
            orphan.change(&Record::Extents { ino, mtime, extents: vec![extent] });
            if !timed {
                orphan.attrs = attrs;
            }
            return Ok(false);
        }
        if self.journal.state.get(ino).is_none() {
            return Err(Failure::Stale);
        }
        let fresh = || Noted { extents: Extents::default(), mtime, kept: !timed, since: Instant::now() };
        let noted = self.noted.entry(ino).or_insert_with(fresh);
        noted.extents.insert(extent);
        noted.mtime = mtime;
        Ok(noted.extents.len() >= NOTED)
    }

    /// The parts of a read: their offsets in the buffer, and what to read.
    #[allow(clippy::type_complexity)]
    pub(super) fn wanted(
        &self,
        ino: u64,
        offset: u64,
        len: usize,
    ) -> Result<(usize, Vec<(usize, usize, Option<Wanted>)>)> {
        let inode = self.inode(ino)?;
        let Content::File { size, extents } = &inode.content else { return Err(Refused::IsFolder.into()) };
        let noted = self.noted.get(&ino).map(|noted| &noted.extents);
        let size = noted.map_or(*size, |noted| noted.end().max(*size));
        let end = offset.saturating_add(len as u64).min(size).max(offset);
        let mut out = Vec::new();
        let logs = self.journal.state.logs();
        let mut add = |piece: drystone_files::Piece| {
            let (from, to) = ((piece.range.start - offset) as usize, (piece.range.end - offset) as usize);
            let wanted =
                piece.place.map(|(log, position)| Wanted::new(log, position, to - from, logs.get(&log)));
            out.push((from, to, wanted));
        };
        for piece in noted.map_or_else(|| extents.pieces(offset..end), |noted| noted.pieces(offset..end)) {
            match (piece.place, noted) {
                (None, Some(_)) => extents.pieces(piece.range).into_iter().for_each(&mut add),
                _ => add(piece),
            }
        }
        Ok(((end - offset) as usize, out))
    }
}

/// Frees the memory of a file; in a thread if there is much.
pub(super) fn drop_apart(inode: Inode) {
    if let Content::File { extents, .. } = &inode.content
        && extents.len() > LARGE
    {
        std::thread::spawn(move || drop(inode));
    }
}
