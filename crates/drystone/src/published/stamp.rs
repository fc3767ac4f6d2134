//! The stamp of a published object: a fingerprint of its content (docs/format/zarr.md).

use drystone_store::{Store, StoreError};

use crate::Result;
use crate::base::checksum::crc32;

/// Bytes before the first chunk.
pub(crate) const STAMP: usize = 40;
const MAGIC: &[u8; 8] = b"DRYSHARD";

/// Identifies the content of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The fingerprint of everything that determines the content.
    pub(crate) fingerprint: u128,
    /// The version from which it was published.
    pub(crate) version: u64,
}

impl Stamp {
    pub(crate) fn encode(&self) -> [u8; STAMP] {
        let mut out = [0; STAMP];
        out[..8].copy_from_slice(MAGIC);
        out[8..24].copy_from_slice(&self.fingerprint.to_le_bytes());
        out[24..32].copy_from_slice(&self.version.to_le_bytes());
        let check = crc32(&out[..STAMP - 4]);
        out[STAMP - 4..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes a stamp. `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, check) = bytes.get(..STAMP)?.split_last_chunk::<4>()?;
        let rest = body.strip_prefix(MAGIC)?;
        let (fingerprint, rest) = rest.split_first_chunk::<16>()?;
        let (version, reserved) = rest.split_first_chunk::<8>()?;
        let sound = reserved == [0; 4] && u32::from_le_bytes(*check) == crc32(body);
        sound.then(|| Stamp {
            fingerprint: u128::from_le_bytes(*fingerprint),
            version: u64::from_le_bytes(*version),
        })
    }
}

/// The number of bytes before the HDF5 file in a shard of this many chunks that is one too: a power of two that holds
/// index and stamp.
pub(crate) fn user_block(chunks: u64) -> u64 {
    let bytes = chunks.saturating_mul(16).saturating_add(4 + STAMP as u64);
    bytes.checked_next_power_of_two().unwrap_or(u64::MAX).max(512)
}

/// The stamp of an object at a position, if there is one.
pub(crate) fn stamp_of(store: &dyn Store, key: &str, at: u64) -> Result<Option<Stamp>> {
    let mut bytes = [0; STAMP];
    match store.read(key, at, &mut bytes) {
        Ok(()) => Ok(Stamp::decode(&bytes)),
        Err(StoreError::ShortRead { .. } | StoreError::NotFound { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
