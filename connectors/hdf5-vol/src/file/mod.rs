//! One open file: its stub and container, what waits in memory, and how it is flushed, closed and published.
//!
//! [`state`] is what all others work on.

pub mod background;
pub mod config;
pub mod memory;
pub mod opening;
pub(crate) mod patch;
pub mod patches;
pub(crate) mod promise;
pub mod publish;
pub mod spare;
pub mod state;
pub mod stub;
pub mod values;
pub(crate) mod variables;
