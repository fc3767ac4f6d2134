//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::failure::Failure;

const CODES: &str = "Exit codes: 0 done; 1 damage found; 2 wrong usage or input; 3 not found; 4 corrupt; 5 conflict; 6 I/O error.\n\
                     A selection is written as for NumPy: '[3, :, 0:8:2, -1]'; the step is the first axis.";

/// Look into Drystone containers, print what they hold, check and recover them.
#[derive(Debug, Parser)]
#[command(name = "drystone", bin_name = "drystone", version, after_help = CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What a container is: identity, durability, snapshot, steps, writers, sizes, and what waits for a commit
    #[command(after_help = CODES)]
    Info(Place),
    /// List variables, groups and links
    #[command(after_help = CODES)]
    Ls(Ls),
    /// Print values of a variable, or the container's header
    // `-o` is the file there, as it has always been.
    #[command(after_help = CODES, mut_arg("options", |option| option.short(None)))]
    Dump(Dump),
    /// Show the plan of a read, without reading
    #[command(after_help = CODES)]
    Explain(Explain),
    /// Which cells satisfy a condition: how many, where, and what variables hold there
    #[command(after_help = CODES)]
    Query(Query),
    /// Check every stored byte against its checksums; exit code 1 if something is damaged
    #[command(after_help = CODES)]
    Verify(Verify),
    /// Write committed steps as Zarr, which other tools read, under CONTAINER/zarr; again: only what is new
    #[command(after_help = CODES)]
    Publish(Publish),
    /// Measure what a container's store, or any folder, costs, and keep it for the device: layouts and predictions then fit it
    #[command(after_help = CODES)]
    Calibrate(Calibrate),
    /// Remove what no retained snapshot needs: expired snapshots, superseded log files, leftovers
    #[command(after_help = CODES)]
    Gc(Gc),
    /// Settle what a dead run left: commit or drop its complete steps, drop the others, fence its writers
    #[command(after_help = CODES)]
    Recover(Recover),
    /// Show a container as files at a folder, until Ctrl-C: every variable as .npy, .bin, .h5 and .nc, fragments as flat files
    #[command(after_help = CODES)]
    Mount(Mount),
    /// End `drystone mount` at a folder
    #[command(after_help = CODES)]
    Umount(Umount),
    /// Serve containers to clients, as a configuration says; ends on Ctrl-C and SIGTERM, after what was begun
    #[command(after_help = CODES)]
    Serve(Serve),
    /// Make, list and revoke the tokens by which clients of a server have rights
    #[command(after_help = CODES)]
    Token(Token),
    /// Check texts in the dataset language: every mistake, with its place
    #[command(after_help = CODES)]
    Check(Texts),
    /// Format texts in the dataset language, in place
    #[command(after_help = CODES)]
    Fmt(Fmt),
}

#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// The container's directory or URL
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// An empty folder
    #[arg(value_name = "FOLDER")]
    pub(crate) at: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// Where it is mounted
    #[arg(value_name = "FOLDER")]
    pub(crate) at: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The server's configuration: docs/guide/server.md has its keys
    #[arg(value_name = "CONFIGURATION")]
    pub(crate) configuration: PathBuf,
}

/// What is done with tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TokenAction {
    /// Add a token to the file and print it, once
    Create,
    /// List the tokens of the file, without the words
    List,
    /// Remove a token from the file
    Revoke,
}

#[derive(Debug, Args)]
pub(crate) struct Token {
    /// What to do
    pub(crate) action: TokenAction,
    /// The file of tokens that the server's configuration names
    #[arg(value_name = "TOKENS")]
    pub(crate) file: PathBuf,
    /// Of the token to revoke
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// A right on a path, as storage.read:/run42 (read, create or modify); again: one more
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// The token's life, as 2s, 10m, 12h or 30d; without it, it does not end
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Texts {
    /// Files with texts
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Fmt {
    /// Files with texts
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Only name the files that would change; exit code 1 if there are some
    #[arg(long)]
    pub(crate) check: bool,
}

/// How a container is reached that is named by a URL.
#[derive(Debug, Clone, Args)]
pub(crate) struct Far {
    /// An option of the store behind a URL, as aws_region=eu-1; the environment (AWS_ENDPOINT_URL, ...) is read as well
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE", value_parser = store_option)]
    pub(crate) options: Vec<(String, String)>,
}

fn store_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // The text may hold a secret.
        _ => Err("an option of a store is written NAME=VALUE".into()),
    }
}

/// Which container, and which of its snapshots.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The container's directory or URL
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// An earlier snapshot, by its number
    #[arg(long, value_name = "SNAPSHOT", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) at: Option<u64>,
    /// Go on with what is left where files are lost; else that is an error (exit code 4)
    #[arg(long)]
    pub(crate) damaged: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only what is in this group, or this variable
    #[arg(default_value = "")]
    pub(crate) group: String,
    /// Add steps, blocks, stored bytes and ratio (reads the whole index)
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Go down into groups
    #[arg(short, long)]
    pub(crate) recursive: bool,
}

/// Which part of which variable.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// One member of a record, as in "velocity.x"
    #[arg(long, value_name = "MEMBER")]
    pub(crate) field: Option<String>,
    /// One step; the selection then has no step axis
    #[arg(long, value_name = "STEP", allow_negative_numbers = true)]
    pub(crate) step: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The variable
    #[arg(required_unless_present = "header")]
    pub(crate) variable: Option<String>,
    /// Which cells, as in '[3, :, 0:8:2, -1]'; all if not given
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Print dimensions, variables and attributes instead of values
    #[arg(long, conflicts_with_all = ["raw", "selection", "step", "field", "block"])]
    pub(crate) header: bool,
    /// One block as it was written, by its number (for local variables, or together with --step)
    #[arg(long, value_name = "NUMBER", conflicts_with = "selection", value_parser = number::<usize>, allow_negative_numbers = true)]
    pub(crate) block: Option<usize>,
    /// Write the values' bytes, little-endian, in row-major order
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Write to a file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print at most so many cells; 0 prints all (default: 1000, with --json or --raw all)
    #[arg(long, value_name = "CELLS", conflicts_with = "raw", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The variable
    pub(crate) variable: String,
    /// Which cells, as in '[3, :, 0:8:2, -1]'; all if not given
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Also read, and show how long it took beside the prediction
    #[arg(long)]
    pub(crate) measure: bool,
    /// Also show how the model would cut a block, as 256x256x256, and why
    #[arg(long, value_name = "BLOCK")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Query {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The condition, as in 'p > 3e-5 & abs(u) < 1'
    #[arg(allow_hyphen_values = true)]
    pub(crate) condition: String,
    /// Which cells, as in '[3, :, 0:8:2, -1]', the step first; all if not given
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    /// Print the number of hits alone
    #[arg(long, conflicts_with_all = ["coords", "csv", "explain"])]
    pub(crate) count: bool,
    /// Print the coordinates of the hits, a line each
    #[arg(long, conflicts_with_all = ["csv", "explain"])]
    pub(crate) coords: bool,
    /// Print coordinates and values as CSV; a cell that nobody wrote is empty
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    pub(crate) csv: bool,
    /// The variables whose values --csv prints; those of the condition if not given
    #[arg(long, value_name = "VARIABLE,…", value_delimiter = ',', requires = "csv")]
    pub(crate) columns: Vec<String>,
    /// Print at most so many hits; 0 prints all
    #[arg(long, value_name = "HITS", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) limit: Option<u64>,
    /// Print what would be read, and what statistics decide, without reading
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// The container's directory or URL
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// So many of the newest snapshots stay, the collection's own commit among them
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
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Also compare what was published with the log, value by value
    #[arg(long)]
    pub(crate) values: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// The container's directory or URL
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// Only these variables; all that have a form in Zarr if none is given
    #[arg(value_name = "VARIABLE")]
    pub(crate) variables: Vec<String>,
    /// Memory to use, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) memory: u64,
    /// How chunks are compressed: auto (as the variable), none, zstd:LEVEL, or zlib:LEVEL
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) compressor: String,
    /// What is made: zarr; zarr+hdf5, whose shards are HDF5 files too; or netcdf, one file. If not given, what it was before
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// The netCDF file, if it shall not go into the container's directory
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print why the arrays are cut as they are
    #[arg(long)]
    pub(crate) why: bool,
    /// The path is a file that an HDF5 program wrote through the connector: replace it by a genuine HDF5 file
    #[arg(long)]
    pub(crate) hdf5: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// A container's directory, or any folder on the device
    pub(crate) path: PathBuf,
    /// About so long it takes
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// So much is written at most (and removed again), in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) most: u64,
    /// Only say what is known, measure nothing
    #[arg(long, conflicts_with_all = ["seconds", "most"])]
    pub(crate) show: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// The container's directory or URL
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    #[command(flatten)]
    pub(crate) choice: Choice,
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

/// What a command line asks for.
pub(crate) enum Parsed {
    Run(Box<Arguments>),
    /// Help or version, for standard output.
    Say(String),
    Fail(Failure),
}

impl Arguments {
    /// Reads a command line, the program's name first.
    pub(crate) fn read(args: Vec<OsString>) -> Parsed {
        let helps = helps(&args);
        match Self::try_parse_from(args) {
            Ok(arguments) => Parsed::Run(Box::new(arguments)),
            Err(error) => match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Parsed::Say(error.render().to_string()),
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    Parsed::Fail(Failure::usage(format!("a command is missing; see {helps}")))
                }
                _ => {
                    let wrong = one_line(&error.render().to_string());
                    Parsed::Fail(Failure::usage(format!("{wrong}; see {helps}")))
                }
            },
        }
    }

    /// The file that takes the output, if not standard output.
    pub(crate) fn output(&self) -> Option<&Path> {
        match &self.command {
            Command::Dump(dump) => dump.output.as_deref(),
            _ => None,
        }
    }
}

/// What is wrong and the tip, without the usage below them.
fn one_line(rendered: &str) -> String {
    let lines = rendered.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let mut out = String::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("For more information")) {
        let line = line.strip_prefix("error: ").unwrap_or(line);
        let joint = if out.is_empty() {
            ""
        } else if out.ends_with(':') {
            " "
        } else {
            "; "
        };
        out.push_str(joint);
        out.push_str(line);
    }
    out
}

/// The command whose help says more: the one that was called, if it is one.
fn helps(args: &[OsString]) -> String {
    let called = args.iter().skip(1).filter_map(|arg| arg.to_str()).find(|arg| !arg.starts_with('-'));
    match called.filter(|name| Arguments::command().find_subcommand(name).is_some()) {
        Some(name) => format!("drystone {name} --help"),
        None => "drystone --help".to_owned(),
    }
}

/// A whole number, or what it should have been.
fn number<T: std::str::FromStr>(typed: &str) -> Result<T, &'static str> {
    typed.parse().map_err(|_| "a whole number is expected, not below zero")
}
