//! The messages between clients and servers: bytes <-> values. No I/O. docs/format/wire.md specifies every byte.
//!
//! A body is a head and frames. A frame has a short typed header, a payload of raw bytes, and a checksum of each. The
//! last frame holds the number of frames and the status, so a truncated reply is an error and never shorter data.
//!
//! Invariants
//! - decoders take untrusted bytes: they return [`Malformed`], never panic, and allocate in proportion to the
//!   bytes at hand;
//! - a header has one encoding; any other is refused.
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

/// The HTTP content type of bodies made of frames.
pub const CONTENT_TYPE: &str = "application/vnd.drystone.frames";
