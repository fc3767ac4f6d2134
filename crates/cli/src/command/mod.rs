//! The commands, one file each; and what they share: opening a container, and parsing a selection.

mod calibrate;
mod check;
mod derive;
mod dump;
mod explain;
mod fmt;
mod gc;
mod header;
mod index;
mod info;
mod ls;
mod mount;
mod publish;
mod query;
mod recover;
mod serve;
mod sort;
mod tiers;
mod token;
mod verify;
mod warm;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use drystone::format::schema::Variable;
use drystone::plan::selection::{Index, Selection, index};
use drystone::plan::selection_text;
use drystone::{Container, Mode, OpenOptions, Reading, StoreOptions};
use drystone_server::Page;

use crate::args::{Arguments, Command, ContainerAt, Far, VariablePart};
use crate::cells::kept_axes;
use crate::failure::{CORRUPT, Failure, NOT_FOUND, OK, Result};
use crate::output::Output;
use crate::plain::plain;
use crate::{completion, manual, quantity};

/// Runs the command; returns the exit code.
pub(crate) fn run(arguments: &Arguments, page: Option<Arc<dyn Page>>, output: &mut Output) -> Result<i32> {
    let json = arguments.json;
    match &arguments.command {
        Command::Info(place) => info::run(place, json, output),
        Command::Ls(ls) => ls::run(ls, json, output),
        Command::Dump(dump) if dump.header => header::run(dump, json, output),
        Command::Dump(dump) => dump::run(dump, json, output),
        Command::Explain(explain) => explain::run(explain, json, output),
        Command::Verify(verify) => verify::run(verify, json, output),
        Command::Publish(publish) => publish::run(publish, json, output),
        Command::Query(asked) => query::run(asked, json, output),
        Command::Calibrate(calibrate) => calibrate::run(calibrate, json, output),
        Command::Gc(gc) => gc::run(gc, json, output),
        Command::Derive(derive) => derive::run(derive, json, output),
        Command::Index(index) => index::run(index, json, output),
        Command::Sort(sort) => sort::run(sort, json, output),
        Command::Recover(recover) => recover::run(recover, json, output),
        Command::Tiers(tiers) => tiers::run(tiers, json, output),
        Command::Drain(drain) => tiers::drain(drain, json, output),
        Command::Warm(asked) => warm::run(asked, json, output),
        Command::Mount(mount) => mount::run(mount, output),
        Command::Umount(place) => mount::end(place),
        Command::Serve(serve) => serve::run(serve, page),
        Command::Token(token) => token::run(token, json, output),
        Command::Check(texts) => check::run(texts, json, output),
        Command::Fmt(fmt) => fmt::run(fmt, output),
        Command::Completion(asked) => {
            output.text(&completion::script(asked.shell)?);
            Ok(OK)
        }
        Command::Man => {
            output.text(&manual::page()?);
            Ok(OK)
        }
        Command::Python(_) => Err(Failure::usage("this command runs in Python")),
    }
}

/// Opens a container for reading, at the requested snapshot. Prints warnings to standard error, unless the
/// caller takes them first.
///
/// Lost files are an error, unless the command line has `--damaged`.
fn open(place: &ContainerAt) -> Result<Container> {
    let container = look(place)?;
    match lost(&container, place)? {
        Some(failure) => Err(failure),
        None => Ok(container),
    }
}

/// [`open`] for commands that report lost files themselves.
fn look(place: &ContainerAt) -> Result<Container> {
    let container = match place.damaged {
        true if place.path.to_str().is_some_and(drystone::is_url) => {
            return Err(Failure::usage(
                "--damaged is for containers in folders: far stores lose nothing to a power cut",
            ));
        }
        true => {
            let options = OpenOptions { damaged: true, ..OpenOptions::from(Mode::Read) };
            Container::open(&place.path, options)?
        }
        false => open_as(&place.path, &place.far, Mode::Read)?,
    };
    Ok(match place.at {
        Some(snapshot) => {
            warn(&container);
            container.at(snapshot)?
        }
        None => container,
    })
}

/// A failure if the snapshot needs files that are lost; `None` if there are none or the command line has `--damaged`.
fn lost(container: &Container, place: &ContainerAt) -> Result<Option<Failure>> {
    if place.damaged {
        return Ok(None);
    }
    let lost = container.lost()?;
    let Some(first) = lost.first() else { return Ok(None) };
    let more = match lost.len() - 1 {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    };
    let what = format!(
        "{} has lost files: {}{more}; \"drystone verify\" names all: restore them, or go on with what is left by --damaged; after a \
         power cut \"drystone recover\" settles it",
        place.path.display(),
        first.message
    );
    Ok(Some(Failure::new(CORRUPT, what)))
}

/// Opens the container at a path or a URL.
fn open_as(path: &Path, far: &Far, mode: Mode) -> Result<Container> {
    if !far.options.is_empty() && !path.to_str().is_some_and(drystone::is_url) {
        return Err(Failure::usage(format!("{} is a path: options of a store are for URLs", path.display())));
    }
    let store = StoreOptions::from(far.options.as_slice());
    Ok(Container::open(path, OpenOptions { store, ..OpenOptions::from(mode) })?)
}

/// Prints warnings about what opening had to ignore to standard error.
fn warn(container: &Container) {
    for warning in container.take_warnings() {
        let _ = writeln!(std::io::stderr(), "drystone: warning: {}", plain(&warning));
    }
}

/// A shape as NumPy writes it, with `*` for growable axes.
fn shape_text(shape: &[u64], growable: &[bool]) -> String {
    let extent = |(i, n): (usize, &u64)| {
        format!("{n}{}", if growable.get(i).copied().unwrap_or(false) { "*" } else { "" })
    };
    let parts: Vec<String> = shape.iter().enumerate().map(extent).collect();
    format!("({}{})", parts.join(", "), if parts.len() == 1 { "," } else { "" })
}

/// "local" or the extents, without the step axis.
fn variable_shape_text(variable: &Variable) -> String {
    if variable.local { "local".into() } else { shape_text(&variable.shape, &variable.growable) }
}

/// The part of a variable that is to be read.
struct Wanted {
    reading: Reading,
    selection: Selection,
    /// The selection's axis for each axis of the result.
    kept: Vec<Option<usize>>,
}

/// Looks up a variable and parses the selection.
fn wanted(container: &Container, path: &str, part: &VariablePart, typed: Option<&str>) -> Result<Wanted> {
    let reading = container.reading(path, part.field.as_deref())?;
    if reading.variable().local {
        return Err(Failure::usage(format!(
            "\"{path}\" is a local variable: it has blocks, not one array; print them with drystone dump, without a selection"
        )));
    }
    let text = typed.unwrap_or("");
    let mut indices = selection_text::parse(text).map_err(|mistake| Failure::selection(text, &mistake))?;
    if let Some(step) = part.step {
        let step = step_number(container, &reading, path, step)?;
        let first = i64::try_from(step).map_err(|_| Failure::usage("the step is too large"))?;
        indices.insert(0, Index::Int(first));
    }
    let shape = reading.shape();
    let (selection, _) = index(&shape, &indices)
        .map_err(|e| Failure::usage(format!("\"{path}\" has shape {}: {e}", shape_text(&shape, &[]))))?;
    Ok(Wanted { selection, kept: kept_axes(shape.len(), &indices), reading })
}

/// A step as typed, if it exists; negative ones count from the end.
fn step_number(container: &Container, reading: &Reading, path: &str, typed: i64) -> Result<u64> {
    if !reading.variable().steps {
        return Err(Failure::usage(format!("\"{path}\" has no steps; leave --step out")));
    }
    let snapshot = container.snapshot();
    let step = u64::try_from(typed).ok().or_else(|| snapshot.step_axis().checked_sub(typed.unsigned_abs()));
    match step.filter(|step| snapshot.steps.contains(*step)) {
        Some(step) => Ok(step),
        None if snapshot.steps.is_empty() => {
            Err(Failure::new(NOT_FOUND, format!("there is no step {typed}; no step is committed yet")))
        }
        None => Err(Failure::new(
            NOT_FOUND,
            format!("there is no step {typed}; there are: {}", quantity::ranges(snapshot.steps.iter())),
        )),
    }
}
