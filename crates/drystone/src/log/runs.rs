//! Runs: space in a segment that is reserved for the small pieces that a writer appends step after step. The pieces
//! of one series then are adjacent, and one request reads them (docs/decisions/008-runs.md).
//!
//! Invariants
//! - a place is used once, and lies inside one extent;
//! - places that are reserved and unused are zeros, which a sparse file stores only where the extent was filled with
//!   them. They are at most [`MOST_KEPT`] and the runs of [`MOST_SERIES`].

use std::collections::HashMap;

/// Reserved places begin at multiples of this in the file.
pub(crate) const PAGE: u64 = 4 << 10;

/// The longest piece that is put into a run. Reading a longer one takes about as long as a request (16 KiB at 1.2
/// GB/s: 14 us; a request: 16 us).
pub(crate) const LONGEST: usize = 16 << 10;
/// The longest run, in bytes: the size of a good request.
const RUN: u64 = 64 << 10;
/// The most pieces of a run, so that scalars do not reserve more than they fill.
const PIECES: u64 = 256;
/// The fewest pieces of a run that is worth its space. The first run of a series has this many pieces, and each later
/// one twice as many as the one before. So a series that ends early has reserved no more than it wrote.
const FEWEST: u64 = 4;
/// The number of pieces of a series that are appended to the log before the series is expected to continue.
const WAITS: u32 = 2;
/// The most series that are tracked.
const MOST_SERIES: usize = 1024;
/// The largest extent for runs. It has space for one run of every series.
const MOST_KEPT: u64 = 1 << 20;
/// The destination of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The log, like any piece.
    Log,
    /// This byte of the segment.
    At(u64),
    /// A run for which an extent of this many bytes must be reserved first, from the beginning of a page.
    Keep(u64),
}

/// Bytes of a segment that are not used yet.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    at: u64,
    end: u64,
}

impl Room {
    /// The next `len` bytes, from a multiple of `step` on.
    fn take(&mut self, len: u64, step: u64) -> Option<u64> {
        let at = self.at.next_multiple_of(step);
        let end = at.checked_add(len).filter(|end| *end <= self.end)?;
        self.at = end;
        Some(at)
    }
}

/// The state of a series.
#[derive(Clone, Copy, Debug, Default)]
struct Series {
    /// The number of its pieces seen, at most [`WAITS`].
    seen: u32,
    /// The number of pieces of its next run.
    pieces: u64,
    run: Room,
}

/// The runs of one segment part.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    series: HashMap<u64, Series>,
    /// The space reserved for runs.
    kept: Room,
    longest: u64,
}

impl Runs {
    /// For a part that ends at about `limit` bytes.
    pub(crate) fn new(limit: u64) -> Runs {
        Runs { longest: RUN.min(limit / 256), ..Runs::default() }
    }

    /// The destination of the next piece of a series. It occupies `room` bytes, a multiple of 8.
    pub(crate) fn next(&mut self, series: u64, room: u64) -> Place {
        let known = self.series.len() as u64;
        if self.longest < FEWEST * room || known >= MOST_SERIES as u64 && !self.series.contains_key(&series) {
            return Place::Log;
        }
        let own = self.series.entry(series).or_insert(Series { pieces: FEWEST, ..Series::default() });
        if own.seen < WAITS {
            own.seen += 1;
            return Place::Log;
        }
        if let Some(at) = own.run.take(room, 8) {
            return Place::At(at);
        }
        let run = (own.pieces * room).min(self.longest) / 8 * 8;
        // Pieces that are not much shorter than a page begin at pages, so that each touches as few pages as possible.
        let step = if room > PAGE / 2 { PAGE } else { 8 };
        match self.kept.take(run, step) {
            None => Place::Keep((known * run.next_multiple_of(step)).clamp(run, MOST_KEPT)),
            Some(at) => {
                own.run = Room { at: at + room, end: at + run };
                own.pieces = (2 * own.pieces).min(PIECES);
                Place::At(at)
            }
        }
    }

    /// Records that an extent was reserved for runs.
    pub(crate) fn keep(&mut self, at: u64, len: u64) {
        self.kept = Room { at, end: at + len };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of the next piece, if extents are reserved one after the other from `end` on.
    fn placed(runs: &mut Runs, series: u64, room: u64, end: &mut u64) -> Option<u64> {
        loop {
            match runs.next(series, room) {
                Place::Log => return None,
                Place::At(at) => return Some(at),
                Place::Keep(len) => {
                    let at = (*end + 40).next_multiple_of(PAGE);
                    runs.keep(at, len);
                    *end = at + len;
                }
            }
        }
    }

    #[test]
    fn a_series_that_continues_gets_adjacent_places() {
        let (mut runs, mut end) = (Runs::new(1 << 30), 0);
        let mut series = |series| placed(&mut runs, series, PAGE, &mut end);
        assert_eq!([series(1), series(1), series(2), series(2)], [None; 4], "they may be over");
        let (one, two): (Vec<_>, Vec<_>) = (0..40).map(|_| (series(1).unwrap(), series(2).unwrap())).unzip();
        for places in [one, two] {
            assert_eq!(
                places.windows(2).filter(|w| w[1] == w[0] + PAGE).count(),
                36,
                "40 pieces are runs of 4, 8, 16 and 12"
            );
            assert!(places.iter().all(|at| at % PAGE == 0));
        }
    }

    #[test]
    fn no_byte_is_used_twice() {
        let (mut runs, mut end) = (Runs::new(1 << 30), 0);
        let mut given: Vec<(u64, u64)> = Vec::new();
        for n in 0..3000u64 {
            let room = [(n * 37 % 1500 + 8).next_multiple_of(8), 8, 4096, 12_000][(n % 4) as usize];
            given.extend(placed(&mut runs, n % 12, room, &mut end).map(|at| (at, at + room)));
        }
        given.sort_unstable();
        assert!(given.len() > 2900 && given.windows(2).all(|w| w[0].1 <= w[1].0));
        assert!(given.iter().all(|(at, to)| at % 8 == 0 && *to <= end));
    }

    #[test]
    fn pieces_that_are_not_worth_a_run_go_to_the_log() {
        let logged = |limit, room| {
            let mut runs = Runs::new(limit);
            (0..5).all(|_| runs.next(1, room) == Place::Log)
        };
        assert!(logged(1 << 30, RUN / FEWEST + 8), "long pieces");
        assert!(logged(1 << 20, 4096), "short parts");
        assert!(logged(0, 8));
        assert!(!logged(1 << 20, 1024) && !logged(1 << 30, 8));
        let mut runs = Runs::new(1 << 30);
        for series in 0..MOST_SERIES as u64 {
            runs.next(series, 8);
        }
        assert!((0..5).all(|_| runs.next(u64::MAX, 8) == Place::Log), "the last of too many");
        runs.next(5, 8);
        assert_eq!(runs.next(5, 8), Place::Keep(MOST_SERIES as u64 * FEWEST * 8));
    }
}
