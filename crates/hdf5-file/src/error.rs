//! Why a file cannot be expressed in HDF5's format.

use std::fmt;

/// Result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that cannot be expressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// An attribute does not fit in a message of an object header.
    AttributeTooLarge {
        /// Its name.
        name: String,
        /// Bytes of its message.
        len: usize,
    },
    /// A chunk, or the extent of one, needs more than 32 bits.
    ChunkTooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::AttributeTooLarge { name, len } => {
                write!(out, "the attribute \"{name}\" has {len} bytes, more than an HDF5 file takes")
            }
            Error::ChunkTooLarge => out.write_str("a chunk of 4 GiB or more in an HDF5 file"),
        }
    }
}

impl std::error::Error for Error {}
