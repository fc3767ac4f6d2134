//! The results of reads, and their requests to the store.

#[path = "../common/mod.rs"]
mod common;

mod flexible_read;
mod following;
mod fragments;
mod keeper;
mod learnt_reads;
mod mapped_reads;
mod published_reads;
mod queries;
mod queries_there;
mod read_programs;
mod series;
