//! The unit in which the system keeps bytes of files in memory.

/// Least size of a page in bytes.
pub(super) const PAGE: u64 = 4 << 10;
