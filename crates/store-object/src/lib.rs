//! Containers in object stores: S3, Google Cloud Storage, Azure Blob Storage and plain HTTP behind the [`Store`](drystone_store::Store) trait.
//!
//! [`FarStore`] is what the engine sees: a store without append, whose requests may be under way in any number. The rest of the crate is
//! what keeps its promises where a network lies between: who is asked ([`Address`], [`Options`]), how many at once (`flow`), what is asked
//! again and until when (`attempt`), and how a put-if-absent finds out what became of it (`create`).
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
mod stale;
mod store;
mod timestamp;
mod upload;
mod wire;

pub use address::{Address, SCHEMES, Scheme};
pub use error::InvalidAddress;
pub use options::Options;
pub use store::FarStore;
