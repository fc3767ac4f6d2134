//! Arguments of the commands that run in Python.
//!
//! The names of the fields are the names under which Python receives the arguments. `path` is spelled as it was typed;
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
    /// Copy a container, or a part of it, to a new one of few files
    Copy(Copy),
    /// Draw a plane, a series, or where the blocks of a variable lie, as PNG
    Plot(Plot),
    /// Compare two containers, or two snapshots of one; exit code 1 if they differ
    Diff(Diff),
    /// Show what variables take on disk
    Du(Du),
    /// Show a running simulation: its steps, rates, writers, and the ranks that a step waits for
    Top(Top),
    /// Show a container in the browser
    View(View),
    /// Show and set the tags of a container or of what is in it
    Tag(Tag),
    /// Find containers by tags, names and ranges of values, without opening them
    Catalog(Catalog),
    /// Print the variables by which HDF5 programs use Drystone, for eval
    Hdf5Env(Hdf5Env),
    /// Say whether HDF5 programs use Drystone, or whether a store keeps what containers rely on, and if not, why
    Doctor(Doctor),
}

/// Which container, and which of its snapshots.
#[derive(Debug, Args, Serialize)]
pub(crate) struct Snapshot {
    /// The container's directory or URL
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    container: PathBuf,
    /// An earlier snapshot, by its number
    #[arg(long, value_name = "SNAPSHOT", value_parser = number::<u64>, allow_negative_numbers = true)]
    at: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    damaged: Damaged,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Damaged {
    /// Go on with what is left where files are lost; else that is an error (exit code 4)
    #[arg(long)]
    damaged: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Import {
    /// An HDF5, netCDF, Zarr, .npy or ADIOS BP file; any file with --declare
    #[arg(value_hint = ValueHint::AnyPath)]
    #[serde(serialize_with = "path")]
    file: PathBuf,
    /// The container: created, or added to
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    container: PathBuf,
    /// The format, if neither contents nor name of the file say it
    #[arg(long, value_parser = ["hdf5", "netcdf", "zarr", "npy", "adios"])]
    format: Option<String>,
    /// A text in the dataset language, of which the file is a fragment: its memory, step behind step
    #[arg(
        long,
        value_name = "TEXT",
        value_hint = ValueHint::FilePath,
        requires = "fragment",
        conflicts_with_all = ["format", "group", "only", "steps", "transform"]
    )]
    #[serde(serialize_with = "optional_path")]
    declare: Option<PathBuf>,
    /// The fragment of that text that the file is
    #[arg(long, value_name = "NAME", requires = "declare")]
    fragment: Option<String>,
    /// Put everything below this group
    #[arg(long, default_value = "", hide_default_value = true)]
    group: String,
    /// This array or group alone; may be repeated
    #[arg(long, value_name = "PATH")]
    only: Vec<String>,
    /// This dimension becomes the steps, where it comes first
    #[arg(long, value_name = "DIM")]
    steps: Option<String>,
    /// Create the container also in a folder that holds other files
    #[arg(long)]
    into_existing: bool,
    /// Codecs for everything, as in shuffle,zstd:1; none for none; by default what a sample of each decides (auto)
    #[arg(long, value_name = "CODECS")]
    transform: Option<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Export {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// The file to write, .h5, .nc, .xdmf (its values beside it, in .h5), .npy or .csv, or the folder, .zarr
    #[arg(value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "path")]
    file: PathBuf,
    /// Which variables; all if none is named
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    variables: Vec<String>,
    /// For .npy and .csv: which cells, as in '[-1, :, 0:8]'
    #[arg(long, value_name = "SELECTION", allow_hyphen_values = true)]
    select: Option<String>,
    /// The format, if the name does not say it
    #[arg(long, value_parser = ["csv", "hdf5", "netcdf", "npy", "xdmf", "zarr"])]
    format: Option<String>,
    /// Compress: .h5 and .nc by deflate, .zarr by Zstandard, from 0 to 9, behind a shuffle of bytes
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=9))]
    compression: Option<u8>,
    /// For .h5, .nc and .zarr: chunk shape without steps, as in 64,64, or T=64,64; none for none; may be repeated
    #[arg(long, value_name = "[VARIABLE=]SHAPE")]
    chunks: Vec<String>,
    /// Replace a file that is there
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
    /// Which variables and groups; all if none is named
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    variables: Vec<String>,
    /// Steps from A to before B, as in '10:20', '-5:' or '::10'
    #[arg(long, value_name = "A:B", allow_hyphen_values = true)]
    steps: Option<String>,
    /// Codecs for all variables, as in shuffle,zstd:1; or none
    #[arg(long, value_name = "CODECS")]
    transform: Option<String>,
    /// Chunk shape, as in 64,64 for variables of two dimensions, or T=64,64; none for none; may be repeated
    #[arg(long, value_name = "[VARIABLE=]SHAPE")]
    chunks: Vec<String>,
    /// Leave attributes out
    #[arg(long)]
    no_attrs: bool,
    /// Remove a container that is there first
    #[arg(long)]
    overwrite: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Plot {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// Which variable
    #[arg(add = ArgValueCompleter::new(variables))]
    variable: String,
    /// One or two axes of it, as in '[-1, :, :, 32]' or '[:, 5, 5]'; with --layout a box whose blocks are drawn
    #[arg(allow_hyphen_values = true)]
    selection: Option<String>,
    /// The picture; VARIABLE.png if not given
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "optional_path")]
    output: Option<PathBuf>,
    /// Draw where its blocks lie, who wrote them, and their bytes
    #[arg(long)]
    layout: bool,
    /// With --layout: of which step; the last one if not given
    #[arg(long, allow_negative_numbers = true)]
    step: Option<i64>,
    /// With --layout: which axes to show
    #[arg(long, num_args = 2, value_names = ["DOWN", "ACROSS"], allow_negative_numbers = true)]
    axes: Option<Vec<i64>>,
    /// With --layout: what gives blocks their colour; files are what a read is spread over, targets the folders or storage daemons that hold them
    #[arg(long, default_value = "writer", value_parser = ["writer", "file", "target"])]
    by: String,
    /// A colour map of matplotlib
    #[arg(long, default_value = "viridis")]
    colours: String,
    /// Values of the ends of the colours
    #[arg(long, num_args = 2, value_names = ["LOW", "HIGH"], allow_hyphen_values = true, value_parser = finite)]
    range: Option<Vec<f64>>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Diff {
    /// A container
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    first: PathBuf,
    /// The other
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    second: PathBuf,
    /// Snapshots of the two
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"], value_parser = number::<u64>, allow_negative_numbers = true)]
    at: Option<Vec<u64>>,
    /// Differences of values up to this are none
    #[arg(long, default_value_t = 0.0, value_parser = tolerance, allow_negative_numbers = true)]
    atol: f64,
    /// And up to this part of the second value
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
    /// Only these
    #[arg(value_name = "VARIABLE", add = ArgValueCompleter::new(variables))]
    variables: Vec<String>,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Top {
    #[command(flatten)]
    #[serde(flatten)]
    container: Snapshot,
    /// Seconds between two looks
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = finite, allow_negative_numbers = true)]
    interval: f64,
    /// Print one frame and end, as where the output is no terminal
    #[arg(long)]
    once: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct View {
    /// The container's directory or URL
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    container: PathBuf,
    /// Where to listen, 0 to 65535; 8737 or a free one if not given
    #[arg(long, allow_negative_numbers = true)]
    port: Option<u16>,
    /// Only print the address
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
    /// Tags of a variable or group in it
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true, add = ArgValueCompleter::new(variables))]
    of: String,
}

/// What is done with a catalogue.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum CatalogAction {
    /// Add containers, and those in folders
    Add,
    /// Name those that answer a question
    Find,
    /// Say whether the catalogue is whole, and which containers have changed
    Check,
    /// Forget containers
    Forget,
    /// Write the catalogue again from its containers
    Rebuild,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Catalog {
    /// What to do
    action: CatalogAction,
    /// The catalogue's folder or URL; add makes it
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "path")]
    catalog: PathBuf,
    /// Containers, and folders of containers; for find the question: "campaign == 'a*'"
    #[arg(value_hint = ValueHint::DirPath)]
    what: Vec<String>,
    /// With find: look first at what has changed
    #[arg(long)]
    fresh: bool,
    /// With check: take up what has changed, forget what is gone
    #[arg(long)]
    update: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Hdf5Env {
    /// For the connector, as publish=1: docs/guide/hdf5.md
    #[arg(value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// The lines that end it
    #[arg(long)]
    off: bool,
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Doctor {
    /// A URL, or a folder: try whether its store keeps what containers rely on; nothing is left there
    #[arg(value_hint = ValueHint::DirPath)]
    #[serde(serialize_with = "optional_path")]
    store: Option<PathBuf>,
    /// An option of the store behind a URL, as aws_region=eu-1
    #[arg(short = 'o', long, value_name = "NAME=VALUE")]
    option: Vec<String>,
    /// Ask this libhdf5 too
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[serde(serialize_with = "paths")]
    library: Vec<PathBuf>,
    /// Ask the HDF5 of this program
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

/// A file name as Python's `os.fsdecode` takes it.
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
    // Infinity has no form in JSON; every difference is below the largest number.
    let value: Option<f64> = typed.parse().ok().filter(|value| *value >= 0.0);
    value.map(|value| value.min(f64::MAX)).ok_or("a tolerance is a number of at least 0")
}
