//! `drystone tiers` and `drystone drain`: what is not home yet, and bringing it there.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use drystone::{Container, Level, Mode, StagedPart, TierFolder};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{open_as, warn};
use crate::args::{Drain, Tiers};
use crate::failure::{OK, Result};
use crate::json::{Json, list};
use crate::output::Output;
use crate::plain::plain;
use crate::quantity::{bytes, counted, ranges};
use crate::table::table;

pub(super) fn run(tiers: &Tiers, json: bool, output: &mut Output) -> Result<i32> {
    let container = open_as(&tiers.path, &tiers.far, Mode::Read)?;
    warn(&container);
    let shown = show(&container, json, output)?;
    let begun = Instant::now();
    while let Some(every) = tiers.every {
        let levels = container.levels()?;
        match json {
            true => output.json(&Json::Object(vec![
                ("seconds", begun.elapsed().as_secs().into()),
                ("levels", levels_json(&levels)),
            ])),
            false => output.text(&format!("{:>6} s  {}\n", begun.elapsed().as_secs(), picture(&levels))),
        }
        if levels.values().all(|level| *level >= Level::Home) {
            break;
        }
        std::thread::sleep(Duration::from_secs(every.max(1)));
    }
    Ok(shown)
}

/// Cells of a picture.
const WIDTH: usize = 60;

/// Where the steps lie, oldest first: a letter for the least safe of a few steps.
fn picture(levels: &BTreeMap<u64, Level>) -> String {
    let all: Vec<Level> = levels.values().copied().collect();
    let cell = |steps: &[Level]| match steps.iter().min() {
        Some(Level::Received) | None => 'r',
        Some(Level::Node) => 'n',
        Some(Level::Partner) => 'p',
        Some(Level::Home) => 'h',
        Some(Level::Stable) => 's',
    };
    all.chunks(all.len().div_ceil(WIDTH).max(1)).map(cell).collect()
}

/// Steps by level, as ranges.
fn levels_json(levels: &BTreeMap<u64, Level>) -> Json {
    let of = |level: Level| levels.iter().filter(move |(_, found)| **found == level).map(|(step, _)| *step);
    let row = |level: Level| Json::Object(vec![("level", level.name().into()), ("steps", list(of(level)))]);
    Json::List(Level::ALL.into_iter().filter(|level| of(*level).next().is_some()).map(row).collect())
}

pub(super) fn drain(drain: &Drain, json: bool, output: &mut Output) -> Result<i32> {
    let container = open_as(&drain.path, &drain.far, Mode::ReadWrite)?;
    warn(&container);
    let folder = |folder: &std::path::PathBuf| TierFolder { folder: folder.clone(), budget: None };
    container.use_tiers(&drain.tiers.iter().map(folder).collect::<Vec<_>>())?;
    let bar = bar();
    let drained = container.drain(None, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        true
    });
    bar.finish_and_clear();
    drained?;
    let shown = show(&container, json, output);
    container.finish()?;
    shown
}

/// By node and step: parts and bytes that are not home.
fn show(container: &Container, json: bool, output: &mut Output) -> Result<i32> {
    let mut by: BTreeMap<(String, Option<u64>), (u64, u64)> = BTreeMap::new();
    let staged: Vec<StagedPart> = container.staged()?;
    for part in &staged {
        let slot = by.entry((part.node.clone(), part.step)).or_default();
        *slot = (slot.0 + 1, slot.1 + part.bytes);
    }
    if json {
        let one = |((node, step), (parts, bytes)): (&(String, Option<u64>), &(u64, u64))| {
            Json::Object(vec![
                ("node", node.clone().into()),
                ("step", (*step).into()),
                ("parts", (*parts).into()),
                ("bytes", (*bytes).into()),
            ])
        };
        let staged = Json::List(by.iter().map(one).collect());
        let levels = levels_json(&container.levels()?);
        output.json(&Json::Object(vec![("staged", staged), ("levels", levels)]));
        return Ok(OK);
    }
    if by.is_empty() {
        output.text("everything is home\n");
        return Ok(OK);
    }
    let row = |((node, step), (parts, left)): (&(String, Option<u64>), &(u64, u64))| {
        let step = step.map_or_else(|| "-".to_owned(), |step| step.to_string());
        vec![plain(node), step, parts.to_string(), bytes(*left)]
    };
    let rows: Vec<Vec<String>> = by.iter().map(row).collect();
    output.text(&table(&[("node", false), ("step", true), ("parts", true), ("not home", true)], &rows));
    let all: u64 = staged.iter().map(|part| part.bytes).sum();
    output.text(&format!("{} in {} not home yet\n", bytes(all), counted(staged.len() as u64, "part")));
    let levels = container.levels()?;
    if !levels.is_empty() {
        output.text(&format!(
            "steps {}, n node, p partner, h home, s stable:\n",
            ranges(levels.keys().copied())
        ));
        output.text(&format!("{}\n", picture(&levels)));
    }
    Ok(OK)
}

/// A bar on standard error, if a person looks there.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
