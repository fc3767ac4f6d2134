//! Invalid addresses, and failed requests.

use std::io;
use std::time::Duration;

use drystone_store::StoreError;
use drystone_wire::Status;

/// An invalid address or option. The text tells what is valid; it contains no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress(pub(crate) String);

impl std::fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidAddress {}

/// A call that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub status: Status,
    /// The message, for people.
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The server's status. `None` if there was no answer, so that a change may have been made.
    pub(crate) status: Option<Status>,
    pub(crate) message: String,
    /// Length of the object, if the requested range lies outside.
    pub(crate) found: Option<u64>,
    /// How long the server asks the client to wait.
    pub(crate) pause: Option<Duration>,
    /// Whether the request needs a valid token.
    pub(crate) needs_token: bool,
    /// Whether no answer came in time.
    pub(crate) is_late: bool,
}

impl Failure {
    pub(crate) fn lost(message: impl Into<String>) -> Self {
        let message = message.into();
        Failure { status: None, message, found: None, pause: None, needs_token: false, is_late: false }
    }

    /// The failure for the caller, naming the server by this description.
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
