//! The state of a container after kills, damage, lost files and races.

#[path = "../common/mod.rs"]
mod common;
#[path = "../history/mod.rs"]
mod history;
#[path = "../sample/mod.rs"]
mod sample;

mod bad_input;
mod concurrent_commit;
mod corruption;
mod crash_consistency;
mod derived_killed;
mod garbage;
mod killed_processes;
mod log_packs;
mod lost_files;
mod packs;
mod publish_killed;
mod torn_files;
