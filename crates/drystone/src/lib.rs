//! The engine: containers, writers, the read executor, commits. It does what plans say.
//!
//! ```text
//! container ── snapshot (one manifest, its schema, its index)      head: finding the newest
//!     │            └─ read: index -> plan -> fetch, verify, decode, scatter
//!     ├─ schema_op: create, rename, … as commits                   transaction: one manifest, put if absent
//!     └─ writer ── put: cut, encode ── segment: append, checksum
//!                     └─ step record in the log ─► adoption ─► transaction
//! ```
//!
//! Everything here may be called from several threads at once. Errors are [`Error`]; nothing panics on what a store holds.

mod access;
mod adoption;
pub mod array;
mod cache;
pub mod calibrate;
mod choose;
pub mod collective;
mod config;
mod container;
mod describe;
mod error;
mod fragment;
#[doc(hidden)]
pub mod fuzzing;
mod gc;
mod hdf5;
mod head;
mod layout;
mod learn;
mod lent;
mod log_scan;
pub mod member;
mod pages;
mod pieces;
mod plugin;
mod process;
mod processors;
mod publish;
mod put;
mod random;
mod read;
mod recover;
mod runs;
mod schema_op;
mod segment;
mod shards;
mod sidecar;
mod snapshot;
mod targets;
mod transaction;
mod verify;
mod verify_published;
mod writer;

pub use adoption::{Incomplete, RunStep};
pub use calibrate::{Calibration, Limits};
pub use config::{Config, Rule};
pub use container::{Container, CreateOptions, Mode, is_url, public_options};
pub use describe::{Description, FileCount, Pending, VariableUsage, WriterInfo, WriterState};
pub use drystone_dataset as dataset;
pub use drystone_format as format;
pub use drystone_format::identity::Durability;
pub use drystone_plan as plan;
pub use drystone_rules as rules;
pub use drystone_store as store;
pub use drystone_transform as transform;
pub use drystone_transform::{Bound, Limit, Precision};
pub use error::{Error, ErrorKind, Result};
pub use fragment::{Coverage, FragmentHandle, FragmentPlan, Missing};
pub use gc::{GcOptions, GcReport};
pub use plugin::plugins;
pub use publish::{
    Compressor, Format, PublishOptions, PublishReport, PublishedArray, Skipped, ZarrView, netcdf_path,
};
pub use put::logical_of;
pub use read::{
    BlockInfo, Hits, Planned, PublishedStatistics, ReadReport, Reading, StoredStatistics, Wanted, Written,
};
pub use recover::{Adopt, RecoverReport};
pub use schema_op::{NewVariable, SchemaOp};
pub use snapshot::Snapshot;
pub use targets::Targets;
pub use transaction::Committed;
pub use verify::{Damage, VerifyReport};
pub use writer::{BlockLayout, BlockSink, Writer, WriterOptions};
