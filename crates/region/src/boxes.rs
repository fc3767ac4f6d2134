//! Boxes of cells: the part of one outside another, and slabs of a box. Pure.

/// First cell, and extents.
pub(super) type Bounds = (Vec<u64>, Vec<u64>);

/// Whether the boxes have a cell in common.
pub(super) fn meet(a: &Bounds, b: &Bounds) -> bool {
    let mut axes = a.0.iter().zip(&a.1).zip(b.0.iter().zip(&b.1));
    axes.all(|((a, n), (b, m))| *a < b.saturating_add(*m) && *b < a.saturating_add(*n))
}

/// The part of `a` outside `b`, as disjoint boxes.
pub(super) fn outside(a: &Bounds, b: &Bounds) -> Vec<Bounds> {
    if !meet(a, b) {
        return vec![a.clone()];
    }
    let (mut rest, mut out) = (a.clone(), Vec::new());
    let axes: Vec<(u64, u64)> = b.0.iter().copied().zip(b.1.iter().copied()).collect();
    for (axis, (at, n)) in axes.into_iter().enumerate() {
        let (Some(from), Some(count)) = (rest.0.get(axis).copied(), rest.1.get(axis).copied()) else { break };
        let (end, cut) = (from.saturating_add(count), at.saturating_add(n));
        for (from, to) in [(from, at.max(from)), (cut.min(end), end)] {
            if from < to {
                let mut part = rest.clone();
                set(&mut part, axis, from, to);
                out.push(part);
            }
        }
        set(&mut rest, axis, from.max(at), end.min(cut));
    }
    out
}

fn set((offset, count): &mut Bounds, axis: usize, from: u64, to: u64) {
    if let (Some(at), Some(n)) = (offset.get_mut(axis), count.get_mut(axis)) {
        (*at, *n) = (from, to.saturating_sub(from));
    }
}

/// The box, widened to multiples of `by` or the end of an axis.
pub(super) fn aligned((offset, count): &Bounds, by: u64, shape: &[u64]) -> Bounds {
    let by = by.max(1);
    let ends = offset.iter().zip(count).zip(shape);
    let ends = ends.map(|((at, n), extent)| at.saturating_add(*n).next_multiple_of(by).min(*extent));
    let offset: Vec<u64> = offset.iter().map(|at| at - at % by).collect();
    let count = ends.zip(&offset).map(|(end, at)| end.saturating_sub(*at)).collect();
    (offset, count)
}

/// Slabs across the first axis, of at most `most` cells. Their first rows are multiples of `by`, and a slab has at
/// least `by` rows.
pub(super) fn slabs(whole: &Bounds, most: u64, by: u64) -> Vec<Bounds> {
    let (Some(from), Some(count)) = (whole.0.first().copied(), whole.1.first().copied()) else {
        return vec![whole.clone()];
    };
    let row = whole.1.iter().skip(1).fold(1, |cells: u64, n| cells.saturating_mul(*n)).max(1);
    let by = by.max(1);
    let rows = ((most / row) / by * by).max(by);
    let end = from.saturating_add(count);
    let (mut out, mut at) = (Vec::new(), from);
    while at < end {
        let to = (at - at % by).saturating_add(rows).min(end);
        let mut slab = whole.clone();
        set(&mut slab, 0, at, to);
        out.push(slab);
        at = to;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(one: &Bounds) -> Vec<(u64, u64)> {
        let (o, n) = one;
        (o[0]..o[0] + n[0]).flat_map(|x| (o[1]..o[1] + n[1]).map(move |y| (x, y))).collect()
    }

    #[test]
    fn the_part_outside_has_each_other_cell_once() {
        let a = (vec![2, 3], vec![4, 5]);
        for x in 0..7 {
            for y in 0..9 {
                for (n, m) in [(1, 1), (2, 7), (9, 1), (3, 3)] {
                    let b = (vec![x, y], vec![n, m]);
                    let mut found: Vec<_> = outside(&a, &b).iter().flat_map(cells).collect();
                    found.sort_unstable();
                    let inside = cells(&b);
                    let expected: Vec<_> = cells(&a).into_iter().filter(|c| !inside.contains(c)).collect();
                    assert_eq!(found, expected, "{b:?}");
                    assert_eq!(meet(&a, &b), expected.len() < 20);
                }
            }
        }
    }

    #[test]
    fn aligned_boxes_end_at_multiples_or_at_the_edge() {
        let box_ = (vec![3, 8, 0], vec![2, 1, 5]);
        assert_eq!(aligned(&box_, 1, &[9, 9, 5]), box_);
        assert_eq!(aligned(&box_, 4, &[9, 9, 5]), (vec![0, 8, 0], vec![8, 1, 5]));
    }

    #[test]
    fn slabs_are_the_whole_and_begin_at_multiples() {
        let whole = (vec![3, 0], vec![20, 10]);
        let slabs = slabs(&whole, 50, 4);
        assert_eq!(slabs.iter().flat_map(cells).collect::<Vec<_>>(), cells(&whole));
        assert!(slabs.iter().skip(1).all(|slab| slab.0[0] % 4 == 0), "{slabs:?}");
        assert_eq!(super::slabs(&(vec![], vec![]), 50, 4), [(vec![], vec![])]);
    }
}
