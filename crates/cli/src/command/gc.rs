//! `drystone gc`: removes what no retained snapshot needs.

use std::io::IsTerminal;

use drystone::{GcOptions, GcReport, Mode};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{open_as, warn};
use crate::args::Gc;
use crate::failure::{Failure, OK, Result};
use crate::json::Json;
use crate::output::Output;
use crate::plain::plain;
use crate::quantity::{bytes, counted};
use crate::table::table;

pub(super) fn run(gc: &Gc, json: bool, output: &mut Output) -> Result<i32> {
    let older_than = gc.older_than.as_deref().map(age).transpose()?;
    let options = GcOptions { keep: gc.keep, older_than, dry_run: gc.dry_run };
    let mode = if gc.dry_run { Mode::Read } else { Mode::ReadWrite };
    let container = open_as(&gc.path, &gc.far, mode)?;
    warn(&container);
    let bar = bar();
    let done = container.gc(&options, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        true
    });
    bar.finish_and_clear();
    let report = done?;
    if json {
        output.json(&report_json(&report));
        return Ok(OK);
    }
    let rows: Vec<Vec<String>> = report.removed.iter().map(|(key, n)| vec![plain(key), bytes(*n)]).collect();
    if !rows.is_empty() {
        output.text(&table(&[("file", false), ("freed", true)], &rows));
    }
    output.text(&format!(
        "{}{} expired, {} kept, {} superseded: {}\n",
        if report.dry_run { "would be done: " } else { "" },
        counted(report.expired.len() as u64, "snapshot"),
        report.kept.len(),
        counted(report.superseded, "block"),
        bytes(report.bytes),
    ));
    Ok(OK)
}

/// `90`, `90s`, `15m`, `12h`, `7d`.
fn age(text: &str) -> Result<std::time::Duration> {
    let bad =
        || Failure::usage(format!("--older-than takes a time such as 90s, 15m, 12h or 7d, not \"{text}\""));
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(bad)?;
    Ok(std::time::Duration::from_secs(seconds))
}

/// A progress bar, if standard error is a terminal.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template("{bar:40} {pos} of {len} files, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn report_json(report: &GcReport) -> Json {
    let numbers = |all: &[u64]| Json::List(all.iter().map(|&n| n.into()).collect());
    let removed = report
        .removed
        .iter()
        .map(|(key, n)| Json::Object(vec![("file", key.clone().into()), ("bytes", (*n).into())]));
    Json::Object(vec![
        ("dry_run", report.dry_run.into()),
        ("kept", numbers(&report.kept)),
        ("expired", numbers(&report.expired)),
        ("superseded", report.superseded.into()),
        ("removed", Json::List(removed.collect())),
        ("bytes", report.bytes.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::age;

    #[test]
    fn ages_have_units() {
        let seconds = |text: &str| age(text).ok().map(|d| d.as_secs());
        assert_eq!(["90", "90s", "2m", "3h", "7d"].map(seconds), [90, 90, 120, 10_800, 604_800].map(Some));
        assert_eq!(["", "d", "1w", "-1s", "99999999999999999d"].map(seconds), [None; 5]);
    }
}
