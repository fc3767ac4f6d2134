//! Byte files in a store: each writer appends to a log of its own, and a journal maps the bytes to files.
//!
//! ```text
//! mount     the handle: open files, reads, writes, changes of folders, commits
//! space     unneeded logs; sizes; verification
//! journal   generations of the journal: follows other mounts, adds records
//! data      data logs: appends with checksums, verified reads
//! ```
//!
//! Invariants
//! - a data log has one writer, which only appends; no byte in it ever changes;
//! - a frame of the journal counts as a whole or not at all, and is appended after the data that it names;
//! - all mounts apply the same frames in the same order: each generation has one writer, and states how much of the
//!   previous one counts.

#![forbid(unsafe_code)]

mod data;
mod journal;
mod mount;
mod space;

pub use drystone_files as files;
pub use mount::{Access, Files, Handle, Life, Registry, Seen, Stat};
pub use space::{Damaged, Usage};

use drystone_files::Refused;
use drystone_format::Corrupt;
use drystone_store::StoreError;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request is impossible.
    #[error("{0:?}")]
    Refused(Refused),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stored bytes are damaged.
    #[error("'{key}' is damaged at byte {at}: {what}")]
    Damaged {
        /// The object.
        key: String,
        /// The offset in it.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// Another mount removed the file, and its bytes are gone.
    #[error("the file was removed by another mount")]
    Stale,
    /// These files are open for reading only.
    #[error("the files are open for reading only")]
    ReadOnly,
    /// The store cannot hold files that are written.
    #[error(
        "{0} cannot keep files that are written: it does not append; mount a container in a local folder"
    )]
    NoAppend(String),
    /// Another mount writes, and one of the two must be the only one that does.
    #[error("'{key}': another mount writes: {process}")]
    Taken {
        /// The text of its registration.
        process: String,
        /// The object of its registration.
        key: String,
        /// Whether it is the other mount that must be the only one.
        alone: bool,
    },
    /// This mount must be the only one that writes, and another mount has begun to write.
    #[error("another mount has taken over the files; mount again")]
    Fenced,
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Refused(refused)
    }
}

impl Failure {
    fn damaged(key: &str, corrupt: Corrupt) -> Self {
        Failure::Damaged { key: key.to_owned(), at: corrupt.at, what: corrupt.what }
    }
}

/// Result of an operation on files.
pub type Result<T> = std::result::Result<T, Failure>;

fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
