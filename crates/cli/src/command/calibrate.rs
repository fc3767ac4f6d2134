//! `drystone calibrate`: measures the cost of requests to a store.

use std::time::Duration;

use drystone::Limits;
use drystone::calibrate::{calibrate, profile_of};
use drystone::plan::layout::Profile;
use drystone_store::{LocalStore, Store};

use crate::args::Calibrate;
use crate::failure::{Failure, NOT_FOUND, OK, Result};
use crate::json::Json;
use crate::output::Output;

pub(super) fn run(asked: &Calibrate, json: bool, output: &mut Output) -> Result<i32> {
    if let Some(url) = asked.path.to_str().filter(|name| drystone::is_url(name)) {
        return of_store(drystone::open_store(url, &asked.far.options)?.as_ref(), asked, json, output);
    }
    if !asked.far.options.is_empty() {
        return Err(Failure::usage(format!(
            "{} is a path: options of a store are for URLs",
            asked.path.display()
        )));
    }
    if !asked.path.is_dir() {
        let what = if asked.path.exists() { "is a file" } else { "does not exist" };
        let message = format!("{} {what}: name a container's directory, or any folder", asked.path.display());
        return Err(Failure::new(NOT_FOUND, message));
    }
    let store = LocalStore::open(&asked.path, asked.show).map_err(drystone::Error::from)?;
    of_store(&store, asked, json, output)
}

fn of_store(store: &dyn Store, asked: &Calibrate, json: bool, output: &mut Output) -> Result<i32> {
    if asked.show {
        let Some(profile) = profile_of(store) else {
            let message = format!("{} was not measured in the last 30 days", store.describe());
            return Err(Failure::new(NOT_FOUND, format!("{message}; drystone calibrate does it")));
        };
        match json {
            true => output.json(&Json::Object(profile_json(&profile, store.device()))),
            false => output.text(&profile.to_string()),
        }
        return Ok(OK);
    }
    let time =
        Duration::try_from_secs_f64(asked.seconds).ok().filter(|time| *time <= Duration::from_secs(3600));
    let time = time.ok_or_else(|| Failure::usage("--seconds is a positive number, at most 3600"))?;
    let done = calibrate(store, &Limits { time, bytes: asked.most.saturating_mul(1 << 20) })?;
    if json {
        let mut members = profile_json(&done.profile, done.device);
        let kept = done.kept.map_or(Json::Null, |path| path.display().to_string().into());
        members.push(("kept", kept));
        members.push(("not_kept", done.not_kept.map_or(Json::Null, Json::from)));
        output.json(&Json::Object(members));
        return Ok(OK);
    }
    if let Some(device) = &done.device {
        output.line(device);
    }
    output.text(&done.profile.to_string());
    match (&done.kept, &done.not_kept) {
        (Some(path), _) => {
            let days = if done.profile.doubt.is_noisy() { "a day" } else { "30 days" };
            output.line(&format!("kept for {days} in {}", path.display()));
        }
        (None, why) => output.line(&format!("not kept: {}", why.as_deref().unwrap_or_default())),
    }
    Ok(OK)
}

fn profile_json(profile: &Profile, device: Option<String>) -> Vec<(&'static str, Json)> {
    let read = |r: &drystone::plan::layout::AtDepth| {
        Json::Object(vec![
            ("depth", r.depth.into()),
            ("bandwidth", r.bandwidth.into()),
            ("request", r.request.into()),
        ])
    };
    vec![
        ("device", device.map_or(Json::Null, Json::from)),
        ("reads", Json::List(profile.reads.iter().map(read).collect())),
        ("write", profile.write.into()),
        ("sync", profile.sync.into()),
        ("cold", profile.cold.map_or(Json::Null, Json::from)),
        ("probed", profile.probed.into()),
        ("time", profile.time.into()),
        ("spread", profile.doubt.spread.into()),
        ("moved", profile.doubt.moved.into()),
        ("load", profile.doubt.load.map_or(Json::Null, Json::from)),
        ("noisy", profile.doubt.is_noisy().into()),
    ]
}
