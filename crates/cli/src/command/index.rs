//! `drystone index`: makes an index of values that were written without one.

use drystone::{IndexKind, IndexReport, Mode};

use super::{open_as, warn};
use crate::args::Index;
use crate::failure::{OK, Result};
use crate::json::Json;
use crate::output::Output;
use crate::quantity::{bytes, counted};

pub(super) fn run(index: &Index, json: bool, output: &mut Output) -> Result<i32> {
    let kind = IndexKind::parse(&index.kind)?;
    let container = open_as(&index.path, &index.far, Mode::ReadWrite)?;
    warn(&container);
    if index.drop {
        let blocks = container.drop_index(&index.variable)?;
        match json {
            true => output.json(&Json::Object(vec![("blocks", blocks.into())])),
            false => output.text(&format!("the index of {} was dropped\n", counted(blocks, "block"))),
        }
        return Ok(OK);
    }
    let done = container.index(&index.variable, kind, &mut |_, _| true)?;
    print(&done, "indexed", json, output);
    Ok(OK)
}

/// Reports what was made.
pub(super) fn print(done: &IndexReport, what: &str, json: bool, output: &mut Output) {
    if json {
        output.json(&Json::Object(vec![
            ("blocks", done.blocks.into()),
            ("indexed", done.indexed.into()),
            ("decoded_bytes", done.decoded_bytes.into()),
            ("bytes", done.bytes.into()),
            ("snapshot", done.snapshot.into()),
        ]));
        return;
    }
    output.text(&format!(
        "{} {what}: {} beside {} of values; {} were {what} before\n",
        counted(done.blocks, "block"),
        bytes(done.bytes),
        bytes(done.decoded_bytes),
        counted(done.indexed, "block"),
    ));
}
