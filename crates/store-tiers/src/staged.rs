//! What is known of each part that lies in a tier.

use crc_fast::{CrcAlgorithm, Digest};

/// One part in a tier.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    /// Number of its tier.
    pub(crate) tier: usize,
    pub(crate) len: u64,
    /// CRC-32C of its bytes; `None` for a part that another process wrote.
    pub(crate) crc: Option<Digest>,
    /// Number of the event at which it was closed; `None` while it grows.
    pub(crate) closed: Option<u64>,
    /// How much of it is at home.
    pub(crate) home: Option<u64>,
    /// What is at home is on stable storage there.
    pub(crate) stable: bool,
    pub(crate) pinned: u32,
    pub(crate) uses: u32,
    pub(crate) used: u64,
}

impl Staged {
    pub(crate) fn new(tier: usize) -> Self {
        let crc = Some(Digest::new(CrcAlgorithm::Crc32Iscsi));
        Staged { tier, len: 0, crc, closed: None, home: None, stable: false, pinned: 0, uses: 0, used: 0 }
    }

    /// Notes bytes that were added to its end.
    pub(crate) fn grew(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.len += part.len() as u64;
            if let Some(crc) = &mut self.crc {
                crc.update(part);
            }
        }
        self.stable = false;
    }

    /// Whether home has all of it.
    pub(crate) fn is_home(&self) -> bool {
        self.home == Some(self.len)
    }
}

/// CRC-32C of one byte string.
pub(crate) fn crc32c(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes)
}
