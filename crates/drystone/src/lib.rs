//! The engine: containers, writers, the read executor, commits. It executes plans.
//!
//! ```text
//! maintain                     describes, verifies, recovers containers; collects garbage
//! fragment  collective  publish    declared memory layouts; ranks together; replicas in other formats
//! query     which cells satisfy a condition: zones -> tiles -> values -> hits
//! write     put: cut, encode, append to the log          read   index -> plan -> fetch, verify, decode, scatter
//! commit    closed steps become one manifest, put if absent
//! container the handle: store, snapshot, caches, configuration
//! schema_op, layout, history, published, log, plugin, schema, base
//! ```
//!
//! A folder uses only folders below it (`tools/rooms.toml` has the order, `make lint` checks it).
//!
//! Everything here may be called from several threads at once. Errors are [`Error`]; nothing panics, whatever a store
//! contains.

mod base;
pub mod collective;
mod commit;
mod container;
mod fragment;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod layout;
mod log;
mod maintain;
mod parts;
mod plugin;
mod publish;
mod published;
mod query;
mod read;
mod schema;
mod schema_op;
mod write;

pub use base::array;
pub use base::error::{Away, Error, ErrorKind, Result};
pub use base::metrics::Metrics;
pub use base::span::{Listening, Span, SpanKind, Values as SpanValues, listen as listen_to_spans};
pub use commit::transaction::{Committed, Incomplete, RunStep};
pub use container::calibrate;
pub use container::calibrate::{Calibration, Limits};
pub use container::hdf5_stub::{find as find_hdf5_stub, folder_of as folder_of_hdf5_stub};
pub use container::targets::Targets;
pub use container::{
    CacheFolder, Config, Container, CreateOptions, Keep, Location, Mode, OpenOptions, Rule, StagedPart,
    StoreOptions, TierFolder, TierRow, holders, is_url, open_store, public_options,
};
pub use drystone_format::identity::Durability;
pub use drystone_plan::tier::level::Level;
pub use drystone_plan::tier::redundancy::Scheme;
pub use drystone_store::{Credentials, Supplied};
pub use drystone_transform::{Bound, Limit, Precision};
pub use fragment::{Coverage, FragmentHandle, FragmentPlan, Missing};
pub use history::snapshot::Snapshot;
pub use layout::BlockLayout;
pub use maintain::describe::{Description, FileCount, Pending, VariableUsage, WriterInfo, WriterState};
pub use maintain::extremes::{Extreme, ValueRange};
pub use maintain::gc::{GcOptions, GcReport};
pub use maintain::index::{IndexKind, IndexReport};
pub use maintain::recover::{Adopt, RecoverReport};
pub use maintain::verify::{Damage, VerifyReport};
pub use parts::{format, member, plan, store};
pub use publish::{
    Compressor, FlatArray, Format, Frame, PublishOptions, PublishReport, PublishedArray, Skipped, ZarrView,
    hdf5_attributes, netcdf_path,
};
pub use query::{
    Batch, Batches, Columns, Found, HitBox, PlanRow, Query, QueryPlan, QueryReport, Summary, TermSite,
    TermSummary,
};
pub use read::{
    BlockInfo, Derivation, Hits, Planned, PublishedStatistics, ReadReport, Reading, Records, Selected,
    StoredStatistics, Wanted, WarmReport, Written, narrowed_bound,
};
pub use schema::derived::Definition;
pub use schema::element_type::{logical_of, rule_kind};
pub use schema_op::{NewVariable, SchemaOp};
pub use write::{BlockSink, StoredDerived, Writer, WriterOptions};
