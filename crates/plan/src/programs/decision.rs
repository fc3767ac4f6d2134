//! Program or ranges: what an object costs either way, and which is taken.

use std::collections::BTreeMap;

use super::Call;
use crate::layout::Device;
use crate::read_plan::{Decision, ReadPlan};

/// Whether objects are asked to run programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Programs {
    /// Where that is predicted to be faster.
    #[default]
    Auto,
    /// Never.
    Never,
    /// Wherever there is a program for an object, whatever it costs.
    Always,
}

impl Programs {
    /// `auto`, `never` or `always`.
    pub fn parse(text: &str) -> Option<Programs> {
        match text {
            "auto" => Some(Programs::Auto),
            "never" => Some(Programs::Never),
            "always" => Some(Programs::Always),
            _ => None,
        }
    }
}

/// What the two ways cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The link: seconds per request, bytes per second, with the usual number of requests under way.
    pub device: Device,
    /// Bytes per second that the keepers of objects read, decode and gather, together.
    pub there: f64,
}

impl Rates {
    /// Bytes per second of a keeper that nobody has measured: a processor that decodes and gathers, on daemons that have others to serve.
    pub const THERE: f64 = 6e8;
}

/// Compares both ways for each object of a plan; `calls` are those of the same objects.
pub fn decide(
    plan: &ReadPlan,
    calls: &BTreeMap<u32, Result<Vec<Call>, &'static str>>,
    rates: &Rates,
    programs: Programs,
) -> Vec<Decision> {
    let mut by_ranges: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let trailers = plan.trailers.iter().map(|fetch| (fetch.source, fetch.len()));
    for (source, len) in trailers.chain(plan.fetches.iter().map(|fetch| (fetch.source, fetch.len()))) {
        let (requests, bytes) = by_ranges.entry(source).or_default();
        *requests += 1;
        *bytes = bytes.saturating_add(len);
    }
    let one = |(&source, &(requests, bytes)): (&u32, &(u64, u64))| {
        let ranges = (bytes, rates.device.seconds(requests as f64, bytes as f64));
        let made = match calls.get(&source) {
            None => Err("nothing is read of it".to_owned()),
            Some(Err(reason)) => Err((*reason).to_owned()),
            Some(Ok(calls)) => {
                let wire = |call: &Call| call.bytes.len() as u64 + call.result + 24 * call.works.len() as u64;
                let sent = calls.iter().map(wire).fold(0, u64::saturating_add);
                let work =
                    calls.iter().map(|call| call.cost.bytes.max(call.decoded)).fold(0, u64::saturating_add);
                let link = rates.device.seconds(calls.len() as f64, sent as f64);
                Ok((sent, link + work as f64 / rates.there.max(1.0), calls.len()))
            }
        };
        // Half of the bytes at least: a prediction is not a promise, and ranges are verified twice.
        let pays = |(sent, seconds, _): &(u64, f64, usize)| *sent <= bytes / 2 && *seconds < ranges.1;
        let chosen = match programs {
            Programs::Auto => made.as_ref().is_ok_and(pays),
            Programs::Never => false,
            Programs::Always => made.is_ok(),
        };
        Decision { source, ranges, programs: made, chosen }
    };
    by_ranges.iter().map(one).collect()
}
