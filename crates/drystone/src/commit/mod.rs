//! Commits: one manifest, put only if absent, holds everything that becomes visible with it.
//!
//! Invariants: see `transaction`.

pub(crate) mod adoption;
pub(crate) mod beside;
pub(crate) mod dead;
mod schema;
pub(crate) mod transaction;
