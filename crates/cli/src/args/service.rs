//! Arguments of the commands that expose containers to other programs: mounts and servers.

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
    /// The mount point: an empty folder
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) at: PathBuf,
    /// Let programs write files below FOLDER/files
    #[arg(long)]
    pub(crate) write: bool,
    /// As --write, and the kernel collects writes in its cache; no other mount may write files meanwhile
    #[arg(long, conflicts_with = "write")]
    pub(crate) writeback: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Umount {
    /// The mount point
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) at: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The configuration of the server; docs/guide/server.md lists its keys
    #[arg(value_name = "CONFIGURATION", value_hint = ValueHint::FilePath, required_unless_present = "container")]
    pub(crate) configuration: Option<PathBuf>,
    /// Serve this one container to processes of this user on this machine, and print its URL; if a server for it runs
    /// already, print its URL and end
    #[arg(long = "for", value_name = "CONTAINER", value_hint = ValueHint::DirPath, conflicts_with = "configuration")]
    pub(crate) container: Option<PathBuf>,
    /// With --for: end after this many seconds without a connected client
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "container")]
    pub(crate) idle: u64,
}

/// An action on tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TokenAction {
    /// Add a token to the file, and print it once
    Create,
    /// List the tokens of the file, without their secrets
    List,
    /// Remove a token from the file
    Revoke,
}

#[derive(Debug, Args)]
pub(crate) struct Token {
    /// The action
    pub(crate) action: TokenAction,
    /// The file of tokens that the server's configuration names
    #[arg(value_name = "TOKENS", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// The token to revoke
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// A right on a path, such as storage.read:/run42 (read, create or modify); may be repeated
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// The lifetime of the token, such as 2s, 10m, 12h or 30d; default: unlimited
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}
