//! What writers lay down, alone and together, and where.

#[path = "../common/mod.rs"]
mod common;
#[path = "../ranks/mod.rs"]
mod ranks;

mod collective;
mod publish_copies;
mod spans;
mod storage_targets;
mod write_and_read;
