//! Detects other readers of a file: the bytes that one reader skips between its ranges are then soon in memory.
//!
//! After a restart with another number of processes, each reader wants a part of every block. Each requests separate
//! pieces, while all of them together want everything. Reading the device sequentially is then faster than requesting
//! every piece. A single reader, however, would read several times the bytes that it wants.
//!
//! Invariants
//! - ranges that this reader prefetched for others are no evidence;
//! - each piece of evidence counts [`TIMES`] times; then new evidence is needed.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A restart reads about this many variables one after the other.
const TIMES: u32 = 7;
/// Smaller holes are ignored: a reader that follows another one fills them.
const HOLE: u64 = 64 << 10;
/// Number of offsets in holes that are probed.
const PLACES: usize = 3;

/// What a reader knows about other readers of a file.
#[derive(Debug, Default)]
pub(super) struct ConcurrentReaders(Mutex<OtherReaders>);

#[derive(Debug, Default)]
struct OtherReaders {
    /// Offsets that the last hint skipped.
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

    /// Reports that ascending ranges (offsets and ends) were not in memory and are being requested.
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

    /// Whether other readers seem to read the file: everything that was skipped is in memory now, or was so recently.
    /// The caller then prefetches a whole range.
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

    /// The same ranges, within the one that is prefetched.
    fn pieces_of_next() -> Vec<(u64, u64)> {
        PIECES.iter().map(|(at, end)| (at + 2000 * K, end + 2000 * K)).collect()
    }

    #[test]
    fn bytes_read_by_others_are_evidence_a_few_times() {
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
    fn one_skipped_offset_not_in_memory_means_no_other_readers_and_is_probed_once() {
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
