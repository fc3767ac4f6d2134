//! One open file: its stub and container, its buffered values, and how it is flushed, closed and published.
//!
//! All other modules work on [`state`].

pub mod background;
pub mod config;
pub(crate) mod deferred;
pub(crate) mod far;
pub(crate) mod head;
pub mod heap;
pub mod memory;
mod native;
pub mod opening;
pub(crate) mod patch;
pub mod patches;
pub mod publish;
pub mod spare;
pub mod state;
pub mod stub;
pub mod values;
pub(crate) mod variables;
