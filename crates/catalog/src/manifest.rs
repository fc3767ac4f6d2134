//! The manifest: the pages of a catalogue, and which of their containers newer pages have replaced.
//!
//! Manifests are numbered. A number is put once, if absent, and never removed. If two processes add at the same time,
//! one gets the number and the other builds on it.

use drystone_format::cursor::Reader;
use drystone_format::{Corrupt, crc32c};

use crate::bytes::{ascending, count, push, push_ascending, small, varint};

const MAGIC: &[u8; 8] = b"DRYCATM1";

/// A page of a catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PageRef {
    /// Random number, which names the object.
    pub id: [u8; 16],
    pub containers: u32,
    /// Bytes of the object.
    pub len: u64,
    /// Length and checksum of the directory at the end of the object.
    pub directory: u32,
    pub crc: u32,
    /// Hidden containers, which were replaced or removed; ascending.
    pub hidden: Vec<u32>,
}

impl PageRef {
    /// Number of shown containers.
    pub(crate) fn live(&self) -> u32 {
        self.containers.saturating_sub(self.hidden.len() as u32)
    }

    pub(crate) fn key(&self) -> String {
        let name: String = self.id.iter().map(|b| format!("{b:02x}")).collect();
        format!("pages/{name}.dcp")
    }
}

/// One state of a catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Manifest {
    pub number: u64,
    /// Uuid of the catalogue to which it belongs.
    pub uuid: [u8; 16],
    pub pages: Vec<PageRef>,
}

impl Manifest {
    pub(crate) fn key(number: u64) -> String {
        format!("manifest/{number:012}.dcm")
    }

    pub(crate) fn parse_key(key: &str) -> Option<u64> {
        let number = key.strip_prefix("manifest/")?.strip_suffix(".dcm")?.parse().ok()?;
        (Manifest::key(number) == key).then_some(number)
    }

    /// Encodes the manifest.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.uuid);
        push(&mut out, self.pages.len() as u64);
        for page in &self.pages {
            out.extend_from_slice(&page.id);
            push(&mut out, page.containers.into());
            push(&mut out, page.len);
            push(&mut out, page.directory.into());
            out.extend_from_slice(&page.crc.to_le_bytes());
            push_ascending(&mut out, &page.hidden);
        }
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a manifest.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, Corrupt> {
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
            return Err(Corrupt::new("it is shorter than a checksum", 0));
        };
        let mut r = Reader::new(body);
        if r.array()? != *MAGIC {
            return Err(Corrupt::new("not a manifest of a catalogue, or a newer one: wrong magic", 0));
        }
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(Corrupt::new("it fails its CRC", 0));
        }
        let (number, uuid) = (r.u64()?, r.array()?);
        let n = count(&mut r, 24)?;
        let mut pages = Vec::with_capacity(n);
        for _ in 0..n {
            let id = r.array()?;
            let (containers, len, directory, crc) =
                (small(&mut r)?, varint(&mut r)?, small(&mut r)?, r.u32()?);
            if u64::from(directory) > len {
                return Err(r.corrupt(format!("a directory of {directory} bytes in a page of {len}")));
            }
            let mut hidden = Vec::new();
            ascending(&mut r, containers, &mut hidden)?;
            pages.push(PageRef { id, containers, len, directory, crc, hidden });
        }
        r.end()?;
        Ok(Manifest { number, uuid, pages })
    }
}
