//! The command line. The arguments of commands are in the files of this folder, grouped by purpose.

mod container;
mod look;
mod python;
mod service;
mod shell;
mod texts;
mod upkeep;

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::failure::Failure;

pub(crate) use container::{ContainerAt, Far, VariablePart};
pub(crate) use look::{Dump, Explain, Ls, Query};
pub(crate) use python::{PublishHdf5, PythonCommand};
pub(crate) use service::{Mount, Serve, Token, TokenAction, Umount};
pub(crate) use shell::{Completion, Shell};
pub(crate) use texts::{Fmt, Texts};
pub(crate) use upkeep::{Calibrate, Derive, Drain, Gc, Index, Publish, Recover, Sort, Tiers, Verify, Warm};

const CODES: &str = "Exit codes: 0 done; 1 damage or difference found; 2 wrong usage or input; 3 not found; 4 corrupt; \
                     5 conflict; 6 I/O error; 7 permission; 8 deadline; 9 not yet home.\n\
                     A selection is written as in NumPy: '[3, :, 0:8:2, -1]'; the step is the first axis.";

/// Inspect, check, recover, publish and convert Drystone containers.
#[derive(Debug, Parser)]
#[command(name = "drystone", bin_name = "drystone", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Describe a container: identity, durability, snapshot, steps, writers, sizes, uncommitted steps
    Info(ContainerAt),
    /// List variables, groups and links
    Ls(Ls),
    /// Print values of a variable, or the container's header
    // Here `-o` is the output file.
    #[command(mut_arg("options", |option| option.short(None)))]
    Dump(Dump),
    /// Show the plan of a read, without reading
    Explain(Explain),
    /// Find the cells that satisfy a condition: their number, coordinates and values
    Query(Query),
    /// Check every stored byte against its checksum; exit code 1 if something is damaged
    Verify(Verify),
    /// Write committed steps as Zarr, for other tools, under CONTAINER/zarr; repeated runs write only what is new
    Publish(Publish),
    /// Measure what reads and writes cost on a store or device, and keep the result for layouts and predictions
    Calibrate(Calibrate),
    /// Remove what no retained snapshot needs: expired snapshots, superseded log files, leftovers
    Gc(Gc),
    /// Define a variable that is computed from others when it is read
    Derive(Derive),
    /// Index stored values, so that queries for ranges of values read few bytes
    Index(Index),
    /// Store a replica of particles sorted by one of their values, so that queries for its ranges read few bytes
    Sort(Sort),
    /// Settle the uncommitted steps of a dead run: commit or drop complete steps, drop the others, fence its writers
    Recover(Recover),
    /// List the parts that lie in tiers of nodes and are not home yet, by node and step
    Tiers(Tiers),
    /// Copy home what processes of this node left in their tiers
    Drain(Drain),
    /// Load variables from a far store into a cache folder, pin them there, or unpin them
    Warm(Warm),
    /// Mount a container as files, until Ctrl-C: each variable as .npy, .bin, .h5 and .nc, fragments as flat files
    Mount(Mount),
    /// Unmount a container
    Umount(Umount),
    /// Serve containers to clients; on Ctrl-C or SIGTERM, finish the requests in progress and end
    Serve(Serve),
    /// Create, list and revoke the tokens that give clients rights on a server
    Token(Token),
    /// Check texts in the dataset language, and print each error with its position
    Check(Texts),
    /// Format texts in the dataset language, in place
    Fmt(Fmt),
    #[command(flatten)]
    Python(PythonCommand),
    /// Print the completion script for a shell
    Completion(Completion),
    /// Print the manual page
    Man,
}

/// What a command line requests.
pub(crate) enum Parsed {
    Run(Box<Arguments>),
    /// Text of `--help` or `--version`, for standard output.
    Say(String),
    Fail(Failure),
}

impl Arguments {
    /// The parser of every command, for parsing, completion and the manual page.
    pub(crate) fn parser() -> clap::Command {
        Self::command().after_help(CODES).mut_subcommands(|command| command.after_help(CODES))
    }

    /// Parses a command line; the first word is the program's name.
    pub(crate) fn read(args: Vec<OsString>) -> Parsed {
        let helps = helps(&args);
        let parsed = Self::parser().try_get_matches_from(args);
        match parsed.and_then(|matches| Self::from_arg_matches(&matches)) {
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

    /// The output file, if output does not go to standard output.
    pub(crate) fn output(&self) -> Option<&Path> {
        match &self.command {
            Command::Dump(dump) => dump.output.as_deref(),
            _ => None,
        }
    }
}

/// The error message and the tip, without clap's usage text.
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

/// The command whose help is most specific: the subcommand that was called, if it exists.
fn helps(args: &[OsString]) -> String {
    let called = args.iter().skip(1).filter_map(|arg| arg.to_str()).find(|arg| !arg.starts_with('-'));
    match called.filter(|name| Arguments::parser().find_subcommand(name).is_some()) {
        Some(name) => format!("drystone {name} --help"),
        None => "drystone --help".to_owned(),
    }
}
