//! The order in which the cells of a grid are predicted from coarser ones.
//!
//! At step s, a cell whose index along one axis is an odd multiple of s lies between two known cells. Along earlier
//! axes all cells of step s are already known; along later axes only those of step 2 s. Every cell occurs once, after
//! its two neighbours; the first cell has none.

/// Calls `give` with every cell but the first, and with the cells before and behind it along an axis. At the end of an
/// axis both are the cell before it.
pub(super) fn visit(shape: &[usize], mut give: impl FnMut(usize, usize, usize)) {
    if shape.contains(&0) {
        return;
    }
    let mut strides = vec![1usize; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d];
    }
    let longest = shape.iter().copied().max().unwrap_or(1);
    let mut step = longest.next_power_of_two() / 2;
    while step > 0 {
        for axis in 0..shape.len() {
            along(shape, &strides, axis, step, &mut give);
        }
        step /= 2;
    }
}

/// Visits the cells of one step and axis, row by row.
fn along(
    shape: &[usize],
    strides: &[usize],
    axis: usize,
    step: usize,
    give: &mut impl FnMut(usize, usize, usize),
) {
    let first = |d: usize| if d == axis { step } else { 0 };
    let pace = |d: usize| if d < axis { step } else { 2 * step };
    if first(axis) >= shape[axis] {
        return;
    }
    let near = step * strides[axis];
    let mut at: Vec<usize> = (0..shape.len()).map(first).collect();
    let last = shape.len() - 1;
    loop {
        let row: usize = at.iter().zip(strides).take(last).map(|(i, s)| i * s).sum();
        let mut i = first(last);
        while i < shape[last] {
            let cell = row + i;
            let index = if axis == last { i } else { at[axis] };
            let behind = if index + step < shape[axis] { cell + near } else { cell - near };
            give(cell, cell - near, behind);
            i += pace(last);
        }
        let Some(d) = (0..last).rev().find(|&d| at[d] + pace(d) < shape[d]) else { return };
        at[d] += pace(d);
        for (later, place) in at.iter_mut().enumerate().take(last).skip(d + 1) {
            *place = first(later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_comes_once_and_after_its_neighbours() {
        for shape in [&[1][..], &[7], &[64], &[5, 9], &[1, 17, 2], &[4, 4, 4, 3], &[33, 1], &[2, 2, 2, 2, 2]]
        {
            let mut known = vec![false; shape.iter().product()];
            known[0] = true;
            visit(shape, |cell, before, behind| {
                assert!(known[before] && known[behind] && !known[cell], "{shape:?}: {cell}");
                known[cell] = true;
            });
            assert!(known.iter().all(|k| *k), "{shape:?}");
        }
        visit(&[0, 5], |_, _, _| panic!("no cells"));
    }
}
