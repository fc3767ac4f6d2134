//! Program or ranges: what each would cost for an object, and which is chosen.

use std::collections::BTreeMap;

use super::Call;
use crate::layout::Device;
use crate::read_plan::{Decision, ReadPlan};

/// A program is sent only if its predicted time is below this part of the time of ranges: predictions are not
/// exact.
const GAIN: f64 = 0.8;

/// Whether objects are asked to run programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Programs {
    /// Only where that is predicted to be faster.
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

/// The costs of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The link: seconds per request, bytes per second, with the usual number of requests under way.
    pub device: Device,
    /// Bytes per second that all storage servers together read, decode and gather.
    pub there: f64,
}

impl Rates {
    /// Bytes per second of a storage server that was not measured: one processor that decodes and gathers, on
    /// a daemon with other clients.
    pub const THERE: f64 = 6e8;
}

/// Compares both for each object of a plan; `calls` are those of the same objects.
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
        let pays = |(sent, seconds, _): &(u64, f64, usize)| *sent <= bytes / 2 && *seconds < ranges.1 * GAIN;
        let chosen = match programs {
            Programs::Auto => made.as_ref().is_ok_and(pays),
            Programs::Never => false,
            Programs::Always => made.is_ok(),
        };
        Decision { source, ranges, programs: made, chosen }
    };
    by_ranges.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coalesce::Fetch;
    use drystone_program::{Cost, Program};

    fn call(source: u32, result: u64, decoded: u64) -> Call {
        let cost = Cost { bytes: decoded, memory: 0, steps: 0 };
        Call { source, works: vec![0], program: Program::new(), bytes: vec![0; 200], cost, result, decoded }
    }

    fn chosen(bandwidth: f64, there: f64, result: u64) -> bool {
        let all = 16 << 20;
        let range = 0..all;
        let fetch = Fetch { source: 3, items: vec![(range.clone(), (0, range.clone()))], range };
        let plan = ReadPlan { fetches: vec![fetch], ..ReadPlan::default() };
        let calls = BTreeMap::from([(3, Ok(vec![call(3, result, all)]))]);
        let rates = Rates { device: Device { bandwidth, request: 1e-4 }, there };
        let decided = decide(&plan, &calls, &rates, Programs::Auto);
        assert_eq!((decided.len(), decided[0].ranges.0), (1, all));
        assert!(decide(&plan, &calls, &rates, Programs::Always)[0].chosen);
        assert!(!decide(&plan, &calls, &rates, Programs::Never)[0].chosen);
        decided[0].chosen
    }

    #[test]
    fn programs_are_sent_where_the_link_is_the_limit() {
        let third = (16 << 20) / 3;
        assert!(chosen(125e6, 6e8, third), "1 Gbit/s");
        assert!(!chosen(2e9, 6e8, third), "a link that is faster than the keeper");
        assert!(!chosen(125e6, 1e8, third), "a keeper that is slower than the link");
        assert!(!chosen(125e6, 6e9, 10 << 20), "most of the bytes come back anyway");
    }

    #[test]
    fn an_object_without_a_program_says_why() {
        let calls = BTreeMap::from([(3, Err("a reason"))]);
        let fetch = Fetch { source: 3, range: 0..9, items: vec![] };
        let plan = ReadPlan { fetches: vec![fetch], ..ReadPlan::default() };
        let rates = Rates { device: Device::ASSUMED, there: 1.0 };
        let decided = decide(&plan, &calls, &rates, Programs::Always);
        assert!(
            !decided[0].chosen && decided[0].to_string().ends_with("no program: a reason"),
            "{}",
            decided[0]
        );
    }
}
