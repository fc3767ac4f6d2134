//! Errors of store operations, written for the person who has to act.
//!
//! Every kind names the key and the store. The message ends with what to do.

use std::io;

/// Result of a store operation.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A store operation that failed, or whose outcome is unknown.
///
/// `store` is what [`Store::describe`](crate::Store::describe) returns; for a local store it is the path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no object of that name.
    #[error("no object '{key}' in {store}: it was never written, not yet made visible, or deleted")]
    NotFound {
        /// The requested key.
        key: String,
        /// The store.
        store: String,
    },
    /// An object of that name exists already. It was not changed.
    #[error(
        "cannot create '{key}' in {store}: an object of that name exists and was left as it is; \
         choose another name or replace it explicitly"
    )]
    AlreadyExists {
        /// The key that was to be created.
        key: String,
        /// The store that holds it.
        store: String,
    },
    /// The object ends before the requested bytes. The content of the buffer is unspecified.
    #[error(
        "cannot read {wanted} bytes at offset {offset} of '{key}' in {store}: only {got} are there; \
         the object is shorter than what refers to it, so it was truncated or is still being written"
    )]
    ShortRead {
        /// The key that was read.
        key: String,
        /// The store that holds it.
        store: String,
        /// Where the read began, in bytes.
        offset: u64,
        /// The requested number of bytes.
        wanted: u64,
        /// The number of bytes found.
        got: u64,
    },
    /// An append at an offset that is not the end of the object. Nothing was written.
    #[error(
        "cannot append to '{key}' in {store} at byte {expected}: the object is {found} bytes long; \
         another writer has written to it, or an earlier append failed in part"
    )]
    Conflict {
        /// The key that was to be extended.
        key: String,
        /// The store that holds it.
        store: String,
        /// The length that the caller expected.
        expected: u64,
        /// The actual length.
        found: u64,
    },
    /// The store, or this part of it, is read-only.
    #[error("cannot {operation} '{key}' in {store}: {reason}")]
    ReadOnly {
        /// The key that was to be changed.
        key: String,
        /// The store that refused.
        store: String,
        /// What was attempted.
        operation: &'static str,
        /// What forbids the change, and what would allow it.
        reason: String,
    },
    /// Access was denied; nothing was read or changed. A retry fails until the rights are granted.
    #[error("cannot {operation} '{key}' in {store}: {reason}")]
    PermissionDenied {
        /// The key concerned.
        key: String,
        /// The store that refused.
        store: String,
        /// What was attempted.
        operation: &'static str,
        /// What the store answered, and who can grant the rights.
        reason: String,
    },
    /// The deadline of a request passed. As after [`StoreError::Io`], the change may have been done.
    #[error("cannot {operation} '{key}' in {store}: {reason}")]
    Deadline {
        /// The key concerned.
        key: String,
        /// The store concerned.
        store: String,
        /// What was attempted.
        operation: &'static str,
        /// The last attempt's failure, how long the store tried, and what to check.
        reason: String,
    },
    /// The medium or a quota is full.
    #[error(
        "cannot {operation} '{key}' in {store}: no space is left (device full or quota reached); \
         free space and try again"
    )]
    NoSpace {
        /// The key that was to grow.
        key: String,
        /// The store that is full.
        store: String,
        /// What was attempted.
        operation: &'static str,
    },
    /// This store does not support the operation. A retry does not help.
    #[error("{store} does not support {operation}")]
    Unsupported {
        /// What was attempted.
        operation: String,
        /// The store that does not support it.
        store: String,
    },
    /// The key or prefix is not a valid name.
    #[error("'{}' is not a valid key: {reason}", .key.escape_debug())]
    InvalidKey {
        /// The invalid key.
        key: String,
        /// The rule that it violates.
        reason: &'static str,
    },
    /// Data that the store keeps beside the objects is damaged, so that this object cannot be found or trusted.
    #[error("'{key}' in {store} is damaged: {reason}")]
    Damaged {
        /// The damaged object.
        key: String,
        /// The store that holds it.
        store: String,
        /// What was found.
        reason: String,
    },
    /// The system reported an error. The operation may have been done, unless it is documented to have no effect.
    #[error("cannot {operation} '{key}' in {store}: {source}")]
    Io {
        /// The key concerned.
        key: String,
        /// The store concerned.
        store: String,
        /// What was attempted.
        operation: &'static str,
        /// What the system reported.
        source: io::Error,
    },
    /// The object that identifies the store ([`Store::watch`](crate::Store::watch)) is gone. Nothing was changed.
    #[error(
        "{store} was removed or renamed since it was opened (its {key} is gone); open it where it is now"
    )]
    Removed {
        /// The watched object.
        key: String,
        /// The store that was opened.
        store: String,
    },
    /// Another store has replaced the one that was opened. Nothing was changed.
    #[error("{store} was replaced by another one since it was opened (its {key} is another); open it again")]
    Replaced {
        /// The watched object.
        key: String,
        /// The store that was opened.
        store: String,
    },
    /// The bytes are in a tier of a node that this process cannot read, and not at home yet. They are not lost.
    #[error("cannot read '{key}' of {store}: {} on node \"{node}\", and not home yet ({left} bytes are left there); \
        {remedy}",
        .step.map_or_else(|| "its bytes are".to_owned(), |step| format!("step {step} is")))]
    NotHome {
        /// The requested object.
        key: String,
        /// The store.
        store: String,
        /// The node in whose tiers the object lies.
        node: String,
        /// Bytes of this node that are not at home yet.
        left: u64,
        /// The step in which it was written.
        step: Option<u64>,
        /// What the caller can do.
        remedy: Box<str>,
    },
    /// The store was closed, or the request belongs to another process. Nothing more will be done.
    #[error("{store} is closed: {reason}")]
    Closed {
        /// The store that was closed.
        store: String,
        /// Why.
        reason: &'static str,
    },
}

impl StoreError {
    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether a creation failed because the object already existed.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_key_the_store_what_was_found_and_what_to_do() {
        let message = StoreError::Conflict {
            key: "log/w.seg".into(),
            store: "local store /data/run.dry".into(),
            expected: 512,
            found: 700,
        }
        .to_string();
        for part in ["log/w.seg", "/data/run.dry", "512", "700", "another writer"] {
            assert!(message.contains(part), "{part} is missing in: {message}");
        }
    }

    #[test]
    fn control_characters_in_a_refused_key_are_shown_escaped() {
        let error = StoreError::InvalidKey { key: "a\nb\u{1b}".into(), reason: "r" };
        assert!(error.to_string().contains("a\\nb\\u{1b}"), "{error}");
    }
}
