//! Whether others read a file at the same time: what one reader left out between its ranges is then soon in memory.
//!
//! Readers that each want a part of every block, as a restart by another number of processes does, ask for pieces that lie apart, while together
//! they want all. A device that is asked for all in order is faster than one that is asked for every piece. Alone, a reader would bring
//! several times what it wants.
//!
//! Invariants
//! - nothing that was brought for company counts as a sign of it;
//! - each sign is good for [`TIMES`] times, then there has to be another one.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A restart reads some variables one after the other.
const TIMES: u32 = 7;
/// Smaller holes are filled by who reads behind a neighbour.
const HOLE: u64 = 64 << 10;
/// So many places in holes are looked at.
const PLACES: usize = 3;

/// What one reader knows of the others of a file.
#[derive(Debug, Default)]
pub(super) struct Company(Mutex<OtherReaders>);

#[derive(Debug, Default)]
struct OtherReaders {
    /// Places that were left out when something was last told of.
    left: Vec<u64>,
    /// How many times more the last sign is good for.
    times: u32,
    /// What was brought for company lies in here.
    brought: Range<u64>,
}

impl Company {
    fn known(&self) -> MutexGuard<'_, OtherReaders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ascending ranges, offsets and ends, were not in memory, and are asked for.
    pub(super) fn tells_of(&self, ranges: &[(u64, u64)]) {
        let mut known = self.known();
        let middle = |pair: &[(u64, u64)]| match *pair {
            [(_, end), (begin, _)] if begin.saturating_sub(end) >= HOLE => Some(end + (begin - end) / 2),
            _ => None,
        };
        let left_out = |at: &u64| !known.brought.contains(at);
        let holes: Vec<u64> = ranges.windows(2).filter_map(middle).filter(left_out).collect();
        let apart = holes.len().saturating_sub(1).div_ceil(PLACES - 1).max(1);
        known.left = holes.iter().step_by(apart).chain(holes.last()).copied().take(PLACES).collect();
    }

    /// Whether others seem to read the file: all that was left out is in memory, or it was not long ago. Who asks then brings a range.
    pub(super) fn is_there(&self, range: &Range<u64>, is_in_memory: impl Fn(u64) -> bool) -> bool {
        let mut known = self.known();
        let left = std::mem::take(&mut known.left);
        if known.times == 0 && !left.is_empty() && left.into_iter().all(is_in_memory) {
            known.times = TIMES;
        }
        let Some(rest) = known.times.checked_sub(1) else { return false };
        known.times = rest;
        let before = if known.brought.is_empty() { range.clone() } else { known.brought.clone() };
        known.brought = before.start.min(range.start)..before.end.max(range.end);
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

    /// The same pieces of what is brought.
    fn pieces_of_next() -> Vec<(u64, u64)> {
        PIECES.iter().map(|(at, end)| (at + 2000 * K, end + 2000 * K)).collect()
    }

    #[test]
    fn what_others_brought_is_a_sign_for_some_times() {
        let company = Company::default();
        assert!(!company.is_there(&NEXT, |_| true), "nothing was left out yet");
        company.tells_of(&PIECES);
        let looked = Mutex::new(Vec::new());
        let look = |at: u64| {
            looked.lock().unwrap().push(at / K);
            true
        };
        assert!(company.is_there(&NEXT, look));
        assert_eq!(*looked.lock().unwrap(), [245, 650, 1050]);
        for _ in 1..TIMES {
            company.tells_of(&[(2900 * K, 2901 * K)]);
            company.tells_of(&pieces_of_next());
            assert!(company.is_there(&NEXT, |_| false), "nobody looks");
        }
        company.tells_of(&pieces_of_next());
        assert!(!company.is_there(&NEXT, |_| true), "what was brought is in memory");
        company.tells_of(&PIECES);
        assert!(company.is_there(&NEXT, |_| true), "this was left out");
    }

    #[test]
    fn one_place_that_nobody_brought_is_no_company_and_is_asked_once() {
        let company = Company::default();
        company.tells_of(&PIECES);
        assert!(!company.is_there(&NEXT, |at| at < 1000 * K));
        assert!(!company.is_there(&NEXT, |_| true));
    }

    #[test]
    fn neighbours_leave_nothing_out() {
        let company = Company::default();
        company.tells_of(&[(0, 90 * K), (91 * K, 200 * K), (210 * K, 300 * K)]);
        assert!(!company.is_there(&NEXT, |_| true));
        company.tells_of(&PIECES[..2]);
        assert!(company.is_there(&NEXT, |at| at == 245 * K));
    }
}
