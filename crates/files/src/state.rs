//! The state that the records of a journal produce: folders, files, links, and the checksums of data logs.

use std::collections::{BTreeMap, HashMap};

use drystone_format::files::{Attrs, Body, MOST_EXTENTS, MOST_SUMS, ROOT, Record, UNIT};

use crate::extents::Extents;

/// The kind and content of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A file: its length and its extents.
    File {
        /// Length in bytes.
        size: u64,
        /// Where its bytes lie; all others are zeros.
        extents: Extents,
    },
    /// A folder.
    Folder {
        /// The parent folder; the root is its own parent.
        parent: u64,
        /// Its entries.
        entries: BTreeMap<Vec<u8>, u64>,
        /// Number of entries that are folders.
        folders: u32,
    },
    /// A symbolic link.
    Link(Vec<u8>),
}

/// A file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Owner, permissions, times.
    pub attrs: Attrs,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Its kind and content.
    pub content: Content,
}

/// Checksums of a data log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Bytes of the log that the checksums cover.
    pub end: u64,
    /// One for each unit, the last of which may be shorter.
    pub units: Vec<u32>,
}

/// The files of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    inodes: HashMap<u64, Inode>,
    next: u64,
    logs: BTreeMap<u64, Sums>,
}

impl Default for State {
    fn default() -> Self {
        let content = Content::Folder { parent: ROOT, entries: BTreeMap::new(), folders: 0 };
        let root = Inode { attrs: Attrs::default(), xattrs: BTreeMap::new(), content };
        State { inodes: HashMap::from([(ROOT, root)]), next: ROOT + 1, logs: BTreeMap::new() }
    }
}

impl Inode {
    /// A new inode.
    pub fn new(attrs: Attrs, body: &Body, parent: u64) -> Self {
        let content = match body {
            Body::File => Content::File { size: 0, extents: Extents::default() },
            Body::Folder => Content::Folder { parent, entries: BTreeMap::new(), folders: 0 },
            Body::Link(target) => Content::Link(target.clone()),
        };
        Inode { attrs, xattrs: BTreeMap::new(), content }
    }

    /// Applies a change of a file's bytes or of attributes; other records have no effect.
    pub fn change(&mut self, record: &Record) {
        match (record, &mut self.content) {
            (Record::Extents { mtime, extents: added, .. }, Content::File { size, extents }) => {
                added.iter().for_each(|extent| extents.insert(*extent));
                *size = (*size).max(added.iter().map(|e| e.offset + e.len).max().unwrap_or(0));
                (self.attrs.mtime, self.attrs.ctime) = (*mtime, *mtime);
            }
            (Record::Size { size: new, time, .. }, Content::File { size, extents }) => {
                extents.truncate(*new);
                *size = *new;
                (self.attrs.mtime, self.attrs.ctime) = (*time, *time);
            }
            (Record::Hole { offset, len, time, .. }, Content::File { extents, .. }) => {
                extents.remove(*offset..offset + len);
                (self.attrs.mtime, self.attrs.ctime) = (*time, *time);
            }
            (Record::Attrs { attrs, .. }, _) => self.attrs = *attrs,
            (Record::Xattr { name, value: Some(value), .. }, _) => {
                self.xattrs.insert(name.clone(), value.clone());
            }
            (Record::Xattr { name, value: None, .. }, _) => {
                self.xattrs.remove(name);
            }
            _ => {}
        }
    }

    /// Attributes and length after changes, without the written bytes.
    pub fn behind(&self, records: &[Record]) -> Inode {
        let content = match &self.content {
            Content::File { size, .. } => Content::File { size: *size, extents: Extents::default() },
            other => other.clone(),
        };
        let mut inode = Inode { attrs: self.attrs, xattrs: BTreeMap::new(), content };
        records.iter().for_each(|record| inode.change(record));
        inode
    }

    fn is_folder(&self) -> bool {
        matches!(self.content, Content::Folder { .. })
    }

    /// Number of links to it, as `stat` counts them.
    pub fn links(&self) -> u32 {
        match &self.content {
            Content::Folder { folders, .. } => folders.saturating_add(2),
            _ => 1,
        }
    }

    /// Its length, as `stat` reports it.
    pub fn size(&self) -> u64 {
        match &self.content {
            Content::File { size, .. } => *size,
            Content::Folder { .. } => 0,
            Content::Link(target) => target.len() as u64,
        }
    }
}

impl State {
    /// An inode.
    pub fn get(&self, ino: u64) -> Option<&Inode> {
        self.inodes.get(&ino)
    }

    /// All inodes.
    pub fn inodes(&self) -> impl Iterator<Item = (u64, &Inode)> {
        self.inodes.iter().map(|(ino, inode)| (*ino, inode))
    }

    /// All inodes, by value.
    pub fn into_inodes(self) -> impl Iterator<Item = (u64, Inode)> {
        self.inodes.into_iter()
    }

    /// The number that the next inode gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Entries of a folder.
    pub fn entries(&self, ino: u64) -> Option<&BTreeMap<Vec<u8>, u64>> {
        match &self.get(ino)?.content {
            Content::Folder { entries, .. } => Some(entries),
            _ => None,
        }
    }

    /// The inode of an entry of a folder.
    pub fn entry(&self, folder: u64, name: &[u8]) -> Option<u64> {
        self.entries(folder)?.get(name).copied()
    }

    /// The parent of a folder.
    pub fn parent(&self, folder: u64) -> Option<u64> {
        match &self.get(folder)?.content {
            Content::Folder { parent, .. } => Some(*parent),
            _ => None,
        }
    }

    /// The inode that a path names, from the root; links are not followed.
    pub fn find(&self, path: &[u8]) -> Option<u64> {
        let mut parts = path.split(|b| *b == b'/').filter(|part| !part.is_empty());
        parts.try_fold(ROOT, |folder, name| self.entry(folder, name))
    }

    /// All paths below the root with their inodes, in order.
    pub fn paths(&self) -> Vec<(Vec<u8>, u64)> {
        let mut out = Vec::new();
        let mut open = vec![(Vec::new(), ROOT)];
        while let Some((path, ino)) = open.pop() {
            for (name, child) in self.entries(ino).into_iter().flatten() {
                let below = if path.is_empty() { name.clone() } else { [&path, &b"/"[..], name].concat() };
                if self.get(*child).is_some_and(Inode::is_folder) {
                    open.push((below.clone(), *child));
                }
                out.push((below, *child));
            }
        }
        out.sort();
        out
    }

    /// Checksums of the data logs.
    pub fn logs(&self) -> &BTreeMap<u64, Sums> {
        &self.logs
    }

    /// Applies a record; returns the inodes that it removed.
    pub fn apply(&mut self, record: &Record) -> Vec<(u64, Inode)> {
        match record {
            Record::Make { ino, parent, name, attrs, body } => {
                let free = self.entries(*parent).is_some_and(|entries| !entries.contains_key(name));
                if free && !self.inodes.contains_key(ino) {
                    let inode = Inode::new(*attrs, body, *parent);
                    self.enter(*parent, name, *ino, inode.is_folder());
                    self.inodes.insert(*ino, inode);
                    self.touch(*parent, attrs.ctime);
                }
                self.next = self.next.max(ino + 1);
                Vec::new()
            }
            Record::Remove { parent, name, time } => {
                let gone = self.take(*parent, name);
                self.touch(*parent, *time);
                gone
            }
            Record::Rename { parent, name, new_parent, new_name, exchange, time } => {
                let gone = self.rename((*parent, name), (*new_parent, new_name), *exchange, *time);
                self.touch(*parent, *time);
                self.touch(*new_parent, *time);
                gone
            }
            Record::Extents { ino, .. }
            | Record::Size { ino, .. }
            | Record::Hole { ino, .. }
            | Record::Attrs { ino, .. }
            | Record::Xattr { ino, .. } => {
                if let Some(inode) = self.inodes.get_mut(ino) {
                    inode.change(record);
                }
                Vec::new()
            }
            Record::Sums { log, first, end, sums } => {
                let known = self.logs.entry(*log).or_default();
                if let Ok(first) = usize::try_from(*first)
                    && first <= known.units.len()
                    && *end >= known.end
                {
                    known.units.truncate(first);
                    known.units.extend_from_slice(sums);
                    known.end = *end;
                }
                Vec::new()
            }
            Record::Gone { log } => {
                self.logs.remove(log);
                Vec::new()
            }
            Record::Next { ino } => {
                self.next = self.next.max(*ino);
                Vec::new()
            }
        }
    }

    fn enter(&mut self, folder: u64, name: &[u8], ino: u64, is_folder: bool) {
        if let Some(Inode { content: Content::Folder { entries, folders, .. }, .. }) =
            self.inodes.get_mut(&folder)
        {
            entries.insert(name.to_vec(), ino);
            *folders += u32::from(is_folder);
        }
    }

    fn leave(&mut self, folder: u64, name: &[u8]) -> Option<u64> {
        let ino = self.entry(folder, name)?;
        let is_folder = self.get(ino).is_some_and(Inode::is_folder);
        if let Some(Inode { content: Content::Folder { entries, folders, .. }, .. }) =
            self.inodes.get_mut(&folder)
        {
            entries.remove(name);
            *folders -= u32::from(is_folder);
        }
        Some(ino)
    }

    /// Removes an entry together with its inode; a folder is removed when it is empty.
    fn take(&mut self, folder: u64, name: &[u8]) -> Vec<(u64, Inode)> {
        let Some(ino) = self.entry(folder, name) else { return Vec::new() };
        if self.entries(ino).is_some_and(|entries| !entries.is_empty()) {
            return Vec::new();
        }
        self.leave(folder, name);
        self.inodes.remove(&ino).map(|inode| (ino, inode)).into_iter().collect()
    }

    fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        exchange: bool,
        time: i64,
    ) -> Vec<(u64, Inode)> {
        let Some(ino) = self.entry(from.0, from.1) else { return Vec::new() };
        let there = self.entry(to.0, to.1);
        if there == Some(ino) || self.entries(to.0).is_none() || self.is_below(to.0, ino) {
            return Vec::new();
        }
        if exchange && there.is_none_or(|other| self.is_below(from.0, other)) {
            return Vec::new();
        }
        let mut gone = Vec::new();
        if there.is_some() && !exchange {
            gone = self.take(to.0, to.1);
            if gone.is_empty() {
                return gone;
            }
        }
        self.leave(from.0, from.1);
        if exchange && let Some(other) = self.leave(to.0, to.1) {
            self.place(other, from, time);
        }
        self.place(ino, to, time);
        gone
    }

    fn place(&mut self, ino: u64, at: (u64, &[u8]), time: i64) {
        let mut is_folder = false;
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.attrs.ctime = time;
            if let Content::Folder { parent, .. } = &mut inode.content {
                *parent = at.0;
                is_folder = true;
            }
        }
        self.enter(at.0, at.1, ino, is_folder);
    }

    /// Whether a folder is this inode or lies below it.
    pub(crate) fn is_below(&self, mut folder: u64, ino: u64) -> bool {
        while folder != ino {
            match self.parent(folder) {
                Some(parent) if parent != folder => folder = parent,
                _ => return false,
            }
        }
        true
    }

    fn touch(&mut self, folder: u64, time: i64) {
        if let Some(inode) = self.inodes.get_mut(&folder) {
            (inode.attrs.mtime, inode.attrs.ctime) = (time, time);
        }
    }

    /// Records that produce this state from an empty one.
    pub fn records(&self) -> Vec<Record> {
        let mut out = Vec::new();
        let mut open = vec![ROOT];
        while let Some(folder) = open.pop() {
            for (name, ino) in self.entries(folder).into_iter().flatten() {
                let Some(inode) = self.get(*ino) else { continue };
                let body = match &inode.content {
                    Content::File { .. } => Body::File,
                    Content::Folder { .. } => {
                        open.push(*ino);
                        Body::Folder
                    }
                    Content::Link(target) => Body::Link(target.clone()),
                };
                let (ino, parent, name) = (*ino, folder, name.clone());
                out.push(Record::Make { ino, parent, name, attrs: inode.attrs, body });
            }
        }
        let mut numbers: Vec<u64> = self.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for ino in numbers {
            let Some(inode) = self.get(ino) else { continue };
            if let Content::File { size, extents } = &inode.content {
                let all: Vec<_> = extents.iter().collect();
                let mtime = inode.attrs.mtime;
                let parts = all.chunks(MOST_EXTENTS);
                out.extend(parts.map(|part| Record::Extents { ino, mtime, extents: part.to_vec() }));
                if *size != extents.end() {
                    out.push(Record::Size { ino, size: *size, time: mtime });
                }
            }
            for (name, value) in &inode.xattrs {
                out.push(Record::Xattr { ino, name: name.clone(), value: Some(value.clone()) });
            }
            out.push(Record::Attrs { ino, attrs: inode.attrs });
        }
        for (log, sums) in &self.logs {
            let mut first = 0;
            for part in sums.units.chunks(MOST_SUMS) {
                let next = first + part.len() as u64;
                let end = (next * UNIT).min(sums.end);
                out.push(Record::Sums { log: *log, first, end, sums: part.to_vec() });
                first = next;
            }
        }
        out.push(Record::Next { ino: self.next });
        out
    }
}
