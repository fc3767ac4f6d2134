//! `drystone dump --header`: dimensions, variables and attributes, as ncdump writes them.

use std::collections::BTreeMap;

use drystone::Snapshot;
use drystone::format::schema::{Attrs, Variable};
use drystone_format::meaning::described;

use super::{open, warn};
use crate::args::Dump;
use crate::attributes;
use crate::failure::{Failure, OK, Result};
use crate::output::Output;
use crate::plain::plain;

pub(super) fn run(dump: &Dump, json: bool, output: &mut Output) -> Result<i32> {
    if json {
        return Err(Failure::usage(
            "--header is for people; drystone ls -r --json says the same to programs",
        ));
    }
    let container = open(&dump.place)?;
    warn(&container);
    let snapshot = container.snapshot();
    let only = match &dump.variable {
        Some(path) => Some(container.variable(path)?.id),
        None => None,
    };
    let name = dump.place.path.file_stem().map_or("container".into(), |n| n.to_string_lossy().into_owned());
    let variables: Vec<(&str, &Variable)> =
        snapshot.schema.named().filter(|(_, v)| only.is_none_or(|id| id == v.id)).collect();
    output.line(&format!("drystone {name} {{"));
    dimensions(&snapshot, &variables, output);
    if !variables.is_empty() {
        output.text("variables:\n");
    }
    for (path, variable) in variables {
        output.text(&format!(
            "\t{} {};\n",
            described(&variable.dtype, variable.meaning.as_ref()),
            plain(&declared(path, variable))
        ));
        attributes_of(path, &variable.attrs, output);
        if !variable.transform.is_empty() {
            output.text(&format!("\t\t// transform {}\n", plain(&variable.transform)));
        }
        if let Some(derived) = &variable.derived {
            output.text(&format!("\t\t// derived: {}\n", plain(&derived.text)));
        }
        if !variable.access.is_empty() {
            output.text(&format!("\t\t// access {}\n", plain(&variable.access)));
        }
    }
    for (path, attrs) in &snapshot.schema.groups {
        if only.is_none() && !attrs.is_empty() {
            output.text(&if path.is_empty() {
                "// global attributes:\n".into()
            } else {
                format!("// group {}:\n", plain(path))
            });
            attributes_of(path, attrs, output);
        }
    }
    output.text("}\n");
    Ok(OK)
}

fn declared(path: &str, variable: &Variable) -> String {
    let mut axes: Vec<String> = if variable.steps { vec!["step".into()] } else { Vec::new() };
    if variable.local {
        axes.push("local".into());
    }
    axes.extend(
        variable
            .shape
            .iter()
            .enumerate()
            .map(|(d, n)| variable.dims.get(d).cloned().unwrap_or_else(|| n.to_string())),
    );
    if axes.is_empty() { format!("{path} ") } else { format!("{path}({}) ", axes.join(", ")) }
}

/// Named dimensions. A name with several extents is listed once for each.
fn dimensions(snapshot: &Snapshot, variables: &[(&str, &Variable)], output: &mut Output) {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if variables.iter().any(|(_, v)| v.steps) {
        let text = format!("UNLIMITED ; // {} currently", snapshot.step_axis());
        found.insert("step".into(), vec![text]);
    }
    for (_, v) in variables {
        for ((name, n), grows) in v.dims.iter().zip(&v.shape).zip(&v.growable) {
            let text = if *grows { format!("UNLIMITED ; // {n} currently") } else { format!("{n} ;") };
            let texts = found.entry(name.clone()).or_default();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    if !found.is_empty() {
        output.text("dimensions:\n");
    }
    for (name, texts) in found {
        texts.iter().for_each(|text| output.text(&format!("\t{} = {text}\n", plain(&name))));
    }
}

fn attributes_of(path: &str, attrs: &Attrs, output: &mut Output) {
    for (name, value) in attrs {
        output.text(&format!("\t\t{}:{} = {} ;\n", plain(path), plain(name), attributes::text(value)));
    }
}
