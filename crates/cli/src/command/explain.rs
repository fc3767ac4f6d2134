//! `drystone explain`: the plan of a read.

use drystone::plan::coalesce::Fetch;
use drystone::plan::read_plan::ReadPlan;

use super::{open, wanted, warn};
use crate::args::Explain;
use crate::cells::result_shape;
use crate::failure::{OK, Result};
use crate::json::{Json, list};
use crate::output::Output;

pub(super) fn run(explain: &Explain, json: bool, output: &mut Output) -> Result<i32> {
    let container = open(&explain.place)?;
    warn(&container);
    let wanted = wanted(&container, &explain.variable, &explain.part, explain.selection.as_deref())?;
    let plan = wanted.reading.explain(&wanted.selection)?;
    if json {
        output.json(&plan_json(&plan, &result_shape(&wanted.kept, &wanted.selection)));
    } else {
        plan.to_string().lines().for_each(|line| output.line(line));
    }
    Ok(OK)
}

fn plan_json(plan: &ReadPlan, shape: &[u64]) -> Json {
    Json::Object(vec![
        ("title", plan.title.clone().into()),
        ("shape", list(shape.iter().copied())),
        ("blocks", plan.blocks.into()),
        ("subchunks", plan.subchunks.into()),
        ("wanted_bytes", plan.wanted_bytes.into()),
        ("read_bytes", plan.read_bytes.into()),
        ("requests", plan.requests.into()),
        ("slots", plan.fill.len().into()),
        ("slots_with_fill", plan.fill.iter().filter(|f| **f).count().into()),
        ("checksum_requests", requests(&plan.trailers)),
        ("data_requests", requests(&plan.fetches)),
    ])
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
