//! Codecs behind one trait, and chains of them; and the kernels that look at
//! payload bytes once: checksums, statistics, histograms.
//!
//! Everything here is a function from bytes to bytes: no files, no threads, no
//! clock. The decoding side can therefore run inside an object server.
//!
//! Invariants
//! - what [`Chain::encode`] made, [`Chain::decode`] gives back bit by bit, with
//!   the same [`Logical`] and the chain read from [`Chain::canonical`];
//! - a stored subchunk is at most one byte longer than its data, unless its codec is worth more to readers;
//! - decoders refuse damaged bytes; they never panic and never allocate more
//!   than a small multiple of the declared decoded size;
//! - the bytes are specified in docs/transforms.md; the code follows it.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "lists of one byte range are what reading parts is about"
)]

mod alacrity;
mod aplod;
mod auto;
mod bit_round;
mod bit_shuffle;
mod blosc;
mod bzip2;
mod chain;
pub mod checks;
mod class;
mod codec;
mod columns;
mod deflate;
mod delta;
mod error;
mod fuzzing;
mod head;
pub mod histogram;
mod isobar;
mod logical;
mod lorenzo;
mod lz4;
mod mloc;
mod multilevel;
mod number;
mod params;
mod part;
mod pcodec;
pub mod ranges;
mod registry;
mod same_length;
mod scratch;
mod search;
mod section;
mod shuffle;
pub mod stats;
mod szip;
mod text;
mod zarr;
#[cfg(feature = "zfp")]
mod zfp;
mod zstandard;

pub use alacrity::Alacrity;
pub use aplod::Aplod;
pub use auto::{Auto, Choice, Goal, Sample, Transform, Trial};
pub use chain::Chain;
pub use class::{Limit, key_of, keys_between, meets};
pub use codec::{Codec, Transparent};
pub use deflate::Zlib;
pub use error::TransformError;
pub use fuzzing::{FUZZED_CODECS, fuzz_codec, fuzz_decode, fuzz_lz4};
pub use isobar::Isobar;
pub use logical::{Logical, MAX_DECODED_LEN};
pub use multilevel::Multilevel;
pub use part::{Bound, Fetched, Front, MAX_META_LEN, Pieces, Planned, Precision, Stored, Want};
pub use registry::{Maker, register, registered};
pub use scratch::Scratch;
pub use search::{Found, Indexed};
pub use shuffle::Shuffle;
pub use text::{CodecSpec, ConfigValue, ListItem, Param, readable};
pub use zstandard::Zstd;
