//! `drystone derive`: defines a variable that is computed from others.

use std::collections::BTreeMap;

use drystone::format::value::Value;
use drystone::{Definition, Mode, SchemaOp};

use super::{open_as, warn};
use crate::args::Derive;
use crate::failure::{OK, Result};
use crate::json::{Json, list};
use crate::output::Output;
use crate::table::pairs;

pub(super) fn run(derive: &Derive, json: bool, output: &mut Output) -> Result<i32> {
    let container = open_as(&derive.path, &derive.far, Mode::ReadWrite)?;
    warn(&container);
    let path = derive.name.trim_matches('/');
    let units = derive.units.iter().map(|units| ("units".to_owned(), Value::Text(units.clone())));
    let definition = Definition {
        text: derive.text.clone(),
        kind: derive.kind.clone(),
        edge: derive.edge.clone(),
        attrs: units.collect::<BTreeMap<_, _>>(),
    };
    let made = container.apply(vec![SchemaOp::Derive(path.to_owned(), Box::new(definition))])?;
    if derive.kind != "virtual" {
        container.store_derived(Some(&[path.to_owned()]), None, None)?;
    }
    let reading = container.reading(path, None)?;
    let (shape, dtype) = (reading.shape(), reading.variable().dtype.to_string());
    let inputs: Vec<String> = reading.derived().map_or_else(Vec::new, |found| {
        found.inputs.into_iter().map(|(name, path)| path.unwrap_or(name)).collect()
    });
    if json {
        output.json(&Json::Object(vec![
            ("name", path.into()),
            ("definition", derive.text.clone().into()),
            ("made", made.into()),
            ("dtype", dtype.into()),
            ("shape", list(shape.iter().copied())),
            ("inputs", list(inputs)),
        ]));
        return Ok(OK);
    }
    output.text(&pairs(&[
        (if made { "derived" } else { "was there" }, path.to_owned()),
        ("from", inputs.join(", ")),
        ("dtype", dtype),
        ("shape", shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")),
    ]));
    Ok(OK)
}
