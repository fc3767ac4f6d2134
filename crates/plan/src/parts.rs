//! Cuts a visible box of a block into the parts that its subchunks hold.
//!
//! Each axis is a sequence of runs: positions of the selection whose cells lie in the same row of subchunks. A run is
//! computed from where it starts, so rows of subchunks that a large stride skips cost nothing. The product of the runs
//! is enumerated like an odometer, without a table.

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;

use crate::resolve::Visible;
use crate::selection::{Axis, Selection};

/// The part of a read that one subchunk holds: which of its cells, and where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubchunkPart {
    /// Row-major number in the block's grid.
    pub subchunk: u64,
    /// Shape of this subchunk, which is smaller at the block's edge; 1 in dimensions the block does not have.
    pub chunk_shape: [u64; MAX_NDIM],
    /// Per dimension (first cell inside the subchunk, step, number of cells); (0, 1, 1) in dimensions the
    /// block does not have.
    pub chunk: [(u64, i64, u64); MAX_NDIM],
    /// Where the first cell goes in selection space; steps there are +1.
    pub dest: [u64; MAX_NDIM],
}

impl SubchunkPart {
    /// Number of cells.
    pub fn cells(&self) -> u64 {
        self.chunk.iter().fold(1, |cells, &(_, _, count)| cells.saturating_mul(count))
    }

    /// Whether it holds every cell of its subchunk.
    pub fn is_whole(&self) -> bool {
        self.chunk.iter().zip(&self.chunk_shape).all(|(&(_, _, count), &length)| count == length)
    }
}

/// The parts of a visible box, in row-major order of the selection. `visible` is one of those that
/// [`resolve`](crate::resolve::resolve) made of this entry and selection; the entry's box is not checked further.
pub fn parts<'a>(
    entry: &'a Entry,
    selection: &'a Selection,
    visible: &'a Visible,
) -> impl Iterator<Item = SubchunkPart> + 'a {
    Parts::new(entry, selection, visible)
}

/// A run along one axis: positions of the selection that lie in one row of subchunks.
#[derive(Clone, Copy)]
struct Run {
    row: u64,
    row_length: u64,
    chunk: (u64, i64, u64),
    dest: u64,
}

struct Parts<'a> {
    entry: &'a Entry,
    axes: &'a [Axis],
    visible: &'a Visible,
    /// Subchunks from one row to the next, per dimension.
    stride: [u64; MAX_NDIM],
    runs: [Run; MAX_NDIM],
    done: bool,
}

impl<'a> Parts<'a> {
    fn new(entry: &'a Entry, selection: &'a Selection, visible: &'a Visible) -> Self {
        let axes = &selection.axes[..selection.axes.len().min(MAX_NDIM)];
        let absent = Run { row: 0, row_length: 1, chunk: (0, 1, 1), dest: 0 };
        let mut parts = Parts {
            entry,
            axes,
            visible,
            stride: [0; MAX_NDIM],
            runs: [absent; MAX_NDIM],
            done: (0..axes.len()).any(|d| visible.lo[d] >= visible.hi[d].min(axes[d].count)),
        };
        let mut stride = 1u64;
        for d in (0..axes.len()).rev() {
            parts.stride[d] = stride;
            stride = stride.saturating_mul(entry.count[d].div_ceil(entry.cut[d].max(1)));
            parts.runs[d] = if parts.done { absent } else { parts.run(d, visible.lo[d]) };
        }
        parts
    }

    /// The run along axis `d` that begins at a position of the selection.
    fn run(&self, d: usize, position: u64) -> Run {
        let (axis, cut) = (&self.axes[d], self.entry.cut[d].max(1));
        let cell = axis.cell(position).wrapping_sub(self.entry.offset[d]);
        let row = cell / cut;
        let from = row * cut;
        let row_length = cut.min(self.entry.count[d].saturating_sub(from)).max(1);
        let inside = cell - from;
        let room = if axis.step > 0 { (row_length - 1).saturating_sub(inside) } else { inside };
        let more = room / axis.step.unsigned_abs().max(1);
        let count = self.visible.hi[d].saturating_sub(position).min(more.saturating_add(1));
        let step = if count == 1 { 1 } else { axis.step };
        Run { row, row_length, chunk: (inside, step, count), dest: position }
    }
}

impl Iterator for Parts<'_> {
    type Item = SubchunkPart;

    fn next(&mut self) -> Option<SubchunkPart> {
        if self.done {
            return None;
        }
        let subchunk = self
            .runs
            .iter()
            .zip(&self.stride)
            .fold(0u64, |number, (run, stride)| number.wrapping_add(run.row.wrapping_mul(*stride)));
        let part = SubchunkPart {
            subchunk,
            chunk_shape: self.runs.map(|run| run.row_length),
            chunk: self.runs.map(|run| run.chunk),
            dest: self.runs.map(|run| run.dest),
        };
        self.done = true;
        for d in (0..self.axes.len()).rev() {
            let next = self.runs[d].dest + self.runs[d].chunk.2;
            if next < self.visible.hi[d] {
                self.runs[d] = self.run(d, next);
                self.done = false;
                break;
            }
            self.runs[d] = self.run(d, self.visible.lo[d]);
        }
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, block};
    use crate::resolve::{Candidate, resolve};
    use std::collections::HashMap;

    fn cut_block(offset: &[u64], count: &[u64], cut: &[u64]) -> Entry {
        let mut entry = block(offset, count, 1);
        entry.cut[..cut.len()].copy_from_slice(cut);
        entry.subchunks = count.iter().zip(cut).map(|(n, c)| n.div_ceil(*c)).product();
        entry
    }

    fn parts_of(entry: &Entry, selection: &Selection) -> Vec<SubchunkPart> {
        let candidate = Candidate { entry: entry.clone(), limit: [u64::MAX; MAX_NDIM] };
        let resolved = resolve(&[candidate], selection);
        resolved.visible.iter().flat_map(|visible| parts(entry, selection, visible)).collect()
    }

    /// Position in the selection -> (subchunk, cell inside it), for each axis alone.
    fn cells_along(part: &SubchunkPart, d: usize) -> impl Iterator<Item = (u64, u64)> {
        let ((first, step, count), dest) = (part.chunk[d], part.dest[d]);
        (0..count).map(move |i| (dest + i, first.checked_add_signed(step * i as i64).unwrap()))
    }

    #[test]
    fn parts_of_random_selections_place_every_cell_once() {
        let mut random = Random(5);
        for _ in 0..3000 {
            let mut draw = |lo, hi| [random.within(lo, hi) as u64, random.within(lo, hi) as u64];
            let (offset, count, cut) = (draw(0, 20), draw(1, 20), draw(1, 9));
            let entry = cut_block(&offset, &count, &cut);
            let axes = (0..2)
                .map(|_| {
                    let step = [1, 1, 2, 5, 13, -1, -3, -11][random.below(8) as usize];
                    let count = random.below(if step == 1 || step == -1 { 40 } else { 4 });
                    let start = random.below(10) + if step < 0 { count * 11 } else { 0 };
                    Axis { start, step, count }
                })
                .collect();
            let selection = Selection { axes };
            let mut seen = HashMap::new();
            for part in parts_of(&entry, &selection) {
                assert!(part.cells() > 0);
                for (i, cell_i) in cells_along(&part, 0) {
                    for (j, cell_j) in cells_along(&part, 1) {
                        assert!(cell_i < part.chunk_shape[0] && cell_j < part.chunk_shape[1]);
                        assert_eq!(seen.insert((i, j), (part.subchunk, cell_i, cell_j)), None);
                    }
                }
            }
            let mut expected = HashMap::new();
            for i in 0..selection.axes[0].count {
                for j in 0..selection.axes[1].count {
                    let at = [selection.axes[0].cell(i), selection.axes[1].cell(j)];
                    if (0..2).all(|d| at[d] >= offset[d] && at[d] < offset[d] + count[d]) {
                        let inside = [at[0] - offset[0], at[1] - offset[1]];
                        let number = inside[0] / cut[0] * count[1].div_ceil(cut[1]) + inside[1] / cut[1];
                        expected.insert((i, j), (number, inside[0] % cut[0], inside[1] % cut[1]));
                    }
                }
            }
            assert_eq!(seen, expected, "{selection:?}");
        }
    }

    #[test]
    fn a_large_stride_makes_one_part_per_cell_and_no_empty_ones() {
        let entry = cut_block(&[0], &[1 << 50], &[1 << 20]);
        let selection = Selection { axes: vec![Axis { start: 7, step: 1 << 45, count: 32 }] };
        let made = parts_of(&entry, &selection);
        assert_eq!(made.len(), 32);
        assert!(made.iter().all(|part| part.cells() == 1 && part.chunk[0] == (7, 1, 1)));
        assert_eq!(made[31].subchunk, 31 << 25);
    }

    #[test]
    fn edges_of_a_block_have_smaller_subchunks() {
        let entry = cut_block(&[10, 0], &[5, 4], &[3, 4]);
        let made = parts_of(&entry, &Selection::all(&[20, 4]));
        assert_eq!(made.len(), 2);
        assert!(made.iter().all(SubchunkPart::is_whole));
        assert_eq!((made[1].subchunk, made[1].chunk_shape[0], made[1].dest[0]), (1, 2, 13));
    }

    #[test]
    fn a_value_without_dimensions_is_one_part() {
        let made = parts_of(&block(&[], &[], 1), &Selection::all(&[]));
        assert_eq!((made.len(), made[0].cells(), made[0].subchunk, made[0].is_whole()), (1, 1, 0, true));
    }

    #[test]
    fn an_impossible_cut_does_not_panic() {
        let mut entry = block(&[0], &[u64::MAX], 1);
        entry.cut[0] = 0;
        assert_eq!(parts_of(&entry, &Selection::boxed(&[5], &[3])).len(), 3);
    }
}
