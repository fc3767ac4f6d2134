//! `drystone explain`: the plan of a read.

use std::time::Instant;

use drystone::array::Target;
use drystone::plan::coalesce::Fetch;
use drystone::plan::read_plan::ReadPlan;

use super::{Wanted, open, wanted, warn};
use crate::args::Explain;
use crate::cells::result_shape;
use crate::failure::{Failure, OK, Result};
use crate::json::{Json, list};
use crate::output::Output;

pub(super) fn run(explain: &Explain, json: bool, output: &mut Output) -> Result<i32> {
    let container = open(&explain.place)?;
    warn(&container);
    let wanted = wanted(&container, &explain.variable, &explain.part, explain.selection.as_deref())?;
    let mut plan = wanted.reading.explain(&wanted.selection)?;
    plan.measured = explain.measure.then(|| measure(&wanted)).transpose()?;
    let block: Option<Vec<u64>> = match &explain.why {
        Some(text) => {
            Some(text.split('x').map(str::parse).collect::<std::result::Result<_, _>>().map_err(|_| {
                Failure::usage(format!("--why {text}: extents of a block are written as 256x256x256"))
            })?)
        }
        None => None,
    };
    let why = block.map(|block| container.cut_of(&explain.variable, &block)).transpose()?;
    if json {
        let seconds = |s: Option<f64>| s.map_or(Json::Null, Json::from);
        let mut document = plan_json(&plan, &result_shape(&wanted.kept, &wanted.selection));
        document.push(("predicted", seconds(plan.predicted)));
        document.push(("measured", seconds(plan.measured)));
        let why = why.map_or(Json::Null, |(cut, from)| format!("{cut}reads: {from}\n").into());
        document.push(("why", why));
        output.json(&Json::Object(document));
        return Ok(OK);
    }
    plan.to_string().lines().for_each(|line| output.line(line));
    if let Some((cut, from)) = why {
        cut.to_string().lines().for_each(|line| output.line(line));
        output.line(&format!("reads: {from}"));
    }
    Ok(OK)
}

/// Duration in seconds of one read into memory.
fn measure(wanted: &Wanted) -> Result<f64> {
    const MOST: u64 = 4 << 30;
    let (shape, item) = (wanted.selection.shape(), wanted.reading.item() as u64);
    let bytes = shape.iter().try_fold(item, |bytes, n| bytes.checked_mul(*n)).filter(|bytes| *bytes <= MOST);
    let bytes = bytes.ok_or_else(|| Failure::usage("--measure reads at most 4 GiB; select less"))?;
    let mut cells = vec![0; bytes as usize];
    let target = Target::dense(&mut cells, &shape, item as usize)?;
    let begun = Instant::now();
    wanted.reading.read(&wanted.selection, &target)?;
    Ok(begun.elapsed().as_secs_f64())
}

fn plan_json(plan: &ReadPlan, shape: &[u64]) -> Vec<(&'static str, Json)> {
    vec![
        ("title", plan.title.clone().into()),
        ("shape", list(shape.iter().copied())),
        ("blocks", plan.blocks.into()),
        ("subchunks", plan.subchunks.into()),
        ("wanted_bytes", plan.wanted_bytes.into()),
        ("read_bytes", plan.read_bytes.into()),
        ("requests", plan.requests.into()),
        ("max_error", plan.bound.absolute.into()),
        ("max_relative_error", plan.bound.relative.into()),
        ("slots", plan.fill.len().into()),
        ("slots_with_fill", plan.fill.iter().filter(|f| **f).count().into()),
        ("checksum_requests", requests(&plan.trailers)),
        ("data_requests", requests(&plan.fetches)),
    ]
}

fn requests<T>(fetches: &[Fetch<T>]) -> Json {
    let one = |f: &Fetch<T>| {
        Json::Object(vec![
            ("source", f.source.into()),
            ("start", f.range.start.into()),
            ("end", f.range.end.into()),
            ("ranges", f.items.len().into()),
        ])
    };
    Json::List(fetches.iter().map(one).collect())
}
