//! The `drystone` command as a library, so that the Python package installs the same command.
//!
//! ```text
//! args ── command (info, ls, dump, explain, query, verify, publish, calibrate, recover; serve, token; check, fmt) ── engine, server
//!              ├─ selection_text, cells: text to selections, selections to slabs of bounded size
//!              └─ element, nested, json, table: values to text          output: where text goes
//! ```
//!
//! Invariants
//! - nothing is decided here: the engine is asked, and what it says is turned to text, JSON and exit codes;
//! - only `recover`, `publish` and `calibrate` write to a container, only `fmt` to a text;
//! - text that comes from a container reaches a terminal without control characters.

mod args;
mod attributes;
mod cells;
mod command;
mod element;
mod failure;
mod grammar;
mod json;
mod nested;
mod output;
mod plain;
mod quantity;
mod selection_text;
mod table;

use std::ffi::OsString;

pub use grammar::grammar;

use args::{Arguments, Parsed};
use output::Output;

/// Runs the command with `args` (the program's name first) and returns its exit code; see `docs/reference/cli.md` for the codes.
///
/// Writes to standard output and standard error of the process; never ends the process itself.
pub fn run(args: Vec<OsString>) -> i32 {
    match Arguments::read(args) {
        Parsed::Run(arguments) => {
            let mut output = Output::to(arguments.output());
            let done = command::run(&arguments, &mut output);
            match done.and_then(|code| output.finish().map(|()| code)) {
                Ok(code) => code,
                Err(failure) => failure.report(),
            }
        }
        Parsed::Say(text) => {
            let mut output = Output::standard();
            output.text(&text);
            output.finish().map_or_else(|failure| failure.report(), |()| failure::OK)
        }
        Parsed::Fail(failure) => failure.report(),
    }
}
