//! Whether to repeat a late request. Pure.
//!
//! A reply is late when it takes a tenth and 5 ms longer than nine of ten recent ones, or than twice the median where
//! these differ much. At most one request in thirteen is asked for twice, and no more than a few more at once: a server
//! that became slow for all gets no second load.

use std::collections::VecDeque;
use std::time::Duration;

/// Recent replies that are remembered.
const REMEMBERED: usize = 64;
/// So many must be known before any is called late.
const ENOUGH: usize = 12;
/// So many say how long they usually take.
const SOME: usize = 4;
/// Nothing that comes sooner is late.
const SOONEST: Duration = Duration::from_millis(15);
/// What a busy machine adds to the latency of a reply.
const NOISE: Duration = Duration::from_millis(5);
/// At most one in this many requests is repeated.
const ONE_IN: u64 = 13;
/// Second requests that may go out at once, however many went out once before.
const SAVED: u64 = 16;

/// The observations of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Hedge {
    recent: VecDeque<Duration>,
    // Requests for which no second one went out yet.
    saved: u64,
}

impl Hedge {
    /// A request begins; after how long it is late, if that is known.
    pub(crate) fn begins(&mut self) -> Option<Duration> {
        self.saved = (self.saved + 1).min(SAVED * ONE_IN);
        if self.recent.len() < ENOUGH {
            return None;
        }
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let (median, nine_of_ten) = (sorted[sorted.len() / 2], sorted[sorted.len() * 9 / 10]);
        Some(((nine_of_ten * 11 / 10).min(median * 2) + NOISE).max(SOONEST))
    }

    /// How long replies usually take to begin, if that is known.
    pub(crate) fn usual(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().filter(|_| sorted.len() >= SOME)
    }

    /// Whether one that is late may be asked for again; if so it is counted.
    pub(crate) fn may_repeat(&mut self) -> bool {
        let may = self.saved >= ONE_IN;
        self.saved -= if may { ONE_IN } else { 0 };
        may
    }

    /// A reply began after this time.
    pub(crate) fn answered(&mut self, after: Duration) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_what_few_are_and_at_most_one_in_thirteen_is_repeated() {
        let mut hedge = Hedge::default();
        assert_eq!((hedge.begins(), hedge.usual()), (None, None));
        (0..60).for_each(|_| hedge.answered(Duration::from_millis(30)));
        hedge.answered(Duration::from_secs(1));
        assert_eq!(hedge.begins(), Some(Duration::from_millis(38)));
        assert_eq!(hedge.usual(), Some(Duration::from_millis(30)));
        (0..64).for_each(|n| hedge.answered(Duration::from_millis(10 + 10 * n)));
        assert_eq!(
            hedge.begins(),
            Some(Duration::from_millis(643)),
            "they differ: a tenth above nine of ten"
        );
        (0..64).for_each(|n| hedge.answered(Duration::from_millis(if n % 4 == 0 { 900 } else { 20 })));
        assert_eq!(hedge.begins(), Some(Duration::from_millis(45)), "too many are late: twice the median");
        let mut hedge = Hedge::default();
        let repeated = (0..1000)
            .filter(|_| {
                hedge.begins();
                hedge.may_repeat()
            })
            .count();
        assert!((70..=76).contains(&repeated), "{repeated}");
        (0..10_000).for_each(|_| _ = hedge.begins());
        let at_once = (0..1000).filter(|_| hedge.may_repeat()).count();
        assert_eq!(at_once, 16, "a server that became slow for all");
    }
}
