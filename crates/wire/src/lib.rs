//! What clients and servers say to each other: bytes <-> values. No I/O; docs/format/wire.md has every byte.
//!
//! A body is a head and frames. A frame has a short typed header, a payload of raw bytes, and a checksum of each. The last frame says how
//! many there were and how it ended, so a reply that was cut is an error and never short data.
//!
//! Invariants
//! - decoders take bytes from anywhere: they return [`Malformed`], never panic, and allocate only what the bytes at hand have earned;
//! - a header has one encoding, and other bytes for it are refused.
#![forbid(unsafe_code)]

mod arena;
mod body;
mod checksum;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod header;
mod listing;
mod malformed;
mod op;
mod status;
mod upload;

pub use arena::{GREETING_LEN, Greeting, MESSAGE_HEAD_LEN, MessageHead, UPGRADE};
pub use body::{Builder, Frames};
pub use checksum::checksum;
pub use drystone_plan::tier::level::Level;
pub use frame::{BODY_HEAD_LEN, FRAME_HEAD_LEN, FrameHead, VERSION, body_head, check_body_head};
pub use header::{Header, MAX_HEADER_LEN};
pub use listing::{Listed, decode_listing, encode_listing};
pub use malformed::Malformed;
pub use op::{Answer, Ask, Region};
pub use status::Status;
pub use upload::{LENGTH, OFFSET, UPLOAD, UploadStep};

/// The type of bodies made of frames, as HTTP names it.
pub const CONTENT_TYPE: &str = "application/vnd.drystone.frames";
