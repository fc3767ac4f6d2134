//! Containers on a server: `drys://`, `dry://` and `drys+unix://` behind the [`Store`](drystone_store::Store) trait.
//!
//! [`ServerStore`] is the engine's interface: a store without append, like object stores, with any number of
//! concurrent requests.
//!
//! ```text
//! store ── together (small requests in one) ── exchange (attempts, timeouts, idempotency keys)
//!                                                 │
//!                                                 ├─ connection (TCP, TLS, Unix socket)
//!                                                 ╰─ line (of the calling thread)
//!
//! session ── arena (memory shared with a server on this machine)
//!            address, options: the server, the credentials, the timeouts
//! ```
//!
//! Invariants
//! - a reply that was cut, came late or belongs to another version of an object is requested again, and never
//!   taken for shorter data;
//! - a change that may have been made is repeated under the key of its first attempt, or compared with the
//!   stored state;
//! - the token is only in [`Options`] and in requests; no text that this crate produces contains it;
//! - a forked child neither uses nor drops connections of its parent.

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
