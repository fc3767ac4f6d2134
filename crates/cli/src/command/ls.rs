//! `drystone ls`: variables, groups and links.

use std::collections::BTreeMap;

use drystone::format::schema::{Name, Schema};
use drystone::{Container, VariableUsage};
use drystone_format::meaning::described;
use drystone_transform::readable;

use super::{open, variable_shape_text, warn};
use crate::args::Ls;
use crate::attributes;
use crate::failure::{Failure, NOT_FOUND, OK, Result};
use crate::json::{Json, list};
use crate::output::Output;
use crate::plain::plain;
use crate::quantity;
use crate::table::{Column, table};

/// Index entries that are read at most without `-l`.
pub(super) const MOST_ENTRIES: u64 = 100_000;

/// A row of the listing.
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
    let files = files(&container, &ls.group, ls.recursive)?;
    let items = items(&container, schema, &ls.group, ls.recursive)?;
    // Details of blocks need the index, which may be long.
    let usage = match ls.long {
        true => Some(container.usage(true)?),
        false if snapshot.entry_count() <= MOST_ENTRIES => Some(container.usage(false)?),
        false => None,
    };
    if json {
        let found = items.iter().filter_map(|item| item_json(schema, item, (usage.as_ref(), ls.long)));
        output.json(&Json::List(found.chain(files.iter().map(file_json)).collect()));
        return Ok(OK);
    }
    if items.is_empty() && files.is_empty() {
        return Ok(OK);
    }
    let mut columns: Vec<Column> = vec![
        ("name", false),
        ("dtype", false),
        ("shape", false),
        ("dims", false),
        ("steps", true),
        ("transform", false),
        ("subchunks", false),
    ];
    if ls.long {
        columns.extend([("blocks", true), ("stored", true), ("ratio", true)]);
    }
    let mut rows: Vec<Vec<String>> = items
        .iter()
        .filter_map(|item| item_row(schema, item, (usage.as_ref(), ls.long), columns.len()))
        .collect();
    rows.extend(files.iter().map(|(path, len)| {
        let mut row = vec![plain(path), "file".to_owned(), quantity::bytes(*len)];
        row.resize(columns.len(), String::new());
        row
    }));
    output.text(&table(&columns, &rows));
    Ok(OK)
}

/// Byte files, as a mount shows them: all, or those in the root.
fn files(container: &Container, group: &str, deep: bool) -> Result<Vec<(String, u64)>> {
    let files = match container.files() {
        Ok(Some(files)) if Container::normal_path(group).is_empty() => files,
        Ok(_) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let all = files.list().map_err(drystone::Error::from)?;
    let here = all.into_iter().filter(|(path, _)| deep || !path.contains('/'));
    Ok(here.map(|(path, len)| (format!("/files/{path}"), len)).collect())
}

fn file_json((path, len): &(String, u64)) -> Json {
    Json::Object(vec![("path", path.as_str().into()), ("kind", "file".into()), ("bytes", (*len).into())])
}

/// The contents of a group, by path; or one variable.
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

/// The chains that blocks are stored with; then the declared chain, if it differs.
pub(super) fn applied(declared: &str, usage: Option<&VariableUsage>) -> String {
    let named = |chain: &str| if chain.is_empty() { "-".to_string() } else { readable(chain) };
    let declared = named(declared);
    let used: Vec<String> = usage.iter().flat_map(|u| &u.transforms).map(|chain| named(chain)).collect();
    match used.as_slice() {
        [] => declared,
        [one] if *one == declared => declared,
        several if declared == "-" => several.join("; "),
        several => format!("{} ({declared})", several.join("; ")),
    }
}

/// The block shapes; before any block is written, the declared ones.
fn cuts(declared: Option<&[u64]>, usage: Option<&VariableUsage>) -> String {
    let shape = |cut: &[u64]| cut.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    let one = |cut: &Option<Vec<u64>>| cut.as_deref().map_or("whole".to_string(), shape);
    let used: Vec<String> = usage.iter().flat_map(|u| &u.cuts).map(one).collect();
    match used.as_slice() {
        [] => declared.map_or("-".into(), shape),
        [first, second, _, ..] => format!("{first}; {second}; …"),
        few => few.join("; "),
    }
}

fn item_row(
    schema: &Schema,
    item: &Item<'_>,
    (usage, long): (Option<&BTreeMap<u32, VariableUsage>>, bool),
    columns: usize,
) -> Option<Vec<String>> {
    let mut row = match item {
        Item::Group(path) => vec![format!("{path}/"), "group".into()],
        Item::Link(path, target) => vec![format!("{path} -> {target}"), "link".into()],
        Item::Variable(path, id) => {
            let v = schema.variables.get(id)?;
            let usage = usage.and_then(|u| u.get(id));
            let steps = match (v.steps, usage.filter(|_| long)) {
                (false, _) => "-".to_string(),
                (true, None) => "yes".to_string(),
                (true, Some(usage)) => usage.steps.len().to_string(),
            };
            let dims = if v.dims.is_empty() { "-".into() } else { v.dims.join(", ") };
            let transform = match &v.derived {
                Some(derived) => format!("= {}", derived.text),
                None => applied(&v.transform, usage),
            };
            let cut = cuts(v.chunks.as_deref(), usage);
            let mut row = vec![
                path.to_string(),
                described(&v.dtype, v.meaning.as_ref()),
                variable_shape_text(v),
                dims,
                steps,
                transform,
                cut,
            ];
            if let Some(usage) = usage.filter(|_| long) {
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

fn item_json(
    schema: &Schema,
    item: &Item<'_>,
    (usage, long): (Option<&BTreeMap<u32, VariableUsage>>, bool),
) -> Option<Json> {
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
                ("dtype", described(&v.dtype, v.meaning.as_ref()).into()),
                ("shape", if v.local { Json::Null } else { list(v.shape.iter().copied()) }),
                ("growable", list(v.growable.iter().copied())),
                ("dims", list(v.dims.iter().cloned())),
                ("has_steps", v.steps.into()),
                ("local", v.local.into()),
                ("transform", if v.transform.is_empty() { Json::Null } else { v.transform.clone().into() }),
                ("chunks", v.chunks.as_ref().map_or(Json::Null, |c| list(c.iter().copied()))),
                (
                    "fill_value",
                    v.fill
                        .as_ref()
                        .map_or(Json::Null, |f| crate::element::json((&v.dtype, v.meaning.as_ref()), &[], f)),
                ),
                ("attributes", attributes::json(&v.attrs)),
                ("derived", v.derived.as_ref().map_or(Json::Null, |derived| derived.text.clone().into())),
            ];
            let usage = usage.and_then(|u| u.get(id));
            if let Some(usage) = usage.filter(|_| long) {
                members.extend([
                    ("steps", if v.steps { list(usage.steps.iter()) } else { Json::Null }),
                    ("blocks", usage.blocks.into()),
                    ("subchunks", usage.subchunks.into()),
                    ("stored_bytes", usage.stored_bytes.into()),
                    ("decoded_bytes", usage.decoded_bytes.into()),
                    ("ratio", ratio(usage).into()),
                ]);
            }
            if let Some(usage) = usage {
                let cut =
                    |cut: &Option<Vec<u64>>| cut.as_ref().map_or(Json::Null, |c| list(c.iter().copied()));
                members.push(("applied_transforms", list(usage.transforms.iter().cloned())));
                members.push(("cuts", Json::List(usage.cuts.iter().map(cut).collect())));
            }
            Json::Object(members)
        }
    })
}
