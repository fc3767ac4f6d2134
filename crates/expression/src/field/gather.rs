//! Copies boxes of cells: parts, neighbours, repeated values, cells beyond the domain.
//!
//! Along each axis, a list maps each position of the result to a position of the source. A position beyond the
//! source takes a value that the caller gives.

use super::spare::Spare;
use super::values::{Values, for_pair};

/// Marks a position beyond the source.
pub(super) const OUTSIDE: usize = usize::MAX;

/// A run of positions along the last axis that is copied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// That many consecutive elements, starting at an element.
    Ascending(usize, usize),
    /// One element, repeated that many times.
    Same(usize, usize),
    /// That many positions beyond the source.
    Beyond(usize),
}

/// The source of each cell of a result.
#[derive(Debug, Clone)]
pub(super) struct Gather {
    /// Offsets in elements of each position along every axis except the last.
    outer: Vec<Vec<usize>>,
    runs: Vec<Run>,
    row: usize,
}

impl Gather {
    /// For each axis of the result, `axes` has the stride of the source in elements and the source position of
    /// each position.
    pub(super) fn new(axes: &[(usize, Vec<usize>)]) -> Gather {
        let offsets = |(stride, places): &(usize, Vec<usize>)| -> Vec<usize> {
            places.iter().map(|&at| if at == OUTSIDE { OUTSIDE } else { at * stride }).collect()
        };
        let last = axes.last().map_or_else(|| vec![0], offsets);
        let outer = axes[..axes.len().saturating_sub(1)].iter().map(offsets).collect();
        Gather { outer, runs: runs(&last), row: last.len() }
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.outer.iter().map(Vec::len).product()
    }

    /// Offset in elements of a row; `None` if the row lies beyond the source.
    fn base(&self, mut row: usize) -> Option<usize> {
        let mut base = 0;
        for offsets in self.outer.iter().rev() {
            let at = offsets[row % offsets.len()];
            row /= offsets.len();
            if at == OUTSIDE {
                return None;
            }
            base += at;
        }
        Some(base)
    }

    /// Copies one row of the result. `out` has its length.
    pub(super) fn fill_row<T: Copy>(&self, from: &[T], row: usize, beyond: T, out: &mut [T]) {
        let Some(base) = self.base(row) else {
            out.fill(beyond);
            return;
        };
        let mut at = 0;
        for run in &self.runs {
            match *run {
                Run::Ascending(first, count) => {
                    out[at..at + count].copy_from_slice(&from[base + first..base + first + count]);
                    at += count;
                }
                Run::Same(first, count) => {
                    out[at..at + count].fill(from[base + first]);
                    at += count;
                }
                Run::Beyond(count) => {
                    out[at..at + count].fill(beyond);
                    at += count;
                }
            }
        }
    }

    pub(super) fn copy<T: Copy>(&self, from: &[T], beyond: T, out: &mut Vec<T>) {
        let rows = self.rows();
        // Every element is written below.
        out.resize(rows * self.row, beyond);
        if self.row == 0 {
            return;
        }
        for (n, row) in out.chunks_exact_mut(self.row).enumerate() {
            self.fill_row(from, n, beyond, row);
        }
    }

    /// All values. Cells beyond the source are zero until the caller fills them.
    pub(super) fn values(&self, from: &Values, spare: &mut Spare) -> Values {
        let mut out = spare.take(from.dtype(), self.rows() * self.row);
        for_pair!(from, &mut out, from, to => self.copy(from, Default::default(), to));
        out
    }

    /// Writes the first element of `value`, of the same type, wherever the result lies beyond the source.
    pub(super) fn fill_beyond(&self, value: &Values, out: &mut Values) {
        let mut inside: Vec<u8> = vec![0; self.row];
        let ones = vec![1u8; 1 + self.reach()];
        for row in 0..self.rows() {
            self.fill_row(&ones, row, 0, &mut inside);
            let first = row * self.row;
            for_pair!(value, &mut *out, value, out => if let Some(&value) = value.first() {
                for (out, inside) in out[first..].iter_mut().zip(&inside) {
                    if *inside == 0 {
                        *out = value;
                    }
                }
            });
        }
    }

    /// The last source element that is read.
    fn reach(&self) -> usize {
        let last = self.runs.iter().map(|run| match *run {
            Run::Ascending(first, count) => first + count.saturating_sub(1),
            Run::Same(first, _) => first,
            Run::Beyond(_) => 0,
        });
        let outer =
            |offsets: &Vec<usize>| offsets.iter().filter(|at| **at != OUTSIDE).max().copied().unwrap_or(0);
        last.max().unwrap_or(0) + self.outer.iter().map(outer).sum::<usize>()
    }
}

fn runs(places: &[usize]) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for &at in places {
        match out.last_mut() {
            Some(Run::Beyond(count)) if at == OUTSIDE => *count += 1,
            Some(Run::Ascending(first, count)) if at == *first + *count => *count += 1,
            Some(Run::Same(first, count)) if at == *first => *count += 1,
            Some(last @ Run::Ascending(..)) if *last == Run::Ascending(at, 1) => *last = Run::Same(at, 2),
            _ if at == OUTSIDE => out.push(Run::Beyond(1)),
            _ => out.push(Run::Ascending(at, 1)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_clamped_repeated_and_left_out() {
        let from = Values::I4(vec![0, 1, 2, 3, 4, 5]);
        let gather = Gather::new(&[(3, vec![1, OUTSIDE, 0]), (1, vec![0, 0, 1, 2, OUTSIDE])]);
        let mut out = gather.values(&from, &mut Spare::default());
        gather.fill_beyond(&Values::I4(vec![9]), &mut out);
        assert!(matches!(&out, Values::I4(v) if *v == [3, 3, 4, 5, 9, 9, 9, 9, 9, 9, 0, 0, 1, 2, 9]));
    }
}
