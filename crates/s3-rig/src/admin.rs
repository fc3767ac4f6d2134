//! Control of the server over HTTP, for tests in other languages.
//!
//! `GET /_rig` returns the counts as JSON. `POST /_rig` takes an object with any of: `reset` (true), `rtt_ms`,
//! `bytes_per_second`, `requests_per_second` (null: no limit), `seed`, `clear` (a bucket), `rules` (they replace the
//! script). A rule has `kind`, `key`, `skip`, `times`, `share`, and `do`: `delay_before`, `delay_after`, `late` (with
//! `ms`), `cut` (with `after`, bytes, or without), `status`, `status_after_landing` (with `status`), `refuse` (with
//! `status`, `code` and perhaps `region`), `trickle` (with `ms` per byte).

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::protocol::Said;
use crate::script::{Action, Rule, Script};
use crate::state::State;

/// The first component of the path; no bucket may have this name.
pub(crate) const PATH: &str = "_rig";

pub(crate) fn answer(state: &State, method: &Method, body: &[u8]) -> Said {
    if *method != Method::GET {
        let asked = serde_json::from_slice(body).map_err(|error| error.to_string());
        if let Err(reason) = asked.and_then(|asked| obey(state, &asked)) {
            return Said::text(400, reason);
        }
    }
    let counts = state.tally().counts();
    let uploads = state.objects().open_uploads();
    let answers: serde_json::Map<String, Value> =
        counts.answers.iter().map(|(status, n)| (status.to_string(), json!(n))).collect();
    let counts = json!({
        "requests": counts.requests, "answers": answers, "bytes_in": counts.bytes_in, "bytes_out": counts.bytes_out,
        "rounds": counts.rounds, "peak": counts.peak, "total": counts.total(), "open_uploads": uploads,
    });
    Said::text(200, counts.to_string())
}

fn obey(state: &State, asked: &Value) -> Result<(), String> {
    let asked = asked.as_object().ok_or("an object is expected")?;
    for (name, value) in asked {
        match name.as_str() {
            "reset" => state.tally().reset(),
            "rtt_ms" => state.config().rtt = millis(value)?,
            "bytes_per_second" => state.config().bytes_per_second = value.as_f64(),
            "requests_per_second" => state.config().requests_per_second = value.as_f64(),
            "clear" => state.objects().clear(value.as_str().ok_or("clear: the name of a bucket")?),
            "seed" => {}
            "rules" => {
                let seed = asked.get("seed").and_then(Value::as_u64).unwrap_or(1);
                let rules = value.as_array().ok_or("rules: a list is expected")?;
                let script = rules.iter().try_fold(Script::new(seed), |script, value| {
                    Ok::<_, String>(script.rule(rule(value)?))
                })?;
                *state.script() = script;
            }
            other => return Err(format!("unknown member {other:?}")),
        }
    }
    Ok(())
}

fn millis(value: &Value) -> Result<Duration, String> {
    let ms = value.as_f64().filter(|ms| (0.0..1e9).contains(ms));
    ms.map(|ms| Duration::from_secs_f64(ms / 1e3)).ok_or_else(|| "milliseconds are expected".into())
}

fn rule(value: &Value) -> Result<Rule, String> {
    let status = || {
        let status = value["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        status.ok_or_else(|| "a rule with a status needs \"status\"".to_owned())
    };
    let action = match value["do"].as_str().unwrap_or("") {
        "delay_before" => Action::DelayBefore(millis(&value["ms"])?),
        "delay_after" => Action::DelayAfter(millis(&value["ms"])?),
        "late" => Action::Late(millis(&value["ms"])?),
        "garble" => Action::Garble,
        "cut" => Action::Cut(value["after"].as_u64()),
        "status" => Action::Status(status()?),
        "refuse" => {
            let region = value["region"].as_str().map(str::to_owned);
            Action::Refuse(status()?, value["code"].as_str().unwrap_or("").into(), region)
        }
        "trickle" => Action::Trickle(millis(&value["ms"])?),
        "status_after_landing" => Action::StatusAfterLanding(status()?),
        other => return Err(format!("unknown action {other:?} of a rule")),
    };
    Ok(Rule {
        kind: value["kind"].as_str().unwrap_or("").into(),
        key: value["key"].as_str().unwrap_or("").into(),
        skip: value["skip"].as_u64().unwrap_or(0),
        times: value["times"].as_u64().unwrap_or(u64::MAX),
        share: value["share"].as_f64().unwrap_or(1.0),
        action,
    })
}
