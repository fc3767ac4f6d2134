//! Arguments of the commands by which a container is kept in order.

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
    /// How many of the newest snapshots stay, including the commit of the collection
    #[arg(long, value_name = "NUMBER", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) keep: Option<u64>,
    /// Snapshots that are younger stay: 90s, 15m, 12h, 7d
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: Option<String>,
    /// Only show what would be removed
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
    /// A variable, or a member of a record, as in P.x
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    pub(crate) variable: String,
    /// bins: ranges of values read few bytes; zones: extremes of subchunks, which are always there
    #[arg(long, value_name = "KIND", default_value = "bins", conflicts_with = "drop")]
    pub(crate) kind: String,
    /// Take the index out again
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
    /// The variable in the group, or the member, that sorts
    #[arg(long, value_name = "KEY")]
    pub(crate) by: String,
    /// Take the sorted replicas out again
    #[arg(long)]
    pub(crate) drop: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) place: ContainerAt,
    /// Also compare what was published with the log, value by value
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
    /// Only these variables; all that have a form in Zarr if none is given
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    pub(crate) variables: Vec<String>,
    /// Memory to use, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) memory: u64,
    /// How chunks are compressed: auto (as the variable), none, zstd:LEVEL, or zlib:LEVEL
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) compressor: String,
    /// Format: zarr; zarr+hdf5, whose shards are HDF5 files too; or netcdf, one file. If not given, that of the last publication
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// The netCDF file, if it shall not go into the container's directory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print why the arrays are cut as they are
    #[arg(long)]
    pub(crate) why: bool,
    /// The path is a file that an HDF5 program wrote through the connector: replace it by a genuine HDF5 file
    #[arg(long)]
    pub(crate) hdf5: bool,
    /// With --hdf5: write with this libhdf5
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
    /// Its definition, as in 'sqrt(u*u + v*v)'
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: String,
    /// Values that are stored besides the definition
    #[arg(long, value_name = "KIND", default_value = "virtual")]
    pub(crate) kind: String,
    /// How cells beyond the edge of the domain are treated: one_sided, fill, periodic or nan
    #[arg(long, value_name = "RULE", default_value = "one_sided")]
    pub(crate) edge: String,
    /// Its units, as an attribute
    #[arg(long)]
    pub(crate) units: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// A container's directory, any folder on the device, or a URL: of a container, or of any folder of an object store
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// How long it takes, approximately
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// The most that is written (and removed again), in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) most: u64,
    /// Only say what is known, measure nothing
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
    /// Seconds between two looks, until all steps are home
    #[arg(long, value_name = "SECONDS", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) every: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Warm {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    /// Variables, all that are stored if none is named
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    pub(crate) variables: Vec<String>,
    #[command(flatten)]
    pub(crate) far: Far,
    /// The cache folder; without it DRYSTONE_CACHE names one
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) cache: Option<PathBuf>,
    /// The most bytes that the folder may hold
    #[arg(long, value_name = "BYTES", requires = "cache", value_parser = number::<u64>)]
    pub(crate) bytes: Option<u64>,
    /// Only this step of variables with steps
    #[arg(long, value_name = "STEP", value_parser = number::<u64>)]
    pub(crate) step: Option<u64>,
    /// Keep it there, whatever else needs room
    #[arg(long, conflicts_with = "unpin")]
    pub(crate) pin: bool,
    /// Let it go when others need the room
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
    /// Folders of this node that were given as tiers
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
    /// A node that is lost for good: what only its tiers had is rebuilt from other nodes, or given up
    #[arg(long, value_name = "NODE")]
    pub(crate) lost_node: Vec<String>,
    /// Do not ask
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
    /// Commit these steps, drop the others
    #[arg(long, value_delimiter = ',', value_name = "STEP,…", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) steps: Vec<u64>,
    /// Only say what waits
    #[arg(long)]
    pub(crate) dry_run: bool,
}
