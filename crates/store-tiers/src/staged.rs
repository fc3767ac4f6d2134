//! The state of each part in a tier.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of a part's bytes.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation at every look at a part")]
pub(crate) enum Sum {
    /// The checksum of what was written so far.
    Growing(Digest),
    /// The checksum in its registration.
    Said(u32),
    /// Another process wrote the part, and its checksum is unknown.
    Unknown,
}

/// One part in a tier.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    /// Number of its tier.
    pub(crate) tier: usize,
    pub(crate) len: u64,
    pub(crate) sum: Sum,
    /// Number of the event at which it was closed; `None` while it grows.
    pub(crate) closed: Option<u64>,
    /// The step in which it was closed.
    pub(crate) step: Option<u64>,
    /// Bytes of it that are at home.
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

    /// Records bytes that were appended.
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

    /// Whether the home store has all of it.
    pub(crate) fn is_home(&self) -> bool {
        self.home == Some(self.len)
    }
}
