//! A run of cells in row-major order, as boxes.
//!
//! An array that is presented as a file is one run of cells. A byte range of the file is a run of cells, and the read
//! path takes boxes.
//!
//! Invariants
//! - the boxes are disjoint, ascend in row-major order, and hold exactly the cells of the run;
//! - each box is contiguous in row-major order, so the boxes fill the caller's memory one behind another;
//! - there are at most twice as many boxes as axes, less one.

/// The first cell of a box, and its extents.
pub type OffsetCount = (Vec<u64>, Vec<u64>);

/// The cells `from..to`, numbered in row-major order of an array of this shape, as boxes. `to` is at most the
/// number of cells.
pub fn boxes(shape: &[u64], from: u64, to: u64) -> Vec<OffsetCount> {
    let mut out = Vec::new();
    if from < to {
        split(shape, &mut Vec::with_capacity(shape.len()), from, to, &mut out);
    }
    out
}

/// Like [`boxes`], for the cells below the leading coordinates `lead`.
fn split(shape: &[u64], lead: &mut Vec<u64>, from: u64, to: u64, out: &mut Vec<OffsetCount>) {
    let Some((&length, rest)) = shape.split_first() else {
        out.push((lead.clone(), vec![1; lead.len()]));
        return;
    };
    let row: u64 = rest.iter().product();
    let (first, last) = (from / row, (to - 1) / row);
    debug_assert!(last < length);
    let (head, tail) = (from % row, to - last * row);
    if first == last && (head > 0 || tail < row) {
        lead.push(first);
        split(rest, lead, head, tail, out);
        lead.pop();
        return;
    }
    if head > 0 {
        lead.push(first);
        split(rest, lead, head, row, out);
        lead.pop();
    }
    let begin = first + u64::from(head > 0);
    let rows = last + u64::from(tail == row) - begin;
    if rows > 0 {
        let offset = lead.iter().copied().chain([begin]).chain(rest.iter().map(|_| 0)).collect();
        let count = lead.iter().map(|_| 1).chain([rows]).chain(rest.iter().copied()).collect();
        out.push((offset, count));
    }
    if tail < row {
        lead.push(last);
        split(rest, lead, 0, tail, out);
        lead.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of a box's cells.
    fn cells(shape: &[u64], (offset, count): &OffsetCount) -> Vec<u64> {
        let mut numbers = vec![0];
        for ((n, o), c) in shape.iter().zip(offset).zip(count) {
            numbers = numbers.iter().flat_map(|&at| (*o..o + c).map(move |i| at * n + i)).collect();
        }
        numbers
    }

    #[test]
    fn every_run_of_a_small_array_is_its_boxes_in_order() {
        for shape in [&[][..], &[5], &[3, 4], &[1, 1, 4], &[2, 3, 4], &[3, 1, 2, 2]] {
            let all: u64 = shape.iter().product();
            for from in 0..=all {
                for to in from..=all {
                    let boxes = boxes(shape, from, to);
                    let held: Vec<u64> = boxes.iter().flat_map(|b| cells(shape, b)).collect();
                    assert_eq!(held, (from..to).collect::<Vec<_>>(), "{shape:?} {from}..{to}");
                    assert!(boxes.len() <= (2 * shape.len()).saturating_sub(1).max(1), "{boxes:?}");
                }
            }
        }
    }

    #[test]
    fn a_whole_array_is_one_box() {
        assert_eq!(boxes(&[7, 8, 9], 0, 7 * 8 * 9), [(vec![0, 0, 0], vec![7, 8, 9])]);
    }
}
