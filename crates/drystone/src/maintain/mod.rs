//! Maintenance operations: describe a container, verify it, recover it, collect garbage, index and sort values.

pub(crate) mod describe;
pub(crate) mod extremes;
mod files;
pub(crate) mod gc;
mod given_up;
pub(crate) mod index;
pub(crate) mod levels;
mod lost;
pub(crate) mod recover;
mod sort;
pub(crate) mod verify;
mod verify_published;
