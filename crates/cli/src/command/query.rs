//! `drystone query`: counts or lists the cells that satisfy a condition.
//!
//! Hits are printed in batches, so that memory use does not depend on their number.

use drystone::format::dtype::DType;
use drystone::format::meaning::Meaning;
use drystone::plan::selection::index;
use drystone::plan::selection_text;
use drystone::{PlanRow, Query, QueryReport, Summary};

use super::{open, shape_text, warn};
use crate::args::Query as Asked;
use crate::element;
use crate::failure::{Failure, OK, Result};
use crate::json::{Json, list};
use crate::output::Output;
use crate::plain::plain;
use crate::quantity;

/// Hits per batch.
const ROWS: usize = 4096;

pub(super) fn run(asked: &Asked, json: bool, output: &mut Output) -> Result<i32> {
    let container = open(&asked.place)?;
    warn(&container);
    let condition = container.condition(&asked.condition)?;
    let query = container.query(&condition, &[])?;
    let query = within(&query, asked.selection.as_deref())?;
    if asked.explain {
        return explain(&query, asked, json, output);
    }
    if asked.csv || asked.coords {
        let code = rows(&query, asked, json, output)?;
        warn(&container);
        return Ok(code);
    }
    let (count, report) = query.count()?;
    warn(&container);
    match (json, asked.count) {
        (true, _) => {
            let mut document =
                vec![("condition", Json::from(query.text().to_owned())), ("count", count.into())];
            document.extend(cost(&report));
            output.json(&Json::Object(document));
        }
        (false, true) => output.line(&count.to_string()),
        (false, false) => {
            let (cells, read) = (report.summary.cells, quantity::bytes(report.bytes));
            output.line(&format!("{count} of {cells} cells satisfy {}; {read} read", plain(query.text())));
        }
    }
    Ok(OK)
}

/// Restricts the query to the selected cells.
fn within(query: &Query, typed: Option<&str>) -> Result<Query> {
    let text = typed.unwrap_or("");
    let indices = selection_text::parse(text).map_err(|mistake| Failure::selection(text, &mistake))?;
    let shape = query.shape();
    let (selection, _) = index(&shape, &indices)
        .map_err(|e| Failure::usage(format!("the cells have shape {}: {e}", shape_text(&shape, &[]))))?;
    Ok(query.select(&selection)?)
}

fn cost(report: &QueryReport) -> Vec<(&'static str, Json)> {
    vec![
        ("cells", report.summary.cells.into()),
        ("bytes", report.bytes.into()),
        ("requests", report.requests.into()),
    ]
}

fn explain(query: &Query, asked: &Asked, json: bool, output: &mut Output) -> Result<i32> {
    let plan = query.explain()?;
    let mut rows = Vec::new();
    let most = asked.limit.filter(|limit| *limit > 0).map_or(usize::MAX, |limit| limit as usize);
    if asked.rows {
        query.explain_rows(&mut |row| {
            rows.push(row);
            rows.len() < most
        })?;
    }
    if !json {
        plan.to_string().lines().for_each(|line| output.line(&plain(line)));
        for PlanRow { step, offset, shape, term, decided, bytes, why } in rows {
            let step = step.map_or(String::new(), |step| format!("step {step} "));
            let ranges = offset.iter().zip(&shape).map(|(first, n)| format!("{first}+{n}"));
            let cells = ranges.collect::<Vec<_>>().join(", ");
            let line = format!("  {step}[{cells}] {term}: {decided}, {}; {why}", quantity::bytes(bytes));
            output.line(&plain(&line));
        }
        return Ok(OK);
    }
    let row = |row: &PlanRow| {
        Json::Object(vec![
            ("step", row.step.map_or(Json::Null, Json::from)),
            ("offset", list(row.offset.iter().copied())),
            ("shape", list(row.shape.iter().copied())),
            ("term", row.term.clone().into()),
            ("decided", row.decided.to_owned().into()),
            ("bytes", row.bytes.into()),
            ("why", row.why.clone().into()),
        ])
    };
    let Summary { cells, none, all, some, terms, bytes, requests } = &plan.summary;
    let term = |t: &drystone::TermSummary| {
        Json::Object(vec![
            ("term", t.text.clone().into()),
            ("none", t.none.into()),
            ("all", t.all.into()),
            ("some", t.some.into()),
            ("bytes", t.bytes.into()),
            ("requests", t.requests.into()),
            ("tried", t.site.as_ref().map_or(Json::Null, |site| site.to_string().into())),
        ])
    };
    let mut document = vec![
        ("condition", Json::from(plan.text.clone())),
        ("steps", plan.steps.into()),
        ("cells", (*cells).into()),
        ("excluded", (*none).into()),
        ("included", (*all).into()),
        ("open", (*some).into()),
        ("bytes", (*bytes).into()),
        ("requests", (*requests).into()),
        ("terms", Json::List(terms.iter().map(term).collect())),
    ];
    document.extend(asked.rows.then(|| ("rows", Json::List(rows.iter().map(row).collect()))));
    output.json(&Json::Object(document));
    Ok(OK)
}

/// The element type of a column.
type ColumnType = (DType, Option<Meaning>);

/// Prints coordinates; with `--csv`, values too.
fn rows(query: &Query, asked: &Asked, json: bool, output: &mut Output) -> Result<i32> {
    let columns: Vec<String> = match (asked.csv, asked.columns.is_empty()) {
        (false, _) => Vec::new(),
        (true, true) => query.names().into_iter().map(str::to_owned).collect(),
        (true, false) => asked.columns.clone(),
    };
    let mut batches = query.batches(&columns)?;
    let types: Vec<(ColumnType, Vec<u64>)> = batches.dtypes().into_iter().zip(batches.inner()).collect();
    let axes = axes(query);
    if json {
        output.text("{\"condition\": ");
        output.text(&Json::from(query.text().to_owned()).to_string());
        output.text(&format!(", \"dims\": {}, \"coords\": [", list(axes.iter().cloned())));
    } else if asked.csv {
        let names = axes.iter().map(String::as_str).chain(columns.iter().map(String::as_str));
        output.line(&names.map(field).collect::<Vec<_>>().join(","));
    }
    let mut left = asked.limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX);
    let mut first = true;
    while left > 0 && !output.is_gone() {
        let Some(batch) = batches.next((left as usize).min(ROWS))? else { break };
        left -= batch.rows as u64;
        let width = (batch.coords.len() / batch.rows.max(1)).max(1);
        for row in 0..batch.rows {
            let coords = batch.coords.get(row * width..(row + 1) * width).unwrap_or_default();
            if json {
                output.text(if first { "" } else { ", " });
                output.text(&list(coords.iter().copied()).to_string());
                first = false;
                continue;
            }
            let mut texts: Vec<String> = coords.iter().map(i64::to_string).collect();
            for (number, ((dtype, meaning), shape)) in types.iter().enumerate() {
                let unwritten = batch.written[number].as_ref().is_some_and(|mask| mask[row] == 0);
                let item = batch.values[number].len() / batch.rows.max(1);
                let bytes = batch.values[number].get(row * item..(row + 1) * item).unwrap_or_default();
                texts.push(if unwritten {
                    String::new()
                } else {
                    cell((dtype, meaning.as_ref()), shape, bytes)
                });
            }
            output.line(&texts.join(if asked.csv { "," } else { " " }));
        }
    }
    if json {
        let mut tail = String::from("]");
        for (name, value) in cost(&batches.report()) {
            tail.push_str(&format!(", \"{name}\": {value}"));
        }
        output.text(&tail);
        output.text("}\n");
    }
    Ok(OK)
}

/// Names of the coordinate columns.
fn axes(query: &Query) -> Vec<String> {
    let grid = query.grid().len();
    let dims = query.dims();
    let of = |axis: usize| match dims.get(axis).filter(|dim| !dim.is_empty()) {
        Some(dim) => dim.clone(),
        None => format!("axis_{axis}"),
    };
    query.has_steps().then(|| "step".to_owned()).into_iter().chain((0..grid).map(of)).collect()
}

/// An element as a CSV field: a text without the quotes and escapes of a literal, an empty one as two quotes.
fn cell((dtype, meaning): (&DType, Option<&Meaning>), shape: &[u64], bytes: &[u8]) -> String {
    let is_text = shape.is_empty() && matches!(dtype, DType::Bytes(_) | DType::Unicode(_));
    match element::json((dtype, meaning), shape, bytes) {
        Json::Text(text) if is_text && text.is_empty() => "\"\"".into(),
        Json::Text(text) if is_text => field(&text),
        _ => field(&element::text((dtype, meaning), shape, bytes)),
    }
}

/// A CSV field, quoted where necessary.
fn field(text: &str) -> String {
    let text = plain(text);
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
