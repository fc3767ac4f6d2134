//! Whether raw cells that are in the page cache come sooner from mappings or by requests: the reads that can have both find out.
//!
//! It depends on the processor, on the system, and on whether it is a guest, whose pages cost more to map: in one place mappings take 0.75 of the
//! time, in others 1.35 and 1.5 times. Nothing of this can be looked up. Who restarts reads once, so requests, which lose less, are
//! tried first.
//!
//! Invariants
//! - each way is tried before one is preferred, and the other one again once in [`AGAIN`] reads;
//! - the first read of a process finds nothing ready, neither memory nor threads, and counts for no way;
//! - what counts is the least time per byte that a way took: whatever else the machine does only adds to it;
//! - reads that differ much in size are not compared: those that fit the caches take less whichever way they go;
//! - where requests bring cells straight to their places mapping saves no pass over them, and is tried late: it took 2.5 times as long in one
//!   place, and 0.84 of the time at best.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a read gets its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Mapped,
    Requested,
}

/// The way that is not preferred is tried in one of so many reads: speed changes with the load.
const AGAIN: u64 = 16;
/// Reads up to four times as long as the shortest are alike, those up to 16 times, and longer ones.
const SIZES: [u64; 2] = [16 << 20, 64 << 20];

/// What was seen of reads that are alike.
#[derive(Debug)]
struct Seen {
    reads: AtomicU64,
    /// Picoseconds per byte of each way; 0 until there are some.
    least: [AtomicU64; 2],
}

impl Seen {
    const fn nothing() -> Self {
        Seen { reads: AtomicU64::new(0), least: [AtomicU64::new(0), AtomicU64::new(0)] }
    }
}

/// What was seen in this process.
#[derive(Debug)]
pub(super) struct Ways {
    straight: [Seen; SIZES.len() + 1],
    scattered: [Seen; SIZES.len() + 1],
}

/// How one read goes.
#[derive(Debug)]
pub(super) struct Turn<'w> {
    pub(super) way: Way,
    /// Nothing is known of this way yet.
    pub(super) first: bool,
    bytes: u64,
    seen: Option<&'w Seen>,
}

impl Ways {
    pub(super) const fn new() -> Self {
        Ways {
            straight: [const { Seen::nothing() }; SIZES.len() + 1],
            scattered: [const { Seen::nothing() }; SIZES.len() + 1],
        }
    }

    /// How a read of so many bytes goes. `straight`: requests bring them to their places.
    pub(super) fn turn(&self, bytes: u64, straight: bool) -> Turn<'_> {
        let alike = if straight { &self.straight } else { &self.scattered };
        let seen = &alike[SIZES.iter().filter(|size| bytes >= **size).count()];
        let least = [0, 1].map(|way| seen.least[way].load(Ordering::Relaxed));
        let before = seen.reads.fetch_add(1, Ordering::Relaxed);
        let way = choose(least, before, straight);
        Turn { way, first: before > 0 && least[way as usize] == 0, bytes, seen: (before > 0).then_some(seen) }
    }
}

impl Turn<'_> {
    /// Mapped, whatever was seen.
    pub(super) fn mapped() -> Self {
        Turn { way: Way::Mapped, first: false, bytes: 0, seen: None }
    }

    /// What all of it took, found in memory, in its way.
    pub(super) fn took(&self, time: Duration) {
        let Some(seen) = self.seen else { return };
        let each = (time.as_nanos().saturating_mul(1000) / u128::from(self.bytes.max(1))).max(1);
        let each = u64::try_from(each).unwrap_or(u64::MAX);
        let less = |known| (known == 0 || each < known).then_some(each);
        let _ = seen.least[self.way as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// The way of a read before which there were `reads` like it.
fn choose(least: [u64; 2], reads: u64, straight: bool) -> Way {
    match least {
        [_, 0] => Way::Requested,
        [0, _] if straight && reads < AGAIN - 1 => Way::Requested,
        [0, _] => Way::Mapped,
        [mapped, requested] if (mapped <= requested) == (reads % AGAIN != AGAIN - 1) => Way::Mapped,
        _ => Way::Requested,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets `reads` of so many bytes go, each of which takes what its way takes; how many were mapped.
    fn mapped(ways: &Ways, bytes: u64, reads: usize, takes: [u64; 2]) -> usize {
        let go = |_: &usize| {
            let turn = ways.turn(bytes, false);
            turn.took(Duration::from_micros(takes[turn.way as usize]));
            turn.way == Way::Mapped
        };
        (0..reads).filter(go).count()
    }

    #[test]
    fn both_ways_are_tried_and_the_faster_is_taken_but_for_one_read_in_sixteen() {
        let ways = Ways::new();
        assert_eq!((ways.turn(4 << 20, false).first, ways.turn(4 << 20, false).first), (false, true));
        assert_eq!(mapped(&ways, 4 << 20, 158, [900, 700]), 1 + 10);
        assert_eq!(
            mapped(&ways, 100 << 20, 160, [700, 900]),
            160 - 2 - 10,
            "longer reads are another matter"
        );
    }

    #[test]
    fn one_slow_read_decides_nothing_for_long() {
        let ways = Ways::new();
        assert_eq!(mapped(&ways, 20 << 20, 2, [0, 9000]), 0);
        assert_eq!(mapped(&ways, 20 << 20, 14, [700, 500]), 13, "the second one was disturbed");
        assert_eq!(mapped(&ways, 20 << 20, 15, [700, 500]), 0);
    }

    #[test]
    fn what_comes_straight_to_its_place_is_mapped_late() {
        let ways = Ways::new();
        let mapped = |n: usize| {
            let go = |_: &usize| {
                let turn = ways.turn(4 << 20, true);
                turn.took(Duration::from_micros([500, 900][turn.way as usize]));
                turn.way == Way::Mapped
            };
            (0..n).filter(go).count()
        };
        assert_eq!((mapped(AGAIN as usize - 1), mapped(1), mapped(10)), (0, 1, 10));
        assert_eq!(ways.turn(4 << 20, false).way, Way::Requested, "scattered reads are another matter");
    }

    #[test]
    fn what_is_to_be_mapped_always_is_not_timed() {
        let turn = Turn::mapped();
        turn.took(Duration::from_secs(1));
        assert_eq!((turn.way, turn.first), (Way::Mapped, false));
    }
}
