//! Chooses, for an object, between a read program and byte ranges, by predicted cost.

use std::collections::BTreeMap;

use super::Call;
use crate::layout::Device;
use crate::read_plan::{Decision, ReadPlan, Slot, decoding_by_source};

/// A program is sent only if its predicted time is below this part of the time of ranges: predictions are not
/// exact.
const GAIN: f64 = 0.8;
/// A trial is sent if its predicted time is at most this multiple of the time of ranges.
const TRIAL: f64 = 3.0;

/// Whether read programs are sent to the keepers of objects.
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

/// The speeds that decide between programs and ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The link: seconds per request, bytes per second, with the usual number of requests under way.
    pub device: Device,
    /// Bytes per second that all storage servers together read, decode and gather.
    pub there: f64,
    /// The measured time of reads by ranges, as a multiple of the time predicted for the link and for this process's
    /// decoding; 1 if none was measured.
    pub here: f64,
    /// Threads of this process that decode.
    pub threads: usize,
    /// Programs are tried even if they are not predicted to be faster, because the speed of the storage servers is
    /// unknown, or was measured long ago.
    pub trial: bool,
    /// Float64 values are wanted as float32; only the servers can send half the bytes.
    pub narrow: bool,
}

impl Rates {
    /// The assumed bytes per second of a storage server that was not measured: one processor that decodes and gathers,
    /// on a daemon with other clients.
    pub const THERE: f64 = 6e8;
}

/// Compares programs and ranges for each object of a plan that reads these slots. `calls` are the programs of the same
/// objects.
///
/// With ranges, a reader waits for the link and decodes by itself. With programs, the servers decode, and the link
/// carries only the wanted cells.
pub fn decide(
    plan: &ReadPlan,
    slots: &[Slot],
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
    let decoded = decoding_by_source(plan, slots);
    let one = |(&source, &(requests, bytes)): (&u32, &(u64, u64))| {
        let own = decoded.get(&source).map_or(0.0, |seconds| seconds / rates.threads.max(1) as f64);
        let link = rates.device.seconds(requests as f64, bytes as f64);
        let ranges = (bytes, (link + own) * rates.here);
        let made = match calls.get(&source) {
            None => Err("nothing is read of it".to_owned()),
            Some(Err(reason)) => Err((*reason).to_owned()),
            Some(Ok(calls)) => {
                let wire = |call: &Call| call.bytes.len() as u64 + call.result + 24 * call.works.len() as u64;
                let sent = calls.iter().map(wire).fold(0, u64::saturating_add);
                let work = calls.iter().map(|call| call.work).fold(0, u64::saturating_add);
                let link = rates.device.seconds(calls.len() as f64, sent as f64);
                Ok((sent, link + work as f64 / rates.there.max(1.0), calls.len()))
            }
        };
        // A program must save at least half of the bytes, since predictions are uncertain and ranges are verified
        // twice. If every value is halved, the limit is higher, since programs and frames are sent too.
        let most = if rates.narrow { bytes / 5 * 3 } else { bytes / 2 };
        let enough = if rates.trial { TRIAL } else { GAIN };
        let pays = |(sent, seconds, _): &(u64, f64, usize)| *sent <= most && *seconds < ranges.1 * enough;
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

    fn call(source: u32, result: u64, work: u64) -> Call {
        let cost = Cost { bytes: work, memory: 0, steps: 0 };
        let (works, program, bytes) = (vec![0], Program::new(), vec![0; 200]);
        Call { source, works, program, bytes, cost, result, most: result, work }
    }

    fn chosen(bandwidth: f64, there: f64, result: u64) -> bool {
        let all = 16 << 20;
        let range = 0..all;
        let fetch = Fetch { source: 3, items: vec![(range.clone(), (0, range.clone()))], range };
        let plan = ReadPlan { fetches: vec![fetch], ..ReadPlan::default() };
        let calls = BTreeMap::from([(3, Ok(vec![call(3, result, all)]))]);
        let device = Device { bandwidth, request: 1e-4 };
        let rates = Rates { device, there, here: 1.0, threads: 2, trial: false, narrow: false };
        let decide = |programs| decide(&plan, &[], &calls, &rates, programs);
        let decided = decide(Programs::Auto);
        assert_eq!((decided.len(), decided[0].ranges.0), (1, all));
        assert!(decide(Programs::Always)[0].chosen);
        assert!(!decide(Programs::Never)[0].chosen);
        decided[0].chosen
    }

    #[test]
    fn programs_are_sent_where_the_link_is_the_limit() {
        let third = (16 << 20) / 3;
        assert!(chosen(125e6, 6e8, third), "1 Gbit/s");
        assert!(!chosen(2e9, 6e8, third), "a link that is faster than the keeper");
        assert!(!chosen(125e6, 1e8, third), "a keeper that is slower than the link");
        assert!(!chosen(125e6, 6e9, 10 << 20), "most of the bytes come back anyway");
        assert!(chosen(125e6, 6e8, 9), "a number of hits");
        assert!(!chosen(125e6, 5e7, 9), "a number of hits from a keeper that takes longer than the link");
    }

    /// Symptom: ranges were chosen where programs were many times faster. Cause: the decoding that a reader does
    /// by itself was not counted, and storage servers that were never asked stayed as slow as they were assumed
    /// to be.
    #[test]
    fn decoding_by_readers_counts_and_unmeasured_servers_are_tried() {
        let all = 16 << 20;
        let fetch = Fetch { source: 3, items: vec![(0..all, (0, 0..all))], range: 0..all };
        let plan = ReadPlan { fetches: vec![fetch], ..ReadPlan::default() };
        let calls = BTreeMap::from([(3, Ok(vec![call(3, all / 3, all)]))]);
        let device = Device { bandwidth: 2e9, request: 1e-4 };
        let chosen = |here: f64, there: f64, trial: bool| {
            let rates = Rates { device, there, here, threads: 2, trial, narrow: false };
            decide(&plan, &[], &calls, &rates, Programs::Auto)[0].chosen
        };
        assert!(!chosen(1.0, 6e8, false));
        assert!(chosen(6.0, 6e8, false), "reads by ranges took six times as long as predicted");
        assert!(!chosen(1.0, 1e9, false) && chosen(1.0, 1e9, true), "a trial that costs little");
        assert!(!chosen(1.0, 1e8, true), "a trial that costs much");
    }

    #[test]
    fn an_object_without_a_program_says_why() {
        let calls = BTreeMap::from([(3, Err("a reason"))]);
        let fetch = Fetch { source: 3, range: 0..9, items: vec![] };
        let plan = ReadPlan { fetches: vec![fetch], ..ReadPlan::default() };
        let rates =
            Rates { device: Device::ASSUMED, there: 1.0, here: 1.0, threads: 1, trial: false, narrow: false };
        let decided = decide(&plan, &[], &calls, &rates, Programs::Always);
        assert!(
            !decided[0].chosen && decided[0].to_string().ends_with("no program: a reason"),
            "{}",
            decided[0]
        );
    }
}
