//! Commits in the store: finding the newest one, its snapshot, and the index pages that it points to.

pub(crate) mod head;
pub(crate) mod loss;
pub(crate) mod packs;
pub(crate) mod pages;
mod probing;
pub(crate) mod snapshot;
