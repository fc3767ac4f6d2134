//! The hits that programs return: their size in bytes, and where their cells lie in a slot.

use drystone_format::MAX_NDIM;
use drystone_program::Answer;

use crate::parts::SubchunkPart;

/// Bytes of hits before cells and values.
const HEADER: u64 = 9;
/// If values are returned with the cells, one in this number of cells is expected to be a hit. A wrong guess costs no
/// byte, since the values of hits are wanted.
const EXPECTED: u64 = 8;

/// Bytes that a condition on gathered values returns: expected, and at most.
pub fn expected(gathered: u64, size: u64, answer: Answer) -> (u64, u64) {
    let cells = HEADER.saturating_add((gathered / size.max(1)).div_ceil(8));
    match answer {
        Answer::Count => (HEADER, HEADER),
        Answer::Cells => (cells, cells),
        Answer::Values => (cells.saturating_add(gathered / EXPECTED), cells.saturating_add(gathered)),
    }
}

/// Calls `act` for each run of a part of a slot, with the number of the run's first cell in the part (in the order in
/// which rules pack cells), its row-major number in the slot, and the run's length. `shape` is that of the slot.
pub fn each_run(part: &SubchunkPart, shape: &[u64], mut act: impl FnMut(u64, u64, u64)) {
    let ndim = shape.len().min(MAX_NDIM);
    let count = |d: usize| part.chunk[d].2;
    if (0..ndim).any(|d| count(d) == 0) {
        return;
    }
    let mut strides = vec![1u64; ndim];
    for d in (1..ndim).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d]);
    }
    let row = ndim.checked_sub(1).map_or(1, count);
    let first = (0..ndim).fold(0u64, |sum, d| sum.saturating_add(part.dest[d].saturating_mul(strides[d])));
    let mut at = vec![0u64; ndim.saturating_sub(1)];
    let mut packed = 0;
    loop {
        let beside = at
            .iter()
            .zip(&strides)
            .fold(0u64, |sum, (n, stride)| sum.saturating_add(n.saturating_mul(*stride)));
        act(packed, first.saturating_add(beside), row);
        packed = packed.saturating_add(row);
        let Some(d) = (0..at.len()).rev().find(|&d| at[d] + 1 < count(d)) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_rows_of_the_part_in_the_slot() {
        let mut part = SubchunkPart {
            subchunk: 0,
            chunk_shape: [1; MAX_NDIM],
            chunk: [(0, 1, 1); MAX_NDIM],
            dest: [0; MAX_NDIM],
        };
        (part.chunk[0].2, part.chunk[1].2, part.chunk[2].2) = (2, 2, 3);
        (part.dest[0], part.dest[1], part.dest[2]) = (1, 0, 4);
        let mut runs = Vec::new();
        each_run(&part, &[3, 5, 8], |packed, cell, len| runs.push((packed, cell, len)));
        assert_eq!(runs, [(0, 44, 3), (3, 52, 3), (6, 84, 3), (9, 92, 3)]);
        runs.clear();
        each_run(&part, &[], |packed, cell, len| runs.push((packed, cell, len)));
        assert_eq!(runs, [(0, 0, 1)], "a variable without axes has one cell");
    }

    #[test]
    fn a_count_is_a_few_bytes_and_cells_a_bit_each() {
        assert_eq!(expected(8000, 8, Answer::Count), (9, 9));
        assert_eq!(expected(8000, 8, Answer::Cells), (134, 134));
        assert_eq!(expected(8000, 8, Answer::Values), (1134, 8134));
    }
}
