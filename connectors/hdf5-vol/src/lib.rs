//! The HDF5 VOL connector: programs that speak HDF5 write and read Drystone containers, unchanged (docs/hdf5.md).
//!
//! ```text
//! library ─► entry ─► classes ─► calls/* ─► handle (names -> objects) ─► tree          what there is
//!                                   └─► space, types, props (the library's side) ─► values ─► background ─► drystone
//! ```
//!
//! Everything of one file lies behind one lock in [`file::Shared`]; the container gets values and the tree that speaks of them
//! in one commit. Bytes of the stub and of the catalogue may come from anywhere and are checked ([`stub`], [`catalogue`]).

pub mod abi;
pub mod background;
pub mod boxes;
pub(crate) mod calls;
pub mod catalogue;
pub mod classes;
pub mod config;
pub mod driver;
pub mod element;
pub mod entry;
pub mod failure;
pub mod file;
#[doc(hidden)]
pub mod fuzzing;
pub mod handle;
pub mod host;
pub mod memory;
pub mod mpi;
pub mod opening;
pub mod patches;
pub(crate) mod promise;
pub mod props;
pub mod publish;
pub mod record;
pub mod shadow;
pub mod space;
pub mod spare;
pub mod stub;
pub mod team;
pub mod tree;
pub mod types;
pub mod values;
pub(crate) mod variables;
