//! Tiers: which tier a part goes to, which copies are evicted, what is drained first, and to which target.
//!
//! A tier is a place nearer than the container's home: memory, a local disk, a burst buffer. Everything here is a pure
//! function from values (space, sizes, ages) to a printable decision. `drystone-store-tiers` executes the decisions.

pub mod cover;
pub mod drain;
pub mod evict;
pub mod level;
pub mod place;
pub mod redundancy;
pub mod stripe;
