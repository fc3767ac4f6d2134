//! Byte files in a container, as values: a file is a log of extents, a folder a map of names.
//!
//! ```text
//! extents   writes and holes -> which bytes lie where; newer ones hide older ones
//! state     records of the journal -> folders, files, links, checksums of logs
//! change    a caller's request -> records, or the reason of a refusal
//! ```
//!
//! Invariants
//! - applying the same records in the same order gives the same state in every mount;
//! - applying a record never fails: if it names something that does not exist, an earlier record has removed that;
//! - extents of one file do not overlap, and none ends beyond the file's size.

#![forbid(unsafe_code)]

mod change;
mod extents;
mod state;

pub use change::{Owner, Refused, SetAttrs, TimeChange, fits};
pub use drystone_format::files::{Attrs, Body, Extent, ROOT, Record};
pub use extents::{Extents, Piece};
pub use state::{Content, Inode, State, Sums};
