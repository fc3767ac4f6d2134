//! What the library holds of us, and the way from names to objects.

pub mod context;
pub mod handle;
pub mod kind;
pub mod place;
pub mod shadow;
pub mod walk;
