//! The measurements of a store, and the two numbers that a reader derives from them.

use std::fmt;

use super::{AtDepth, Device, Doubt, bytes, misfit};

/// The result of a calibration.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Reads, by ascending depth; at least one.
    pub reads: Vec<AtDepth>,
    /// Bytes per second of large appends, with a single sync at the end.
    pub write: f64,
    /// Seconds of a sync behind a small append.
    pub sync: f64,
    /// Whether the reads came from the medium: `Some(true)` if this machine had none of the file in memory (checked),
    /// `Some(false)` if it had some, `None` if it cannot tell.
    pub cold: Option<bool>,
    /// Bytes of the probe that was written and read.
    pub probed: u64,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// Why the result may be wrong.
    pub doubt: Doubt,
}

/// A profile is implausible if some times would have to be moved by more than this factor to be consistent.
const MISFIT: f64 = 1.5;

impl Profile {
    /// The cost that a reader with this many requests under way must expect: the best measurement at this depth or
    /// below, since more requests under way never make a store slower. A measurement from a busy machine does not
    /// count.
    pub fn device(&self, depth: usize) -> Device {
        let mut reached = self.reads.iter().filter(|r| r.depth as usize <= depth.max(1)).peekable();
        let lines = if reached.peek().is_some() {
            reached.collect()
        } else {
            self.reads.first().into_iter().collect::<Vec<_>>()
        };
        let best = lines.into_iter().map(|r| Device { bandwidth: r.bandwidth, request: r.request }).reduce(
            |a, b| Device { bandwidth: a.bandwidth.max(b.bandwidth), request: a.request.min(b.request) },
        );
        best.unwrap_or(Device::ASSUMED)
    }

    /// Whether all numbers are possible for a store; a damaged file may hold any numbers.
    pub fn is_sound(&self) -> bool {
        const RATE: std::ops::RangeInclusive<f64> = 1.0..=1e15;
        const TIME: std::ops::RangeInclusive<f64> = 1e-9..=1e4;
        let line = |r: &AtDepth| r.depth > 0 && RATE.contains(&r.bandwidth) && TIME.contains(&r.request);
        !self.reads.is_empty()
            && self.reads.iter().all(line)
            && self.reads.windows(2).all(|pair| pair[0].depth < pair[1].depth)
            && RATE.contains(&self.write)
            && TIME.contains(&self.sync)
            && [self.doubt.spread, self.doubt.moved].iter().all(|factor| (1.0..=1e15).contains(factor))
            && self.doubt.load.is_none_or(|load| (0.0..=1e15).contains(&load))
    }

    /// Whether the measurements at different depths are consistent, as those of one store are. Profiles from a version
    /// that measured each depth by itself may not be.
    pub fn is_plausible(&self) -> bool {
        misfit(&self.reads) <= MISFIT
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match self.cold {
            Some(true) => "from the medium: nothing was in this machine's memory",
            Some(false) => "from memory: the store could not be made to forget",
            None => "with whatever was in memory: the store cannot tell",
        };
        writeln!(f, "reads {from}; a probe of {}", bytes(self.probed as f64))?;
        for r in &self.reads {
            let device = Device { bandwidth: r.bandwidth, request: r.request };
            writeln!(f, "  {:2} under way: {device}", r.depth)?;
        }
        writeln!(f, "writes: {}/s, {:.3} ms per sync", bytes(self.write), self.sync * 1e3)?;
        match self.doubt.is_noisy() {
            true => writeln!(f, "NOISY, better measured again when the machine is quiet: {}", self.doubt),
            false => writeln!(f, "{}", self.doubt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let at = |depth, request| AtDepth { depth, bandwidth: 1e9, request };
        let reads = vec![at(1, 1e-3), at(4, 3e-4), at(16, 1e-4)];
        Profile {
            reads,
            write: 5e8,
            sync: 2e-3,
            cold: Some(true),
            probed: 1 << 28,
            time: 0,
            doubt: Doubt::NONE,
        }
    }

    #[test]
    fn a_reader_takes_the_depth_that_it_reaches() {
        let request = |depth| profile().device(depth).request;
        assert_eq!([0, 1, 3, 4, 8, 16, 99].map(request), [1e-3, 1e-3, 1e-3, 3e-4, 3e-4, 1e-4, 1e-4]);
        assert_eq!(Profile { reads: vec![], ..profile() }.device(4), Device::ASSUMED);
    }

    #[test]
    fn a_measurement_on_a_busy_machine_makes_no_reader_slower() {
        let at = |depth, bandwidth, request| AtDepth { depth, bandwidth, request };
        let reads = vec![at(1, 2e9, 1e-4), at(2, 1e9, 3e-4), at(4, 3e9, 5e-5)];
        let found = Profile { reads, ..profile() }.device(2);
        assert_eq!((found.bandwidth, found.request), (2e9, 1e-4));
    }

    #[test]
    fn impossible_numbers_are_not_sound() {
        assert!(profile().is_sound());
        for spoil in [
            (|p: &mut Profile| p.reads.clear()) as fn(&mut Profile),
            |p| p.reads[1].depth = 1,
            |p| p.reads[0].bandwidth = f64::NAN,
            |p| p.reads[0].request = 0.0,
            |p| p.write = f64::INFINITY,
            |p| p.sync = -1.0,
            |p| p.doubt.spread = f64::NAN,
            |p| p.doubt.moved = 0.5,
            |p| p.doubt.load = Some(-1.0),
        ] {
            let mut spoilt = profile();
            spoil(&mut spoilt);
            assert!(!spoilt.is_sound(), "{spoilt:?}");
        }
        assert!(profile().to_string().contains("4 under way"));
    }

    #[test]
    fn inconsistent_measurements_are_not_plausible_and_noise_is_reported() {
        let mut profile = profile();
        assert!(profile.is_plausible() && !profile.to_string().contains("NOISY"));
        profile.doubt.load = Some(2.5);
        assert!(
            profile.to_string().contains("NOISY") && profile.to_string().contains("load 2.5 per processor")
        );
        profile.reads[2].bandwidth = 8e9;
        assert!(!profile.is_plausible() && profile.is_sound());
    }
}
