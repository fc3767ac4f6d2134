//! Measured durations of this process's reads, mapped and by requests. [`mode`](drystone_plan::local_read::mode)
//! decides from them.
//!
//! Which mode is faster for raw cells in the page cache depends on the processor, on the kernel, and on whether the
//! machine is a virtual one, whose pages cost more to map. Mappings took 0.75 of the time on one machine, and 1.35
//! and 1.5 times as long on others. No kernel reports this. A restart reads once, so the first mode tried is
//! requests, which lose less.
//!
//! Invariants
//! - the first read of a process counts for no mode: memory and threads are not ready yet;
//! - the least time per byte of a mode counts, because other load on the machine only adds time;
//! - reads of very different size are not compared: those that fit the caches take less time in either mode.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drystone_plan::local_read::{Modes, mode};
use drystone_plan::read_plan::IoMode;

/// Upper limits of the classes of read sizes.
const SIZES: [u64; 2] = [16 << 20, 64 << 20];

/// Observations of reads of one size class.
#[derive(Debug)]
struct Observed {
    reads: AtomicU64,
    /// Picoseconds per byte of each mode; 0 until there is an observation.
    least: [AtomicU64; 2],
}

impl Observed {
    const fn nothing() -> Self {
        Observed { reads: AtomicU64::new(0), least: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    fn modes(&self) -> Modes {
        let least = [0, 1].map(|mode| self.least[mode].load(Ordering::Relaxed));
        Modes { least, reads: self.reads.load(Ordering::Relaxed) }
    }
}

/// The observations of this process.
#[derive(Debug)]
pub(super) struct IoModes {
    straight: [Observed; SIZES.len() + 1],
    scattered: [Observed; SIZES.len() + 1],
}

/// One timed read in its mode.
#[derive(Debug)]
pub(super) struct Trial<'m> {
    pub(super) mode: IoMode,
    /// Whether this is the first measurement of the mode.
    pub(super) first: bool,
    bytes: u64,
    observed: Option<&'m Observed>,
}

impl IoModes {
    pub(super) const fn new() -> Self {
        IoModes {
            straight: [const { Observed::nothing() }; SIZES.len() + 1],
            scattered: [const { Observed::nothing() }; SIZES.len() + 1],
        }
    }

    fn alike(&self, bytes: u64, straight: bool) -> &Observed {
        let alike = if straight { &self.straight } else { &self.scattered };
        &alike[SIZES.iter().filter(|size| bytes >= **size).count()]
    }

    /// The mode of the next read of this many bytes. `straight`: requests read cells directly into the target.
    pub(super) fn next(&self, bytes: u64, straight: bool) -> IoMode {
        mode(self.alike(bytes, straight).modes(), straight)
    }

    /// Begins a read: chooses its mode.
    pub(super) fn begin(&self, bytes: u64, straight: bool) -> Trial<'_> {
        let observed = self.alike(bytes, straight);
        let Modes { least, .. } = observed.modes();
        let reads = observed.reads.fetch_add(1, Ordering::Relaxed);
        let mode = mode(Modes { least, reads }, straight);
        let first = reads > 0 && least[mode as usize] == 0;
        Trial { mode, first, bytes, observed: (reads > 0).then_some(observed) }
    }
}

impl Trial<'_> {
    /// A mapped read that is not timed.
    pub(super) fn mapped() -> Self {
        Trial { mode: IoMode::Mapped, first: false, bytes: 0, observed: None }
    }

    /// Records the duration of a whole read from memory.
    pub(super) fn took(&self, time: Duration) {
        let Some(observed) = self.observed else { return };
        let each = (time.as_nanos().saturating_mul(1000) / u128::from(self.bytes.max(1))).max(1);
        let each = u64::try_from(each).unwrap_or(u64::MAX);
        let less = |known| (known == 0 || each < known).then_some(each);
        let _ = observed.least[self.mode as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use drystone_plan::local_read::AGAIN;

    use super::*;

    /// Simulates `reads` of this many bytes, each of which takes the time of its mode. Returns the number of mapped
    /// reads.
    fn mapped(modes: &IoModes, bytes: u64, reads: usize, takes: [u64; 2]) -> usize {
        let go = |_: &usize| {
            let trial = modes.begin(bytes, false);
            trial.took(Duration::from_micros(takes[trial.mode as usize]));
            trial.mode == IoMode::Mapped
        };
        (0..reads).filter(go).count()
    }

    #[test]
    fn both_modes_are_tried_and_the_faster_is_taken_but_for_one_read_in_sixteen() {
        let modes = IoModes::new();
        assert_eq!((modes.begin(4 << 20, false).first, modes.begin(4 << 20, false).first), (false, true));
        assert_eq!(mapped(&modes, 4 << 20, 158, [900, 700]), 1 + 10);
        assert_eq!(
            mapped(&modes, 100 << 20, 160, [700, 900]),
            160 - 2 - 10,
            "longer reads have their own class"
        );
    }

    #[test]
    fn one_slow_read_decides_nothing_for_long() {
        let modes = IoModes::new();
        assert_eq!(mapped(&modes, 20 << 20, 2, [0, 9000]), 0);
        assert_eq!(mapped(&modes, 20 << 20, 14, [700, 500]), 13, "the second one was disturbed");
        assert_eq!(mapped(&modes, 20 << 20, 15, [700, 500]), 0);
    }

    #[test]
    fn reads_straight_into_the_target_are_mapped_late() {
        let modes = IoModes::new();
        let mapped = |n: usize| {
            let go = |_: &usize| {
                let trial = modes.begin(4 << 20, true);
                trial.took(Duration::from_micros([500, 900][trial.mode as usize]));
                trial.mode == IoMode::Mapped
            };
            (0..n).filter(go).count()
        };
        assert_eq!((mapped(AGAIN as usize - 1), mapped(1), mapped(10)), (0, 1, 10));
        assert_eq!(
            modes.begin(4 << 20, false).mode,
            IoMode::Requests,
            "scattered reads have their own times"
        );
    }

    #[test]
    fn a_read_that_is_always_mapped_is_not_timed() {
        let trial = Trial::mapped();
        trial.took(Duration::from_secs(1));
        assert_eq!((trial.mode, trial.first), (IoMode::Mapped, false));
    }
}
