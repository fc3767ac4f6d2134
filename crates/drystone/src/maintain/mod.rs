//! What an operator runs: looking into a container, verifying it, recovering it, collecting garbage.

pub(crate) mod describe;
pub(crate) mod extremes;
pub(crate) mod gc;
mod lost;
pub(crate) mod recover;
pub(crate) mod verify;
mod verify_published;
