//! Commits: one manifest, put if absent, holds everything that becomes visible with it.
//!
//! Invariants: see `transaction`.

pub(crate) mod adoption;
pub(crate) mod beside;
pub(crate) mod dead;
mod schema;
pub(crate) mod transaction;
