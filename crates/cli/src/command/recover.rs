//! `drystone recover`: settles the uncommitted steps of a dead run.

use std::io::{BufRead, IsTerminal, Write};

use drystone::{Adopt, Container, Mode, Pending, RecoverReport};

use super::{info, open_as, warn};
use crate::args::Recover;
use crate::failure::{Failure, OK, Result};
use crate::json::{Json, list};
use crate::output::Output;
use crate::quantity::ranges;
use crate::table::pairs;

pub(super) fn run(recover: &Recover, json: bool, output: &mut Output) -> Result<i32> {
    let mode = if recover.choice.dry_run { Mode::Read } else { Mode::ReadWrite };
    let container = open_as(&recover.path, &recover.far, mode)?;
    warn(&container);
    if recover.choice.dry_run {
        let pending = container.pending()?;
        if json {
            output.json(&info::pending_json(&pending));
        } else {
            output.text(&waiting(&pending));
        }
        return Ok(OK);
    }
    let adopt = if recover.choice.adopt {
        Adopt::All
    } else if recover.choice.discard {
        Adopt::None
    } else {
        Adopt::Steps(recover.choice.steps.iter().copied().collect())
    };
    if !recover.yes && std::io::stdin().is_terminal() {
        ask(&container, &adopt)?;
    }
    let report = container.recover(&adopt, &recover.lost_node)?;
    if json {
        output.json(&report_json(&report));
    } else {
        output.text(&report_text(&report));
    }
    Ok(OK)
}

fn waiting(pending: &Pending) -> String {
    let mut rows = info::pending_rows(pending);
    if pending.is_empty() {
        rows.insert(0, ("waiting", "nothing".into()));
    }
    pairs(&rows)
}

/// Prints what is uncommitted and what will be done, and asks. Any answer but yes is a failure.
fn ask(container: &Container, adopt: &Adopt) -> Result<()> {
    let pending = container.pending()?;
    let what = match adopt {
        Adopt::All => "Commit the complete steps, drop the others".to_string(),
        Adopt::None => "Drop everything that is not committed".to_string(),
        Adopt::Steps(steps) => format!("Commit step {}, drop the others", ranges(steps.iter().copied())),
        Adopt::AllBut(steps) => {
            format!("Drop step {}, commit the other complete steps", ranges(steps.iter().copied()))
        }
    };
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{}{what}, and shut out the writers of the run? [y/N] ", waiting(&pending));
    let _ = stderr.flush();
    drop(stderr);
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::usage("nothing was changed"))
    }
}

fn report_text(report: &RecoverReport) -> String {
    let mut rows = Vec::new();
    let steps = |steps: &[u64]| {
        if steps.is_empty() { "none".to_string() } else { format!("step {}", ranges(steps.iter().copied())) }
    };
    rows.push(("committed", steps(&report.adopted)));
    rows.push(("dropped", steps(&report.discarded)));
    rows.extend(report.incomplete.iter().map(|i| ("incomplete", i.to_string())));
    if !report.rebuilt.is_empty() {
        rows.push(("rebuilt", steps(&report.rebuilt)));
    }
    rows.extend(report.notes.iter().map(|note| ("note", note.clone())));
    rows.push(("snapshot", report.version.to_string()));
    rows.push(("next run", report.run.to_string()));
    pairs(&rows)
}

fn report_json(report: &RecoverReport) -> Json {
    Json::Object(vec![
        ("adopted", list(report.adopted.iter().copied())),
        ("discarded", list(report.discarded.iter().copied())),
        ("incomplete", info::incomplete_json(&report.incomplete)),
        ("rebuilt", list(report.rebuilt.iter().copied())),
        ("notes", list(report.notes.iter().cloned())),
        ("run", report.run.into()),
        ("snapshot", report.version.into()),
    ])
}
