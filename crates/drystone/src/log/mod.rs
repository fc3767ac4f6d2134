//! A writer's log: its segments, to which bytes are appended, what lies in them, and reading them again.

pub(crate) mod extent;
pub(crate) mod packs;
pub(crate) mod rising;
pub(crate) mod runs;
pub(crate) mod scan;
pub(crate) mod segment;
