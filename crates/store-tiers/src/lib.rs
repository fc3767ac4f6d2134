//! Tiers nearer than a container's home: memory, local disks, burst buffers.
//!
//! A [`TieredStore`] keeps the segments of logs in the first [`Tier`] that works and has room, and everything else at home. A part has the same
//! key and the same bytes wherever it lies. The drain copies parts home; a tier gives up a copy only when home has it on stable storage.
//! What goes where is decided by `drystone_plan::tier`; this crate does it.
//!
//! Parts that are not home are registered there, so that nobody elsewhere takes them for damage (docs/decisions/128-staged-parts.md).

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
