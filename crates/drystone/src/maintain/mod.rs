//! Operations for maintenance: describing a container, verifying it, recovering it, collecting garbage, indexing,
//! sorting.

pub(crate) mod describe;
pub(crate) mod extremes;
mod files;
pub(crate) mod gc;
pub(crate) mod index;
pub(crate) mod levels;
mod lost;
pub(crate) mod recover;
mod sort;
pub(crate) mod verify;
mod verify_published;
