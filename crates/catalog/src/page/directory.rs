//! The directory: where each column lies in a page.

use drystone_format::Corrupt;
use drystone_format::cursor::Reader;

use super::{MAGIC, MAX_CONTAINERS};
use crate::bytes::{count, push, push_text, small, text, varint};
use crate::facts::{Key, KeyKind};

/// A range of bytes in a page, with its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Section {
    pub offset: u64,
    pub len: u32,
    pub crc: u32,
}

/// The directory of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Directory {
    pub containers: u32,
    pub identities: Section,
    /// Columns by key, ascending.
    pub columns: Vec<(Key, Section)>,
}

impl Directory {
    /// Encodes the directory.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, self.containers.into());
        push_section(&mut out, &self.identities);
        push(&mut out, self.columns.len() as u64);
        for (key, section) in &self.columns {
            out.push(KeyKind::ALL.iter().position(|kind| *kind == key.kind).unwrap_or_default() as u8);
            push_text(&mut out, &key.object);
            push_text(&mut out, &key.name);
            push_section(&mut out, section);
        }
        out
    }

    /// Decodes a directory, whose sections must lie within the first `page` bytes.
    pub fn decode(bytes: &[u8], page: u64) -> Result<Directory, Corrupt> {
        let mut r = Reader::new(bytes);
        let containers = small(&mut r)?;
        if containers > MAX_CONTAINERS {
            return Err(r.corrupt(format!("{containers} containers, at most {MAX_CONTAINERS}")));
        }
        let identities = section(&mut r, page)?;
        let n = count(&mut r, 9)?;
        let mut columns: Vec<(Key, Section)> = Vec::with_capacity(n);
        for _ in 0..n {
            let kind = r.u8()?;
            let Some(&kind) = KeyKind::ALL.get(usize::from(kind)) else {
                return Err(r.corrupt(format!("a key of the unknown kind {kind}")));
            };
            let key = Key::new(kind, text(&mut r)?, text(&mut r)?);
            if columns.last().is_some_and(|(last, _)| *last >= key) {
                return Err(r.corrupt("keys do not ascend"));
            }
            columns.push((key, section(&mut r, page)?));
        }
        r.end()?;
        Ok(Directory { containers, identities, columns })
    }

    /// Where the column of a key lies.
    pub fn find(&self, key: &Key) -> Option<Section> {
        let n = self.columns.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
        self.columns.get(n).map(|(_, section)| *section)
    }
}

fn push_section(out: &mut Vec<u8>, section: &Section) {
    push(out, section.offset);
    push(out, section.len.into());
    out.extend_from_slice(&section.crc.to_le_bytes());
}

fn section(r: &mut Reader<'_>, page: u64) -> Result<Section, Corrupt> {
    let found = Section { offset: varint(r)?, len: small(r)?, crc: r.u32()? };
    match found.offset.checked_add(found.len.into()) {
        Some(end) if end <= page && found.offset >= MAGIC.len() as u64 => Ok(found),
        _ => Err(r.corrupt(format!("{} bytes at {} of a page of {page}", found.len, found.offset))),
    }
}
