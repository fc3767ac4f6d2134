//! coalesce
