//! The order in which tiles are computed, and the hints to the device about inputs that are needed soon.
//!
//! Neighbouring tiles form a group. The thread that takes the first tile of a group hints the inputs of the next
//! group. The device then reads these while values are computed, in one long run per input. Without hints the
//! requests would be those of single tiles: short, and each awaited.
//!
//! Invariants
//! - every tile is taken once, and tiles are taken group by group;
//! - a group's inputs are hinted once, and at most one group ahead.

use std::sync::Mutex;

use drystone_plan::selection::{Axis, Selection};
use drystone_plan::tiles::{Grain, Tiles};

use super::Computed;
use crate::Result;
use crate::base::sync::lock;
use crate::read::Reading;

/// Bytes of the inputs of one group.
const GROUP: u64 = 32 << 20;
/// Ranges of a file that are at most this far apart are hinted as one.
const HOLE: u64 = 64 << 10;

/// A tile to be computed.
pub(super) struct Tile {
    /// The position along the step axis.
    pub(super) row: u64,
    /// Its offset in the result of a step.
    pub(super) place: Vec<u64>,
    pub(super) cells: Selection,
    /// Steps and cells of the groups whose inputs are to be hinted first.
    pub(super) announced: Vec<(u64, Selection)>,
}

/// A part of a tile: cells with their positions in the result.
pub(super) struct Piece {
    /// The position along the step axis.
    pub(super) row: u64,
    pub(super) place: Vec<u64>,
    pub(super) cells: Selection,
}

impl Tile {
    fn part(&self, along: impl Fn(usize, &Axis) -> (u64, u64)) -> Piece {
        let (mut place, mut axes) = (self.place.clone(), self.cells.axes.clone());
        for (d, axis) in self.cells.axes.iter().enumerate() {
            let (first, count) = along(d, axis);
            place[d] += first;
            axes[d] = Axis { start: axis.cell(first), step: axis.step, count };
        }
        Piece { row: self.row, place, cells: Selection { axes } }
    }

    /// A part of the tile as a tile of its own. The positions are those in the tile.
    pub(super) fn at(&self, lo: &[u64], hi: &[u64]) -> Tile {
        let Piece { row, place, cells } = self.part(|d, _| (lo[d], hi[d] - lo[d]));
        Tile { row, place, cells, announced: Vec::new() }
    }

    /// All cells of the tile.
    pub(super) fn whole(&self) -> Piece {
        self.part(|_, axis| (0, axis.count))
    }

    /// The cells at the positions of the result that begin at `lo`.
    pub(super) fn positions(&self, lo: &[u64], shape: &[u64]) -> Piece {
        self.part(|d, _| (lo[d] - self.place[d], shape[d]))
    }

    /// The cells of a box, which lies within the tile.
    pub(super) fn within(&self, lo: &[u64], hi: &[u64]) -> Piece {
        self.part(|d, axis| {
            let stride = axis.step.unsigned_abs().max(1);
            let before = |place: u64, cell: u64| place.saturating_sub(cell).div_ceil(stride);
            let (first, end) = match axis.step < 0 {
                false => (before(lo[d], axis.start), before(hi[d], axis.start)),
                // A negative stride begins at the greatest cell.
                true => (before(axis.start + 1, hi[d]), before(axis.start + 1, lo[d])),
            };
            let end = end.min(axis.count);
            (first.min(end), end - first.min(end))
        })
    }
}

/// The tiles of a selection, and how many have been taken.
pub(super) struct Order {
    steps: Axis,
    groups: Tiles,
    grain: Vec<Grain>,
    /// The most cells of a tile.
    most: u64,
    announces: bool,
    next: Mutex<Next>,
}

#[derive(Default)]
struct Next {
    /// The number of the group, counted over all steps.
    group: u64,
    /// The tiles of the group, and its offset.
    tiles: Option<(Vec<u64>, Tiles)>,
    tile: u64,
}

impl Order {
    /// Orders the tiles of the given cells at the given steps. Tiles have at most `most` cells, each with
    /// `input_bytes` of the inputs.
    pub(super) fn new(
        steps: Axis,
        cells: &Selection,
        (grain, most): (Vec<Grain>, u64),
        input_bytes: u64,
        announces: bool,
    ) -> Order {
        let together = if announces { (GROUP / input_bytes.max(1)).max(most) } else { most };
        let groups = Tiles::new(cells, &grain, together);
        Order { steps, groups, grain, most, announces, next: Mutex::default() }
    }

    /// The number of groups over all steps.
    fn count(&self) -> u64 {
        self.groups.len().saturating_mul(self.steps.count)
    }

    /// A lower bound of the number of tiles, counted only up to about `limit`.
    pub(super) fn at_least(&self, limit: u64) -> u64 {
        let mut count = 0;
        for number in 0..self.count() {
            if count >= limit {
                break;
            }
            let tiles = self.group(number).map_or(0, |(_, cells)| self.tiles(&cells).len());
            count = count.saturating_add(tiles);
        }
        count.min(limit)
    }

    /// The offset and the cells of a group.
    fn group(&self, number: u64) -> Option<(Vec<u64>, Selection)> {
        self.groups.get(number % self.groups.len().max(1))
    }

    fn tiles(&self, group: &Selection) -> Tiles {
        Tiles::new(group, &self.grain, self.most)
    }

    /// Takes the next tile.
    pub(super) fn take(&self) -> Option<Tile> {
        let mut next = lock(&self.next);
        loop {
            if next.group >= self.count() {
                return None;
            }
            let mut announced = Vec::new();
            if next.tiles.is_none() {
                let (place, cells) = self.group(next.group)?;
                next.tiles = Some((place, self.tiles(&cells)));
                next.tile = 0;
                if self.announces && self.count() > 1 {
                    // No earlier group hinted the first one.
                    let from = if next.group == 0 { 0 } else { next.group + 1 };
                    let groups = from..(next.group + 2).min(self.count());
                    announced.extend(groups.filter_map(|n| Some((self.step(n), self.group(n)?.1))));
                }
            }
            let number = next.tile;
            next.tile += 1;
            let found = next.tiles.as_ref().and_then(|(first, tiles)| {
                let (place, cells) = tiles.get(number)?;
                Some((first.iter().zip(&place).map(|(a, b)| a + b).collect(), cells))
            });
            match found {
                Some((place, cells)) => {
                    return Some(Tile {
                        row: next.group / self.groups.len().max(1),
                        place,
                        cells,
                        announced,
                    });
                }
                None => {
                    next.group += 1;
                    next.tiles = None;
                }
            }
        }
    }

    /// The step that a group belongs to.
    fn step(&self, group: u64) -> u64 {
        self.steps.cell(group / self.groups.len().max(1))
    }
}

impl Reading {
    /// Hints to the device which cells of the inputs a step needs. Errors are ignored; reading the inputs reports
    /// them.
    pub(super) fn announce_inputs(&self, computed: &Computed, step: u64, cells: &Selection) {
        for (input, wanted) in self.needed(computed, cells) {
            match &input.computed() {
                Ok(Some(nested)) => input.announce_inputs(nested, step, &wanted),
                Ok(None) => drop(input.announce_cells(step, wanted)),
                Err(_) => {}
            }
        }
    }

    fn announce_cells(&self, step: u64, mut wanted: Selection) -> Result<()> {
        let Some(files) = self.inner.store.local().filter(|_| self.shelf.is_none()) else { return Ok(()) };
        if self.variable.steps {
            wanted.axes.insert(0, Axis { start: step, step: 1, count: 1 });
        }
        let mut ranges = self.ranges(&wanted)?;
        ranges.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.start.cmp(&b.1.start)));
        ranges.dedup_by(|next, run| {
            let joins = next.0 == run.0 && next.1.start <= run.1.end.saturating_add(HOLE);
            if joins {
                run.1.end = run.1.end.max(next.1.end);
            }
            joins
        });
        for (key, range) in ranges {
            files.prefetch(&key, range);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(start: u64, step: i64, count: u64) -> Axis {
        Axis { start, step, count }
    }

    #[test]
    fn groups_are_announced_once_and_one_group_ahead() {
        let cells = Selection { axes: vec![axis(0, 1, 40), axis(0, 1, 10)] };
        let grain = vec![Grain { phase: 0, length: 2 }, Grain { phase: 0, length: 10 }];
        // Groups of 10 rows, tiles of 4.
        let mut order = Order::new(axis(3, 2, 2), &cells, (grain, 40), GROUP / 100, true);
        assert_eq!((order.at_least(3), order.at_least(1000)), (3, 24));
        let mut rows = Vec::new();
        let mut announced = Vec::new();
        while let Some(tile) = order.take() {
            rows.push((tile.row, tile.place[0], tile.cells.axes[0].start, tile.cells.axes[0].count));
            let now = (tile.row, tile.place[0]);
            let steps = tile.announced.iter().map(|(step, cells)| (now, *step, cells.axes[0].start));
            announced.extend(steps);
        }
        assert_eq!(rows[..4], [(0, 0, 0, 4), (0, 4, 4, 4), (0, 8, 8, 2), (0, 10, 10, 4)]);
        assert_eq!(rows.iter().filter(|row| row.0 == 1).map(|row| row.3).sum::<u64>(), 40);
        assert_eq!(announced[..3], [((0, 0), 3, 0), ((0, 0), 3, 10), ((0, 10), 3, 20)]);
        assert_eq!(announced.last(), Some(&((1, 20), 5, 30)), "{announced:?}");
        assert_eq!(announced.len(), 8);
        order = Order::new(axis(0, 1, 1), &cells, (Vec::new(), 1000), 4, true);
        assert!(order.take().is_some_and(|tile| tile.announced.is_empty()), "it is read at once");
        assert!(order.take().is_none() && order.take().is_none());
    }

    #[test]
    fn parts_of_strided_tiles_have_the_cells_of_their_box() {
        let tile = |along| Tile {
            row: 1,
            place: vec![7],
            cells: Selection { axes: vec![along] },
            announced: Vec::new(),
        };
        for along in [axis(10, 3, 5), axis(22, -3, 5), axis(4, 1, 6), axis(9, -1, 6), axis(5, 7, 1)] {
            let tile = tile(along);
            let mut seen = Vec::new();
            for lo in (4..24).step_by(4) {
                let part = tile.within(&[lo], &[lo + 4]);
                let own = part.cells.axes[0];
                let places = (0..own.count).map(|n| (part.place[0] + n, own.cell(n)));
                seen.extend(places.inspect(|(_, cell)| assert!((lo..lo + 4).contains(cell))));
            }
            seen.sort_unstable();
            let all: Vec<(u64, u64)> = (0..along.count).map(|n| (7 + n, along.cell(n))).collect();
            assert_eq!(seen, all, "{along:?}");
            let two = tile.positions(&[7 + along.count / 2], &[along.count - along.count / 2]);
            assert_eq!(two.cells.axes[0].start, along.cell(along.count / 2));
            assert_eq!(tile.whole().cells.axes[0], along);
        }
    }
}
