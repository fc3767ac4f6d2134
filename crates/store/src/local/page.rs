//! The page size: the unit in which the kernel caches files.

/// The least size of a page, in bytes.
pub(super) const PAGE: u64 = 4 << 10;
