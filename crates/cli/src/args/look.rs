//! Arguments of the commands that look into a container.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;

use super::container::{ContainerAt, VariablePart, number};
use crate::candidates::variables;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    pub(crate) place: ContainerAt,
    /// Only what is in this group, or this variable
    #[arg(default_value = "", hide_default_value = true, add = ArgValueCompleter::new(variables))]
    pub(crate) group: String,
    /// Add steps, blocks, stored bytes and ratio (reads the whole index)
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Go down into groups
    #[arg(short, long)]
    pub(crate) recursive: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) place: ContainerAt,
    /// The variable
    #[arg(required_unless_present = "header", add = ArgValueCompleter::new(variables))]
    pub(crate) variable: Option<String>,
    /// Which cells, as in '[3, :, 0:8:2, -1]'; all if not given
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    #[command(flatten)]
    pub(crate) part: VariablePart,
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
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// The most cells to print; 0 prints all (default: 1000, with --json or --raw all)
    #[arg(long, value_name = "CELLS", conflicts_with = "raw", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) place: ContainerAt,
    /// The variable
    #[arg(add = ArgValueCompleter::new(variables))]
    pub(crate) variable: String,
    /// Which cells, as in '[3, :, 0:8:2, -1]'; all if not given
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    #[command(flatten)]
    pub(crate) part: VariablePart,
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
    pub(crate) place: ContainerAt,
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
    /// The most hits to print; 0 prints all
    #[arg(long, value_name = "HITS", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) limit: Option<u64>,
    /// Print what would be read, and what statistics decide, without reading
    #[arg(long)]
    pub(crate) explain: bool,
}
