//! Copies an open HDF5 file of any connector into a genuine HDF5 file, and verifies the copy.
//!
//! Why through HDF5's own functions: they are in the process that has the file open, they support every type
//! and filter, and their files need no plug-in to be read. Nothing here links HDF5: the functions are looked
//! up in a loaded library.
//!
//! Invariants
//! - every object, link, attribute and value of the source is in the target, or the copy fails and names the
//!   obstacle;
//! - an object with several names is one object in the target, and references point to the copies of their
//!   targets;
//! - memory is bounded by one block of values (16 MiB, or one chunk where that is larger) and one entry per object.

mod api;
mod attributes;
mod blocks;
mod plan;
mod references;
mod shape;
mod target;
mod verify;

use std::ffi::CStr;
use std::fmt;

pub use api::{Hdf5, Hid, id_variable};

/// Why a file was not copied, with the path of the object that prevented it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Groups, the root among them.
    pub groups: u64,
    /// Datasets.
    pub datasets: u64,
    /// Committed types.
    pub types: u64,
    /// References to objects that are not in the file any more; they are null in the copy.
    pub dangling: u64,
}

/// Copies the open file `source` into a new file at `path` in HDF5's own format, then compares the two, value
/// by value.
///
/// `path` is created or overwritten; it is not synced. After an error an incomplete file may remain there.
pub fn copy(hdf5: &Hdf5, source: Hid, path: &CStr) -> Result<Copied> {
    let plan = plan::Plan::of(hdf5, source)?;
    let copied = target::write(hdf5, source, &plan, path)?;
    verify::same(hdf5, source, &plan, path)?;
    Ok(copied)
}
