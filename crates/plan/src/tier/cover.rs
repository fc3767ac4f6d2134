//! Determines which bytes of a range a cache holds, which have to be fetched, and which are pinned.
//!
//! A cache keeps *units*: ranges of objects as they were fetched. Units may overlap, since processes fetch
//! independently. A wanted range is covered by the units that meet it, and every byte between them is fetched once.

use std::collections::BTreeSet;
use std::ops::Range;

/// The units of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Units {
    units: BTreeSet<(u64, u64)>,
    /// An upper bound of the length of units. It is not lowered when the longest unit is removed.
    longest: u64,
}

/// A part of a wanted range, and the unit that holds it if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// Bytes of the object.
    pub range: Range<u64>,
    /// The unit, which contains the range.
    pub unit: Option<Range<u64>>,
}

impl Units {
    /// Adds a unit; an empty one is ignored.
    pub fn insert(&mut self, unit: Range<u64>) {
        if unit.start < unit.end {
            self.longest = self.longest.max(unit.end - unit.start);
            self.units.insert((unit.start, unit.end));
        }
    }

    /// Removes a unit.
    pub fn remove(&mut self, unit: &Range<u64>) {
        self.units.remove(&(unit.start, unit.end));
    }

    /// Whether it is one of the units.
    pub fn contains(&self, unit: &Range<u64>) -> bool {
        self.units.contains(&(unit.start, unit.end))
    }

    /// All units, by where they begin.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.units.iter().map(|&(start, end)| start..end)
    }

    /// The unit that reaches furthest among those that hold a byte.
    fn at(&self, byte: u64) -> Option<Range<u64>> {
        let first = (byte.saturating_sub(self.longest), 0);
        let last = (byte, u64::MAX);
        let near = self.units.range(first..=last).filter(|(_, end)| *end > byte);
        near.max_by_key(|(_, end)| *end).map(|&(start, end)| start..end)
    }

    /// Divides a range into parts, each held by one unit or by none, in order and without gaps.
    pub fn cover(&self, wanted: Range<u64>) -> Vec<Covered> {
        let mut parts = Vec::new();
        let mut at = wanted.start;
        while at < wanted.end {
            let unit = self.at(at);
            let end = match &unit {
                Some(unit) => unit.end,
                None => self.units.range((at, 0)..).next().map_or(wanted.end, |(start, _)| *start),
            };
            let end = end.min(wanted.end);
            parts.push(Covered { range: at..end, unit });
            at = end;
        }
        parts
    }

    /// The parts of a range that no unit holds.
    pub fn holes(&self, wanted: Range<u64>) -> Vec<Range<u64>> {
        self.cover(wanted).into_iter().filter(|part| part.unit.is_none()).map(|part| part.range).collect()
    }
}

/// `ranges` without `taken`: what stays pinned after some bytes are unpinned.
pub fn without(ranges: &[Range<u64>], taken: &Range<u64>) -> Vec<Range<u64>> {
    let mut left = Vec::with_capacity(ranges.len() + 1);
    for range in ranges {
        let before = range.start..range.end.min(taken.start);
        let behind = range.start.max(taken.end)..range.end;
        left.extend([before, behind].into_iter().filter(|part| part.start < part.end));
    }
    left.dedup();
    left
}

/// Whether a unit holds a pinned byte.
pub fn is_pinned(pins: &[Range<u64>], unit: &Range<u64>) -> bool {
    pins.iter().any(|pin| pin.start < unit.end && unit.start < pin.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn units(all: &[Range<u64>]) -> Units {
        let mut units = Units::default();
        all.iter().cloned().for_each(|unit| units.insert(unit));
        units
    }

    #[test]
    fn a_range_is_covered_by_units_and_each_hole_is_named_once() {
        let have = units(&[10..20, 15..30, 40..50, 7..7]);
        let part = |range: Range<u64>, unit: Option<Range<u64>>| Covered { range, unit };
        assert_eq!(
            have.cover(5..45),
            [
                part(5..10, None),
                part(10..20, Some(10..20)),
                part(20..30, Some(15..30)),
                part(30..40, None),
                part(40..45, Some(40..50))
            ]
        );
        assert_eq!(have.holes(12..28), []);
        assert_eq!(have.holes(0..60), [0..10, 30..40, 50..60]);
        assert_eq!(have.cover(3..3), []);
        assert_eq!(units(&[]).holes(1..2), [1..2]);
    }

    #[test]
    fn random_units_cover_what_a_set_of_bytes_says() {
        let mut random = Random(11);
        for _ in 0..300 {
            let mut have = Units::default();
            let mut bytes = [false; 100];
            for _ in 0..random.below(8) {
                let start = random.below(90);
                let end = start + random.below(20).min(99 - start);
                have.insert(start..end);
                (start..end).for_each(|b| bytes[b as usize] = true);
            }
            let start = random.below(99);
            let wanted = start..start + 1 + random.below(99 - start);
            let parts = have.cover(wanted.clone());
            let mut at = wanted.start;
            for part in &parts {
                assert_eq!(part.range.start, at);
                at = part.range.end;
                assert!(part.range.clone().all(|b| bytes[b as usize] == part.unit.is_some()));
                let holds = |u: &Range<u64>| u.start <= part.range.start && part.range.end <= u.end;
                assert!(part.unit.as_ref().is_none_or(|unit| holds(unit) && have.contains(unit)));
            }
            assert_eq!(at, wanted.end);
        }
    }

    #[test]
    fn unpinning_some_bytes_leaves_the_rest_pinned() {
        let pins = [0..10, 20..30];
        assert_eq!(without(&pins, &(5..25)), [0..5, 25..30]);
        assert_eq!(without(&pins, &(2..4)), [0..2, 4..10, 20..30]);
        assert_eq!(without(&pins, &(0..30)), [] as [Range<u64>; 0]);
        assert!(is_pinned(&pins, &(9..12)) && !is_pinned(&pins, &(10..20)));
    }
}
