//! Requests, rounds and ranks of containers in far stores.

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "object")]
#[path = "../ranks/mod.rs"]
mod ranks;
#[path = "../sample/mod.rs"]
mod sample;

mod far_store;
#[cfg(feature = "object")]
mod far_team;
mod log_packs;
mod prefetch;
