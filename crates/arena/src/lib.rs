//! Memory that a client and a server on one machine share.
//!
//! ```text
//! mapping: one mapped memfd, sealed     pass: its descriptor through a Unix socket     pieces: what a client has handed out of it
//! room: which bytes are free (pure)
//! ```
//!
//! Invariants
//! - an arena is sealed against a change of its length before it leaves its maker, and no arena without these seals is
//!   mapped: so no access within its length meets memory that is gone;
//! - the server never makes a reference to this memory: it copies bytes out, each once, and judges the copy;
//! - an arena has no name; it is gone when all its holders are.

#[cfg(target_os = "linux")]
mod mapping;
#[cfg(not(target_os = "linux"))]
#[path = "mapping_absent.rs"]
mod mapping;
mod pass;
mod pieces;
mod room;

pub use mapping::Arena;
pub use pass::{receive, send};
pub use pieces::{Piece, Pieces};
