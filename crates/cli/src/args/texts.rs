//! Arguments of the commands for texts in the dataset language.

use std::path::PathBuf;

use clap::{Args, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct Texts {
    /// Files in the dataset language
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Fmt {
    /// Files in the dataset language
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Print the files that would change, without changing them; exit code 1 if there are any
    #[arg(long)]
    pub(crate) check: bool,
}
