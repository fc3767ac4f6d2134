//! The codecs, one module each, and modules that several of them share.
//!
//! Shared are `columns` (bytes of equal rank side by side), `places` (which elements were restored), `same_length`
//! (codecs whose output is as long as their input) and `section` (byte strings compressed behind a head).

pub(crate) mod alacrity;
pub(crate) mod aplod;
pub(crate) mod bit_round;
pub(crate) mod bit_shuffle;
pub(crate) mod blosc;
pub(crate) mod bzip2;
pub(crate) mod columns;
pub(crate) mod deflate;
pub(crate) mod delta;
pub(crate) mod isobar;
pub(crate) mod lorenzo;
pub(crate) mod lz4;
pub(crate) mod mloc;
pub(crate) mod multilevel;
pub(crate) mod pcodec;
pub(crate) mod places;
pub(crate) mod same_length;
pub(crate) mod section;
pub(crate) mod shuffle;
pub(crate) mod sorted;
pub(crate) mod szip;
#[cfg(feature = "zfp")]
pub(crate) mod zfp;
pub(crate) mod zstandard;
