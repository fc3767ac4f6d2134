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

/// A call that the server did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub status: Status,
    /// For a person.
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

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
    /// There was no answer in time.
    pub(crate) is_late: bool,
}

impl Failure {
    pub(crate) fn lost(message: impl Into<String>) -> Self {
        let message = message.into();
        Failure { status: None, message, found: None, pause: None, needs_token: false, is_late: false }
    }

    /// As a call's caller sees it, from a server of this description.
    pub(crate) fn refused(&self, server: &str) -> Refused {
        let status = self.status.unwrap_or(Status::Io);
        Refused { status, message: format!("{server}: {}", self.message) }
    }

    pub(crate) fn late(message: impl Into<String>) -> Self {
        Failure { is_late: true, ..Self::lost(message) }
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
                StoreError::PermissionDenied { key, store, operation, reason: self.message.clone() }
            }
            Some(Status::Deadline) => {
                StoreError::Deadline { key, store, operation, reason: self.message.clone() }
            }
            None if self.is_late => {
                StoreError::Deadline { key, store, operation, reason: self.message.clone() }
            }
            Some(Status::Invalid) => {
                StoreError::Io { key, store, operation, source: io(io::ErrorKind::InvalidInput) }
            }
            _ => StoreError::Io { key, store, operation, source: io(io::ErrorKind::Other) },
        }
    }
}
