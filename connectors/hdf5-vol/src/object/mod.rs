//! Handles for the library, and lookups from names to objects.

pub mod context;
pub mod handle;
pub mod kind;
pub mod place;
pub mod shadow;
pub mod walk;
