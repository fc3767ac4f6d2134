//! The `drystone` command as a library, so that the Python package installs the same command.
//!
//! ```text
//! args ─┬─ command (info, ls, dump, ...; serve, token; check, fmt) ── engine, server
//!       │      ├─ cells: splits selections into slabs of bounded size
//!       │      └─ element, nested, json, table: values to text          output: destination of text
//!       ├─ commands that Python runs: their arguments as JSON
//!       └─ completion, manual, grammar: derived from the parser
//! ```
//!
//! Invariants
//! - there is one parser, for commands that run here and for commands that run in Python;
//! - this crate decides nothing: it calls the engine, and turns results into text, JSON and exit codes;
//! - of the commands that run here, only `recover`, `drain`, `publish`, `gc`, `calibrate`, `derive`, `index`,
//!   `sort` write to a container, and only `fmt` to a text;
//! - text that comes from a container reaches a terminal without control characters.

mod args;
mod attributes;
mod candidates;
mod cells;
mod command;
mod completion;
mod element;
mod failure;
mod grammar;
mod json;
mod manual;
mod nested;
mod output;
mod plain;
mod quantity;
mod table;

use std::ffi::OsString;
use std::sync::Arc;

pub use drystone_server::{Page, PageAnswer};
pub use grammar::grammar;

use args::{Arguments, Command, Parsed, PublishHdf5};
use failure::Result;
use output::Output;

/// The outcome of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// The command ran; its exit code.
    Code(i32),
    /// The command runs in Python. The JSON object holds `command`, `json` (whether the output is JSON), and the
    /// arguments.
    InPython(String),
}

/// Runs the command with `args`, the program's name first. docs/reference/cli.md lists the exit codes. `page`
/// is the page that `serve` shows in browsers.
///
/// Writes to standard output and standard error of the process; never ends the process itself.
pub fn run(args: Vec<OsString>, page: Option<Arc<dyn Page>>) -> Done {
    let done = match completion::answer(&args) {
        Some(answer) => answer.and_then(|answer| said(|output| output.bytes(&answer))),
        None => match Arguments::read(args) {
            Parsed::Run(arguments) => match in_python(&arguments) {
                Some(handed) => return Done::InPython(handed),
                None => run_here(&arguments, page),
            },
            Parsed::Say(text) => said(|output| output.text(&text)),
            Parsed::Fail(failure) => Err(failure),
        },
    };
    Done::Code(done.unwrap_or_else(|failure| failure.report()))
}

/// What Python receives for a command that runs there.
fn in_python(arguments: &Arguments) -> Option<String> {
    let handed = match &arguments.command {
        Command::Python(command) => serde_json::to_value(command),
        Command::Publish(publish) if publish.hdf5 => {
            serde_json::to_value(PublishHdf5 { path: &publish.path, library: publish.library.as_deref() })
        }
        _ => return None,
    };
    let mut handed = handed.ok()?;
    handed.as_object_mut()?.insert("json".into(), arguments.json.into());
    Some(handed.to_string())
}

fn run_here(arguments: &Arguments, page: Option<Arc<dyn Page>>) -> Result<i32> {
    let mut output = Output::to(arguments.output());
    let code = command::run(arguments, page, &mut output)?;
    output.finish().map(|()| code)
}

fn said(write: impl FnOnce(&mut Output)) -> Result<i32> {
    let mut output = Output::standard();
    write(&mut output);
    output.finish().map(|()| failure::OK)
}
