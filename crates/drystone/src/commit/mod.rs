//! Commits: one manifest, put if it is absent, holds what became visible with it.
//!
//! Invariants: see `transaction`.

pub(crate) mod adoption;
pub(crate) mod beside;
pub(crate) mod dead;
mod schema;
pub(crate) mod transaction;
