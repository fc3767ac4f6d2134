//! `drystone ls`: variables, groups and links.

use std::collections::BTreeMap;

use drystone::format::schema::{Name, Schema};
use drystone::{Container, VariableUsage};

use super::{open, variable_shape_text, warn};
use crate::args::Ls;
use crate::attributes;
use crate::failure::{Failure, NOT_FOUND, OK, Result};
use crate::json::{Json, list};
use crate::output::Output;
use crate::quantity;
use crate::table::{Column, table};

/// What is listed.
enum Item<'a> {
    Group(&'a str),
    Variable(&'a str, u32),
    Link(&'a str, &'a str),
}

impl Item<'_> {
    fn path(&self) -> &str {
        match self {
            Item::Group(path) | Item::Variable(path, _) | Item::Link(path, _) => path,
        }
    }
}

pub(super) fn run(ls: &Ls, json: bool, output: &mut Output) -> Result<i32> {
    let container = open(&ls.place)?;
    warn(&container);
    let snapshot = container.snapshot();
    let schema = snapshot.schema.as_ref();
    let items = items(&container, schema, &ls.group, ls.recursive)?;
    let usage = if ls.long { Some(container.usage()?) } else { None };
    if json {
        let items = items.iter().filter_map(|item| item_json(schema, item, usage.as_ref())).collect();
        output.json(&Json::List(items));
        return Ok(OK);
    }
    if items.is_empty() {
        return Ok(OK);
    }
    let mut columns: Vec<Column> = vec![
        ("name", false),
        ("dtype", false),
        ("shape", false),
        ("dims", false),
        ("steps", true),
        ("transform", false),
    ];
    if ls.long {
        columns.extend([("blocks", true), ("stored", true), ("ratio", true)]);
    }
    let rows: Vec<Vec<String>> =
        items.iter().filter_map(|item| item_row(schema, item, usage.as_ref(), columns.len())).collect();
    output.text(&table(&columns, &rows));
    Ok(OK)
}

/// What stands in a group, by path; or one variable.
fn items<'a>(container: &Container, schema: &'a Schema, typed: &str, deep: bool) -> Result<Vec<Item<'a>>> {
    let group = match schema.follow(Container::normal_path(typed)) {
        Some(path) if schema.groups.contains_key(&path) => path,
        Some(path) => {
            let named = schema.names.get_key_value(&path).or_else(|| schema.names.get_key_value(typed));
            return Ok(named.map(|(path, name)| item(path, name)).into_iter().collect());
        }
        None => {
            let message = format!("there is no group or variable \"{typed}\"");
            let near = container.variable(typed).err().map(|e| e.to_string()).unwrap_or_default();
            let near = near.rsplit_once("; ").map(|(_, near)| format!("; {near}")).unwrap_or_default();
            return Err(Failure::new(NOT_FOUND, message + &near));
        }
    };
    let below = |path: &str| {
        let rest = if group.is_empty() {
            Some(path)
        } else {
            path.strip_prefix(&group).and_then(|r| r.strip_prefix('/'))
        };
        rest.is_some_and(|rest| !rest.is_empty() && (deep || !rest.contains('/')))
    };
    let groups = schema.groups.keys().filter(|path| below(path)).map(|path| Item::Group(path));
    let names = schema.names.iter().filter(|(path, _)| below(path)).map(|(path, name)| item(path, name));
    let mut items: Vec<Item<'_>> = groups.chain(names).collect();
    items.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(items)
}

fn item<'a>(path: &'a str, name: &'a Name) -> Item<'a> {
    match name {
        Name::Variable(id) => Item::Variable(path, *id),
        Name::Link(target) => Item::Link(path, target),
    }
}

fn ratio(usage: &VariableUsage) -> Option<f64> {
    (usage.stored_bytes > 0).then(|| usage.decoded_bytes as f64 / usage.stored_bytes as f64)
}

fn item_row(
    schema: &Schema,
    item: &Item<'_>,
    usage: Option<&BTreeMap<u32, VariableUsage>>,
    columns: usize,
) -> Option<Vec<String>> {
    let mut row = match item {
        Item::Group(path) => vec![format!("{path}/"), "group".into()],
        Item::Link(path, target) => vec![format!("{path} -> {target}"), "link".into()],
        Item::Variable(path, id) => {
            let v = schema.variables.get(id)?;
            let usage = usage.and_then(|u| u.get(id));
            let steps = match (v.steps, usage) {
                (false, _) => "-".to_string(),
                (true, None) => "yes".to_string(),
                (true, Some(usage)) => usage.steps.len().to_string(),
            };
            let dims = if v.dims.is_empty() { "-".into() } else { v.dims.join(", ") };
            let transform = if v.transform.is_empty() { "-".into() } else { v.transform.clone() };
            let mut row =
                vec![path.to_string(), v.dtype.to_string(), variable_shape_text(v), dims, steps, transform];
            if let Some(usage) = usage {
                row.push(usage.blocks.to_string());
                row.push(quantity::bytes(usage.stored_bytes));
                row.push(ratio(usage).map_or("-".into(), |r| format!("{r:.2}")));
            }
            row
        }
    };
    row.resize(columns, String::new());
    Some(row)
}

fn item_json(schema: &Schema, item: &Item<'_>, usage: Option<&BTreeMap<u32, VariableUsage>>) -> Option<Json> {
    Some(match item {
        Item::Group(path) => Json::Object(vec![
            ("kind", "group".into()),
            ("path", (*path).into()),
            ("attributes", schema.groups.get(*path).map_or(Json::Null, attributes::json)),
        ]),
        Item::Link(path, target) => Json::Object(vec![
            ("kind", "link".into()),
            ("path", (*path).into()),
            ("target", (*target).into()),
        ]),
        Item::Variable(path, id) => {
            let v = schema.variables.get(id)?;
            let mut members = vec![
                ("kind", "variable".into()),
                ("path", (*path).into()),
                ("dtype", v.dtype.to_string().into()),
                ("shape", if v.local { Json::Null } else { list(v.shape.iter().copied()) }),
                ("growable", list(v.growable.iter().copied())),
                ("dims", list(v.dims.iter().cloned())),
                ("has_steps", v.steps.into()),
                ("local", v.local.into()),
                ("transform", if v.transform.is_empty() { Json::Null } else { v.transform.clone().into() }),
                ("chunks", v.chunks.as_ref().map_or(Json::Null, |c| list(c.iter().copied()))),
                (
                    "fill_value",
                    v.fill.as_ref().map_or(Json::Null, |f| crate::element::json(&v.dtype, &[], f)),
                ),
                ("attributes", attributes::json(&v.attrs)),
            ];
            if let Some(usage) = usage.and_then(|u| u.get(id)) {
                members.extend([
                    ("steps", if v.steps { list(usage.steps.iter()) } else { Json::Null }),
                    ("blocks", usage.blocks.into()),
                    ("subchunks", usage.subchunks.into()),
                    ("stored_bytes", usage.stored_bytes.into()),
                    ("decoded_bytes", usage.decoded_bytes.into()),
                    ("ratio", ratio(usage).into()),
                    ("applied_transforms", list(usage.transforms.iter().cloned())),
                ]);
            }
            Json::Object(members)
        }
    })
}
