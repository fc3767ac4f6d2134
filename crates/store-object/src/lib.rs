//! Containers in object stores: S3, Google Cloud Storage, Azure Blob Storage and plain HTTP behind the
//! [`Store`](drystone_store::Store) trait.
//!
//! [`FarStore`] is the engine's view: a store without append, with any number of requests under way. The rest of the
//! crate keeps its guarantees across a network: the server ([`Address`], [`Options`]), the number of requests (`flow`),
//! repetition and its limits (`attempt`), and the outcome of a put-if-absent (`create`).
//!
//! Invariants
//! - no request is repeated by a layer below: every attempt is counted, delayed and given up in `attempt`;
//! - secrets are in [`Options`] and in the clients made from them, and in no text that this crate makes;
//! - nothing that one process made is used or dropped by another: a forked child makes its own threads and connections.

mod address;
mod attempt;
mod connect;
mod create;
mod credentials;
mod error;
mod flow;
mod gate;
mod hedge;
mod options;
mod process;
mod provider;
mod random;
mod read;
mod rising;
mod stale;
mod store;
mod supplied;
mod timestamp;
mod upload;
mod wire;

pub use address::{Address, SCHEMES, Scheme};
pub use error::InvalidAddress;
pub use options::Options;
pub use store::FarStore;
