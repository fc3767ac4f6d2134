//! A writer's log: segments, to which pieces are appended, and their index files, which are scanned later.

pub(crate) mod extent;
pub(crate) mod packs;
pub(crate) mod rising;
pub(crate) mod runs;
pub(crate) mod scan;
pub(crate) mod segment;
