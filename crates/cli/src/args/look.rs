//! Arguments of the commands that inspect a container.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;

use super::container::{ContainerAt, VariablePart, number};
use crate::candidates::variables;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    #[command(flatten)]
    pub(crate) place: ContainerAt,
    /// List only this group or variable
    #[arg(default_value = "", hide_default_value = true, add = ArgValueCompleter::new(variables))]
    pub(crate) group: String,
    /// Add columns for steps, blocks, stored bytes and ratio (reads the whole index)
    #[arg(short, long)]
    pub(crate) long: bool,
    /// List the contents of groups too
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
    /// The cells, as in '[3, :, 0:8:2, -1]'; default: all
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    #[command(flatten)]
    pub(crate) part: VariablePart,
    /// Print dimensions, variables and attributes instead of values
    #[arg(long, conflicts_with_all = ["raw", "selection", "step", "field", "block"])]
    pub(crate) header: bool,
    /// Print one block as it was written, by its number (for local variables, or together with --step)
    #[arg(long, value_name = "NUMBER", conflicts_with = "selection", value_parser = number::<usize>, allow_negative_numbers = true)]
    pub(crate) block: Option<usize>,
    /// Write the bytes of the values: little-endian, row-major, without a header
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Print at most this many cells; 0 prints all (default: 1000; with --json or --raw all)
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
    /// The cells, as in '[3, :, 0:8:2, -1]'; default: all
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    #[command(flatten)]
    pub(crate) part: VariablePart,
    /// Also execute the read, and print the measured time beside the predicted one
    #[arg(long)]
    pub(crate) measure: bool,
    /// Also show how the model would cut a block of this shape, such as 256x256x256, and why
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
    /// The cells, as in '[3, :, 0:8:2, -1]', the step first; default: all
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    /// Print only the number of hits
    #[arg(long, conflicts_with_all = ["coords", "csv", "explain"])]
    pub(crate) count: bool,
    /// Print the coordinates of the hits, one line per hit
    #[arg(long, conflicts_with_all = ["csv", "explain"])]
    pub(crate) coords: bool,
    /// Print coordinates and values as CSV; unwritten cells are empty fields
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    pub(crate) csv: bool,
    /// Variables whose values --csv prints; default: those of the condition
    #[arg(long, value_name = "VARIABLE,…", value_delimiter = ',', requires = "csv")]
    pub(crate) columns: Vec<String>,
    /// Print at most this many hits; 0 prints all
    #[arg(long, value_name = "HITS", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) limit: Option<u64>,
    /// Print what would be read and what statistics decide, without reading
    #[arg(long)]
    pub(crate) explain: bool,
    /// With --explain: also a line per subchunk and condition with what it costs and why; --limit bounds them
    #[arg(long, requires = "explain")]
    pub(crate) rows: bool,
}
