//! A page: columns one after the other, then the directory that locates each of them.
//!
//! Invariants
//! - a page never changes; the manifest holds the length and the checksum of its directory;
//! - containers are numbered in the order of their paths, and the column of paths has one value per container.

mod builder;
mod directory;

pub use builder::PageBuilder;
pub use directory::{Directory, Section};

/// The first bytes of a page.
pub(crate) const MAGIC: &[u8; 8] = b"DRYCATP1";

/// Most containers of a page.
pub(crate) const MAX_CONTAINERS: u32 = 1 << 20;
