//! Commits that lie in the store: finding the newest, a snapshot of one, and the index pages it points to.

pub(crate) mod head;
pub(crate) mod loss;
pub(crate) mod packs;
pub(crate) mod pages;
mod probing;
pub(crate) mod snapshot;
