//! Memory that a client and a server on one machine share.
//!
//! ```text
//! mapping: one mapped memfd, sealed
//! pass: its descriptor through a Unix socket
//! pieces: what a client has handed out of it
//! room: which bytes are free (pure)
//! ```
//!
//! Invariants
//! - an arena is sealed against changes of its length before it leaves its creator, and only arenas with these seals
//!   are mapped. So no access within its length can fail;
//! - the server never makes a reference to this memory: it copies bytes out, each once, and checks the copy;
//! - an arena has no name; it is freed when all its holders are gone.

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
