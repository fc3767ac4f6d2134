//! Everything that is stored: frames, logs, index pages, manifests and schemas, as bytes and as values.
//!
//! `docs/format/` specifies every structure; this crate implements it. It does no I/O, contains no policy,
//! and validates every byte: decoders return [`Corrupt`], never panic, and allocate only in proportion to the
//! bytes at hand.

#![forbid(unsafe_code)]

pub mod block;
pub mod branch;
pub mod cache_unit;
mod cbor;
pub mod column;
pub mod cursor;
pub mod derived;
pub mod dtype;
pub mod entry;
pub mod files;
pub mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod hdf5_stub;
mod hint;
pub mod identity;
pub mod instant;
pub mod keys;
pub mod layout;
pub mod log;
pub mod log_packs;
pub mod manifest;
pub mod meaning;
pub mod packs;
pub mod piece;
pub mod published;
pub mod reads;
pub mod redundancy;
pub mod schema;
pub mod source;
pub mod staged;
pub mod statistics;
pub mod steps;
pub mod table;
mod text_object;
pub mod value;

mod corrupt;
pub use corrupt::Corrupt;

/// CRC-32C (Castagnoli) of one byte string, with the widest instructions that the processor has.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Greatest length of a byte file and of a data log.
pub const MAX_FILE: u64 = 1 << 62;

/// Largest number of dimensions of a variable.
pub const MAX_NDIM: usize = 8;
