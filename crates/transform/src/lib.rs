//! Codecs behind one trait, and chains of them; and kernels that scan payloads: checksums, statistics, histograms.
//!
//! Everything here is a function from bytes to bytes: no files, no threads, no clock. So the decoding side can run
//! inside an object server.
//!
//! Invariants
//! - [`Chain::decode`], with the same [`Logical`] and the chain parsed from [`Chain::canonical`], restores the input of
//!   [`Chain::encode`] bit by bit, except for lossy codecs;
//! - a stored subchunk is at most one byte longer than its data, unless its codec may expand for the benefit
//!   of readers;
//! - decoders refuse damaged bytes. They never panic, and never allocate more than a small multiple of the declared
//!   decoded size;
//! - the bytes are specified in docs/format/encodings.md; the code follows it.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "lists of one byte range are what reading parts is about"
)]

mod auto;
mod builtin;
mod chain;
pub mod checks;
mod codec;
mod codecs;
mod error;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod head;
mod limits;
mod logical;
mod number;
mod params;
mod part;
pub mod ranges;
mod registry;
mod scratch;
mod search;
pub mod stats;
mod text;
mod zarr;

pub use auto::{Auto, Choice, Goal, Sample, Transform, Trial};
pub use chain::Chain;
pub use codec::{Codec, Transparent};
pub use codecs::alacrity::Alacrity;
pub use codecs::aplod::Aplod;
pub use codecs::deflate::Zlib;
pub use codecs::isobar::Isobar;
pub use codecs::multilevel::Multilevel;
pub use codecs::shuffle::Shuffle;
pub use codecs::sorted::{Companion, MOST_COMPANION_BYTES, MOST_COMPANIONS, Sorted, SortedLayout};
pub use codecs::zstandard::Zstd;
pub use error::TransformError;
#[cfg(feature = "fuzzing")]
pub use fuzzing::{FUZZED_CODECS, fuzz_codec, fuzz_decode, fuzz_lz4};
pub use limits::MAX_DECODED_LEN;
pub use logical::Logical;
pub use part::{Bound, Fetched, MAX_META_LEN, Pieces, Planned, Precision, Prefix, StoredSubchunk, Want};
pub use registry::{Maker, register, registered};
pub use scratch::Scratch;
pub use search::{Indexed, SearchHits, Whole};
pub use stats::class::{Limit, key_of, keys_between, meets};
pub use stats::histogram;
pub use text::{CodecSpec, ConfigValue, ListItem, Param, readable};
