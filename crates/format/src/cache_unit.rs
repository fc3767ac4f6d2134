//! The head of a cache unit: which bytes of which object the unit holds, and their checksums.
//!
//! docs/format/cache-unit.md specifies it. A unit is a file of a cache folder: the head, then the bytes. A unit is
//! never changed. A reader that finds it damaged removes it, since the home store has the bytes.

use crate::cursor::Reader;
use crate::{Corrupt, crc32c};

/// The first bytes of a unit.
pub const MAGIC: [u8; 8] = *b"DRYUNIT1";
/// Bytes that have one checksum, as a power of two.
pub const BLOCK_LOG2: u32 = 16;
/// The longest unit, in bytes of its object.
pub const MAX_UNIT: u64 = 8 << 20;
/// The longest key, in bytes.
pub const MAX_KEY: usize = 1024;
/// Bytes of the head that do not depend on key and length: those before the key, and the checksum of the head.
const FIXED: usize = 44 + 4;

/// The head of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitHead {
    /// The container.
    pub uuid: [u8; 16],
    /// The object.
    pub key: String,
    /// The first byte of the object that the unit holds.
    pub offset: u64,
    /// Number of bytes that the unit holds.
    pub length: u64,
    /// CRC-32C of each block of 2^[`BLOCK_LOG2`] bytes; the last may be shorter.
    pub checks: Vec<u32>,
}

/// Length in bytes of the head of a unit.
pub fn head_len(key_len: usize, length: u64) -> usize {
    FIXED + key_len + 4 * (length.div_ceil(1 << BLOCK_LOG2) as usize)
}

impl UnitHead {
    /// The head of a unit that holds these bytes of an object.
    pub fn of(uuid: [u8; 16], key: &str, offset: u64, bytes: &[u8]) -> Self {
        let checks = bytes.chunks(1 << BLOCK_LOG2).map(crc32c).collect();
        UnitHead { uuid, key: key.to_owned(), offset, length: bytes.len() as u64, checks }
    }

    /// The encoded head.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(head_len(self.key.len(), self.length));
        out.extend(MAGIC);
        out.extend(self.uuid);
        out.extend(self.offset.to_le_bytes());
        out.extend(self.length.to_le_bytes());
        out.extend((self.key.len() as u32).to_le_bytes());
        out.extend(self.key.as_bytes());
        self.checks.iter().for_each(|check| out.extend(check.to_le_bytes()));
        out.extend(crc32c(&out).to_le_bytes());
        out
    }

    /// Reads and verifies a head, which is all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let (body, check) = bytes
            .len()
            .checked_sub(4)
            .and_then(|at| bytes.split_at_checked(at))
            .ok_or_else(|| Corrupt::new("the head of a cache unit is too short", 0))?;
        if crc32c(body).to_le_bytes() != check {
            return Err(Corrupt::new("the head of a cache unit fails its CRC", 0));
        }
        let mut r = Reader::new(body);
        if r.array::<8>()? != MAGIC {
            return Err(Corrupt::new("this is no cache unit", 0));
        }
        let uuid = r.array()?;
        let (offset, length, key_len) = (r.u64()?, r.u64()?, r.u32()? as usize);
        if length == 0 || length > MAX_UNIT || offset.checked_add(length).is_none() {
            return Err(r.corrupt(format!("a cache unit of {length} bytes at {offset}")));
        }
        if key_len == 0 || key_len > MAX_KEY {
            return Err(r.corrupt(format!("a key of {key_len} bytes")));
        }
        let key = std::str::from_utf8(r.take(key_len)?).map_err(|_| r.corrupt("a key that is not UTF-8"))?;
        let blocks = length.div_ceil(1 << BLOCK_LOG2) as usize;
        if r.remaining() != 4 * blocks {
            return Err(r.corrupt(format!("{blocks} checksums expected in {} bytes", r.remaining())));
        }
        let mut checks = Vec::with_capacity(blocks);
        for _ in 0..blocks {
            checks.push(r.u32()?);
        }
        Ok(UnitHead { uuid, key: key.to_owned(), offset, length, checks })
    }

    /// Whether `bytes`, which begin with block number `first`, match their checksums. The last block may be the unit's
    /// last.
    pub fn is_sound(&self, first: usize, bytes: &[u8]) -> bool {
        let blocks = bytes.chunks(1 << BLOCK_LOG2);
        let stored = self.checks.get(first..first.saturating_add(blocks.len()));
        stored.is_some_and(|stored| blocks.zip(stored).all(|(block, check)| crc32c(block) == *check))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_which_bytes_it_stands_for_and_whether_they_are_sound() {
        let bytes: Vec<u8> = (0..150_000u32).map(|n| n as u8).collect();
        let head = UnitHead::of([3; 16], "log/a-0.seg", 77, &bytes);
        let encoded = head.encode();
        assert_eq!(encoded.len(), head_len(11, 150_000));
        assert_eq!(UnitHead::decode(&encoded), Ok(head.clone()));
        assert!(head.is_sound(0, &bytes) && head.is_sound(1, &bytes[1 << 16..2 << 16]));
        assert!(head.is_sound(2, &bytes[2 << 16..]) && !head.is_sound(1, &bytes[2 << 16..]));
        assert!(!head.is_sound(3, &[1]) && !head.is_sound(usize::MAX, &[1]));
        let mut wrong = bytes.clone();
        wrong[140_000] ^= 4;
        assert!(!head.is_sound(0, &wrong) && head.is_sound(0, &wrong[..1 << 16]));
    }
}
