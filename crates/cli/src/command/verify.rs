//! `drystone verify`: checks every stored byte against its checksum.

use std::io::IsTerminal;

use drystone::Damage;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{look, warn};
use crate::args::{ContainerAt, Verify};
use crate::failure::{DAMAGE, OK, Result};
use crate::json::Json;
use crate::output::Output;
use crate::plain::plain;
use crate::quantity::{bytes, counted};
use crate::table::table;

pub(super) fn run(verify: &Verify, json: bool, output: &mut Output) -> Result<i32> {
    // Lost files are not an error here: verify reports them.
    let ContainerAt { path, far, at, .. } = &verify.place;
    let damaged = !path.to_str().is_some_and(drystone::is_url);
    let place = ContainerAt { path: path.clone(), far: far.clone(), at: *at, damaged };
    let container = look(&place)?;
    warn(&container);
    let bar = bar(container.snapshot().entry_count());
    let mut watch = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        true
    };
    let checked = match verify.values {
        true => container.verify_values(&mut watch),
        false => container.verify(&mut watch),
    };
    bar.finish_and_clear();
    let report = checked?;
    let sound = report.damage.is_empty();
    if json {
        output.json(&Json::Object(vec![
            ("sound", sound.into()),
            ("snapshot", container.snapshot().version().into()),
            ("entries", report.entries.into()),
            ("bytes", report.bytes.into()),
            ("manifests", report.manifests.into()),
            ("shards", report.shards.into()),
            ("away", Json::List(report.away.iter().map(away_json).collect())),
            ("damage", Json::List(report.damage.iter().map(damage_json).collect())),
        ]));
    } else {
        if !sound {
            let rows: Vec<Vec<String>> = report.damage.iter().map(damage_row).collect();
            output.text(&table(
                &[("file", false), ("variable", false), ("step", true), ("damage", false)],
                &rows,
            ));
        }
        let seen = format!(
            "{} checked in {}, {} and {}",
            bytes(report.bytes),
            counted(report.entries, "block"),
            counted(report.shards, "published shard"),
            counted(report.manifests, "snapshot")
        );
        let verdict = if sound {
            output.coloured(32, "sound")
        } else {
            output.coloured(31, &format!("{} damaged", counted(report.damage.len() as u64, "place")))
        };
        let away = |(node, n): (&String, &u64)| format!("; {} not home yet on {}", bytes(*n), plain(node));
        let away: String = report.away.iter().map(away).collect();
        output.text(&format!("{verdict}: {seen}{away}\n"));
    }
    Ok(if sound { OK } else { DAMAGE })
}

/// A progress bar, if standard error is a terminal.
fn bar(total: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
    match ProgressStyle::with_template("{bar:40} {pos}/{len} blocks, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn damage_row(damage: &Damage) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    vec![
        damage.key.clone(),
        or_dash(damage.variable.clone()),
        or_dash(damage.step.map(|s| s.to_string())),
        damage.message.clone(),
    ]
}

fn away_json((node, bytes): (&String, &u64)) -> Json {
    Json::Object(vec![("node", node.clone().into()), ("bytes", (*bytes).into())])
}

fn damage_json(damage: &Damage) -> Json {
    Json::Object(vec![
        ("file", damage.key.clone().into()),
        ("variable", damage.variable.clone().into()),
        ("step", damage.step.into()),
        ("message", damage.message.clone().into()),
    ])
}
