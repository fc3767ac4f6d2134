//! Merges many small byte ranges into few requests.

use std::ops::Range;

/// Requests are merged up to this size, in bytes, so that their data stays in a processor cache until it is verified
/// and scattered.
pub const REQUEST: u64 = 1 << 20;
/// Gaps up to this size, in bytes, are read rather than skipped: they cost about as much as a request.
pub const GAP: u64 = 16 << 10;

/// One request, and the items it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch<T> {
    /// Source number.
    pub source: u32,
    /// Bytes of the source.
    pub range: Range<u64>,
    /// Ranges of the source that lie inside, ascending by their start.
    pub items: Vec<(Range<u64>, T)>,
}

impl<T> Fetch<T> {
    /// Bytes read.
    pub fn len(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Whether it reads nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Sorts by source and offset and merges neighbours that lie at most `gap` bytes apart, as long as a request
/// stays within `max` bytes. An item longer than that is one request; an item that lies inside a request
/// joins it.
pub fn coalesce<T>(mut items: Vec<(u32, Range<u64>, T)>, gap: u64, max: u64) -> Vec<Fetch<T>> {
    items.sort_by_key(|(source, range, _)| (*source, range.start, range.end));
    let mut fetches: Vec<Fetch<T>> = Vec::new();
    for (source, range, what) in items {
        if let Some(last) = fetches.last_mut()
            && last.source == source
            && range.start <= last.range.end.saturating_add(gap)
            && (range.end <= last.range.end || range.end - last.range.start <= max)
        {
            last.range.end = last.range.end.max(range.end);
            last.items.push((range, what));
        } else {
            fetches.push(Fetch { source, range: range.clone(), items: vec![(range, what)] });
        }
    }
    fetches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn ranges<T>(fetches: &[Fetch<T>]) -> Vec<(u32, Range<u64>)> {
        fetches.iter().map(|fetch| (fetch.source, fetch.range.clone())).collect()
    }

    #[test]
    fn neighbours_merge_up_to_the_gap_and_the_limit() {
        let items = vec![(1, 0..10, 'd'), (0, 25..30, 'c'), (0, 0..10, 'a'), (0, 14..20, 'b')];
        assert_eq!(ranges(&coalesce(items.clone(), 4, 100)), [(0, 0..20), (0, 25..30), (1, 0..10)]);
        assert_eq!(ranges(&coalesce(items.clone(), 5, 100)), [(0, 0..30), (1, 0..10)]);
        assert_eq!(ranges(&coalesce(items, 5, 20)), [(0, 0..20), (0, 25..30), (1, 0..10)]);
    }

    #[test]
    fn an_item_above_the_limit_stays_whole_and_takes_in_what_lies_inside() {
        let items = vec![(0, 0..50, 0), (0, 0..50, 1), (0, 20..30, 2), (0, 40..60, 3)];
        let fetches = coalesce(items, 100, 16);
        assert_eq!(ranges(&fetches), [(0, 0..50), (0, 40..60)]);
        assert_eq!(fetches[0].items.len(), 3);
    }

    #[test]
    fn every_item_lies_inside_one_request() {
        let mut random = Random(2);
        for _ in 0..500 {
            let items: Vec<(u32, Range<u64>, u64)> = (0..random.below(60))
                .map(|i| {
                    let start = random.below(1000);
                    (random.below(3) as u32, start..start + random.below(50), i)
                })
                .collect();
            let (gap, max) = (random.below(30), 60 + random.below(100));
            let fetches = coalesce(items.clone(), gap, max);
            let mut served = Vec::new();
            for fetch in &fetches {
                assert!(fetch.len() <= max);
                for (range, number) in &fetch.items {
                    assert!(fetch.range.start <= range.start && range.end <= fetch.range.end);
                    served.push((fetch.source, range.clone(), *number));
                }
            }
            served.sort_by_key(|item| item.2);
            assert_eq!(served, items);
            assert!(fetches.is_sorted_by_key(|fetch| (fetch.source, fetch.range.start)));
        }
    }
}
