//! Containers on a server: `drys://`, `dry://` and `drys+unix://` behind the [`Store`](drystone_store::Store) trait.
//!
//! [`ServerStore`] is what the engine sees: a store without append, as object stores are, whose requests may be under way in any number.
//!
//! ```text
//! store ── together (small asks in one request) ── exchange (attempts, deadlines, idempotency keys) ── connection (TCP, TLS, Unix socket)
//!                                                                                                 ╰─ line (of the asking thread itself)
//! session ── arena (memory shared with a server on this machine)
//!            address, options: who is asked, with which right, for how long
//! ```
//!
//! Invariants
//! - a reply that was cut, came late or is of another version of an object is asked for again, never taken for shorter data;
//! - a change that may have been done is repeated under the key of its first attempt, or compared with what is there;
//! - the token is in [`Options`] and in requests, and in no text that this crate makes;
//! - connections of a parent are neither used nor dropped by a forked child.

mod address;
mod arena;
mod connection;
mod endpoint;
mod exchange;
mod failure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod line;
mod options;
mod putting;
mod reading;
mod replies;
mod rising;
mod session;
mod store;
mod tls;
mod together;
mod waiting;

pub use address::{Address, SCHEMES};
pub use drystone_arena::Piece;
pub use drystone_wire::{Level, Region, Status};
pub use endpoint::Presence;
pub use failure::{InvalidAddress, Refused};
pub use options::Options;
pub use session::Session;
pub use store::ServerStore;
