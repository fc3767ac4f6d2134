//! Which ranks read for which others: where many ranks want small interleaved parts of one array, few of them
//! read larger boxes, each byte once, and send each rank its part.
//!
//! A rank that reads alone fetches whole check units around its cells. Its neighbours fetch the same units again, in
//! many requests. Where each rank wants a large box of its own there is nothing to share, and sending parts would only
//! add copies.
//!
//! Invariant: the boxes of a plan do not overlap, and every wanted cell lies in one.

use std::fmt;
use std::ops::Range;

use crate::aggregation::Aggregation;
use crate::coalesce::REQUEST;
use crate::selection::{Axis, Selection};

/// Bytes per round that a rank holds for others and receives from others, each.
const ROUND: u64 = 16 << 20;
/// A reader reads at least this many bytes.
const SHARE: u64 = 4 << 20;
/// Boxes with more bytes than this multiple of the wanted ones are mostly holes: each rank reads alone.
const MOST_HOLES: u64 = 4;
/// A box that would be cut into more than about this many boxes is not read jointly.
const MOST_BOXES: u64 = 1 << 16;

/// What reading costs on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadCosts {
    /// Seconds per request, besides the time for its bytes.
    pub per_request: f64,
    /// Bytes per second that all ranks together read.
    pub read: f64,
    /// Bytes per second from one rank to another.
    pub copy: f64,
    /// Seconds that all ranks need to meet and exchange messages.
    pub per_round: f64,
}

/// The cost of the read if each rank reads for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Alone {
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Requests to storage, of all ranks.
    pub requests: u64,
    /// Bytes of the cells that are wanted.
    pub wanted_bytes: u64,
}

/// Which ranks read which boxes for all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JointRead {
    /// Ranks that read.
    pub readers: Vec<usize>,
    /// Per round, the box of each reader, if it has one.
    pub rounds: Vec<Vec<Option<Selection>>>,
    /// Bytes of all boxes.
    pub bytes: u64,
}

/// The wanted cells of a rank within a box: positions of its selection, per axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// One range per axis, none empty.
    pub positions: Vec<Range<u64>>,
}

impl Overlap {
    /// The part of `wish` that lies in `cube`; `None` if nothing does.
    pub fn of(wish: &Selection, cube: &Selection) -> Option<Overlap> {
        let meet = |(wish, cube): (&Axis, &Axis)| {
            let found = wish.meeting(cube.start, cube.start.saturating_add(cube.count));
            (!found.is_empty()).then_some(found)
        };
        let positions = wish.axes.iter().zip(&cube.axes).map(meet).collect::<Option<Vec<_>>>()?;
        Some(Overlap { positions })
    }

    /// Extents.
    pub fn shape(&self) -> Vec<u64> {
        self.positions.iter().map(|range| range.end - range.start).collect()
    }

    /// Cells.
    pub fn cells(&self) -> u64 {
        self.shape().iter().product()
    }
}

impl JointRead {
    /// The plan that serves all ranks fastest; `None` if each reads for itself. `wishes` has one selection per rank,
    /// all of one array of `item` bytes per element. Ranks with equal numbers in `nodes` share a machine.
    pub fn cheapest(
        wishes: &[Selection],
        nodes: &[u64],
        item: u64,
        alone: &Alone,
        costs: &ReadCosts,
    ) -> Option<Self> {
        let joint = JointRead::new(wishes, nodes, item, None)?;
        let ranks = wishes.len().max(1) as f64;
        let readers = joint.readers.len() as f64;
        let apart = alone.requests as f64 / ranks * costs.per_request + alone.read_bytes as f64 / costs.read;
        let read = joint.bytes.min(alone.read_bytes);
        let requests = (read / REQUEST + joint.rounds.len() as u64) as f64 / readers;
        let wanted = alone.wanted_bytes as f64;
        let together = requests * costs.per_request
            + read as f64 / costs.read
            + wanted / costs.copy / readers
            + wanted / costs.copy / ranks
            + joint.rounds.len() as f64 * costs.per_round;
        (together < apart).then_some(joint)
    }

    /// A plan with this many readers (by default one per 4 MiB on each node); `None` if nothing is wanted, or only a
    /// small part of the box that would be read.
    pub fn new(wishes: &[Selection], nodes: &[u64], item: u64, readers: Option<usize>) -> Option<Self> {
        let cube = enclosing(wishes)?;
        let bytes = cube.cells()?.checked_mul(item)?;
        let cells = wishes.iter().map(|wish| wish.cells()).try_fold(0u64, |sum, n| sum.checked_add(n?))?;
        let wanted = cells.checked_mul(item)?;
        if bytes / MOST_HOLES > wanted.max(REQUEST) {
            return None;
        }
        let groups = match readers {
            Some(readers) => Aggregation::of_writers(wishes.len(), readers),
            None => {
                let mut distinct = nodes.to_vec();
                distinct.sort_unstable();
                distinct.dedup();
                let per_node = (bytes / distinct.len().max(1) as u64).div_ceil(SHARE).max(1);
                Aggregation::grouped(nodes, usize::try_from(per_node).unwrap_or(usize::MAX))
            }
        };
        let readers: Vec<usize> = groups.groups.iter().map(|group| group.start).collect();
        let overlap = wanted.div_ceil(bytes.max(1)).max(readers.len() as u64);
        let most = (ROUND / overlap.max(1) / item.max(1)).max(1);
        if cube.cells()? / most > MOST_BOXES {
            return None;
        }
        let mut shares: Vec<Vec<Selection>> = Vec::new();
        for slab in slabs(&cube, readers.len() as u64) {
            let mut boxes = Vec::new();
            cut(slab, most, &mut boxes);
            boxes.retain(|part| wishes.iter().any(|wish| Overlap::of(wish, part).is_some()));
            shares.push(boxes);
        }
        let rounds = shares.iter().map(Vec::len).max().unwrap_or(0);
        let round = |k: usize| {
            (0..readers.len()).map(|reader| shares.get(reader).and_then(|s| s.get(k)).cloned()).collect()
        };
        let rounds = (0..rounds).map(round).collect();
        let held = shares.iter().flatten().filter_map(Selection::cells).sum::<u64>();
        Some(JointRead { readers, rounds, bytes: held.saturating_mul(item) })
    }
}

impl fmt::Display for JointRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readers: Vec<String> = self.readers.iter().map(usize::to_string).collect();
        let rounds = self.rounds.len();
        write!(f, "ranks {} read {} bytes for all, in {rounds} rounds", readers.join(", "), self.bytes)
    }
}

/// The smallest box that contains all wishes.
fn enclosing(wishes: &[Selection]) -> Option<Selection> {
    let mut found: Option<Vec<(u64, u64)>> = None;
    for wish in wishes.iter().filter(|wish| !wish.is_empty()) {
        let ends = wish.axes.iter().map(|axis| {
            let last = axis.cell(axis.count - 1);
            (axis.start.min(last), axis.start.max(last))
        });
        found = Some(match found {
            None => ends.collect(),
            Some(known) if known.len() == wish.axes.len() => {
                known.iter().zip(ends).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))).collect()
            }
            Some(_) => return None,
        });
    }
    let axis = |(lo, hi): (u64, u64)| Some(Axis { start: lo, step: 1, count: (hi - lo).checked_add(1)? });
    Some(Selection { axes: found?.into_iter().map(axis).collect::<Option<Vec<_>>>()? })
}

/// Divides a box into at most this many parts along one axis: the slowest that has this many cells, else the longest.
fn slabs(cube: &Selection, parts: u64) -> Vec<Selection> {
    let wide = cube.axes.iter().position(|axis| axis.count >= parts);
    let longest = || (0..cube.axes.len()).max_by_key(|d| cube.axes.get(*d).map_or(0, |a| a.count));
    let Some(along) = wide.or_else(longest) else { return vec![cube.clone()] };
    let count = cube.axes.get(along).map_or(1, |axis| axis.count);
    let parts = parts.clamp(1, count.max(1));
    let at = |i: u64| (u128::from(count) * u128::from(i) / u128::from(parts)) as u64;
    (0..parts).map(|i| within(cube, along, at(i), at(i + 1))).collect()
}

/// The cells `from..to` of a box along an axis.
fn within(cube: &Selection, along: usize, from: u64, to: u64) -> Selection {
    let mut out = cube.clone();
    if let Some(axis) = out.axes.get_mut(along) {
        axis.start += from;
        axis.count = to - from;
    }
    out
}

/// Cuts a box into boxes of at most `most` cells, from the slowest axis on.
fn cut(cube: Selection, most: u64, out: &mut Vec<Selection>) {
    let cells = cube.cells().unwrap_or(u64::MAX);
    let Some(along) = cube.axes.iter().position(|axis| axis.count > 1).filter(|_| cells > most) else {
        out.push(cube);
        return;
    };
    let count = cube.axes.get(along).map_or(1, |axis| axis.count);
    let rows = cells / count;
    let per = (most / rows.max(1)).max(1);
    let mut from = 0;
    while from < count {
        let to = from.saturating_add(per).min(count);
        cut(within(&cube, along, from, to), most, out);
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: ReadCosts = ReadCosts { per_request: 2e-5, read: 1e9, copy: 1e9, per_round: 1e-4 };

    /// Every `ranks`-th column, from column `rank` on.
    fn column(rank: u64, ranks: u64, rows: u64, columns: u64) -> Selection {
        let count = (columns - rank).div_ceil(ranks);
        Selection { axes: vec![Axis::full(rows), Axis { start: rank, step: ranks as i64, count }] }
    }

    #[test]
    fn interleaved_columns_are_read_once_and_large_boxes_by_everyone() {
        let columns: Vec<_> = (0..8).map(|r| column(r, 8, 1000, 64)).collect();
        let (bytes, nodes) = (8 * 1000 * 64, vec![0; 8]);
        let alone = Alone { read_bytes: 8 * bytes, requests: 8 * 30, wanted_bytes: bytes };
        let found = JointRead::cheapest(&columns, &nodes, 8, &alone, &COSTS).unwrap();
        assert_eq!((found.readers.as_slice(), found.bytes), (&[0][..], bytes));
        assert!(found.to_string().starts_with("ranks 0 read 512000 bytes"));
        let slabs: Vec<_> = (0..8).map(|r| Selection::boxed(&[r * 4096, 0], &[4096, 4096])).collect();
        let wanted = 8 * 8 * 4096 * 4096;
        let alone = Alone { read_bytes: wanted, requests: 8 * 128, wanted_bytes: wanted };
        assert_eq!(JointRead::cheapest(&slabs, &nodes, 8, &alone, &COSTS), None);
    }

    #[test]
    fn every_wanted_cell_is_in_one_box_and_no_round_is_too_large() {
        for readers in [1, 2, 3, 5] {
            let wishes: Vec<_> = (0..5).map(|r| column(r, 5, 700, 3001)).collect();
            let plan = JointRead::new(&wishes, &[0; 5], 16, Some(readers)).unwrap();
            assert_eq!(plan.readers.len(), readers);
            let mut seen = 0;
            for cube in plan.rounds.iter().flatten().flatten() {
                assert!(cube.cells().unwrap() * 16 * readers as u64 <= ROUND);
                seen += wishes.iter().filter_map(|w| Overlap::of(w, cube)).map(|p| p.cells()).sum::<u64>();
            }
            assert_eq!(seen, wishes.iter().map(|w| w.cells().unwrap()).sum::<u64>());
        }
    }

    #[test]
    fn steps_backwards_and_ranks_that_want_nothing_are_served() {
        let back = Selection { axes: vec![Axis { start: 9, step: -3, count: 4 }] };
        let none = Selection { axes: vec![Axis { start: 0, step: 1, count: 0 }] };
        let plan = JointRead::new(&[none.clone(), back.clone()], &[0, 0], 4, Some(2)).unwrap();
        let parts: Vec<_> =
            plan.rounds[0].iter().flatten().filter_map(|cube| Overlap::of(&back, cube)).collect();
        assert_eq!(parts.iter().map(Overlap::cells).sum::<u64>(), 4);
        assert!(JointRead::new(&[none.clone(), none], &[0, 0], 4, None).is_none());
    }

    #[test]
    fn cells_far_apart_are_not_read_together() {
        let far = |at: u64| Selection::boxed(&[at, at], &[1, 1]);
        assert!(JointRead::new(&[far(0), far(1 << 40)], &[0, 0], 8, Some(1)).is_none());
        assert!(JointRead::new(&[far(0), far(u64::MAX)], &[0, 0], 8, None).is_none());
    }
}
