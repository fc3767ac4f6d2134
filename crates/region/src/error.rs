//! Errors of calls on regions, and constructors of the engine's errors for this crate.

use drystone::{Error, ErrorKind};

/// The reason why a call on a region failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// The lease has ended. Nothing was done.
    LeaseExpired(String),
    /// The time ran out. Nothing was done.
    Deadline(String),
    /// Any other reason.
    Engine(Error),
}

impl From<Error> for RegionError {
    fn from(error: Error) -> Self {
        RegionError::Engine(error)
    }
}

impl std::fmt::Display for RegionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RegionError::LeaseExpired(text) | RegionError::Deadline(text) => f.write_str(text),
            RegionError::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RegionError {}

/// The error for a lease that was not alive when it was used.
pub(crate) fn expired() -> RegionError {
    RegionError::LeaseExpired(
        "the lease of the region has ended: it was not renewed in time, or released; lock the region again, and read \
         it again"
            .into(),
    )
}

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

pub(crate) fn not_found(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::NotFound, message)
}
