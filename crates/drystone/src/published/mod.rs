//! The structure of a published replica: its grid, its shards with their stamps, and sidecars.

pub(crate) mod grid;
pub(crate) mod shards;
pub(crate) mod sidecar;
pub(crate) mod stamp;

/// The prefix of the hierarchy's keys.
pub(crate) const ROOT: &str = "zarr/";
