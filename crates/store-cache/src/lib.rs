//! Units of far stores on a local disk, and prefetched bytes: a [`CacheStore`] in front of a container's home.
//!
//! A *unit* is a range of an object as it was fetched. Only parts of logs are cached: their bytes that a manifest
//! names never change, so a copy anywhere is the object, and nothing has to be invalidated. Units are files of one
//! folder that all containers, processes and threads of a user may share without locks: a unit appears whole by a
//! link, and is never changed (docs/format/cache-unit.md).
//!
//! Invariants
//! - loaded units are compared with their checksums at each load; failing ones are removed, and the home store answers;
//! - a folder that is full, damaged, slow to fail or gone costs time and no error;
//! - a prefetch never delays a read that waits for home.

#![forbid(unsafe_code)]

mod flight;
mod folder;
mod index;
mod store;

pub use folder::{CacheState, Folder};
pub use store::{Bypass, CacheStore, Counts, MOST_HELD, Warmed};
