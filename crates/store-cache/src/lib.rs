//! A cache in front of a container's home store. A [`CacheStore`] keeps parts of a far store on a local disk, and holds
//! prefetched bytes.
//!
//! A *unit* is a fetched range of an object. Log parts are cached: the bytes that a manifest names never change, so a
//! copy stays valid for ever. Objects that are replaced under their keys are cached by [`generation`]. Units are files
//! in one folder. All containers, processes and threads of a user may share this folder without locks, since a unit
//! appears whole by a link and never changes (docs/format/cache-unit.md).
//!
//! Invariants
//! - a block of a unit is compared with its checksum before this process uses it for the first time. Damaged units are
//!   removed, and the bytes are read from the home store;
//! - a folder that is full, damaged, slow or gone costs time but causes no error;
//! - a prefetch never delays a read that waits for the home store.

#![forbid(unsafe_code)]

mod flight;
mod folder;
mod generation;
mod index;
mod open_units;
mod plain_names;
mod store;

pub use folder::{CacheState, Folder};
pub use generation::{FIRST, generation};
pub use store::{Bypass, CacheStore, Counts, MOST_HELD, Warmed};
