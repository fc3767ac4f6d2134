//! The order in which parts are drained, and how much of the application's time a drain takes.

use std::time::Duration;

/// A part that waits to be drained to the home store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Number of the event at which it was closed; parts of older steps have smaller numbers.
    pub closed: u64,
    /// Its key.
    pub key: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The order in which parts are drained: oldest first, then by key, so that two drainers agree.
pub fn order(mut waiting: Vec<Waiting>) -> Vec<Waiting> {
    waiting.sort_by(|a, b| (a.closed, &a.key).cmp(&(b.closed, &b.key)));
    waiting
}

/// How much the drain of a node yields to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A caller waits for the drain, or the application declared that it computes: as fast as the home store takes
    /// parts.
    Full,
    /// In the background.
    Share,
    /// The application uses its tiers or the store at this moment.
    Yield,
}

/// Longest time for which a drain gives way to the application before it moves one part.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// How long to pause after a part that took `took`: in the background, a drain uses half of the time.
pub fn pause(pace: Pace, took: Duration) -> Duration {
    match pace {
        Pace::Full => Duration::ZERO,
        Pace::Share => took.min(Duration::from_secs(1)),
        Pace::Yield => took.min(Duration::from_secs(1)).max(Duration::from_millis(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_ties_are_settled_by_key() {
        let part = |closed, key: &str| Waiting { closed, key: key.into(), bytes: 1 };
        let keys: Vec<String> =
            order(vec![part(2, "a"), part(1, "c"), part(1, "b")]).into_iter().map(|part| part.key).collect();
        assert_eq!(keys, ["b", "c", "a"]);
    }

    #[test]
    fn a_drain_in_the_background_takes_half_of_the_time() {
        let took = Duration::from_millis(80);
        assert_eq!(pause(Pace::Full, took), Duration::ZERO);
        assert_eq!(pause(Pace::Share, took), took);
        assert!(pause(Pace::Yield, Duration::ZERO) > Duration::ZERO);
    }
}
