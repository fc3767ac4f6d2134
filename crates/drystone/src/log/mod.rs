//! A writer's log: segments that are appended to, what lies in them, and reading a log again.

pub(crate) mod extent;
pub(crate) mod rising;
pub(crate) mod runs;
pub(crate) mod scan;
pub(crate) mod segment;
