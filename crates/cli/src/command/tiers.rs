//! `drystone tiers` and `drystone drain`: lists the parts that are not home yet, and copies them home.

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
        // What is lost does not come home by waiting.
        if levels.values().all(|level| *level >= Level::Home || *level == Level::Lost) {
            break;
        }
        std::thread::sleep(Duration::from_secs(every.max(1)));
    }
    Ok(shown)
}

/// Width of the bar, in characters.
const WIDTH: usize = 60;

/// A bar of the steps, oldest first. Each letter is the least safe level of a few steps.
fn picture(levels: &BTreeMap<u64, Level>) -> String {
    let all: Vec<Level> = levels.values().copied().collect();
    let cell = |steps: &[Level]| match steps.iter().min() {
        Some(Level::Lost) => 'x',
        Some(Level::Received) | None => 'r',
        Some(Level::Node) => 'n',
        Some(Level::Partner) => 'p',
        Some(Level::Home) => 'h',
        Some(Level::Stable) => 's',
    };
    all.chunks(all.len().div_ceil(WIDTH).max(1)).map(cell).collect()
}

/// Steps of each level, as ranges.
fn levels_json(levels: &BTreeMap<u64, Level>) -> Json {
    let of = |level: Level| levels.iter().filter(move |(_, found)| **found == level).map(|(step, _)| *step);
    let row = |level: Level| Json::Object(vec![("level", level.name().into()), ("steps", list(of(level)))]);
    let all = std::iter::once(Level::Lost).chain(Level::ALL);
    Json::List(all.filter(|level| of(*level).next().is_some()).map(row).collect())
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

/// Parts and bytes that are not home, by node and step.
fn show(container: &Container, json: bool, output: &mut Output) -> Result<i32> {
    let mut by: BTreeMap<(String, Option<u64>), (u64, u64, u64)> = BTreeMap::new();
    let staged: Vec<StagedPart> = container.staged()?;
    for part in &staged {
        let slot = by.entry((part.node.clone(), part.step)).or_default();
        let missing = if part.missing { part.bytes } else { 0 };
        *slot = (slot.0 + 1, slot.1 + part.bytes, slot.2 + missing);
    }
    let gone: u64 = by.values().map(|(.., missing)| missing).sum();
    if json {
        let one = |((node, step), (parts, bytes, missing)): (&(String, Option<u64>), &(u64, u64, u64))| {
            Json::Object(vec![
                ("node", node.clone().into()),
                ("step", (*step).into()),
                ("parts", (*parts).into()),
                ("bytes", (*bytes).into()),
                ("missing", (*missing).into()),
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
    let row = |((node, step), (parts, left, missing)): (&(String, Option<u64>), &(u64, u64, u64))| {
        let step = step.map_or_else(|| "-".to_owned(), |step| step.to_string());
        let missing = (gone > 0).then(|| bytes(*missing));
        [plain(node), step, parts.to_string(), bytes(*left)].into_iter().chain(missing).collect()
    };
    let rows: Vec<Vec<String>> = by.iter().map(row).collect();
    let columns = [("node", false), ("step", true), ("parts", true), ("not home", true), ("missing", true)];
    let shown = if gone > 0 { columns.len() } else { columns.len() - 1 };
    output.text(&table(columns.get(..shown).unwrap_or(&columns), &rows));
    let all: u64 = staged.iter().map(|part| part.bytes).sum();
    output.text(&format!("{} in {} not home yet\n", bytes(all), counted(staged.len() as u64, "part")));
    let levels = container.levels()?;
    if !levels.is_empty() {
        output.text(&format!(
            "steps {}, {}n node, p partner, h home, s stable:\n",
            ranges(levels.keys().copied()),
            if levels.values().any(|level| *level == Level::Lost) { "x lost, " } else { "" }
        ));
        output.text(&format!("{}\n", picture(&levels)));
    }
    if gone > 0 {
        output.text(&format!(
            "{} are missing in the tiers of this node: `drystone recover --adopt` rebuilds them from other nodes or gives them up; if \
             the folders have moved, name them with `drystone drain --tiers`\n",
            bytes(gone)
        ));
    }
    Ok(OK)
}

/// A progress bar, if standard error is a terminal.
pub(super) fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
