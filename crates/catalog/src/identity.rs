//! The container and the snapshot for each number in a page, 32 bytes each.

use drystone_format::Corrupt;
use drystone_format::cursor::Reader;

/// Bytes of one entry.
pub(crate) const LEN: usize = 32;

/// The snapshot whose facts are in the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uuid: [u8; 16],
    pub(crate) version: u64,
    /// Time of the commit, in nanoseconds since 1970.
    pub(crate) time: u64,
}

impl Identity {
    /// Whether this snapshot is newer than another one of the same path.
    pub(crate) fn is_newer(&self, other: &Identity) -> bool {
        match self.uuid == other.uuid {
            true => self.version > other.version,
            false => self.time > other.time,
        }
    }
}

pub(crate) fn encode(all: &[Identity]) -> Vec<u8> {
    let mut out = Vec::with_capacity(all.len() * LEN);
    for one in all {
        out.extend_from_slice(&one.uuid);
        out.extend_from_slice(&one.version.to_le_bytes());
        out.extend_from_slice(&one.time.to_le_bytes());
    }
    out
}

pub(crate) fn decode(bytes: &[u8], containers: u32) -> Result<Vec<Identity>, Corrupt> {
    if bytes.len() as u64 != u64::from(containers) * LEN as u64 {
        return Err(Corrupt::new(format!("{} bytes for {containers} containers", bytes.len()), 0));
    }
    let mut r = Reader::new(bytes);
    let mut out = Vec::with_capacity(bytes.len() / LEN);
    for _ in 0..containers {
        out.push(Identity { uuid: r.array()?, version: r.u64()?, time: r.u64()? });
    }
    Ok(out)
}
