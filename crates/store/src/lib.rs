//! The Store trait and its transports: memory, local files, without append, with injected faults.
//!
//! A store keeps named byte strings ("objects") and knows nothing of what they mean. Everything above
//! depends on the few promises of [`Store`]: exact reads, appends at a known end, puts that are seen whole
//! or not at all, put-if-absent that exactly one wins, listing that sees what was written, and a sync that
//! can be relied on. Every transport, ours or a stranger's, is held to them by [`conformance::check`].
//!
//! - [`MemoryStore`] is the reference: shortest, and strict.
//! - [`LocalStore`] keeps objects as files below a folder.
//! - [`NoAppendStore`] takes append away, as object stores do.
//! - [`CountingStore`] counts requests and bytes.
//! - [`FaultStore`] kills processes, cuts the power, tears writes and loses replies, on purpose.

pub mod conformance;
mod counting;
mod error;
mod fault;
mod key;
#[cfg(unix)]
mod local;
mod memory;
mod no_append;
mod process;
mod request;
mod store;

pub use counting::{Counters, CountingStore};
pub use error::{Result, StoreError};
pub use fault::{Fault, FaultStore, Script};
pub use key::{MAX_COMPONENT_LEN, MAX_KEY_LEN, validate_key, validate_prefix};
#[cfg(unix)]
pub use local::{Lending, LocalStore, Mapped, WholeFile, find_room};

/// Where there is no local store, nothing is lent.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum Mapped {}
pub use memory::MemoryStore;
pub use no_append::NoAppendStore;
pub use process::process_id;
pub use request::{Completer, Pending, Reply, Request};
pub use store::{Features, ListEntry, PutMode, SEEN_LOG2, Store, StoreExt};
