//! Arguments of the commands that show containers to others: mounts and servers.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::container::Far;

#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// An empty folder
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) at: PathBuf,
    /// Let programs write files below FOLDER/files
    #[arg(long)]
    pub(crate) write: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// Where it is mounted
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) at: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The server's configuration: docs/guide/server.md has its keys
    #[arg(value_name = "CONFIGURATION", value_hint = ValueHint::FilePath, required_unless_present = "container")]
    pub(crate) configuration: Option<PathBuf>,
    /// Instead of a configuration: one container, for processes of this user on this machine; prints its URL. Where it is served already,
    /// prints that URL and ends
    #[arg(long = "for", value_name = "CONTAINER", value_hint = ValueHint::DirPath, conflicts_with = "configuration")]
    pub(crate) container: Option<PathBuf>,
    /// With --for: end after this many seconds without a connected client
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "container")]
    pub(crate) idle: u64,
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
    #[arg(value_name = "TOKENS", value_hint = ValueHint::FilePath)]
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
