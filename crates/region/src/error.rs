//! Why a call on a region failed, and constructors of the engine's errors for this crate.

use drystone::{Error, ErrorKind};

/// Why a call on a region failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// The lease has ended; nothing was done.
    LeaseExpired(String),
    /// The time has passed; nothing was done.
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

/// The lease was not alive when it was used.
pub(crate) fn expired() -> RegionError {
    RegionError::LeaseExpired(
        "the lease of the region has ended: it was not renewed in time, or released; lock the region again, and read it again"
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
