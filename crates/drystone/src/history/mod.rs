//! Commits in the store: finding the newest one, its snapshot, and the index pages that it points to.

pub(crate) mod descent;
pub(crate) mod head;
pub(crate) mod hint;
pub(crate) mod loss;
pub(crate) mod manifests;
pub(crate) mod packs;
pub(crate) mod pages;
pub(crate) mod probing;
pub(crate) mod snapshot;
