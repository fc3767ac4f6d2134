//! Whether to send a late request a second time. Pure.
//!
//! A reply is late if it takes a tenth plus 5 ms longer than nine of ten recent ones, or, if these differ much, than
//! twice the median. At most one request in thirteen is sent twice, and only a few of them at once, so that a server
//! which became slow for all requests gets no additional load.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of recent replies that are remembered.
const REMEMBERED: usize = 64;
/// A request is called late only after this many replies.
const ENOUGH: usize = 12;
/// The usual time is known after this many replies.
const SOME: usize = 4;
/// No reply is late before this time.
const SOONEST: Duration = Duration::from_millis(15);
/// The time that a busy machine may add to the latency of a reply.
const NOISE: Duration = Duration::from_millis(5);
/// At most one in this many requests is repeated.
const ONE_IN: u64 = 13;
/// The most second requests that may be sent in a row, however few were sent before.
const SAVED: u64 = 16;

/// The observations of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Hedge {
    recent: VecDeque<Duration>,
    // Number of requests for which no second one has been sent.
    saved: u64,
}

impl Hedge {
    /// Records that a request begins. Returns the time after which it is late, if known.
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

    /// The usual time until a reply begins, if known.
    pub(crate) fn usual(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().filter(|_| sorted.len() >= SOME)
    }

    /// Whether a late request may be sent again; if so, that is counted.
    pub(crate) fn may_repeat(&mut self) -> bool {
        let may = self.saved >= ONE_IN;
        self.saved -= if may { ONE_IN } else { 0 };
        may
    }

    /// Records that a reply began after this time.
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
