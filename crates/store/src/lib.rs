//! The Store trait and its transports: memory and local files. For tests: stores without append, with faults, and with
//! delays.
//!
//! A store keeps named byte strings ("objects") and does not interpret them. Everything above depends on the few
//! guarantees of [`Store`]: exact reads, appends at a known end, puts that are seen whole or not at all, put-if-absent
//! that exactly one caller wins, listings that show what was written, and a reliable sync. `conformance::check` tests
//! them for any transport, ours or another.
//!
//! A second, optional trait, [`LocalFiles`], has the operations that only files support; [`StoreExt`] has convenience
//! methods.
//!
//! - [`MemoryStore`] is the reference: the shortest, and strict.
//! - [`LocalStore`] keeps objects as files below a folder.
//! - [`PrefetchStore`] lets later reads join reads that a hint started.
//!
//! The feature `testing`, which no shipped library enables, adds the conformance suite and stores for tests:
//!
//! - `NoAppendStore` has no append, like object stores.
//! - `CountingStore` counts requests and bytes.
//! - `DelayStore` behaves like a far store: it has a latency and a bandwidth, and counts round trips.
//! - `FaultStore` kills processes, cuts the power, tears writes and loses replies.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(any(test, feature = "testing"))]
mod counting;
mod credentials;
#[cfg(any(test, feature = "testing"))]
mod delay;
mod error;
mod examine;
#[cfg(any(test, feature = "testing"))]
mod fault;
mod forward;
mod health;
mod key;
#[cfg(unix)]
mod local;
mod local_files;
mod mapped;
mod memory;
#[cfg(any(test, feature = "testing"))]
mod no_append;
mod per_process;
mod prefetch;
mod process;
mod request;
mod store;
mod upload;

#[cfg(any(test, feature = "testing"))]
pub use counting::{Counters, CountingStore};
pub use credentials::{Credentials, Supplied};
#[cfg(any(test, feature = "testing"))]
pub use delay::{DelayStore, LoggedRequest};
pub use error::{Result, StoreError};
pub use examine::{Examination, Guarantee, examine};
#[cfg(any(test, feature = "testing"))]
pub use fault::{Fault, FaultStore, Script};
pub use health::Health;
pub use key::{MAX_COMPONENT_LEN, MAX_KEY_LEN, validate_key, validate_prefix};
#[cfg(unix)]
pub use local::{LocalStore, MapPolicy, Staged, Staging, WholeFile, preallocate};
pub use local_files::LocalFiles;
pub use mapped::Mapped;
pub use memory::MemoryStore;
#[cfg(any(test, feature = "testing"))]
pub use no_append::NoAppendStore;
pub use per_process::PerProcess;
pub use prefetch::{FRESH, PrefetchStore};
pub use process::process_id;
pub use request::{Arrivals, Completer, HELD, PIECE, Pending, Reply, Request, Upload};
pub use store::{Far, Features, ListEntry, PutMode, SEEN_LOG2, Store, StoreExt, TOGETHER, by_requests};
pub use upload::{BoundedUpload, Waits};
