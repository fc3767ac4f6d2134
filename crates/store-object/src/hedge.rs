//! Whether to ask a second time for what is late. Pure.
//!
//! A reply is late when it takes more than twice the median of recent ones. At most one request in twenty is asked for twice.

use std::collections::VecDeque;
use std::time::Duration;

/// Recent replies that are remembered.
const REMEMBERED: usize = 64;
/// So many must be known before any is called late.
const ENOUGH: usize = 12;
/// Nothing that comes sooner is late.
const SOONEST: Duration = Duration::from_millis(10);
/// One in so many may be asked for twice.
const ONE_IN: u64 = 20;

/// What is known about one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Hedge {
    recent: VecDeque<Duration>,
    requests: u64,
    hedges: u64,
}

impl Hedge {
    /// A request begins; after how long it is late, if that is known.
    pub(crate) fn begins(&mut self) -> Option<Duration> {
        self.requests += 1;
        if self.recent.len() < ENOUGH {
            return None;
        }
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        Some((sorted[sorted.len() / 2] * 2).max(SOONEST))
    }

    /// Whether one that is late may be asked for again; if so it is counted.
    pub(crate) fn may_repeat(&mut self) -> bool {
        let may = (self.hedges + 1) * ONE_IN <= self.requests;
        self.hedges += u64::from(may);
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
    fn late_is_twice_the_median_and_at_most_one_in_twenty_is_repeated() {
        let mut hedge = Hedge::default();
        assert_eq!(hedge.begins(), None);
        (0..60).for_each(|_| hedge.answered(Duration::from_millis(30)));
        hedge.answered(Duration::from_secs(1));
        assert_eq!(hedge.begins(), Some(Duration::from_millis(60)));
        let mut hedge = Hedge::default();
        let repeated = (0..1000)
            .filter(|_| {
                hedge.begins();
                hedge.may_repeat()
            })
            .count();
        assert!((45..=50).contains(&repeated), "{repeated}");
    }
}
