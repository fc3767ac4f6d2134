//! One error type for the person who must act: a kind that maps to C codes and Python exceptions, and a message that
//! states what was attempted, what was found and what to do.

use drystone_format::Corrupt;
use drystone_store::StoreError;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a failure; maps one-to-one to C codes and Python exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A container, variable, step, block or snapshot does not exist.
    NotFound,
    /// Stored bytes differ from what was written.
    Corrupt,
    /// Another process did something that excludes this operation.
    Conflict,
    /// This version lacks the feature, or the store cannot do it.
    Unsupported,
    /// The caller's arguments are wrong.
    InvalidArgument,
    /// An index outside the array.
    OutOfRange,
    /// The medium failed.
    Io,
    /// The caller asked to stop.
    Cancelled,
    /// Rights are missing.
    Permission,
    /// The time of a request ran out; its change may have been made.
    Deadline,
    /// The bytes are in a tier of another node and not yet in the home store.
    NotYetHome,
}

/// An error with its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// The location of the bytes, if they are not in the home store.
    away: Option<Box<Away>>,
}

/// Bytes in the tiers of a node that are not yet in the home store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Away {
    /// The node.
    pub node: String,
    /// Bytes that the node still has to drain.
    pub bytes: u64,
}

impl Error {
    /// Makes an error. The user reads `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), away: None }
    }
    /// The location of the bytes. Only errors of the kind [`ErrorKind::NotYetHome`] have it.
    pub fn away(&self) -> Option<&Away> {
        self.away.as_deref()
    }
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }
    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }
    /// An error about bytes in the tiers of a node that are not yet in the home store.
    pub(crate) fn not_yet_home(node: String, bytes: u64, message: impl Into<String>) -> Self {
        Error { away: Some(Box::new(Away { node, bytes })), ..Self::new(ErrorKind::NotYetHome, message) }
    }
    /// The same error with a message that begins with the attempted operation.
    pub(crate) fn while_doing(mut self, what: impl std::fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
    /// Damage in a stored object. The message names the object and the offset in it.
    pub(crate) fn damaged(key: &str, base: u64, found: &Corrupt) -> Self {
        Self::corrupt(format!("{key} is damaged at byte {}: {}", base + found.at, found.what))
    }
}

impl From<drystone_expression::Error> for Error {
    fn from(error: drystone_expression::Error) -> Self {
        Error::invalid(error.to_string())
    }
}

impl From<drystone_function::Error> for Error {
    fn from(error: drystone_function::Error) -> Self {
        use drystone_function::Error as Failed;
        let kind = match &error {
            Failed::Invalid(_) => ErrorKind::InvalidArgument,
            Failed::NotFound(_) => ErrorKind::NotFound,
            Failed::Deadline(_) => ErrorKind::Deadline,
            Failed::System(_) => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::NotFound { .. } | StoreError::Removed { .. } => ErrorKind::NotFound,
            StoreError::Replaced { .. } => ErrorKind::Conflict,
            StoreError::AlreadyExists { .. } | StoreError::Conflict { .. } => ErrorKind::Conflict,
            StoreError::ShortRead { .. } | StoreError::Damaged { .. } => ErrorKind::Corrupt,
            StoreError::Unsupported { .. } => ErrorKind::Unsupported,
            StoreError::InvalidKey { .. } => ErrorKind::InvalidArgument,
            StoreError::PermissionDenied { .. } => ErrorKind::Permission,
            StoreError::Deadline { .. } => ErrorKind::Deadline,
            StoreError::NotHome { .. } => ErrorKind::NotYetHome,
            _ => ErrorKind::Io,
        };
        let message = error.to_string();
        let away = match error {
            StoreError::NotHome { node, left, .. } => Some(Box::new(Away { node, bytes: left })),
            _ => None,
        };
        Error { kind, message, away }
    }
}

impl From<Corrupt> for Error {
    /// Damage in bytes in memory. For damage in a stored object use [`damaged`](Error::damaged).
    fn from(found: Corrupt) -> Self {
        Self::corrupt(found.to_string())
    }
}

impl From<drystone_hdf5_file::Error> for Error {
    fn from(error: drystone_hdf5_file::Error) -> Self {
        Self::unsupported(error.to_string())
    }
}

/// Turns "not found" into damage: a snapshot needs the object, so it must exist and be long enough.
pub(crate) fn must_exist(error: StoreError) -> Error {
    match error {
        StoreError::NotFound { .. } | StoreError::ShortRead { .. } => {
            Error::corrupt(format!("{error}; the container refers to it"))
        }
        other => other.into(),
    }
}

/// The error of a copy that was refused.
pub(crate) fn rule_error(error: impl Into<drystone_rules::RuleError>) -> Error {
    Error::invalid(format!("copying: {}", error.into()))
}
