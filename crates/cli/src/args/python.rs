//! Arguments of the commands that run in Python.
//!
//! The names of the fields are the names under which Python receives the arguments. `path` is passed as typed;
//! a name that is not UTF-8 becomes `{"bytes": [...]}`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::ArgValueCompleter;
use serde::{Serialize, Serializer};

use super::container::number;
use crate::candidates::variables;

/// A command that runs in Python.
#[derive(Debug, Subcommand, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub(crate) enum PythonCommand {
    /// Copy a file of another format into a container
    Import(Import),
    /// Copy variables into a file of another format
    Export(Export),
    /// Copy a container or a part of it to a new one, with few files
    Copy(Copy),
    /// Draw a plane, a series, or the layout of a variable's blocks as a picture
    Plot(Plot),
    /// Compare two containers, or two snapshots of one; exit code 1 if they differ
    Diff(Diff),
    /// Show how many bytes variables take on disk
    Du(Du),
    /// Show the progress of a running simulation: steps, rates, writers, and the ranks that a step waits for
    Top(Top),
    /// Show a container in the browser
    View(View),
    /// Show and set the tags of a container, a group or a variable
    Tag(Tag),
    /// Find containers by tags, names and ranges of values without opening them
    Catalog(Catalog),
    /// Print shell commands, for eval, that make HDF5 programs use Drystone
    Hdf5Env(Hdf5Env),
    /// Test whether HDF5 programs use Drystone, or whether a store fulfils what containers need; explain failures
    Doctor(Doctor),
}

/// A container, and one of its snapshots.
#[derive(Debug, Args, Serialize)]
pub(crate) struct Snapshot {
    /// The container's directory or URL
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    container: PathBuf,
    /// Use this earlier snapshot
    #[arg(long, value_name = "SNAPSHOT", value_parser = number::<u64>, allow_negative_numbers = true)]
    at: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    damaged: Damaged,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Damaged {
    /// Read what is left if files are lost; without it, lost files are an error (exit code 4)
    #[arg(long)]
    damaged: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Import {
    /// An HDF5, netCDF, Zarr, .npy or ADIOS BP file; any file with --declare
    #[arg(value_hint = ValueHint::AnyPath)]
    #[serde(serialize_with = "path")]
    file: PathBuf,
    /// The container; it is created if it does not exist, and added to if it does
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    container: PathBuf,
    /// The format, if neither the contents nor the name of the file determine it
    #[arg(long, value_parser = ["hdf5", "netcdf", "zarr", "npy", "adios"])]
    format: Option<String>,
    /// A file in the dataset language that declares the layout of a raw FILE; longer files hold one step after the
    /// other
    #[arg(
        long,
        value_name = "TEXT",
        value_hint = ValueHint::FilePath,
        requires = "fragment",
        conflicts_with_all = ["format", "group", "only", "steps", "transform"]
    )]
    #[serde(serialize_with = "optional_path")]
    declare: Option<PathBuf>,
    /// The fragment in --declare that describes FILE
    #[arg(long, value_name = "NAME", requires = "declare")]
    fragment: Option<String>,
    /// Put everything below this group
    #[arg(long, default_value = "", hide_default_value = true)]
    group: String,
    /// Copy only this array or group; may be repeated
    #[arg(long, value_name = "PATH")]
    only: Vec<String>,
    /// Make this dimension the steps of variables that have it first
    #[arg(long, value_name = "DIM")]
    steps: Option<String>,
    /// Create the container even in a folder that holds other files
    #[arg(long)]
    into_existing: bool,
    /// Codecs for all variables, such as shuffle,zstd:1, or none; default: auto, chosen from samples of each variable
    #[arg(long, value_name = "CODECS")]
    transform: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Export {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// The file to write: .h5, .nc, .npy, .csv, .xdmf (values in an .h5 file beside it), or a .zarr folder
    #[arg(value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "path")]
    file: PathBuf,
    /// Variables to copy; default: all
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    variables: Vec<String>,
    /// For .npy and .csv: the cells, as in '[-1, :, 0:8]'
    #[arg(long, value_name = "SELECTION", allow_hyphen_values = true)]
    select: Option<String>,
    /// The format, if the name of the file does not determine it
    #[arg(long, value_parser = ["csv", "hdf5", "netcdf", "npy", "xdmf", "zarr"])]
    format: Option<String>,
    /// Compress after a byte shuffle, at level 0 to 9: .h5 and .nc with deflate, .zarr with Zstandard
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=9))]
    compression: Option<u8>,
    /// For .h5, .nc and .zarr: chunk shape without steps, as 64,64 or T=64,64, or none; may be repeated
    #[arg(long, value_name = "[VARIABLE=]SHAPE")]
    chunks: Vec<String>,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Copy {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// The new container: a path or URL
    #[arg(value_hint = ValueHint::AnyPath)]
    #[serde(serialize_with = "path")]
    target: PathBuf,
    /// Variables and groups to copy; default: all
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    variables: Vec<String>,
    /// Steps A to B - 1, as in '10:20', '-5:' or '::10'
    #[arg(long, value_name = "A:B", allow_hyphen_values = true)]
    steps: Option<String>,
    /// Codecs for all variables, such as shuffle,zstd:1, or none
    #[arg(long, value_name = "CODECS")]
    transform: Option<String>,
    /// Chunk shape, as 64,64 for all variables of two dimensions or T=64,64 for one, or none; may be repeated
    #[arg(long, value_name = "[VARIABLE=]SHAPE")]
    chunks: Vec<String>,
    /// Do not copy attributes
    #[arg(long)]
    no_attrs: bool,
    /// Remove an existing container at TARGET first
    #[arg(long)]
    overwrite: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Plot {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// The variable
    #[arg(add = ArgValueCompleter::new(variables))]
    variable: String,
    /// The cells, with one or two axes left, as in '[-1, :, :, 32]' or '[:, 5, 5]'; with --layout, a box whose blocks
    /// are drawn
    #[arg(allow_hyphen_values = true)]
    selection: Option<String>,
    /// The picture to write; default: VARIABLE.png
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "optional_path")]
    output: Option<PathBuf>,
    /// Draw the boxes of the blocks, with their writers and stored bytes
    #[arg(long)]
    layout: bool,
    /// With --layout: the step; default: the last one
    #[arg(long, allow_negative_numbers = true)]
    step: Option<i64>,
    /// With --layout: the two axes to show
    #[arg(long, num_args = 2, value_names = ["DOWN", "ACROSS"], allow_negative_numbers = true)]
    axes: Option<Vec<i64>>,
    /// With --layout: colour blocks by writer, by the file or object that holds them, or by target (folder or storage
    /// daemon)
    #[arg(long, default_value = "writer", value_parser = ["writer", "file", "target"])]
    by: String,
    /// A colour map of Matplotlib
    #[arg(long, default_value = "viridis")]
    colours: String,
    /// The values at the two ends of the colour map
    #[arg(long, num_args = 2, value_names = ["LOW", "HIGH"], allow_hyphen_values = true, value_parser = finite)]
    range: Option<Vec<f64>>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Diff {
    /// The first container
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    first: PathBuf,
    /// The second container
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    second: PathBuf,
    /// Compare these snapshots of the two
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"], value_parser = number::<u64>, allow_negative_numbers = true)]
    at: Option<Vec<u64>>,
    /// Absolute tolerance: smaller differences of values are ignored
    #[arg(long, default_value_t = 0.0, value_parser = tolerance, allow_negative_numbers = true)]
    atol: f64,
    /// Relative tolerance, as a fraction of the second value, added to --atol
    #[arg(long, default_value_t = 0.0, value_parser = tolerance, allow_negative_numbers = true)]
    rtol: f64,
    /// Do not compare attributes
    #[arg(long)]
    no_attrs: bool,
    #[command(flatten)]
    #[serde(flatten)]
    damaged: Damaged,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Du {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// Variables to list; default: all
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    variables: Vec<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Top {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// Seconds between two updates
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = finite, allow_negative_numbers = true)]
    interval: f64,
    /// Print one frame and end, as when the output is not a terminal
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct View {
    /// The container's directory or URL
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    container: PathBuf,
    /// The port to listen on; default: 8737, or a free one if it is taken
    #[arg(long, allow_negative_numbers = true)]
    port: Option<u16>,
    /// Print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    #[serde(flatten)]
    damaged: Damaged,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Tag {
    /// The container's directory or URL
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    container: PathBuf,
    /// KEY=VALUE sets a tag, KEY= removes it; a value is a number, true, false, or a text
    #[arg(value_name = "KEY=VALUE")]
    tags: Vec<String>,
    /// Use the tags of this variable or group
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true, add = ArgValueCompleter::new(variables))]
    of: String,
}

/// An action on a catalogue.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum CatalogAction {
    /// Add containers, and the containers in folders
    Add,
    /// Print the containers that satisfy a question
    Find,
    /// Check the catalogue, and list the containers that have changed
    Check,
    /// Take containers out
    Forget,
    /// Write the catalogue again from its containers
    Rebuild,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Catalog {
    /// The action
    action: CatalogAction,
    /// The catalogue's folder or URL; add creates it
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    catalog: PathBuf,
    /// Containers and folders of containers; with find, the question, such as "campaign == 'a*'"
    #[arg(value_hint = ValueHint::DirPath)]
    what: Vec<String>,
    /// With find: look first at the containers that have changed
    #[arg(long)]
    fresh: bool,
    /// With check: update changed containers, take out those that are gone
    #[arg(long)]
    update: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Hdf5Env {
    /// Options of the connector, such as publish=1; docs/guide/hdf5.md lists them
    #[arg(value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Print the commands that undo it
    #[arg(long)]
    off: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Doctor {
    /// A URL or a folder: test whether its store fulfils what containers need; the test removes what it wrote
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "optional_path")]
    store: Option<PathBuf>,
    /// Option of the store behind a URL, such as aws_region=eu-1; may be repeated
    #[arg(short = 'o', long, value_name = "NAME=VALUE")]
    option: Vec<String>,
    /// Test this libhdf5 too; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "paths")]
    library: Vec<PathBuf>,
    /// Test the HDF5 library of this program; may be repeated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "paths")]
    program: Vec<PathBuf>,
}

/// `drystone publish --hdf5`, which needs an HDF5 library that Python finds.
#[derive(Debug, Serialize)]
#[serde(tag = "command", rename = "publish-hdf5")]
pub(crate) struct PublishHdf5<'a> {
    #[serde(serialize_with = "path")]
    pub(crate) path: &'a Path,
    #[serde(serialize_with = "optional_path")]
    pub(crate) library: Option<&'a Path>,
}

/// A file name, as Python's `os.fsdecode` accepts it.
#[derive(Serialize)]
#[serde(untagged)]
enum Name<'a> {
    Text(&'a str),
    Bytes { bytes: &'a [u8] },
}

impl<'a> From<&'a Path> for Name<'a> {
    fn from(path: &'a Path) -> Self {
        path.to_str().map_or(Name::Bytes { bytes: path.as_os_str().as_bytes() }, Name::Text)
    }
}

fn path<S: Serializer>(path: &impl AsRef<Path>, to: S) -> Result<S::Ok, S::Error> {
    Name::from(path.as_ref()).serialize(to)
}

fn optional_path<S: Serializer>(path: &Option<impl AsRef<Path>>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| Name::from(path.as_ref())).serialize(to)
}

fn paths<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| Name::from(path.as_path())))
}

fn finite(typed: &str) -> Result<f64, &'static str> {
    typed.parse().ok().filter(|value: &f64| value.is_finite()).ok_or("a finite number is expected")
}

fn tolerance(typed: &str) -> Result<f64, &'static str> {
    // JSON cannot express infinity; every difference is below the largest number.
    let value: Option<f64> = typed.parse().ok().filter(|value| *value >= 0.0);
    value.map(|value| value.min(f64::MAX)).ok_or("a tolerance is a number of at least 0")
}
