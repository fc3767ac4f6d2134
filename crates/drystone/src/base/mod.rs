//! Modules that every room needs: errors, memory, processors, clocks and locks. They know nothing about containers.

pub mod array;
pub(crate) mod buffer_pool;
pub(crate) mod cache;
pub(crate) mod checksum;
pub(crate) mod cpus;
pub(crate) mod error;
pub(crate) mod metrics;
pub(crate) mod prefetcher;
pub(crate) mod random;
pub(crate) mod span;
pub(crate) mod sync;
pub(crate) mod writer_process;
