//! Detects other readers of a file: what one reader skipped between its ranges is then soon in memory.
//!
//! A restart with another number of processes lets each reader want a part of every block. Each asks for
//! separate pieces, while together they want everything. A device that is read sequentially is faster than
//! one that is asked for every piece. A reader that is alone, however, would read several times what it
//! wants.
//!
//! Invariants
//! - ranges that this reader had prefetched for others do not count as evidence;
//! - each piece of evidence counts [`TIMES`] times, then new evidence is needed.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A restart reads some variables one after the other.
const TIMES: u32 = 7;
/// Readers behind a neighbour fill smaller holes.
const HOLE: u64 = 64 << 10;
/// Number of offsets in holes that are probed.
const PLACES: usize = 3;

/// What one reader knows of the other readers of a file.
#[derive(Debug, Default)]
pub(super) struct ConcurrentReaders(Mutex<OtherReaders>);

#[derive(Debug, Default)]
struct OtherReaders {
    /// Offsets that were skipped by the last hint.
    left: Vec<u64>,
    /// How many more times the last evidence counts.
    times: u32,
    /// The range that was prefetched for all readers.
    prefetched: Range<u64>,
}

impl ConcurrentReaders {
    fn known(&self) -> MutexGuard<'_, OtherReaders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ascending ranges, offsets and ends, were not in memory and are being requested.
    pub(super) fn advised(&self, ranges: &[(u64, u64)]) {
        let mut known = self.known();
        let middle = |pair: &[(u64, u64)]| match *pair {
            [(_, end), (begin, _)] if begin.saturating_sub(end) >= HOLE => Some(end + (begin - end) / 2),
            _ => None,
        };
        let skipped = |at: &u64| !known.prefetched.contains(at);
        let holes: Vec<u64> = ranges.windows(2).filter_map(middle).filter(skipped).collect();
        let apart = holes.len().saturating_sub(1).div_ceil(PLACES - 1).max(1);
        known.left = holes.iter().step_by(apart).chain(holes.last()).copied().take(PLACES).collect();
    }

    /// Whether others seem to read the file: everything that was skipped is in memory now, or was so
    /// recently. The caller then prefetches a whole range.
    pub(super) fn is_there(&self, range: &Range<u64>, is_in_memory: impl Fn(u64) -> bool) -> bool {
        let mut known = self.known();
        let left = std::mem::take(&mut known.left);
        if known.times == 0 && !left.is_empty() && left.into_iter().all(is_in_memory) {
            known.times = TIMES;
        }
        let Some(rest) = known.times.checked_sub(1) else { return false };
        known.times = rest;
        let before = if known.prefetched.is_empty() { range.clone() } else { known.prefetched.clone() };
        known.prefetched = before.start.min(range.start)..before.end.max(range.end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;
    const PIECES: [(u64, u64); 5] =
        [(0, 90 * K), (400 * K, 490 * K), (490 * K, 500 * K), (800 * K, 900 * K), (1200 * K, 1300 * K)];

    const NEXT: Range<u64> = 2000 * K..4000 * K;

    /// The same ranges, within what is prefetched.
    fn pieces_of_next() -> Vec<(u64, u64)> {
        PIECES.iter().map(|(at, end)| (at + 2000 * K, end + 2000 * K)).collect()
    }

    #[test]
    fn what_others_brought_is_a_sign_for_some_times() {
        let readers = ConcurrentReaders::default();
        assert!(!readers.is_there(&NEXT, |_| true), "nothing was skipped yet");
        readers.advised(&PIECES);
        let looked = Mutex::new(Vec::new());
        let look = |at: u64| {
            looked.lock().unwrap().push(at / K);
            true
        };
        assert!(readers.is_there(&NEXT, look));
        assert_eq!(*looked.lock().unwrap(), [245, 650, 1050]);
        for _ in 1..TIMES {
            readers.advised(&[(2900 * K, 2901 * K)]);
            readers.advised(&pieces_of_next());
            assert!(readers.is_there(&NEXT, |_| false), "no probe is needed");
        }
        readers.advised(&pieces_of_next());
        assert!(!readers.is_there(&NEXT, |_| true), "the prefetched range is in memory");
        readers.advised(&PIECES);
        assert!(readers.is_there(&NEXT, |_| true), "this was skipped");
    }

    #[test]
    fn one_place_that_nobody_brought_is_no_company_and_is_asked_once() {
        let readers = ConcurrentReaders::default();
        readers.advised(&PIECES);
        assert!(!readers.is_there(&NEXT, |at| at < 1000 * K));
        assert!(!readers.is_there(&NEXT, |_| true));
    }

    #[test]
    fn neighbours_leave_nothing_out() {
        let readers = ConcurrentReaders::default();
        readers.advised(&[(0, 90 * K), (91 * K, 200 * K), (210 * K, 300 * K)]);
        assert!(!readers.is_there(&NEXT, |_| true));
        readers.advised(&PIECES[..2]);
        assert!(readers.is_there(&NEXT, |at| at == 245 * K));
    }
}
