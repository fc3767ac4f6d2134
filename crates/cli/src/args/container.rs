//! Arguments that select a container and a part of it; many commands share them.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Options of the store behind a URL.
#[derive(Debug, Clone, Args)]
pub(crate) struct Far {
    /// Option of the store behind a URL, such as aws_region=eu-1; may be repeated. The environment (AWS_ENDPOINT_URL,
    /// ...) is read too
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE", value_parser = store_option)]
    pub(crate) options: Vec<(String, String)>,
}

/// A container, and one of its snapshots.
#[derive(Debug, Args)]
pub(crate) struct ContainerAt {
    /// The container's directory or URL
    #[arg(value_name = "CONTAINER", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) far: Far,
    /// Use this earlier snapshot
    #[arg(long, value_name = "SNAPSHOT", value_parser = number::<u64>, allow_negative_numbers = true)]
    pub(crate) at: Option<u64>,
    /// Read what is left if files are lost; without it, lost files are an error (exit code 4)
    #[arg(long)]
    pub(crate) damaged: bool,
}

/// A part of a variable.
#[derive(Debug, Args)]
pub(crate) struct VariablePart {
    /// One member of a record, such as velocity.x
    #[arg(long, value_name = "MEMBER")]
    pub(crate) field: Option<String>,
    /// One step; the selection then has no step axis
    #[arg(long, value_name = "STEP", allow_negative_numbers = true)]
    pub(crate) step: Option<i64>,
}

fn store_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // The value may be a secret, so the message does not repeat it.
        _ => Err("an option of a store is written NAME=VALUE".into()),
    }
}

/// Parses an unsigned integer.
pub(super) fn number<T: std::str::FromStr>(typed: &str) -> Result<T, &'static str> {
    typed.parse().map_err(|_| "a whole number is expected, not below zero")
}
