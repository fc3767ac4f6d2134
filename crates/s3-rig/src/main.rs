//! The scripted S3 server as a program. It prints its address as its first line, and serves until it is ended or its
//! standard input is closed.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use drystone_s3_rig::{Config, Rig};

const USAGE: &str = "usage: s3-rig [--port N] [--rtt 30ms] [--rate 1Gbit|100Mbit|5MB] [--requests PER_SECOND] [--bucket NAME]... \
[--access-key KEY] [--region NAME] [--keep-running]
Serves until standard input is closed; with --keep-running until it is killed. Control: GET and POST /_rig.";

fn main() -> ExitCode {
    let outcome = configured(std::env::args().skip(1)).and_then(|(config, keep)| {
        let rig = Rig::start(config).map_err(|error| format!("cannot listen: {error}"))?;
        println!("{}", rig.endpoint());
        let _ = std::io::stdout().flush();
        if keep {
            loop {
                std::thread::park();
            }
        }
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        Ok(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("s3-rig: {reason}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn configured(mut arguments: impl Iterator<Item = String>) -> Result<(Config, bool), String> {
    let mut config = Config { buckets: Vec::new(), ..Config::default() };
    let mut keep = false;
    while let Some(name) = arguments.next() {
        if name == "--keep-running" {
            keep = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let wrong = || format!("{name}: {value:?} is not understood");
        match name.as_str() {
            "--port" => config.port = value.parse().map_err(|_| wrong())?,
            "--rtt" => config.rtt = duration(&value).ok_or_else(wrong)?,
            "--rate" => config.bytes_per_second = Some(rate(&value).ok_or_else(wrong)?),
            "--requests" => config.requests_per_second = Some(value.parse().map_err(|_| wrong())?),
            "--bucket" => config.buckets.push(value),
            "--access-key" => config.access_key = Some(value),
            "--region" => config.region = Some(value),
            _ => return Err(format!("there is no option {name}")),
        }
    }
    if config.buckets.is_empty() {
        config.buckets.push("bucket".into());
    }
    Ok((config, keep))
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
}

/// Bytes per second.
fn rate(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let scale = match unit {
        "Gbit" => 1e9 / 8.0,
        "Mbit" => 1e6 / 8.0,
        "MB" => 1e6,
        "MiB" => 1_048_576.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale).filter(|rate| rate.is_finite() && *rate > 0.0)
}
