//! What a published replica looks like: its grid, its shards with their stamps, and sidecars.

pub(crate) mod grid;
pub(crate) mod shards;
pub(crate) mod sidecar;
pub(crate) mod stamp;

/// Where the hierarchy lies.
pub(crate) const ROOT: &str = "zarr/";
