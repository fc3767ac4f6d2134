//! The cells of an array that a reader wants: one progression per axis.
//!
//! [`index`] follows NumPy's rules for basic indexing (integers, slices, an ellipsis, new axes), so that
//! every face gives the same cells and shapes. A [`Selection`] keeps all axes of the array. Dropped and new
//! axes are only in the result shape, because neither changes the cells or their order.

use drystone_format::MAX_NDIM;
use std::ops::Range;

/// The cells `start, start + step, …` along one axis. `step` is not 0; a `count` of 0 selects no cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Axis {
    pub start: u64,
    pub step: i64,
    pub count: u64,
}

impl Axis {
    /// All cells `0..length`.
    pub fn full(length: u64) -> Axis {
        Axis { start: 0, step: 1, count: length }
    }

    /// The cell at position `index` of the progression; the caller keeps `index` below `count`.
    pub fn cell(&self, index: u64) -> u64 {
        self.start.wrapping_add((self.step as u64).wrapping_mul(index))
    }

    /// The positions whose cells lie in `lo..hi`: an interval, because the progression is monotone.
    pub fn meeting(&self, lo: u64, hi: u64) -> Range<u64> {
        if self.count == 0 || self.step == 0 || lo >= hi {
            return 0..0;
        }
        let stride = self.step.unsigned_abs();
        let (first, end) = if self.step > 0 {
            let reach = |bound: u64| bound.saturating_sub(self.start).div_ceil(stride);
            (reach(lo), reach(hi))
        } else {
            let reach =
                |bound: u64| self.start.checked_sub(bound).map_or(0, |d| (d / stride).saturating_add(1));
            (reach(hi), reach(lo))
        };
        let (first, end) = (first.min(self.count), end.min(self.count));
        if first < end { first..end } else { 0..0 }
    }
}

/// A strided box: the product of one progression per dimension of the array.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selection {
    /// One per dimension, at most eight; none for a 0-d array, which has one cell.
    pub axes: Vec<Axis>,
}

impl Selection {
    /// Every cell of an array.
    pub fn all(shape: &[u64]) -> Selection {
        Selection { axes: shape.iter().map(|&length| Axis::full(length)).collect() }
    }

    /// A dense box.
    pub fn boxed(offset: &[u64], count: &[u64]) -> Selection {
        let axes = offset.iter().zip(count).map(|(&start, &count)| Axis { start, step: 1, count });
        Selection { axes: axes.collect() }
    }

    /// Cells along each axis.
    pub fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|axis| axis.count).collect()
    }

    /// Number of cells, or `None` if it does not fit in 64 bits.
    pub fn cells(&self) -> Option<u64> {
        if self.is_empty() {
            return Some(0);
        }
        self.axes.iter().try_fold(1u64, |cells, axis| cells.checked_mul(axis.count))
    }

    /// Whether no cell is wanted.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|axis| axis.count == 0)
    }

    /// The smallest box `lo..hi` that holds all cells, 0 in dimensions that the array does not have; `None` if there is
    /// no cell.
    pub fn bounds(&self) -> Option<([u64; MAX_NDIM], [u64; MAX_NDIM])> {
        if self.is_empty() {
            return None;
        }
        let (mut lo, mut hi) = ([0; MAX_NDIM], [0; MAX_NDIM]);
        for ((axis, lo), hi) in self.axes.iter().zip(&mut lo).zip(&mut hi) {
            let (first, last) = (axis.start, axis.cell(axis.count - 1));
            (*lo, *hi) = (first.min(last), first.max(last).saturating_add(1));
        }
        Some((lo, hi))
    }
}

/// One item of an indexing expression such as `[3, ::2, ..., None]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Index {
    /// One cell, counted from the end if negative; its axis is dropped from the result.
    Int(i64),
    /// Python's slice.
    Slice { start: Option<i64>, stop: Option<i64>, step: Option<i64> },
    /// As many full slices as there are axes left.
    Ellipsis,
    /// A new axis of length 1 in the result.
    NewAxis,
}

/// An indexing expression that NumPy would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum IndexError {
    #[error("too many indices: the array has {ndim} dimensions, but {given} were indexed")]
    TooMany { ndim: usize, given: usize },
    #[error("index {index} is out of bounds for axis {axis} with size {length}")]
    OutOfBounds { axis: usize, index: i64, length: u64 },
    #[error("the slice step of axis {axis} is zero")]
    ZeroStep { axis: usize },
    #[error("an index can have only one ellipsis ('...')")]
    SeveralEllipses,
}

/// NumPy's rules for basic indexing: the selected cells, and the shape of the result.
pub fn index(shape: &[u64], indices: &[Index]) -> Result<(Selection, Vec<u64>), IndexError> {
    let given = indices.iter().filter(|index| matches!(index, Index::Int(_) | Index::Slice { .. })).count();
    if indices.iter().filter(|index| matches!(index, Index::Ellipsis)).count() > 1 {
        return Err(IndexError::SeveralEllipses);
    }
    let Some(free) = shape.len().checked_sub(given) else {
        return Err(IndexError::TooMany { ndim: shape.len(), given });
    };
    let mut axes: Vec<Axis> = Vec::with_capacity(shape.len());
    let mut result = Vec::with_capacity(shape.len());
    let full = |axes: &mut Vec<Axis>, result: &mut Vec<u64>, number: usize| {
        for &length in shape.iter().skip(axes.len()).take(number) {
            axes.push(Axis::full(length));
            result.push(length);
        }
    };
    for item in indices {
        let axis = axes.len();
        match *item {
            Index::NewAxis => result.push(1),
            Index::Ellipsis => full(&mut axes, &mut result, free),
            Index::Int(index) => {
                let length = shape[axis];
                let cell = if index < 0 { index as i128 + length as i128 } else { index as i128 };
                if cell < 0 || cell >= length as i128 {
                    return Err(IndexError::OutOfBounds { axis, index, length });
                }
                axes.push(Axis { start: cell as u64, step: 1, count: 1 });
            }
            Index::Slice { start, stop, step } => {
                let step = step.unwrap_or(1);
                if step == 0 {
                    return Err(IndexError::ZeroStep { axis });
                }
                let taken = slice(shape[axis], start, stop, step);
                axes.push(taken);
                result.push(taken.count);
            }
        }
    }
    let rest = shape.len() - axes.len();
    full(&mut axes, &mut result, rest);
    Ok((Selection { axes }, result))
}

/// Python's slice over `length` cells. If it selects fewer than two cells, its step becomes 1.
fn slice(length: u64, start: Option<i64>, stop: Option<i64>, step: i64) -> Axis {
    let (length, stride) = (length as i128, step as i128);
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let place = |bound: Option<i64>, default: i128| match bound {
        None => default,
        Some(bound) if bound < 0 => (bound as i128 + length).clamp(lowest, highest),
        Some(bound) => (bound as i128).clamp(lowest, highest),
    };
    let (first, end) = if step > 0 {
        (place(start, lowest), place(stop, highest))
    } else {
        (place(start, highest), place(stop, lowest))
    };
    let span = if step > 0 { end - first } else { first - end };
    let count = if span > 0 { ((span - 1) / stride.abs() + 1) as u64 } else { 0 };
    match count {
        0 => Axis { start: 0, step: 1, count: 0 },
        1 => Axis { start: first as u64, step: 1, count: 1 },
        _ => Axis { start: first as u64, step, count },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Python's definition, literally: clamp, then step until the end is passed.
    fn python_slice(length: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<u64> {
        let adjust = |value: i64| if value < 0 { value + length } else { value };
        let (mut cell, stop) = if step > 0 {
            (start.map_or(0, |s| adjust(s).max(0)), stop.map_or(length, |s| adjust(s).min(length)))
        } else {
            (start.map_or(length - 1, |s| adjust(s).min(length - 1)), stop.map_or(-1, |s| adjust(s).max(-1)))
        };
        let mut cells = Vec::new();
        while (step > 0 && cell < stop) || (step < 0 && cell > stop) {
            cells.push(cell as u64);
            cell += step;
        }
        cells
    }

    fn cells(axis: &Axis) -> Vec<u64> {
        (0..axis.count).map(|i| axis.cell(i)).collect()
    }

    #[test]
    fn slices_select_what_python_selects() {
        let bounds: Vec<Option<i64>> = std::iter::once(None).chain((-9..=9).map(Some)).collect();
        for length in 0..=6i64 {
            for &start in &bounds {
                for &stop in &bounds {
                    for step in (-7..=7).filter(|&s| s != 0) {
                        let asked = Index::Slice { start, stop, step: Some(step) };
                        let (selection, shape) = index(&[length as u64], &[asked]).unwrap();
                        let expected = python_slice(length, start, stop, step);
                        assert_eq!(cells(&selection.axes[0]), expected, "{length} {asked:?}");
                        assert_eq!(shape, [expected.len() as u64]);
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_numbers_are_clamped_not_overflowed() {
        for step in [i64::MIN, i64::MAX, -1, 1] {
            for start in [None, Some(i64::MIN), Some(i64::MAX)] {
                for stop in [None, Some(i64::MIN), Some(i64::MAX)] {
                    for length in [0, 1, 5, u64::MAX] {
                        let (selection, shape) =
                            index(&[length], &[Index::Slice { start, stop, step: Some(step) }]).unwrap();
                        assert!(shape[0] <= length);
                        if let Some((lo, hi)) = selection.bounds() {
                            assert!(lo[0] < hi[0] && hi[0] <= length);
                        }
                    }
                }
            }
        }
        assert_eq!(
            index(&[3], &[Index::Int(i64::MIN)]),
            Err(IndexError::OutOfBounds { axis: 0, index: i64::MIN, length: 3 })
        );
    }

    #[test]
    fn integers_drop_axes_and_new_axes_add_them() {
        let all = Index::Slice { start: None, stop: None, step: None };
        let shape_of = |items: &[Index]| index(&[4, 5, 6], items).map(|(_, shape)| shape);
        assert_eq!(shape_of(&[]).unwrap(), [4, 5, 6]);
        assert_eq!(shape_of(&[Index::Int(-1)]).unwrap(), [5, 6]);
        assert_eq!(shape_of(&[Index::Ellipsis, Index::Int(0)]).unwrap(), [4, 5]);
        assert_eq!(shape_of(&[all, Index::Ellipsis, all, all]).unwrap(), [4, 5, 6]);
        assert_eq!(
            shape_of(&[Index::NewAxis, Index::Int(1), Index::NewAxis, Index::Ellipsis, Index::NewAxis])
                .unwrap(),
            [1, 1, 5, 6, 1]
        );
        assert_eq!(shape_of(&[Index::Int(0); 3]).unwrap(), [0u64; 0]);
        assert_eq!(index(&[], &[Index::Ellipsis]).unwrap(), (Selection::default(), vec![]));
        let (selection, _) = index(&[4, 5, 6], &[Index::Int(-1), Index::Ellipsis, Index::Int(2)]).unwrap();
        assert_eq!(selection.bounds().unwrap().0[..3], [3, 0, 2]);
    }

    #[test]
    fn selections_that_numpy_refuses_are_refused() {
        assert_eq!(index(&[4], &[Index::Int(0); 2]), Err(IndexError::TooMany { ndim: 1, given: 2 }));
        assert_eq!(index(&[4], &[Index::Ellipsis, Index::Ellipsis]), Err(IndexError::SeveralEllipses));
        for bad in [4, -5] {
            let expected = IndexError::OutOfBounds { axis: 1, index: bad, length: 4 };
            assert_eq!(index(&[9, 4], &[Index::Ellipsis, Index::Int(bad)]), Err(expected));
        }
        let zero = Index::Slice { start: None, stop: None, step: Some(0) };
        assert_eq!(index(&[4, 4], &[Index::Int(0), zero]), Err(IndexError::ZeroStep { axis: 1 }));
    }

    #[test]
    fn the_positions_that_meet_an_interval_are_those_a_scan_finds() {
        let mut random = Random(1);
        for _ in 0..20_000 {
            let count = random.below(12);
            let step = random.within(-5, 6);
            let start = random.below(30).max(step.unsigned_abs() * count);
            let axis = Axis { start, step: if step == 0 { 1 } else { step }, count };
            let (lo, hi) = (random.below(60), random.below(90));
            let scanned: Vec<u64> = (0..count).filter(|&i| (lo..hi).contains(&axis.cell(i))).collect();
            assert_eq!(axis.meeting(lo, hi).collect::<Vec<_>>(), scanned, "{axis:?} {lo}..{hi}");
        }
    }

    #[test]
    fn a_selection_without_axes_is_one_cell() {
        let point = Selection::all(&[]);
        assert_eq!((point.cells(), point.bounds()), (Some(1), Some(([0; 8], [0; 8]))));
        assert_eq!(Selection::all(&[u64::MAX, 2]).cells(), None);
        assert_eq!(Selection::all(&[u64::MAX, 2, 0]).cells(), Some(0));
        assert_eq!(Selection::boxed(&[3, 1], &[2, 0]).bounds(), None);
    }
}
