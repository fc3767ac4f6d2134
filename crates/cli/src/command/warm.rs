//! `drystone warm`: loads variables into a cache folder, and pins them there.

use drystone::plan::selection::{Axis, Selection};
use drystone::{CacheFolder, Container, Keep, Mode, OpenOptions, Reading, StoreOptions, WarmReport};

use super::tiers::bar;
use super::warn;
use crate::args::Warm;
use crate::failure::{Failure, OK, Result};
use crate::json::Json;
use crate::output::Output;
use crate::quantity::bytes;

pub(super) fn run(asked: &Warm, json: bool, output: &mut Output) -> Result<i32> {
    let container = open(asked)?;
    warn(&container);
    let keep = match (asked.pin, asked.unpin) {
        (true, _) => Keep::Pin,
        (_, true) => Keep::Unpin,
        _ => Keep::Warm,
    };
    let schema = container.schema();
    let stored = schema.named().filter(|(_, variable)| !variable.local && variable.derived.is_none());
    let names: Vec<String> = match asked.variables.as_slice() {
        [] => stored.map(|(path, _)| path.to_owned()).collect(),
        some => some.to_vec(),
    };
    let mut sum = WarmReport::default();
    let bar = bar();
    for name in &names {
        let reading = container.reading(name, None)?;
        let Some(selection) = selection(&reading, asked.step) else { continue };
        let report = reading.keep(&selection, keep, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
            true
        })?;
        sum.wanted_bytes += report.wanted_bytes;
        sum.fetched_bytes += report.fetched_bytes;
        sum.held_bytes += report.held_bytes;
    }
    bar.finish_and_clear();
    if json {
        output.json(&Json::Object(vec![
            ("wanted", sum.wanted_bytes.into()),
            ("fetched", sum.fetched_bytes.into()),
            ("held", sum.held_bytes.into()),
        ]));
    } else if keep == Keep::Unpin {
        output.text("unpinned\n");
    } else {
        let (held, wanted, fetched) =
            (bytes(sum.held_bytes), bytes(sum.wanted_bytes), bytes(sum.fetched_bytes));
        output.text(&format!("{held} of {wanted} in the cache, {fetched} fetched\n"));
    }
    Ok(OK)
}

fn open(asked: &Warm) -> Result<Container> {
    if asked.cache.is_none() && !asked.path.to_str().is_some_and(drystone::is_url) {
        return Err(Failure::usage(format!("{} is a path: name the cache by --cache", asked.path.display())));
    }
    let cache = asked.cache.clone().map(|folder| CacheFolder { folder, budget: asked.bytes });
    let store = StoreOptions { cache, ..StoreOptions::from(asked.far.options.as_slice()) };
    Ok(Container::open(&asked.path, OpenOptions { store, ..OpenOptions::from(Mode::Read) })?)
}

/// All cells, or those of one step; `None` if the step does not exist.
fn selection(reading: &Reading, step: Option<u64>) -> Option<Selection> {
    let mut selection = Selection::all(&reading.shape());
    if let (Some(step), true) = (step, reading.variable().steps) {
        let axis = selection.axes.first_mut()?;
        if step >= axis.count {
            return None;
        }
        *axis = Axis { start: step, step: 1, count: 1 };
    }
    Some(selection)
}
