//! `drystone publish`: committed steps as Zarr or netCDF.

use std::io::IsTerminal;

use drystone::{Compressor, Error, ErrorKind, Format, Mode, PublishOptions, PublishReport, PublishedArray};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{open_as, shape_text, warn};
use crate::args::Publish;
use crate::failure::{OK, Result};
use crate::json::Json;
use crate::output::Output;
use crate::plain::plain;
use crate::quantity::{bytes, counted};
use crate::table::table;

pub(super) fn run(publish: &Publish, json: bool, output: &mut Output) -> Result<i32> {
    let options = PublishOptions {
        variables: (!publish.variables.is_empty()).then(|| publish.variables.clone()),
        memory: publish.memory.saturating_mul(1 << 20),
        compressor: Compressor::parse(&publish.compressor)?,
        format: publish.format.as_deref().map(Format::parse).transpose()?,
        ..PublishOptions::default()
    };
    let container = open_as(&publish.path, &publish.far, Mode::ReadWrite)?;
    warn(&container);
    let bar = bar();
    let mut shown = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        true
    };
    let published = match (options.format, &publish.output) {
        (Some(Format::Netcdf), None) if publish.path.to_str().is_some_and(drystone::is_url) => {
            Err(Error::new(ErrorKind::InvalidArgument, "a netCDF file is a local one: name it with --output"))
        }
        (Some(Format::Netcdf), path) => {
            let path = path.clone().unwrap_or_else(|| drystone::netcdf_path(&publish.path));
            container.publish_netcdf(&path, &options, &mut shown)
        }
        (_, Some(_)) => Err(Error::new(ErrorKind::InvalidArgument, "--output is for --format netcdf")),
        _ => container.publish(&options, &mut shown),
    };
    bar.finish_and_clear();
    let report = published?;
    if json {
        output.json(&report_json(&report));
        return Ok(OK);
    }
    let rows: Vec<Vec<String>> = report.arrays.iter().map(row).collect();
    if !rows.is_empty() {
        let columns = [
            ("array", false),
            ("shape", true),
            ("chunk", true),
            ("shard", true),
            ("written", true),
            ("kept", true),
        ];
        output.text(&table(&columns, &rows));
    }
    for array in report.arrays.iter().filter(|_| publish.why) {
        let why =
            array.layout.as_ref().map_or_else(|| "as it was published before\n".into(), ToString::to_string);
        output.text(&format!("{}: {}", plain(&array.node), why));
    }
    for skipped in &report.skipped {
        output.text(&format!("not published: {} ({})\n", plain(&skipped.variable), skipped.reason));
    }
    let written: u64 = report.arrays.iter().map(|a| a.written).sum();
    let stored: u64 = report.arrays.iter().map(|a| a.stored_bytes).sum();
    output.text(&format!(
        "snapshot {} published: {} written, {}\n",
        report.snapshot,
        counted(written, "shard"),
        bytes(stored)
    ));
    Ok(OK)
}

/// A progress bar, if standard error is a terminal.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template("{bar:40} {binary_bytes} of {binary_total_bytes}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn row(array: &PublishedArray) -> Vec<String> {
    vec![
        plain(&array.node),
        shape_text(&array.shape, &[]),
        shape_text(&array.chunk, &[]),
        shape_text(&array.shard, &[]),
        array.written.to_string(),
        array.kept.to_string(),
    ]
}

fn report_json(report: &PublishReport) -> Json {
    let extents = |shape: &[u64]| Json::List(shape.iter().map(|&n| n.into()).collect());
    let array = |array: &PublishedArray| {
        Json::Object(vec![
            ("array", array.node.clone().into()),
            ("variable", array.variable.clone().into()),
            ("member", array.member.clone().into()),
            ("shape", extents(&array.shape)),
            ("chunk", extents(&array.chunk)),
            ("shard", extents(&array.shard)),
            ("written", array.written.into()),
            ("kept", array.kept.into()),
            ("copied", array.copied.into()),
            ("stored_bytes", array.stored_bytes.into()),
            ("why", array.layout.as_ref().map_or(Json::Null, |l| l.to_string().into())),
        ])
    };
    let skipped = report.skipped.iter().map(|s| {
        Json::Object(vec![("variable", s.variable.clone().into()), ("reason", s.reason.clone().into())])
    });
    Json::Object(vec![
        ("snapshot", report.snapshot.into()),
        ("arrays", Json::List(report.arrays.iter().map(array).collect())),
        ("skipped", Json::List(skipped.collect())),
    ])
}
