//! Splits large selections into boxes of bounded size, in row-major order. No I/O.

use drystone::plan::selection::{Axis, Index, Selection};

/// The parts of a selection, one box after another. The boxes' cells follow each other in row-major order.
#[derive(Debug, Clone)]
pub(crate) struct Slabs {
    whole: Selection,
    /// The axis that a box takes a range of: it takes one index of the axes before, and all of the axes after.
    axis: usize,
    /// Cells along `axis` in one box.
    span: u64,
    /// The start of the next box; `None` after the last.
    next: Option<Vec<u64>>,
}

impl Slabs {
    /// Boxes of at most `most` cells; `most` is at least 1.
    pub(crate) fn new(whole: &Selection, most: u64) -> Self {
        let most = most.max(1);
        let (mut axis, mut span, mut after) = (0, 1, 1u64);
        for (d, a) in whole.axes.iter().enumerate().rev() {
            (axis, span) = (d, (most / after).clamp(1, a.count.max(1)));
            after = after.saturating_mul(a.count.max(1));
            if span < a.count {
                break;
            }
        }
        let next = (!whole.is_empty()).then(|| vec![0; whole.axes.len()]);
        Slabs { whole: whole.clone(), axis, span, next }
    }
}

impl Iterator for Slabs {
    type Item = Selection;

    fn next(&mut self) -> Option<Selection> {
        let at = self.next.take()?;
        let axes = self.whole.axes.iter().enumerate().map(|(d, a)| {
            let count = if d < self.axis {
                1
            } else {
                (a.count - at[d]).min(if d == self.axis { self.span } else { a.count })
            };
            Axis { start: a.cell(at[d]), step: if count == 1 { 1 } else { a.step }, count }
        });
        let out = Selection { axes: axes.collect() };
        let mut at = at;
        for d in (0..self.whole.axes.len().min(self.axis + 1)).rev() {
            at[d] += if d == self.axis { self.span } else { 1 };
            if at[d] < self.whole.axes[d].count {
                self.next = Some(at);
                break;
            }
            at[d] = 0;
        }
        Some(out)
    }
}

/// The array axis of each axis of the result; `None`: a new axis.
pub(crate) fn kept_axes(ndim: usize, indices: &[Index]) -> Vec<Option<usize>> {
    let given = indices.iter().filter(|i| matches!(i, Index::Int(_) | Index::Slice { .. })).count();
    let mut out = Vec::new();
    let mut axis = 0;
    for index in indices {
        match index {
            Index::Int(_) => axis += 1,
            Index::Slice { .. } => {
                out.push(Some(axis));
                axis += 1;
            }
            Index::Ellipsis => {
                let free = ndim.saturating_sub(given);
                out.extend((axis..axis + free).map(Some));
                axis += free;
            }
            Index::NewAxis => out.push(None),
        }
    }
    out.extend((axis..ndim).map(Some));
    out
}

/// Shape of the result of a selection, or of a part of one.
pub(crate) fn result_shape(kept: &[Option<usize>], selection: &Selection) -> Vec<u64> {
    kept.iter().map(|k| k.and_then(|a| selection.axes.get(a)).map_or(1, |a| a.count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone::plan::selection::index;

    fn cells(selection: &Selection) -> Vec<Vec<u64>> {
        let mut out = vec![Vec::new()];
        for axis in &selection.axes {
            out = out
                .into_iter()
                .flat_map(|c| (0..axis.count).map(move |i| [c.clone(), vec![axis.cell(i)]].concat()))
                .collect();
        }
        out
    }

    #[test]
    fn slabs_hold_all_cells_once_in_order_and_are_small() {
        let every_third = Index::Slice { start: None, stop: None, step: Some(-3) };
        for shape in [vec![], vec![7], vec![3, 4, 5], vec![1, 1, 9], vec![2, 0, 3], vec![5, 1, 2]] {
            let (strided, _) = index(&shape, &vec![every_third; shape.len()]).unwrap();
            for whole in [Selection::all(&shape), strided] {
                for most in 0..70 {
                    let slabs: Vec<Selection> = Slabs::new(&whole, most).collect();
                    assert!(slabs.iter().all(|s| (1..=most.max(1)).contains(&s.cells().unwrap())));
                    let joined: Vec<_> = slabs.iter().flat_map(cells).collect();
                    assert_eq!(joined, cells(&whole), "{shape:?} {most}");
                }
            }
        }
    }

    #[test]
    fn the_result_has_the_shape_numpy_gives() {
        let all = Index::Slice { start: None, stop: None, step: None };
        for indices in [
            vec![],
            vec![Index::Int(0), Index::Ellipsis, Index::NewAxis],
            vec![Index::NewAxis, all, Index::Int(1)],
            vec![Index::Ellipsis, Index::Int(2)],
        ] {
            let (selection, shape) = index(&[3, 4, 5], &indices).unwrap();
            assert_eq!(result_shape(&kept_axes(3, &indices), &selection), shape, "{indices:?}");
        }
    }
}
