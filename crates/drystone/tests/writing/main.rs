//! The blocks that writers store, alone and together, and their places.

#[path = "../common/mod.rs"]
mod common;
#[path = "../ranks/mod.rs"]
mod ranks;

mod collective;
mod order;
mod publish_copies;
mod spans;
mod storage_targets;
mod write_and_read;
