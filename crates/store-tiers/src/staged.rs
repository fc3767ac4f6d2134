//! The state of each part in a tier.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of a part's bytes.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "each lookup clones the value, and a box would add an allocation"
)]
pub(crate) enum Sum {
    /// The running checksum of the bytes written so far.
    Growing(Digest),
    /// The checksum from the part's registration.
    Said(u32),
    /// Another process wrote the part, and its checksum is unknown.
    Unknown,
}

/// One part in a tier.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    /// Index of its tier; 0 is the nearest.
    pub(crate) tier: usize,
    pub(crate) len: u64,
    pub(crate) sum: Sum,
    /// Its place in the order of the drain; `None` while it grows.
    pub(crate) closed: Option<u64>,
    /// The step in which it was closed.
    pub(crate) step: Option<u64>,
    /// Length of its copy in the home store; `None` if there is no copy.
    pub(crate) home: Option<u64>,
    /// Whether the copy at home is on stable storage.
    pub(crate) stable: bool,
    pub(crate) pinned: u32,
    pub(crate) uses: u32,
    pub(crate) used: u64,
}

impl Staged {
    pub(crate) fn new(tier: usize) -> Self {
        Staged {
            tier,
            len: 0,
            sum: Sum::Growing(Digest::new(CrcAlgorithm::Crc32Iscsi)),
            closed: None,
            step: None,
            home: None,
            stable: false,
            pinned: 0,
            uses: 0,
            used: 0,
        }
    }

    /// Records that bytes were appended.
    pub(crate) fn grew(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.len += part.len() as u64;
            match &mut self.sum {
                Sum::Growing(digest) => digest.update(part),
                other => *other = Sum::Unknown,
            }
        }
        self.stable = false;
    }

    /// CRC-32C of its bytes, if known.
    pub(crate) fn crc(&self) -> Option<u32> {
        match &self.sum {
            Sum::Growing(digest) => Some(digest.finalize() as u32),
            Sum::Said(crc) => Some(*crc),
            Sum::Unknown => None,
        }
    }

    /// Whether the home store has the whole part.
    pub(crate) fn is_home(&self) -> bool {
        self.home == Some(self.len)
    }
}
