//! Caches parts of far stores on a local disk, and holds prefetched bytes: a [`CacheStore`] in front of a container's
//! home store.
//!
//! A *unit* is a range of an object as it was fetched. Only parts of logs are cached: the bytes that a manifest names
//! never change, so every copy is valid, and nothing has to be invalidated. Units are files of one folder that all
//! containers, processes and threads of a user may share without locks: a unit appears whole by a link, and is never
//! changed (docs/format/cache-unit.md).
//!
//! Invariants
//! - units are compared with their checksums whenever they are loaded. Damaged ones are removed, and the bytes are read
//!   from the home store;
//! - a folder that is full, damaged, slow or gone costs time but causes no error;
//! - a prefetch never delays a read that waits for the home store.

#![forbid(unsafe_code)]

mod flight;
mod folder;
mod index;
mod store;

pub use folder::{CacheState, Folder};
pub use store::{Bypass, CacheStore, Counts, MOST_HELD, Warmed};
