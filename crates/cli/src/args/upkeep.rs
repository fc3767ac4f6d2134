//! Arguments of the commands that maintain a container.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;

use super::container::{ContainerAt, Far, number};
use crate::candidates::variables;

#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// Keep this number of the newest snapshots, including the commit of the collection
    #[arg(long, value_name = "NUMBER", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) keep: Option<u64>,
    /// Keep snapshots younger than this: 90s, 15m, 12h, 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: Option<String>,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Index {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// A variable, or a member of a record such as P.x
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    pub(crate) variable: String,
    /// bins: an index by which queries for ranges of values read few bytes; zones: the extremes of subchunks, which
    /// always exist
    #[arg(long, value_name = "KIND", default_value = "bins", conflicts_with = "drop")]
    pub(crate) kind: String,
    /// Remove the index
    #[arg(long)]
    pub(crate) drop: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sort {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// A group of variables of one dimension, or a variable of records
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(variables))]
    pub(crate) name: String,
    /// The variable of the group, or the member of the record, to sort by
    #[arg(long, value_name = "KEY")]
    pub(crate) by: String,
    /// Remove the sorted replicas
    #[arg(long)]
    pub(crate) drop: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) place: ContainerAt,
    /// Also compare the published replica with the log, value by value
    #[arg(long)]
    pub(crate) values: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// Variables to publish; default: all that Zarr can represent
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    pub(crate) variables: Vec<String>,
    /// Memory limit, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) memory: u64,
    /// Compression of chunks: auto (as the variable's transform), none, zstd:LEVEL or zlib:LEVEL
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) compressor: String,
    /// The format: zarr; zarr+hdf5, whose shards are also HDF5 files; or netcdf, one file. Default: that of the last
    /// publication
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// The netCDF file; default: a file in the container's directory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print the reasons for the chunk shapes
    #[arg(long)]
    pub(crate) why: bool,
    /// The path is a file that an HDF5 program wrote through the connector: replace it with a genuine HDF5 file
    #[arg(long)]
    pub(crate) hdf5: bool,
    /// With --hdf5: the libhdf5 to write with
    #[arg(long, value_name = "LIBHDF5", requires = "hdf5", value_hint = ValueHint::FilePath)]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Derive {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// The path of the new variable
    pub(crate) name: String,
    /// Its definition, such as 'sqrt(u*u + v*v)'
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: String,
    /// What is stored besides the definition: virtual (nothing), bounds (statistics) or stored (values)
    #[arg(long, value_name = "KIND", default_value = "virtual")]
    pub(crate) kind: String,
    /// The treatment of cells beyond the edge of the domain: one_sided, fill, periodic or nan
    #[arg(long, value_name = "RULE", default_value = "one_sided")]
    pub(crate) edge: String,
    /// The units of the new variable, stored as an attribute
    #[arg(long)]
    pub(crate) units: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// A container's directory, any folder on the device, or a URL of a container or of a folder in an object store
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// The approximate duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Write at most this much, in MiB; it is removed again
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) most: u64,
    /// Print the stored result, and measure nothing
    #[arg(long, conflicts_with_all = ["seconds", "most"])]
    pub(crate) show: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Tiers {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// Repeat at this interval until all steps are home
    #[arg(long, value_name = "SECONDS", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) every: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Warm {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    /// Variables to load; default: all stored ones
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    pub(crate) variables: Vec<String>,
    #[command(flatten)]
    pub(crate) far: Far,
    /// The cache folder; default: the environment variable DRYSTONE_CACHE
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) cache: Option<PathBuf>,
    /// The size limit of the folder, in bytes
    #[arg(long, value_name = "BYTES", requires = "cache", value_parser = number::<u64>)]
    pub(crate) bytes: Option<u64>,
    /// Load only this step of variables with steps
    #[arg(long, value_name = "STEP", value_parser = number::<u64>)]
    pub(crate) step: Option<u64>,
    /// Protect the loaded data from eviction
    #[arg(long, conflicts_with = "unpin")]
    pub(crate) pin: bool,
    /// Allow eviction of the data again
    #[arg(long)]
    pub(crate) unpin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// The folders of this node that writers used as tiers
    #[arg(long, value_name = "FOLDER", required = true, num_args = 1.., value_hint = ValueHint::DirPath)]
    pub(crate) tiers: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// A node that is lost for good: data that only its tiers held is rebuilt from other nodes, or given up
    #[arg(long, value_name = "NODE")]
    pub(crate) lost_node: Vec<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// What to do with complete steps that are not committed: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Choice {
    /// Commit all complete steps
    #[arg(long)]
    pub(crate) adopt: bool,
    /// Drop all uncommitted steps
    #[arg(long)]
    pub(crate) discard: bool,
    /// Commit these steps and drop the others
    #[arg(long, value_delimiter = ',', value_name = "STEP,…", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) steps: Vec<u64>,
    /// Print what is uncommitted, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}
