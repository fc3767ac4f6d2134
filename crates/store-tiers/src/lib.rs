//! Storage tiers that are nearer than a container's home store: memory, local disks, burst buffers.
//!
//! A [`TieredStore`] keeps the segments of logs in the first [`Tier`] that works and has space, and everything else in
//! the home store. A part has the same key and the same bytes in every place. The drain copies parts to the home store;
//! a tier drops a copy only when the home store has it on stable storage. `drystone_plan::tier` decides where data
//! goes; this crate executes the decisions.
//!
//! A part that is not at home yet is registered in the home store, so that no other node treats it as damage
//! (docs/decisions/128-staged-parts.md).

#![forbid(unsafe_code)]

mod appends;
mod health;
mod patient;
mod registry;
mod staged;
mod store;
mod tier;

pub use registry::Node;
pub use store::{Away, Drained, Kept, ParityObject, Rebuilt, TieredStore, Turn};
pub use tier::{Tier, TierState};
