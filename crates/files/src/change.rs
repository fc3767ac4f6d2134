//! Turns a caller's request into records, or refuses it with the reason.

use drystone_format::MAX_FILE;
use drystone_format::files::{Attrs, Body, MAX_NAME, MAX_TARGET, MAX_XATTR, Record, is_name};

use crate::state::{Content, State};

/// Why a change is refused; each reason is one errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// ENOENT
    Missing,
    /// EEXIST
    Exists,
    /// ENOTDIR
    NotFolder,
    /// EISDIR
    IsFolder,
    /// ENOTEMPTY
    NotEmpty,
    /// EINVAL
    Invalid,
    /// ENAMETOOLONG
    NameTooLong,
    /// EFBIG
    TooLarge,
    /// ENODATA
    NoAttribute,
    /// E2BIG
    AttributeTooLarge,
}

type Result<T> = std::result::Result<T, Refused>;

/// The owner of a new entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// A new value of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeChange {
    /// The present time.
    Now,
    /// Nanoseconds since 1970.
    To(i64),
}

/// Attributes to set; those that are `Some`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct SetAttrs {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub atime: Option<TimeChange>,
    pub mtime: Option<TimeChange>,
    /// The time of this change; the present time if `None`.
    pub ctime: Option<i64>,
}

/// The bit of a folder whose new entries get its group.
const SETGID: u32 = 0o2000;
/// Permission bits.
const PERMISSIONS: u32 = 0o7777;

fn named(name: &[u8]) -> Result<Vec<u8>> {
    match is_name(name) {
        true => Ok(name.to_vec()),
        false if name.len() > MAX_NAME => Err(Refused::NameTooLong),
        false => Err(Refused::Invalid),
    }
}

impl SetAttrs {
    /// The attributes after these changes.
    pub fn on(&self, attrs: Attrs, now: i64) -> Attrs {
        let at = |change: Option<TimeChange>, old: i64| match change {
            None => old,
            Some(TimeChange::Now) => now,
            Some(TimeChange::To(time)) => time,
        };
        Attrs {
            mode: self.mode.map_or(attrs.mode, |mode| mode & PERMISSIONS),
            uid: self.uid.unwrap_or(attrs.uid),
            gid: self.gid.unwrap_or(attrs.gid),
            atime: at(self.atime, attrs.atime),
            mtime: at(self.mtime, attrs.mtime),
            ctime: self.ctime.unwrap_or(now),
        }
    }
}

impl State {
    fn folder(&self, ino: u64) -> Result<()> {
        let inode = self.get(ino).ok_or(Refused::Missing)?;
        matches!(inode.content, Content::Folder { .. }).then_some(()).ok_or(Refused::NotFolder)
    }

    /// Creates an entry in a folder; its inode has the number [`State::next`].
    pub fn make(
        &self,
        parent: u64,
        name: &[u8],
        body: Body,
        mode: u32,
        owner: Owner,
        now: i64,
    ) -> Result<Record> {
        self.folder(parent)?;
        let name = named(name)?;
        if self.entry(parent, &name).is_some() {
            return Err(Refused::Exists);
        }
        if let Body::Link(target) = &body
            && (target.is_empty() || target.len() > MAX_TARGET)
        {
            return Err(if target.is_empty() { Refused::Missing } else { Refused::NameTooLong });
        }
        let above = self.get(parent).ok_or(Refused::Missing)?.attrs;
        let (mut mode, mut gid) = (mode & PERMISSIONS, owner.gid);
        if above.mode & SETGID != 0 {
            gid = above.gid;
            mode |= if body == Body::Folder { SETGID } else { 0 };
        }
        let attrs = Attrs { mode, uid: owner.uid, gid, atime: now, mtime: now, ctime: now };
        Ok(Record::Make { ino: self.next(), parent, name, attrs, body })
    }

    /// Removes an entry: a folder, or anything else.
    pub fn remove(&self, parent: u64, name: &[u8], folder: bool, now: i64) -> Result<Record> {
        self.folder(parent)?;
        let ino = self.entry(parent, name).ok_or(Refused::Missing)?;
        match (self.entries(ino), folder) {
            (None, true) => return Err(Refused::NotFolder),
            (Some(_), false) => return Err(Refused::IsFolder),
            (Some(entries), true) if !entries.is_empty() => return Err(Refused::NotEmpty),
            _ => {}
        }
        Ok(Record::Remove { parent, name: name.to_vec(), time: now })
    }

    /// Moves an entry to another place. `None` if it is there already.
    pub fn moved(
        &self,
        (parent, name): (u64, &[u8]),
        (new_parent, new_name): (u64, &[u8]),
        (exchange, keep): (bool, bool),
        now: i64,
    ) -> Result<Option<Record>> {
        self.folder(parent)?;
        self.folder(new_parent)?;
        let new_name = named(new_name)?;
        let ino = self.entry(parent, name).ok_or(Refused::Missing)?;
        let there = self.entry(new_parent, &new_name);
        if keep && there.is_some() {
            return Err(Refused::Exists);
        }
        if there == Some(ino) {
            return Ok(None);
        }
        if self.is_below(new_parent, ino) {
            return Err(Refused::Invalid);
        }
        match (there, exchange) {
            (None, true) => return Err(Refused::Missing),
            (Some(other), true) if self.is_below(parent, other) => return Err(Refused::Invalid),
            (Some(other), false) => match (self.entries(ino), self.entries(other)) {
                (Some(_), None) => return Err(Refused::NotFolder),
                (None, Some(_)) => return Err(Refused::IsFolder),
                (Some(_), Some(entries)) if !entries.is_empty() => return Err(Refused::NotEmpty),
                _ => {}
            },
            _ => {}
        }
        Ok(Some(Record::Rename { parent, name: name.to_vec(), new_parent, new_name, exchange, time: now }))
    }

    /// Sets or removes an extended attribute. With `create`, only if it does not exist; with `replace`, only if it
    /// does.
    pub fn attribute(
        &self,
        ino: u64,
        name: &[u8],
        value: Option<&[u8]>,
        (create, replace): (bool, bool),
    ) -> Result<Record> {
        let inode = self.get(ino).ok_or(Refused::Missing)?;
        if name.is_empty() || name.len() > MAX_NAME || name.contains(&0) {
            return Err(Refused::Invalid);
        }
        let there = inode.xattrs.contains_key(name);
        if value.is_some_and(|value| value.len() > MAX_XATTR) {
            return Err(Refused::AttributeTooLarge);
        }
        if create && there {
            return Err(Refused::Exists);
        }
        if (replace || value.is_none()) && !there {
            return Err(Refused::NoAttribute);
        }
        Ok(Record::Xattr { ino, name: name.to_vec(), value: value.map(<[u8]>::to_vec) })
    }
}

/// Whether a file may have this length.
pub fn fits(end: Option<u64>) -> Result<u64> {
    end.filter(|end| *end <= MAX_FILE).ok_or(Refused::TooLarge)
}
