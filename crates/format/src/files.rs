//! The journal of byte files: creations, writes, moves and removals as records (docs/format/files.md).
//!
//! The records of a frame of kind FILES apply together or not at all. Numbers are little-endian; names are
//! bytes.

use crate::column;
use crate::cursor::Reader;
use crate::{Corrupt, MAX_FILE};

/// Most checksums in one record.
pub const MOST_SUMS: usize = 1 << 16;
/// Most extents in one record. The limit is needed because a column of few bytes may encode very many.
pub const MOST_EXTENTS: usize = 1 << 10;
/// Greatest length of a name, and of the name of an extended attribute.
pub const MAX_NAME: usize = 255;
/// Greatest length of a symbolic link's target.
pub const MAX_TARGET: usize = 4095;
/// Greatest length of the value of an extended attribute.
pub const MAX_XATTR: usize = u16::MAX as usize;
/// Bytes of a data log that share a checksum.
pub const UNIT: u64 = 16 << 10;
/// The root folder.
pub const ROOT: u64 = 1;

const VERSION: u16 = 1;
const WHOLE: u16 = 1;

/// Owner, permissions and times (nanoseconds since 1970).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Attrs {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: i64,
    pub mtime: i64,
    pub ctime: i64,
}

/// A run of a file's bytes in a data log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its offset in the file.
    pub offset: u64,
    /// Its length, at least 1.
    pub len: u64,
    /// The data log: number of the mount in the upper half, number of the log in the lower.
    pub log: u64,
    /// Its offset in the log.
    pub position: u64,
}

/// The object that a record creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// An empty file.
    File,
    /// An empty folder.
    Folder,
    /// A symbolic link and its target.
    Link(Vec<u8>),
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Record {
    /// A new entry of a folder.
    Make { ino: u64, parent: u64, name: Vec<u8>, attrs: Attrs, body: Body },
    /// An entry is removed, and the link to its inode with it.
    Remove { parent: u64, name: Vec<u8>, time: i64 },
    /// An entry moves to another place and replaces an entry there; or both entries are exchanged.
    Rename { parent: u64, name: Vec<u8>, new_parent: u64, new_name: Vec<u8>, exchange: bool, time: i64 },
    /// Bytes were written. A later extent hides an earlier one. The file is at least as long as the end of the last
    /// extent.
    Extents { ino: u64, mtime: i64, extents: Vec<Extent> },
    /// The file has this length now: bytes beyond it are gone, and new bytes are zeros.
    Size { ino: u64, size: u64, time: i64 },
    /// A range becomes zeros; the length does not change.
    Hole { ino: u64, offset: u64, len: u64, time: i64 },
    /// Owner, permissions and times.
    Attrs { ino: u64, attrs: Attrs },
    /// An extended attribute is set or removed.
    Xattr { ino: u64, name: Vec<u8>, value: Option<Vec<u8>> },
    /// CRC-32C of each unit of a data log from number `first` on; the last one ends at byte `end` of the log.
    Sums { log: u64, first: u64, end: u64, sums: Vec<u32> },
    /// A data log was deleted.
    Gone { log: u64 },
    /// The least number that no inode has had.
    Next { ino: u64 },
}

/// The first frame of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Uuid of the container.
    pub uuid: [u8; 16],
    /// Generation of this journal, from 1.
    pub generation: u64,
    /// Number of bytes of the previous generation that are valid.
    pub taken: u64,
    /// The mount that writes the journal.
    pub mount: u32,
    /// The journal is complete: readers need no earlier one.
    pub whole: bool,
}

impl Header {
    /// The payload of the header's frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(if self.whole { WHOLE } else { 0 }).to_le_bytes());
        out.extend_from_slice(&self.mount.to_le_bytes());
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.taken.to_le_bytes());
        out
    }

    /// Decodes the payload.
    pub fn decode(payload: &[u8]) -> Result<Self, Corrupt> {
        let mut r = Reader::new(payload);
        let (version, flags) = (r.u16()?, r.u16()?);
        if version != VERSION {
            return Err(Corrupt::new(format!("a journal of files of version {version}"), 0));
        }
        if flags & !WHOLE != 0 {
            return Err(Corrupt::new("unknown flags of a journal of files", 2));
        }
        let header = Header {
            mount: r.u32()?,
            uuid: r.array()?,
            generation: r.u64()?,
            taken: r.u64()?,
            whole: flags & WHOLE != 0,
        };
        r.end()?;
        if header.generation == 0 {
            return Err(Corrupt::new("generations of journals begin at 1", 24));
        }
        Ok(header)
    }
}

/// Whether a name can be an entry of a folder.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != b"."
        && name != b".."
        && !name.iter().any(|b| matches!(b, b'/' | 0))
}

/// The payload of a frame of records.
pub fn encode(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    records.iter().for_each(|record| push(record, &mut out));
    out
}

fn push(record: &Record, out: &mut Vec<u8>) {
    let long = |v: u64, out: &mut Vec<u8>| out.extend_from_slice(&v.to_le_bytes());
    let time = |v: i64, out: &mut Vec<u8>| out.extend_from_slice(&v.to_le_bytes());
    let text = |v: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(&(v.len() as u16).to_le_bytes());
        out.extend_from_slice(v);
    };
    match record {
        Record::Make { ino, parent, name, attrs, body } => {
            out.push(match body {
                Body::File => 1,
                Body::Folder => 2,
                Body::Link(_) => 3,
            });
            long(*ino, out);
            long(*parent, out);
            text(name, out);
            push_attrs(attrs, out);
            if let Body::Link(target) = body {
                text(target, out);
            }
        }
        Record::Remove { parent, name, time: when } => {
            out.push(4);
            long(*parent, out);
            text(name, out);
            time(*when, out);
        }
        Record::Rename { parent, name, new_parent, new_name, exchange, time: when } => {
            out.push(if *exchange { 6 } else { 5 });
            long(*parent, out);
            text(name, out);
            long(*new_parent, out);
            text(new_name, out);
            time(*when, out);
        }
        Record::Extents { ino, mtime, extents } => {
            out.push(7);
            long(*ino, out);
            time(*mtime, out);
            out.extend_from_slice(&(extents.len() as u32).to_le_bytes());
            let column = |get: fn(&Extent) -> u64, out: &mut Vec<u8>| {
                column::encode(&extents.iter().map(get).collect::<Vec<_>>(), out);
            };
            column(|e| e.offset, out);
            column(|e| e.len, out);
            column(|e| e.log, out);
            column(|e| e.position, out);
        }
        Record::Size { ino, size, time: when } => {
            out.push(8);
            long(*ino, out);
            long(*size, out);
            time(*when, out);
        }
        Record::Hole { ino, offset, len, time: when } => {
            out.push(9);
            long(*ino, out);
            long(*offset, out);
            long(*len, out);
            time(*when, out);
        }
        Record::Attrs { ino, attrs } => {
            out.push(10);
            long(*ino, out);
            push_attrs(attrs, out);
        }
        Record::Xattr { ino, name, value } => {
            out.push(if value.is_some() { 11 } else { 12 });
            long(*ino, out);
            text(name, out);
            if let Some(value) = value {
                text(value, out);
            }
        }
        Record::Sums { log, first, end, sums } => {
            out.push(13);
            long(*log, out);
            long(*first, out);
            long(*end, out);
            out.extend_from_slice(&(sums.len() as u32).to_le_bytes());
            sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
        }
        Record::Gone { log } => {
            out.push(14);
            long(*log, out);
        }
        Record::Next { ino } => {
            out.push(15);
            long(*ino, out);
        }
    }
}

fn push_attrs(attrs: &Attrs, out: &mut Vec<u8>) {
    [attrs.mode, attrs.uid, attrs.gid].iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
    [attrs.atime, attrs.mtime, attrs.ctime].iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
}

/// Decodes the payload of a frame of records.
pub fn decode(payload: &[u8]) -> Result<Vec<Record>, Corrupt> {
    let mut r = Reader::new(payload);
    let mut out = Vec::new();
    while r.remaining() > 0 {
        out.push(record(&mut r)?);
    }
    Ok(out)
}

fn record(r: &mut Reader<'_>) -> Result<Record, Corrupt> {
    let at = r.position();
    Ok(match r.u8()? {
        kind @ 1..=3 => {
            let (ino, parent) = (inode(r)?, inode(r)?);
            let name = name(r)?;
            let attrs = attrs(r)?;
            let body = match kind {
                1 => Body::File,
                2 => Body::Folder,
                _ => Body::Link(text(r, MAX_TARGET)?),
            };
            Record::Make { ino, parent, name, attrs, body }
        }
        4 => Record::Remove { parent: inode(r)?, name: name(r)?, time: time(r)? },
        kind @ (5 | 6) => Record::Rename {
            parent: inode(r)?,
            name: name(r)?,
            new_parent: inode(r)?,
            new_name: name(r)?,
            exchange: kind == 6,
            time: time(r)?,
        },
        7 => {
            let (ino, mtime) = (inode(r)?, time(r)?);
            let count = bounded(r, MOST_EXTENTS)?;
            let offsets = column::decode(r, count)?;
            let lens = column::decode(r, count)?;
            let logs = column::decode(r, count)?;
            let positions = column::decode(r, count)?;
            let mut extents = Vec::with_capacity(count);
            for (((offset, len), log), position) in offsets.into_iter().zip(lens).zip(logs).zip(positions) {
                span(at, offset, len)?;
                span(at, position, len)?;
                extents.push(Extent { offset, len, log, position });
            }
            Record::Extents { ino, mtime, extents }
        }
        8 => {
            let (ino, size) = (inode(r)?, r.u64()?);
            if size > MAX_FILE {
                return Err(Corrupt::new("a file longer than 2^62 bytes", at));
            }
            Record::Size { ino, size, time: time(r)? }
        }
        9 => {
            let (ino, offset, len) = (inode(r)?, r.u64()?, r.u64()?);
            span(at, offset, len)?;
            Record::Hole { ino, offset, len, time: time(r)? }
        }
        10 => Record::Attrs { ino: inode(r)?, attrs: attrs(r)? },
        kind @ (11 | 12) => {
            let ino = inode(r)?;
            let name = text(r, MAX_NAME)?;
            if name.is_empty() || name.contains(&0) {
                return Err(Corrupt::new("a bad name of an extended attribute", at));
            }
            let value = if kind == 11 { Some(text(r, MAX_XATTR)?) } else { None };
            Record::Xattr { ino, name, value }
        }
        13 => {
            let (log, first, end) = (r.u64()?, r.u64()?, r.u64()?);
            let count = bounded(r, MOST_SUMS)?;
            let units = end.div_ceil(UNIT);
            if end > MAX_FILE || first.checked_add(count as u64) != Some(units) {
                return Err(Corrupt::new("checksums that do not end with their log", at));
            }
            let bytes = r.take(count * 4)?;
            let sums = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            Record::Sums { log, first, end, sums }
        }
        14 => Record::Gone { log: r.u64()? },
        15 => Record::Next { ino: inode(r)? },
        kind => return Err(Corrupt::new(format!("unknown record {kind} in a journal of files"), at)),
    })
}

fn span(at: usize, from: u64, len: u64) -> Result<(), Corrupt> {
    let fits = len > 0 && from.checked_add(len).is_some_and(|end| end <= MAX_FILE);
    fits.then_some(()).ok_or_else(|| Corrupt::new("an extent beyond 2^62 bytes, or an empty one", at))
}

fn bounded(r: &mut Reader<'_>, most: usize) -> Result<usize, Corrupt> {
    let at = r.position();
    let count = r.u32()? as usize;
    if count > most {
        return Err(Corrupt::new(format!("{count} of a record, at most {most}"), at));
    }
    Ok(count)
}

fn inode(r: &mut Reader<'_>) -> Result<u64, Corrupt> {
    let at = r.position();
    let ino = r.u64()?;
    if ino == 0 || ino > MAX_FILE {
        return Err(Corrupt::new("an impossible inode number", at));
    }
    Ok(ino)
}

fn time(r: &mut Reader<'_>) -> Result<i64, Corrupt> {
    Ok(i64::from_le_bytes(r.array()?))
}

fn text(r: &mut Reader<'_>, most: usize) -> Result<Vec<u8>, Corrupt> {
    let at = r.position();
    let len = r.u16()? as usize;
    if len > most {
        return Err(Corrupt::new(format!("{len} bytes of a name or value, at most {most}"), at));
    }
    Ok(r.take(len)?.to_vec())
}

fn name(r: &mut Reader<'_>) -> Result<Vec<u8>, Corrupt> {
    let at = r.position();
    let name = text(r, MAX_NAME)?;
    is_name(&name).then_some(name).ok_or_else(|| Corrupt::new("a bad name of a file", at))
}

fn attrs(r: &mut Reader<'_>) -> Result<Attrs, Corrupt> {
    let (mode, uid, gid) = (r.u32()?, r.u32()?, r.u32()?);
    Ok(Attrs { mode, uid, gid, atime: time(r)?, mtime: time(r)?, ctime: time(r)? })
}
