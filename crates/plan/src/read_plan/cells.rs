//! Which cells of one subchunk a listing takes, and how they are divided into byte ranges.

use std::ops::Range;

use drystone_transform::ranges::join;

use super::length;
use crate::ranges::{DECODED_GAP, MAX_RANGES};

/// Positions in one subchunk as a product of picks, one per leg of the listing. The sum of the legs' contributions is
/// the number of a cell in stored order (in row-major order if cells are stored along a curve). Leg `l` gives its place
/// along axis `l` of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells {
    /// One per leg; none is empty.
    pub legs: Vec<Picks>,
}

/// The contribution of one leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Picks {
    /// `count` cells, `step` elements apart, the first of which adds `from` and goes to `place`; places
    /// ascend by one.
    #[allow(missing_docs)]
    Run { from: u64, step: i64, count: u64, place: u64 },
    /// (elements, place) one by one, ascending by elements.
    List(Vec<(u64, u64)>),
}

impl Picks {
    /// Number of cells.
    pub fn count(&self) -> u64 {
        match self {
            Picks::Run { count, .. } => *count,
            Picks::List(picks) => picks.len() as u64,
        }
    }

    /// The `number`th (elements, place).
    pub fn get(&self, number: u64) -> Option<(u64, u64)> {
        match self {
            Picks::Run { from, step, count, place } => {
                let along = (*step as u64).wrapping_mul(number);
                (number < *count).then(|| (from.wrapping_add(along), place.wrapping_add(number)))
            }
            Picks::List(picks) => picks.get(usize::try_from(number).ok()?).copied(),
        }
    }

    /// Least and greatest contribution.
    fn reach(&self) -> (u64, u64) {
        match self {
            Picks::Run { from, step, count, .. } => {
                let last = from.wrapping_add((*step as u64).wrapping_mul(count.saturating_sub(1)));
                ((*from).min(last), (*from).max(last))
            }
            Picks::List(picks) => {
                (picks.first().map_or(0, |pick| pick.0), picks.last().map_or(0, |pick| pick.0))
            }
        }
    }

    fn span(&self) -> u64 {
        let (first, last) = self.reach();
        last.saturating_sub(first)
    }

    /// Whether more than `gap` elements lie between the extents of some neighbours.
    fn has_hole(&self, covers: u64, gap: u64) -> bool {
        let wide = |distance: u64| distance > covers.saturating_add(gap);
        match self {
            Picks::Run { step, count, .. } => *count > 1 && wide(step.unsigned_abs()),
            Picks::List(picks) => picks.windows(2).any(|pair| wide(pair[1].0 - pair[0].0)),
        }
    }

    /// The picks, cut at every such hole.
    fn cut(&self, covers: u64, gap: u64) -> Vec<Picks> {
        let wide = |distance: u64| distance > covers.saturating_add(gap);
        match self {
            Picks::Run { count, .. } => {
                (0..*count).filter_map(|i| self.get(i)).map(|pick| Picks::List(vec![pick])).collect()
            }
            Picks::List(picks) => {
                picks.chunk_by(|a, b| !wide(b.0 - a.0)).map(|run| Picks::List(run.to_vec())).collect()
            }
        }
    }

    /// Two halves, neither empty; `None` if all picks contribute the same.
    fn halves(&self) -> Option<[Picks; 2]> {
        match self {
            Picks::Run { from, step, count, place } => {
                let half = count / 2;
                let (middle, there) = self.get(half)?;
                (half > 0).then_some([
                    Picks::Run { from: *from, step: *step, count: half, place: *place },
                    Picks::Run { from: middle, step: *step, count: count - half, place: there },
                ])
            }
            Picks::List(picks) => {
                let (first, last) = self.reach();
                let middle = first + (last - first).div_ceil(2);
                let (a, b) = picks.split_at(picks.partition_point(|pick| pick.0 < middle));
                (first < last).then(|| [Picks::List(a.to_vec()), Picks::List(b.to_vec())])
            }
        }
    }
}

impl Cells {
    /// Number of cells.
    pub fn count(&self) -> u64 {
        self.legs.iter().fold(1, |count, leg| count.saturating_mul(leg.count()))
    }

    /// From the first to one past the last element.
    pub fn span(&self) -> Range<u64> {
        let (first, last) = self.legs.iter().fold((0u64, 0u64), |(first, last), leg| {
            let (low, high) = leg.reach();
            (first.saturating_add(low), last.saturating_add(high))
        });
        first..last.saturating_add(1)
    }

    /// Divides the cells into groups, none of which spans a hole of more than about `gap` bytes or is longer
    /// than about `most`: each is read as one range. At most [`MAX_RANGES`] groups.
    pub(super) fn divided(self, item: u64, gap: u64, most: u64) -> Vec<Cells> {
        let (mut gap, most) = (gap / item.max(1), (most / item.max(1)).max(1));
        loop {
            let mut groups = Vec::new();
            if divide(self.clone(), gap, most, &mut groups) {
                return groups;
            }
            if gap > u64::MAX / 4 {
                return vec![self];
            }
            gap = (gap * 4).max(1);
        }
    }

    /// The decoded bytes that hold the cells of `room` bytes, ascending and disjoint, in a subchunk of `len` bytes.
    pub(super) fn wanted(&self, room: u64, len: u64) -> Vec<Range<u64>> {
        let groups = self.clone().divided(room, DECODED_GAP, u64::MAX);
        let mut ranges: Vec<Range<u64>> = groups.iter().map(|group| bytes(group, room, room, len)).collect();
        ranges.sort_by_key(|range| range.start);
        let mut joined = Vec::with_capacity(ranges.len());
        ranges.into_iter().for_each(|range| join(&mut joined, range, DECODED_GAP));
        joined
    }

    fn with(&self, leg: usize, picks: Picks) -> Cells {
        let mut legs = self.legs.clone();
        legs[leg] = picks;
        Cells { legs }
    }
}

/// `false` if there would be too many groups.
fn divide(cells: Cells, gap: u64, most: u64, groups: &mut Vec<Cells>) -> bool {
    if groups.len() as u64 > MAX_RANGES {
        return false;
    }
    let spans: Vec<u64> = cells.legs.iter().map(Picks::span).collect();
    let total = spans.iter().fold(1u64, |sum, span| sum.saturating_add(*span));
    let mut outwards: Vec<usize> = (0..spans.len()).collect();
    outwards.sort_by_key(|&leg| spans[leg]);
    let Some(&outer) = outwards.last().filter(|_| total > gap) else {
        groups.push(cells);
        return true;
    };
    // The extent of one cell of the outermost leg.
    let covers = total - spans[outer];
    let leg = &cells.legs[outer];
    let parts = if leg.has_hole(covers, gap) {
        if matches!(leg, Picks::Run { .. }) && leg.count() > MAX_RANGES {
            return false;
        }
        leg.cut(covers, gap)
    } else {
        let mut inside = 1u64;
        let holes = outwards[..outwards.len() - 1].iter().any(|&inner| {
            let found = cells.legs[inner].has_hole(inside, gap);
            inside = inside.saturating_add(spans[inner]);
            found
        });
        match leg.halves().filter(|_| holes || total > most) {
            Some(halves) => halves.to_vec(),
            None => {
                groups.push(cells);
                return true;
            }
        }
    };
    parts.into_iter().all(|part| divide(cells.with(outer, part), gap, most, groups))
}

/// The bytes of a payload that hold the cells, rounded outward to check units.
pub(super) fn bytes(cells: &Cells, item: u64, unit: u64, payload_len: u64) -> Range<u64> {
    let span = cells.span();
    let unit = unit.max(1);
    let low = (span.start.saturating_mul(item) / unit).saturating_mul(unit);
    let high = span.end.saturating_mul(item).div_ceil(unit).saturating_mul(unit);
    low.min(payload_len)..high.min(payload_len)
}

/// Bytes of all ranges together and the number of requests they take, if holes up to `gap` are read over.
pub(super) fn merged(mut ranges: Vec<Range<u64>>, gap: u64) -> (u64, u64) {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        join(&mut joined, range, gap);
    }
    (length(&joined), joined.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn all(cells: &Cells) -> Vec<(u64, Vec<u64>)> {
        cells.legs.iter().fold(vec![(0, vec![])], |found, leg| {
            found
                .iter()
                .flat_map(|(at, places): &(u64, Vec<u64>)| {
                    (0..leg.count()).map(move |i| {
                        let (more, place) = leg.get(i).unwrap();
                        (at + more, [places.as_slice(), &[place]].concat())
                    })
                })
                .collect()
        })
    }

    fn random_cells(random: &mut Random) -> Cells {
        let legs = (0..1 + random.below(3)).map(|_| {
            if random.below(2) == 0 {
                let (step, count) = (random.within(-400, 400), 1 + random.below(9));
                Picks::Run { from: 4000 + random.below(100), step, count, place: random.below(9) }
            } else {
                let mut picks: Vec<(u64, u64)> =
                    (0..1 + random.below(12)).map(|i| (random.below(6000), i)).collect();
                picks.sort_unstable();
                Picks::List(picks)
            }
        });
        Cells { legs: legs.collect() }
    }

    #[test]
    fn groups_hold_every_cell_once_and_no_wide_hole() {
        let mut random = Random(11);
        for _ in 0..1500 {
            let cells = random_cells(&mut random);
            let (gap, most) = (random.below(300), 1 + random.below(4000));
            let groups = cells.clone().divided(1, gap, most);
            let mut found: Vec<_> = groups.iter().flat_map(all).collect();
            let mut expected = all(&cells);
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{cells:?}");
            for group in &groups {
                let mut at: Vec<u64> = all(group).into_iter().map(|(at, _)| at).collect();
                at.sort_unstable();
                assert!(at.windows(2).all(|pair| pair[1] - pair[0] <= gap + 1), "{group:?} with gap {gap}");
                let span = group.span();
                assert_eq!((at[0], at[at.len() - 1] + 1), (span.start, span.end));
            }
        }
    }

    #[test]
    fn groups_are_bounded_in_number() {
        let scattered = Picks::List((0..20_000).map(|i| (i * 1000, i)).collect());
        let groups = Cells { legs: vec![scattered] }.divided(4, 16 << 10, 1 << 20);
        assert!(!groups.is_empty() && groups.len() as u64 <= MAX_RANGES + 1);
        assert_eq!(groups.iter().map(Cells::count).sum::<u64>(), 20_000);
        let strided = Picks::Run { from: 0, step: 1 << 20, count: 1 << 30, place: 0 };
        assert!(Cells { legs: vec![strided] }.divided(1, 16, 1 << 60).len() as u64 <= MAX_RANGES + 1);
    }
}
