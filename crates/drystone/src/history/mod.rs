//! Commits in the store: finds the newest one, and loads its snapshot and the index pages to which it points.

pub(crate) mod descent;
pub(crate) mod head;
pub(crate) mod hint;
pub(crate) mod loss;
pub(crate) mod manifests;
pub(crate) mod packs;
pub(crate) mod pages;
pub(crate) mod probing;
pub(crate) mod snapshot;
