//! `drystone sort`: stores replicas of particles, sorted by one of their values.

use drystone::Mode;

use super::{index, open_as, warn};
use crate::args::Sort;
use crate::failure::{OK, Result};
use crate::json::Json;
use crate::output::Output;
use crate::quantity::counted;

pub(super) fn run(sort: &Sort, json: bool, output: &mut Output) -> Result<i32> {
    let container = open_as(&sort.path, &sort.far, Mode::ReadWrite)?;
    warn(&container);
    if sort.drop {
        let blocks = container.drop_sort(&sort.name, &sort.by)?;
        match json {
            true => output.json(&Json::Object(vec![("blocks", blocks.into())])),
            false => {
                output.text(&format!("the sorted replicas of {} were dropped\n", counted(blocks, "block")))
            }
        }
        return Ok(OK);
    }
    let done = container.sort(&sort.name, &sort.by, &mut |_, _| true)?;
    index::print(&done, "sorted", json, output);
    Ok(OK)
}
