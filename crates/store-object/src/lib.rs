//! Containers in object stores: S3, Google Cloud Storage, Azure Blob Storage and plain HTTP behind the
//! [`Store`](drystone_store::Store) trait.
//!
//! [`FarStore`] is the engine's view: a store without append, with any number of requests under way. The rest of the
//! crate keeps its guarantees over a network: [`Address`] and [`Options`] name the server, `flow` limits the number of
//! requests, `attempt` repeats them, and `create` determines the outcome of a put-if-absent.
//!
//! Invariants
//! - no layer below repeats a request: `attempt` counts, delays and gives up every attempt;
//! - secrets are only in [`Options`] and in the clients made from them, never in a text that this crate makes;
//! - no process uses or drops what another created: a forked child creates its own threads and connections.

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
