//! Cuts a selection into pieces that fit in memory, along the edges of stored subchunks.
//!
//! A piece is a box in selection space. Where possible its edges lie between stored subchunks, so that reading all
//! pieces decodes every subchunk about once.

use crate::selection::{Axis, Selection};

/// How blocks are cut along one axis of the array: lines at `phase`, `phase + length`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Grain {
    pub phase: u64,
    pub length: u64,
}

/// How many planes of a subchunk, each of `plane_bytes`, are read together if any of them can be read alone. The number
/// gives long runs and divides `planes`, so that the edges of subchunks remain lines.
pub fn planes_together(planes: u64, plane_bytes: u64) -> u64 {
    const LEAST: u64 = 256 << 10;
    const SOUGHT: usize = 1 << 10;
    let fewest = LEAST.div_ceil(plane_bytes.max(1));
    (fewest..planes).take(SOUGHT).find(|&n| planes.is_multiple_of(n)).unwrap_or(planes)
}

/// The pieces of a selection, in row-major order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiles {
    selection: Selection,
    /// Per axis, where pieces begin (positions of the selection), and its end.
    lines: Vec<Lines>,
}

/// Lines at 0, `first`, `first + length`, … and at `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    first: u64,
    length: u64,
    count: u64,
}

impl Lines {
    fn pieces(&self) -> u64 {
        if self.count <= self.first { 1 } else { 1 + (self.count - self.first).div_ceil(self.length.max(1)) }
    }

    fn piece(&self, number: u64) -> (u64, u64) {
        let line = |n: u64| match n {
            0 => 0,
            n => self.first.saturating_add(self.length.saturating_mul(n - 1)).min(self.count),
        };
        (line(number), line(number + 1))
    }
}

impl Tiles {
    /// Pieces of at most `most` cells (one at least). `grain` has an entry per axis.
    pub fn new(selection: &Selection, grain: &[Grain], most: u64) -> Tiles {
        let most = most.max(1);
        // In positions of the selection: the distance between lines, and the first line.
        let mut lines: Vec<Lines> = Vec::with_capacity(selection.axes.len());
        for (d, axis) in selection.axes.iter().enumerate() {
            let grain = grain.get(d).copied().unwrap_or(Grain { phase: 0, length: u64::MAX });
            lines.push(natural(axis, grain));
        }
        let size = |lines: &[Lines]| {
            lines.iter().fold(1u64, |cells, l| cells.saturating_mul(l.length.min(l.count).max(1)))
        };
        // Too large: the slowest axes are cut first, so that whole rows remain.
        for d in 0..lines.len() {
            let now = size(&lines);
            if now <= most {
                break;
            }
            let own = lines[d].length.min(lines[d].count).max(1);
            let fitting = (own / now.div_ceil(most).max(1)).max(1);
            // Equal parts of a subchunk, so that its edges remain lines.
            lines[d].length = own.div_ceil(own.div_ceil(fitting));
            if own < lines[d].count && !own.is_multiple_of(lines[d].length) {
                lines[d].length = (1..=fitting).rev().find(|n| own.is_multiple_of(*n)).unwrap_or(1);
            }
            lines[d].first = lines[d].first.min(lines[d].length);
        }
        // Small enough: subchunks are joined, along rows first.
        for d in (0..lines.len()).rev() {
            let now = size(&lines);
            let l = &mut lines[d];
            let others = now / l.length.min(l.count).max(1);
            let times = most / now.max(1);
            if others.saturating_mul(l.count) <= most {
                (l.length, l.first) = (l.count, l.count);
            } else if times > 1 {
                l.first = l.first.saturating_add(l.length.saturating_mul(times - 1)).min(l.count);
                l.length = l.length.saturating_mul(times);
            }
        }
        Tiles { selection: selection.clone(), lines }
    }

    /// Number of pieces.
    pub fn len(&self) -> u64 {
        if self.selection.is_empty() {
            return 0;
        }
        self.lines.iter().fold(1, |pieces, lines| pieces.saturating_mul(lines.pieces()))
    }

    /// Whether there is no cell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A piece: its offset in the result, per axis, and its cells. `None` if there are fewer pieces.
    pub fn get(&self, number: u64) -> Option<(Vec<u64>, Selection)> {
        if number >= self.len() {
            return None;
        }
        let mut rest = number;
        let mut place = vec![0; self.lines.len()];
        let mut axes = self.selection.axes.clone();
        for d in (0..self.lines.len()).rev() {
            let pieces = self.lines[d].pieces();
            let (from, to) = self.lines[d].piece(rest % pieces);
            rest /= pieces;
            place[d] = from;
            axes[d] = Axis { start: axes[d].cell(from), step: axes[d].step, count: to - from };
        }
        Some((place, Selection { axes }))
    }
}

/// Lines between subchunks, as positions along an axis. A stride that does not divide a subchunk moves them a little.
fn natural(axis: &Axis, grain: Grain) -> Lines {
    let (count, length) = (axis.count, grain.length.max(1));
    let stride = axis.step.unsigned_abs().max(1);
    let cells = (length / stride).clamp(1, count.max(1));
    let phase = grain.phase % length;
    // Cells up to the first line in the direction of travel.
    let inside = (axis.start % length).wrapping_sub(phase).wrapping_add(if axis.start % length < phase {
        length
    } else {
        0
    });
    let ahead = if axis.step > 0 { length - inside } else { inside + 1 };
    Lines { first: ahead.div_ceil(stride).clamp(1, cells).min(count), length: cells, count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn planes_go_together_up_to_a_long_run() {
        assert_eq!(planes_together(128, 43 * 48 * 8), 16);
        assert_eq!(planes_together(128, 256 * 256 * 8), 1);
        assert_eq!(planes_together(4, 8 * 8 * 8), 4);
        assert_eq!(planes_together(127, 43 * 48 * 8), 127);
        assert_eq!(planes_together(1 << 40, 1), 1 << 18);
        assert_eq!(planes_together(1_000_003, 1), 1_000_003);
        assert_eq!(planes_together(8, 0), 8);
    }

    #[test]
    fn pieces_cover_the_selection_once_and_stay_within_the_limit() {
        let mut random = Random(21);
        for _ in 0..3000 {
            let ndim = random.below(4) as usize;
            let axes: Vec<Axis> = (0..ndim)
                .map(|_| {
                    let count = random.below(14);
                    let step = [1, 1, 2, -1, -3][random.below(5) as usize];
                    Axis { start: 50 + random.below(9), step, count }
                })
                .collect();
            let grain: Vec<Grain> =
                (0..ndim).map(|_| Grain { phase: random.below(5), length: 1 + random.below(9) }).collect();
            let selection = Selection { axes };
            let most = 1 + random.below(60);
            let tiles = Tiles::new(&selection, &grain, most);
            let mut seen = vec![0u8; selection.cells().unwrap() as usize];
            for number in 0..tiles.len() {
                let (place, piece) = tiles.get(number).unwrap();
                assert!(
                    (1..=most).contains(&piece.cells().unwrap()),
                    "{piece:?} of {selection:?} {grain:?} {most}"
                );
                for mut i in 0..piece.cells().unwrap() {
                    let (mut at, mut stride) = (0, 1);
                    for d in (0..ndim).rev() {
                        let inside = i % piece.axes[d].count;
                        i /= piece.axes[d].count;
                        assert_eq!(piece.axes[d].cell(inside), selection.axes[d].cell(place[d] + inside));
                        at += (place[d] + inside) * stride;
                        stride *= selection.axes[d].count;
                    }
                    seen[at as usize] += 1;
                }
            }
            assert!(seen.iter().all(|n| *n == 1), "{selection:?}");
            assert_eq!(tiles.get(tiles.len()), None);
        }
    }

    #[test]
    fn edges_lie_between_subchunks() {
        let selection = Selection::boxed(&[0, 5, 0], &[4, 27, 64]);
        let grain =
            [Grain { phase: 0, length: 1 }, Grain { phase: 0, length: 8 }, Grain { phase: 0, length: 32 }];
        let tiles = Tiles::new(&selection, &grain, 8 * 64);
        let begins: Vec<Vec<u64>> = (0..tiles.len()).map(|n| tiles.get(n).unwrap().0).collect();
        assert_eq!(begins[..5], [[0, 0, 0], [0, 3, 0], [0, 11, 0], [0, 19, 0], [1, 0, 0]]);
    }

    #[test]
    fn the_first_piece_is_as_large_as_the_others() {
        let grain = [Grain { phase: 0, length: 2 }, Grain { phase: 0, length: u64::MAX }];
        let tiles = Tiles::new(&Selection::boxed(&[0, 0], &[16, 5]), &grain, 6 * 5);
        let planes: Vec<u64> = (0..tiles.len()).map(|n| tiles.get(n).unwrap().1.axes[0].count).collect();
        assert_eq!(planes, [6, 6, 4]);
        // A selection that begins in the middle of a subchunk keeps the lines.
        let tiles = Tiles::new(&Selection::boxed(&[1, 0], &[15, 5]), &grain, 6 * 5);
        let planes: Vec<u64> = (0..tiles.len()).map(|n| tiles.get(n).unwrap().1.axes[0].count).collect();
        assert_eq!(planes, [5, 6, 4]);
    }

    #[test]
    fn everything_that_fits_is_one_piece() {
        let selection = Selection::boxed(&[3, 5], &[7, 9]);
        let grain = [Grain { phase: 1, length: 2 }, Grain { phase: 0, length: 4 }];
        assert_eq!(Tiles::new(&selection, &grain, 63).len(), 1);
        assert_eq!(Tiles::new(&Selection::default(), &[], 1).len(), 1);
    }
}
