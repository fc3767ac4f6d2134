//! `drystone info`: describes a container.

use drystone::format::schema::Schema;
use drystone::{Description, Pending};
use drystone_transform::readable;

use super::ls::MOST_ENTRIES;
use super::{look, lost};
use crate::args::ContainerAt;
use crate::attributes;
use crate::failure::{OK, Result};
use crate::json::{Json, list};
use crate::output::Output;
use crate::plain::plain;
use crate::quantity::{bytes, counted, ranges, time};
use crate::table::pairs;

pub(super) fn run(place: &ContainerAt, json: bool, output: &mut Output) -> Result<i32> {
    let container = look(place)?;
    let lost = lost(&container, place)?;
    let found = container.describe()?;
    let snapshots = container.snapshots()?;
    let kept = container.files_usage()?;
    let warnings = container.take_warnings();
    let snapshot = container.snapshot();
    let identity = container.identity();
    let uuid: String = identity.uuid.iter().map(|b| format!("{b:02x}")).collect();
    let schema = &snapshot.schema;
    let links = schema.names.len() - schema.variables.len().min(schema.names.len());
    let groups = schema.groups.len().saturating_sub(1);
    let on_disk: u64 = found.files.values().map(|f| f.bytes).sum();
    let files: u64 = found.files.values().map(|f| f.files).sum();
    let attrs = schema.groups.get("");
    let applied = applied(&container, found.entries)?;
    if json {
        output.json(&Json::Object(vec![
            ("path", place.path.display().to_string().into()),
            ("format", identity.version.into()),
            ("uuid", uuid.into()),
            ("durability", identity.durability.name().into()),
            ("created", identity.created.clone().into()),
            ("snapshot", snapshot.version().into()),
            ("committed", (snapshot.version() > 0).then(|| time(snapshot.time())).into()),
            ("snapshots", list(snapshots)),
            ("steps", list(snapshot.steps.iter())),
            ("variables", schema.variables.len().into()),
            ("groups", groups.into()),
            ("links", links.into()),
            ("index_entries", found.entries.into()),
            ("run", found.run.into()),
            ("writers", writers_json(&found)),
            ("bytes", on_disk.into()),
            ("files", files_json(&found)),
            ("byte_files", byte_files_json(kept.as_ref())),
            ("configuration", container.config().map(|c| c.path().display().to_string()).into()),
            ("transforms", applied_json(&applied)),
            ("access", expected_json(schema)),
            ("attributes", attrs.map_or(Json::Null, attributes::json)),
            ("pending", pending_json(&found.pending)),
            ("warnings", list(warnings)),
        ]));
        return Ok(lost.map_or(OK, |failure| failure.report()));
    }
    output.line(&place.path.display().to_string());
    let committed = if snapshot.version() == 0 {
        "nothing is committed yet".to_string()
    } else {
        format!("{}, committed {} ({} kept)", snapshot.version(), time(snapshot.time()), snapshots.len())
    };
    let steps = match snapshot.steps.len() {
        0 => "none".to_string(),
        n => format!("{n} ({})", ranges(snapshot.steps.iter())),
    };
    let mut rows = vec![
        ("format", identity.version.to_string()),
        ("uuid", uuid),
        ("durability", identity.durability.name().to_string()),
        ("created", identity.created.clone()),
        ("snapshot", committed),
        ("steps", steps),
        (
            "variables",
            format!(
                "{}, {}, {}",
                schema.variables.len(),
                counted(groups as u64, "group"),
                counted(links as u64, "link")
            ),
        ),
        ("index", format!("{}, one per block and member", counted(found.entries, "entry"))),
        ("writers", writers_text(&found)),
        (
            "on disk",
            match files {
                // A web server cannot list files.
                0 => "not known".into(),
                _ => format!("{} in {}{}", bytes(on_disk), counted(files, "file"), folders(&found)),
            },
        ),
    ];
    if let Some(kept) = &kept {
        let (files, folders) = (counted(kept.files, "file"), counted(kept.folders, "folder"));
        rows.push(("byte files", format!("{files} in {folders}, {}", bytes(kept.bytes))));
    }
    if found.run > 0 {
        rows.push(("run", found.run.to_string()));
    }
    for line in &applied {
        rows.push(("encoded", line.to_string()));
    }
    if let Some(config) = container.config() {
        rows.push(("configured by", config.path().display().to_string()));
        rows.extend(config.rules().iter().map(|rule| ("", rule.to_string())));
    }
    for (path, access) in expected(schema) {
        rows.push(("expected", plain(&format!("{path} is read by {access}"))));
    }
    for (name, value) in attrs.into_iter().flatten() {
        rows.push(("attribute", format!("{name} = {}", attributes::text(value))));
    }
    rows.extend(pending_rows(&found.pending));
    output.text(&pairs(&rows));
    for warning in warnings {
        let text = output.coloured(33, "warning:");
        output.text(&text);
        output.line(&format!(" {warning}"));
    }
    Ok(lost.map_or(OK, |failure| failure.report()))
}

/// How the blocks of one variable are encoded.
struct Applied {
    path: String,
    declared: String,
    chains: Vec<String>,
}

impl std::fmt::Display for Applied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let chains: Vec<String> = self.chains.iter().map(|chain| readable(chain)).collect();
        write!(f, "{} as {}", self.path, chains.join("; "))?;
        if self.chains != [self.declared.as_str()] {
            write!(f, " (declared {})", readable(&self.declared))
        } else {
            Ok(())
        }
    }
}

/// Variables with encoded blocks, or with a declared transform.
fn applied(container: &drystone::Container, entries: u64) -> Result<Vec<Applied>> {
    if entries > MOST_ENTRIES {
        return Ok(Vec::new());
    }
    let named = |chain: &str| if chain.is_empty() { "identity".to_string() } else { chain.to_string() };
    let usage = container.usage(true)?;
    let schema = container.schema();
    let mut out = Vec::new();
    for (path, variable) in schema.named() {
        let Some(usage) = usage.get(&variable.id) else { continue };
        let chains: Vec<String> = usage.transforms.iter().map(|chain| named(chain)).collect();
        let declared = named(&variable.transform);
        if !chains.is_empty() && (declared != "identity" || chains != ["identity"]) {
            out.push(Applied { path: path.to_owned(), declared, chains });
        }
    }
    Ok(out)
}

fn applied_json(applied: &[Applied]) -> Json {
    let one = |a: &Applied| {
        let chains = list(a.chains.iter().map(String::as_str));
        Json::Object(vec![("declared", a.declared.as_str().into()), ("applied", chains)])
    };
    Json::Named(applied.iter().map(|a| (a.path.clone(), one(a))).collect())
}

/// Variables with a declared mix of reads.
fn expected(schema: &Schema) -> impl Iterator<Item = (&str, &str)> {
    schema
        .named()
        .map(|(path, variable)| (path, variable.access.as_str()))
        .filter(|(_, access)| !access.is_empty())
}

fn expected_json(schema: &Schema) -> Json {
    Json::Named(expected(schema).map(|(path, access)| (path.to_owned(), access.into())).collect())
}

fn writers_text(found: &Description) -> String {
    let mut states: Vec<(&str, u64)> = Vec::new();
    for writer in &found.writers {
        match states.iter_mut().find(|(name, _)| *name == writer.state.name()) {
            Some((_, n)) => *n += 1,
            None => states.push((writer.state.name(), 1)),
        }
    }
    let states: Vec<String> = states.iter().map(|(name, n)| format!("{n} {name}")).collect();
    if states.is_empty() { "0".into() } else { format!("{} ({})", found.writers.len(), states.join(", ")) }
}

fn writers_json(found: &Description) -> Json {
    Json::List(
        found
            .writers
            .iter()
            .map(|w| {
                Json::Object(vec![
                    ("id", format!("{:016x}", w.id).into()),
                    ("state", w.state.name().into()),
                    ("parts", w.parts.into()),
                    ("bytes", w.bytes.into()),
                ])
            })
            .collect(),
    )
}

fn folders(found: &Description) -> String {
    let parts: Vec<String> = found
        .files
        .iter()
        .filter(|(folder, _)| !folder.is_empty())
        .map(|(folder, count)| format!("{folder} {}", bytes(count.bytes)))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn files_json(found: &Description) -> Json {
    Json::Named(
        found
            .files
            .iter()
            .map(|(folder, count)| {
                let name = if folder.is_empty() { "." } else { folder.as_str() };
                let count = Json::Object(vec![("files", count.files.into()), ("bytes", count.bytes.into())]);
                (name.to_string(), count)
            })
            .collect(),
    )
}

/// Byte files that programs wrote below `files` of a mount.
fn byte_files_json(kept: Option<&drystone_file_store::Usage>) -> Json {
    kept.map_or(Json::Null, |kept| {
        Json::Object(vec![
            ("files", kept.files.into()),
            ("folders", kept.folders.into()),
            ("bytes", kept.bytes.into()),
            ("stored", kept.stored.into()),
        ])
    })
}

/// Uncommitted steps, as rows of `info` and of `recover`.
pub(super) fn pending_rows(pending: &Pending) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if !pending.steps.is_empty() {
        rows.push((
            "waiting",
            format!("complete and not committed: step {}", ranges(pending.steps.iter().copied())),
        ));
    }
    if pending.values {
        rows.push(("waiting", "values without a step, not committed".to_string()));
    }
    rows.extend(pending.incomplete.iter().map(|i| ("incomplete", i.to_string())));
    if !pending.incomplete.is_empty() {
        let cure = "wait for these ranks; if they have died, drystone recover drops the steps and lets a new run begin";
        rows.push(("remedy", cure.to_string()));
    }
    rows.extend(pending.notes.iter().map(|note| ("note", note.clone())));
    rows
}

/// The same as JSON.
pub(super) fn pending_json(pending: &Pending) -> Json {
    Json::Object(vec![
        ("steps", list(pending.steps.iter().copied())),
        ("values", pending.values.into()),
        ("incomplete", incomplete_json(&pending.incomplete)),
        ("notes", list(pending.notes.iter().cloned())),
    ])
}

/// Steps that some ranks have not closed.
pub(super) fn incomplete_json(incomplete: &[drystone::Incomplete]) -> Json {
    Json::List(
        incomplete
            .iter()
            .map(|i| {
                Json::Object(vec![
                    ("run", i.at.run.into()),
                    ("step", i.at.step.into()),
                    ("nranks", i.nranks.into()),
                    ("missing", list(i.missing.iter().copied())),
                    ("again", i.again.into()),
                ])
            })
            .collect(),
    )
}
