//! What is wrong with an address, and what became of a request.

use std::io;
use std::time::Duration;

use drystone_store::StoreError;
use drystone_wire::Status;

/// An address or an option that cannot be used. The text says what would do; it holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress(pub(crate) String);

impl std::fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidAddress {}

/// A request that was not answered as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What the server said; `None`: there was no answer, so a change may have been done.
    pub(crate) status: Option<Status>,
    pub(crate) message: String,
    /// Length of the object, where a range of it was not there.
    pub(crate) found: Option<u64>,
    /// How long the server asks to be left alone.
    pub(crate) pause: Option<Duration>,
    /// The request needs a token that is valid.
    pub(crate) needs_token: bool,
}

impl Failure {
    pub(crate) fn lost(message: impl Into<String>) -> Self {
        Failure { status: None, message: message.into(), found: None, pause: None, needs_token: false }
    }

    pub(crate) fn of(status: Status, message: impl Into<String>) -> Self {
        Failure { status: Some(status), ..Self::lost(message) }
    }

    /// Whether another attempt may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.status, None | Some(Status::Busy | Status::Deadline))
    }

    /// The error for a caller of the store.
    pub(crate) fn error(&self, key: &str, store: &str, operation: &'static str) -> StoreError {
        let (key, store) = (key.to_owned(), store.to_owned());
        let io = |kind: io::ErrorKind| io::Error::new(kind, self.message.clone());
        match self.status {
            Some(Status::NotFound) => StoreError::NotFound { key, store },
            Some(Status::AlreadyExists) => StoreError::AlreadyExists { key, store },
            Some(Status::NoSpace) => StoreError::NoSpace { key, store, operation },
            Some(Status::ReadOnly) => {
                StoreError::ReadOnly { key, store, operation, reason: "the server cannot write to it".into() }
            }
            Some(Status::Unsupported) => StoreError::Unsupported { operation: operation.to_owned(), store },
            Some(Status::Denied) => {
                StoreError::Io { key, store, operation, source: io(io::ErrorKind::PermissionDenied) }
            }
            Some(Status::Deadline) => {
                StoreError::Io { key, store, operation, source: io(io::ErrorKind::TimedOut) }
            }
            Some(Status::Invalid) => {
                StoreError::Io { key, store, operation, source: io(io::ErrorKind::InvalidInput) }
            }
            _ => StoreError::Io { key, store, operation, source: io(io::ErrorKind::Other) },
        }
    }
}
