//! The checksum of everything that is stored.

/// CRC-32C of one byte string.
pub(crate) use drystone_transform::checks::crc32c as crc32;
