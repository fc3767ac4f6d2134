//! Turns repeated measurements of a store into one believable set of times.
//!
//! A machine has other work, and the layers below a virtual machine are invisible. Any single time may be several times
//! too long, or too short if a cache of another machine answered. So every measurement is repeated, the repetitions lie
//! apart in time, and their median counts. The medians must be consistent with each other. How far they are moved for
//! that, and how far repetitions differ, is recorded in [`Doubt`].
//!
//! Invariants, of the resulting times per request
//! - with more requests under way the time per request does not rise, and falls at most in proportion to their number;
//! - the gain from more requests does not suddenly grow: a store at its limit stays there.

use std::fmt;

use crate::coalesce::REQUEST;

/// Measured times with this many requests under way: seconds of the wall clock per request, for each
/// repetition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turns {
    /// Requests under way at a time; at least 1.
    pub depth: u32,
    /// Repetitions of reads of [`SMALL`] bytes.
    pub small: Vec<f64>,
    /// Repetitions of reads of [`LARGE`] bytes.
    pub large: Vec<f64>,
}

/// A linear model of reads with this many requests under way: a time per request, and its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AtDepth {
    /// Requests under way at a time.
    pub depth: u32,
    /// Bytes per second of all requests together, as requests become larger.
    pub bandwidth: f64,
    /// Seconds per request besides its bytes: the latency of one request, divided by the number under way.
    pub request: f64,
}

/// Bytes of the smaller reads.
pub const SMALL: u64 = 16 << 10;
/// Bytes of the larger reads: the size to which the engine merges requests.
pub const LARGE: u64 = REQUEST;

/// Why a calibration may be wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Doubt {
    /// How much repetitions of the same reads differ: the third quartile over the first, the median of all
    /// depths and sizes.
    pub spread: f64,
    /// The largest factor by which a median was moved to fit the others; 1 if all fitted.
    pub moved: f64,
    /// Runnable programs per processor at the start, if the system reports it.
    pub load: Option<f64>,
}

impl Doubt {
    /// No doubt.
    pub const NONE: Doubt = Doubt { spread: 1.0, moved: 1.0, load: None };

    /// Whether the machine or the store was busy with other work, so that measuring again is better.
    pub fn is_noisy(&self) -> bool {
        const SPREAD: f64 = 2.0;
        const MOVED: f64 = 1.35;
        const LOAD: f64 = 1.0;
        self.spread > SPREAD || self.moved > MOVED || self.load.is_some_and(|load| load > LOAD)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turns of the same reads differed by {:.1}x", self.spread)?;
        if self.moved > 1.05 {
            write!(f, ", some had to be moved by {:.1}x to fit the others", self.moved)?;
        }
        match self.load {
            Some(load) => write!(f, ", load {load:.1} per processor"),
            None => Ok(()),
        }
    }
}

/// The settled measurements, by ascending depth, and the doubt. `turns` are by ascending depth; those without reads of
/// either size are left out.
pub fn settle(turns: &[Turns]) -> (Vec<AtDepth>, Doubt) {
    let mut depths = Vec::new();
    let (mut small, mut large, mut spreads) = (Vec::new(), Vec::new(), Vec::new());
    for one in turns {
        let sorted = |times: &[f64]| {
            let mut times = times.to_vec();
            times.sort_by(f64::total_cmp);
            times
        };
        let (few, many) = (sorted(&one.small), sorted(&one.large));
        let middle = |times: &[f64]| times.get(times.len() / 2).copied().filter(|t| *t > 0.0);
        if let (Some(little), Some(much)) = (middle(&few), middle(&many)) {
            depths.push(one.depth.max(1));
            small.push(little);
            large.push(much);
            spreads
                .extend([few, many].iter().map(|times| times[times.len() * 3 / 4] / times[times.len() / 4]));
        }
    }
    let moved = fit(&depths, &mut small).max(fit(&depths, &mut large));
    spreads.sort_by(f64::total_cmp);
    let spread = spreads.get(spreads.len() / 2).copied().unwrap_or(1.0);
    let line = |((&depth, &small), &large): ((&u32, &f64), &f64)| line(depth, small, large);
    (depths.iter().zip(&small).zip(&large).map(line).collect(), Doubt { spread, moved, load: None })
}

/// The largest factor by which one of these times would have to be moved to be consistent with the others.
pub fn misfit(lines: &[AtDepth]) -> f64 {
    let depths: Vec<u32> = lines.iter().map(|line| line.depth.max(1)).collect();
    let of = |bytes: u64| -> f64 {
        let mut times: Vec<f64> = lines.iter().map(|l| l.request + bytes as f64 / l.bandwidth).collect();
        fit(&depths, &mut times)
    };
    of(SMALL).max(of(LARGE))
}

/// The line through the times of a small and a large request. At least half of a small request's time is attributed to
/// the request itself, and at least half of a large one's to its bytes: on a busy machine the difference of two times
/// may be anything.
fn line(depth: u32, small: f64, large: f64) -> AtDepth {
    let slope = (large - small).max(0.0) / (LARGE - SMALL) as f64;
    let request = (small - SMALL as f64 * slope).max(small / 2.0);
    let bandwidth = LARGE as f64 / (large - request).max(large / 2.0);
    AtDepth { depth, bandwidth: bandwidth.clamp(1.0, 1e15), request: request.clamp(1e-7, 1e4) }
}

/// The gain from more requests grows at most by this power of the ratio of depths, from one depth to the next: for
/// twice as many, by a factor of 1.25.
const GAIN_GROWS: f64 = 0.32;

/// Moves times, by ascending depth, until they are consistent; returns the largest factor by which one was moved.
fn fit(depths: &[u32], times: &mut [f64]) -> f64 {
    let depth: Vec<f64> = depths.iter().map(|d| f64::from(*d).ln()).collect();
    let before: Vec<f64> = times.iter().map(|t| t.max(f64::MIN_POSITIVE).ln()).collect();
    let mut now = before.clone();
    falling(&mut now);
    let mut gained: Option<f64> = None;
    for at in 1..now.len() {
        let more = (depth[at] - depth[at - 1]).max(f64::MIN_POSITIVE);
        let gain = (now[at - 1] - now[at]) / more;
        let most = gained.map_or(f64::MAX, |gained| gained + GAIN_GROWS);
        if gain > most {
            now[at] = now[at - 1] - most * more;
        }
        gained = Some(gain.min(most));
    }
    // The time of a request if it were alone: this does not fall with more requests under way.
    let mut alone: Vec<f64> = now.iter().zip(&depth).map(|(t, d)| -(t + d)).collect();
    falling(&mut alone);
    let mut now: Vec<f64> = alone.iter().zip(&depth).map(|(t, d)| -t - d).collect();
    falling(&mut now);
    times.iter_mut().zip(&now).for_each(|(time, now)| *time = now.exp());
    before.iter().zip(&now).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max).exp()
}

/// The nearest sequence that never rises: neighbours that rise are replaced by their mean.
fn falling(values: &mut [f64]) {
    let mut pools: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for &value in values.iter() {
        let (mut sum, mut many) = (value, 1);
        while let Some(&(before, of)) = pools.last()
            && before / (of as f64) < sum / many as f64
        {
            (sum, many) = (sum + before, many + of);
            pools.pop();
        }
        pools.push((sum, many));
    }
    let means = pools.iter().flat_map(|&(sum, many)| std::iter::repeat_n(sum / many as f64, many));
    values.iter_mut().zip(means).for_each(|(value, mean)| *value = mean);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const DEPTHS: [u32; 5] = [1, 2, 4, 8, 16];

    /// Repetitions on a store that takes `request` seconds for a request alone and moves `bandwidth` bytes
    /// per second, with any number of requests at once, up to 4.
    fn turns(bandwidth: f64, request: f64, mut noise: impl FnMut() -> f64) -> Vec<Turns> {
        let at = |depth: u32| {
            let alone = request / f64::from(depth.min(4));
            let mut took = |bytes: u64| -> Vec<f64> {
                (0..5).map(|_| (alone + bytes as f64 / bandwidth) * noise()).collect()
            };
            Turns { depth, small: took(SMALL), large: took(LARGE) }
        };
        DEPTHS.map(at).to_vec()
    }

    fn near(found: f64, wanted: f64, factor: f64) -> bool {
        found < wanted * factor && wanted < found * factor
    }

    #[test]
    fn times_of_a_quiet_store_are_unchanged() {
        let (lines, doubt) = settle(&turns(1e9, 8e-5, || 1.0));
        assert_eq!(lines.iter().map(|line| line.depth).collect::<Vec<_>>(), DEPTHS);
        assert!(!doubt.is_noisy() && doubt.moved < 1.01 && doubt.spread < 1.01, "{doubt}");
        assert!(lines.iter().all(|line| near(line.bandwidth, 1e9, 1.01)), "{lines:?}");
        assert!(near(lines[0].request, 8e-5, 1.01) && near(lines[4].request, 2e-5, 1.01), "{lines:?}");
        assert!(misfit(&lines) < 1.01);
    }

    #[test]
    fn two_repetitions_of_five_may_take_ten_times_as_long() {
        let mut turn = 0;
        let quiet = settle(&turns(1e9, 8e-5, || 1.0)).0;
        let (lines, doubt) = settle(&turns(1e9, 8e-5, || {
            turn += 1;
            if turn % 5 < 2 { 10.0 } else { 1.0 }
        }));
        assert_eq!(lines, quiet);
        assert!(doubt.is_noisy(), "but it is said: {doubt}");
    }

    /// Symptom: one calibration had 0.96 GiB/s with 8 requests under way and 2.28 with 16, and its
    /// predictions were 64 % off at the median, for a month. Cause: a depth was measured by a dozen reads,
    /// which a cache of another machine answered.
    #[test]
    fn an_implausible_gain_at_one_depth_is_corrected() {
        let mut made = turns(1e9, 2e-5, || 1.0);
        made[4].large.iter_mut().for_each(|t| *t /= 2.4);
        let (lines, doubt) = settle(&made);
        assert!(doubt.is_noisy() && near(doubt.moved, 1.9, 1.1), "{doubt}");
        assert!(near(lines[4].bandwidth, 1e9, 1.35), "{lines:?}");
        assert!(lines[..4].iter().all(|line| near(line.bandwidth, 1e9, 1.02)), "{lines:?}");
        let kept = |bandwidth, request, depth| AtDepth { depth, bandwidth, request };
        let poisoned = [
            kept(7.5e8, 3.7e-5, 1),
            kept(9.9e8, 1.6e-5, 2),
            kept(9.5e8, 1.6e-5, 4),
            kept(1e9, 1.3e-5, 8),
            kept(2.44e9, 1.7e-5, 16),
        ];
        assert!(misfit(&poisoned) > 1.5 && misfit(&poisoned[..4]) < 1.1);
    }

    #[test]
    fn one_bad_depth_spoils_no_other() {
        for bad in 0..DEPTHS.len() {
            for factor in [1.0 / 3.0, 3.0] {
                let mut made = turns(1e9, 2e-5, || 1.0);
                let Turns { small, large, .. } = &mut made[bad];
                small.iter_mut().chain(large).for_each(|time| *time *= factor);
                let (lines, doubt) = settle(&made);
                assert!(doubt.is_noisy(), "{bad} {factor}: {doubt}");
                for (n, line) in lines.iter().enumerate() {
                    let most = if n == bad { 2.6 } else { 1.8 };
                    assert!(near(line.bandwidth, 1e9, most), "{bad} {factor}: {lines:?}");
                }
            }
        }
    }

    #[test]
    fn a_store_that_serves_every_request_as_if_it_were_alone_is_believed() {
        let of = |depth: u32| {
            let took = |bytes: u64| vec![(3e-2 + bytes as f64 / 9e7) / f64::from(depth); 5];
            Turns { depth, small: took(SMALL), large: took(LARGE) }
        };
        let (lines, doubt) = settle(&DEPTHS.map(of));
        assert!(!doubt.is_noisy() && doubt.moved < 1.01, "{doubt}");
        assert!(near(lines[4].bandwidth, 16.0 * lines[0].bandwidth, 1.01), "{lines:?}");
        assert!(near(lines[4].request, 3e-2 / 16.0, 1.01), "{lines:?}");
    }

    #[test]
    fn settled_times_are_consistent() {
        let mut random = Random(5);
        for _ in 0..300 {
            let made = turns(1e9, 8e-5, || 0.1 + random.below(1000) as f64 / 100.0);
            let (lines, doubt) = settle(&made);
            assert!(doubt.moved >= 1.0 && doubt.spread >= 1.0);
            let times = |bytes: u64| lines.iter().map(move |l| l.request + bytes as f64 / l.bandwidth);
            for bytes in [SMALL, LARGE] {
                let times: Vec<f64> = times(bytes).collect();
                // Where the two sizes contradict each other, up to half of a time may move between the request and its
                // bytes.
                assert!(times.windows(2).all(|w| w[1] <= w[0] * 2.01 && w[1] >= w[0] / 4.01), "{lines:?}");
            }
        }
        assert_eq!(settle(&[]), (vec![], Doubt::NONE));
        assert!(settle(&[Turns { depth: 1, small: vec![1e-4], large: vec![] }]).0.is_empty());
    }

    #[test]
    fn a_line_is_taken_through_both_sizes() {
        // A request takes 100 us, and bytes pass at 1 GB/s.
        let took = |bytes: u64| 1e-4 + bytes as f64 / 1e9;
        let found = line(4, took(SMALL), took(LARGE));
        assert!(near(found.bandwidth, 1e9, 1.000001) && near(found.request, 1e-4, 1.000001), "{found:?}");
        for (small, large) in [(1e-3, 1e-3), (1e-3, 1e-4), (5e-5, 3e-3), (1e-5, 1e-5)] {
            let found = line(1, small, large);
            assert!(found.request >= small / 2.0 && found.request <= small, "{found:?}");
            assert!(found.bandwidth <= 2.0 * LARGE as f64 / large, "{found:?}");
        }
    }
}
