//! The HDF5 VOL connector: HDF5 programs write and read Drystone containers, unchanged (docs/guide/hdf5.md).
//!
//! ```text
//! entry ─► classes ─► calls ─► object ─► file ─► ranks ─► library ─► model
//! ```
//!
//! Each room imports only rooms to its right. Everything of one file lies behind one lock in
//! [`file::state::Shared`]; the container gets values and the tree that refers to them in one commit. Bytes
//! of the stub and of the catalogue are untrusted and checked ([`file::stub`], [`model::catalogue`]).

pub(crate) mod calls;
pub mod classes;
pub mod entry;
pub mod file;
#[doc(hidden)]
pub mod fuzzing;
pub mod library;
pub mod model;
pub mod object;
pub mod ranks;
