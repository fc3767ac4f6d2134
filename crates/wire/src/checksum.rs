//! The checksum of all structures.

/// CRC-32C of the concatenated parts.
pub fn checksum(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}
