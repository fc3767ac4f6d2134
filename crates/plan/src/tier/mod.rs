//! Tiers: where a part goes, which copies are given up, what is drained first and to which target.
//!
//! A tier is a place nearer than the container's home: memory, a local disk, a burst buffer. Everything here is a pure function from values
//! (room, sizes, ages) to a printable decision; `drystone-store-tiers` carries the decisions out.

pub mod drain;
pub mod evict;
pub mod level;
pub mod place;
pub mod redundancy;
pub mod stripe;
