//! Which bytes of a raw or decoded subchunk a part touches.
//!
//! A raw subchunk is dense and row-major. From the innermost axis outwards, cells merge to runs as long as the holes
//! between them are read anyway (holes up to `gap`, or within a check unit). Only the remaining axes are enumerated. So
//! a plane across rows of a few kilobytes costs one range, not one per row.

use std::ops::Range;

use drystone_format::MAX_NDIM;

use drystone_transform::ranges::join;

use crate::form::Form;
use crate::parts::SubchunkPart;

/// Most ranges of one part; beyond this, holes are read too.
pub const MAX_RANGES: u64 = 4096;

/// The payload bytes that hold a part's cells, ascending and disjoint, rounded outward to check units of
/// `unit` bytes (0: the payload is one unit; the last unit ends at `payload_len`), merged where they lie at
/// most `gap` apart. `form` says where cells lie in the payload; it follows no curve. At most [`MAX_RANGES`].
pub fn touched(part: &SubchunkPart, form: &Form, unit: u64, payload_len: u64, gap: u64) -> Vec<Range<u64>> {
    if unit == 0 || unit >= payload_len {
        return vec![0..payload_len];
    }
    // Per axis, from the slowest: bytes from one selected cell to the next, and how many; and the offset of
    // the first cell.
    let (mut pace, mut count) = ([0u64; MAX_NDIM], [1u64; MAX_NDIM]);
    let (mut row, mut first, ndim) = (form.room, form.at, form.dims().count());
    for (n, d) in (0..ndim).rev().zip(form.dims().rev()) {
        let (from, step, cells) = part.chunk[d];
        let back = step.unsigned_abs().saturating_mul(cells.saturating_sub(1));
        let lowest = if step < 0 { from.saturating_sub(back) } else { from };
        first = first.saturating_add(lowest.saturating_mul(row));
        (pace[n], count[n]) = (row.saturating_mul(step.unsigned_abs()), cells.max(1));
        row = row.saturating_mul(part.chunk_shape[d]);
    }
    // Merge from the innermost axis outwards; `outer` axes remain.
    let (mut run, mut outer) = (form.item, ndim);
    let many = |outer: usize| count[..outer].iter().fold(1u64, |n, &count| n.saturating_mul(count));
    while outer > 0 {
        let d = outer - 1;
        let hole = pace[d].saturating_sub(run);
        if count[d] > 1 && hole / unit * unit > gap && many(outer) <= MAX_RANGES {
            break;
        }
        run = run.saturating_add(pace[d].saturating_mul(count[d] - 1));
        outer = d;
    }

    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut at = [0u64; MAX_NDIM];
    loop {
        let start = (0..outer).fold(first, |start, d| start.saturating_add(at[d].saturating_mul(pace[d])));
        let low = (start / unit * unit).min(payload_len);
        let high = start.saturating_add(run).div_ceil(unit).saturating_mul(unit).min(payload_len);
        join(&mut ranges, low..high, gap);
        let Some(d) = (0..outer).rev().find(|&d| at[d] + 1 < count[d]) else { return ranges };
        at[d] += 1;
        at[d + 1..outer].fill(0);
    }
}

/// Ascending ranges of a payload of `len` bytes, rounded outward to its check units of `unit` bytes, merged
/// where they then lie at most `gap` apart.
pub fn at_units(ranges: &[Range<u64>], unit: u64, len: u64, gap: u64) -> Vec<Range<u64>> {
    let unit = unit.max(1);
    let mut out = Vec::with_capacity(ranges.len());
    for range in ranges {
        let high = range.end.div_ceil(unit).saturating_mul(unit).min(len);
        join(&mut out, range.start / unit * unit..high, gap);
    }
    out
}

/// Holes of decoded bytes up to this size are ignored: they rarely change which check units are read.
pub(crate) const DECODED_GAP: u64 = 512;

/// The decoded bytes that hold a part's cells, in whole cells, ascending and disjoint: the ranges that a transform
/// decodes. At most [`MAX_RANGES`].
pub fn wanted(part: &SubchunkPart, form: &Form) -> Vec<Range<u64>> {
    let len = decoded_len(part, form.room);
    let unit = if form.curve.is_some() { 0 } else { form.room.max(1) };
    touched(part, form, unit, len, DECODED_GAP)
}

/// Bytes of a whole decoded subchunk with cells of `room` bytes.
pub fn decoded_len(part: &SubchunkPart, room: u64) -> u64 {
    part.chunk_shape.iter().fold(room, |len, &edge| len.saturating_mul(edge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn part(shape: &[u64], chunk: &[(u64, i64, u64)]) -> SubchunkPart {
        let mut made = SubchunkPart {
            subchunk: 0,
            chunk_shape: [1; MAX_NDIM],
            chunk: [(0, 1, 1); MAX_NDIM],
            dest: [0; MAX_NDIM],
        };
        made.chunk_shape[..shape.len()].copy_from_slice(shape);
        made.chunk[..chunk.len()].copy_from_slice(chunk);
        made
    }

    /// The expected result: marks the bytes of every cell, rounds outward, merges.
    fn scan(shape: &[u64], chunk: &[(u64, i64, u64)], item: u64, unit: u64, gap: u64) -> Vec<Range<u64>> {
        let length = shape.iter().product::<u64>() * item;
        let mut cells = vec![0u64];
        for (&(first, step, count), &edge) in chunk.iter().zip(shape) {
            let along = |base: u64| {
                (0..count).map(move |i| base * edge + first.checked_add_signed(step * i as i64).unwrap())
            };
            cells = cells.into_iter().flat_map(along).collect();
        }
        cells.sort();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for cell in cells {
            let low = cell * item / unit * unit;
            let high = ((cell + 1) * item).div_ceil(unit) * unit;
            match ranges.last_mut() {
                Some(last) if low <= last.end + gap => last.end = last.end.max(high.min(length)),
                _ => ranges.push(low..high.min(length)),
            }
        }
        ranges
    }

    #[test]
    fn random_parts_touch_what_a_scan_of_their_cells_touches() {
        let mut random = Random(11);
        for case in 0..20_000 {
            let ndim = 1 + random.below(3) as usize;
            let shape: Vec<u64> = (0..ndim).map(|_| 1 + random.below(12)).collect();
            let chunk: Vec<(u64, i64, u64)> = shape
                .iter()
                .map(|&edge| {
                    let (a, b) = (random.below(edge), random.below(edge));
                    let stride = 1 + random.below(4);
                    let count = a.abs_diff(b) / stride + 1;
                    (a, if b < a { -(stride as i64) } else { stride as i64 }, count)
                })
                .collect();
            let (item, gap) = (1 + random.below(9), [0, 0, 1, 7, 40][random.below(5) as usize]);
            let unit = [1, 2, 8, 16, 64][random.below(5) as usize];
            let length = shape.iter().product::<u64>() * item;
            let made = touched(&part(&shape, &chunk), &Form::dense(ndim, item), unit, length, gap);
            let expected =
                if unit >= length { vec![0..length] } else { scan(&shape, &chunk, item, unit, gap) };
            assert_eq!(made, expected, "case {case}: {shape:?} {chunk:?} {item} {unit} {gap}");
        }
    }

    #[test]
    fn a_subchunk_checked_as_a_whole_is_touched_whole() {
        assert_eq!(touched(&part(&[100], &[(3, 1, 1)]), &Form::dense(1, 8), 0, 800, 0), [0..800]);
    }

    #[test]
    fn ranges_are_bounded_in_number_and_still_hold_everything() {
        // Every other row of 32 KiB, in 20,000 rows.
        let wide = part(&[40_000, 8192], &[(0, 2, 20_000), (5, 1, 1)]);
        let made = touched(&wide, &Form::dense(2, 4), 16384, 40_000 * 32768, 0);
        assert_eq!(made, [0..39_998 * 32768 + 16384]);
        // Few enough rows: one range each.
        let narrow = part(&[40_000, 8192], &[(0, 10, 4000), (5, 1, 1)]);
        let made = touched(&narrow, &Form::dense(2, 4), 16384, 40_000 * 32768, 0);
        assert_eq!((made.len(), made[1].clone()), (4000, 327680..344064));
    }

    #[test]
    fn many_small_rows_are_merged_without_enumerating_them() {
        // A billion cells a kilobyte apart: all lie in adjacent units.
        let made = touched(
            &part(&[1 << 30, 256], &[(0, 1, 1 << 30), (9, 1, 1)]),
            &Form::dense(2, 4),
            16384,
            1 << 40,
            0,
        );
        assert_eq!(made, [0..1 << 40]);
    }

    #[test]
    fn numbers_at_the_end_of_the_range_do_not_overflow() {
        let huge = part(&[u64::MAX, u64::MAX], &[(u64::MAX - 1, i64::MAX, u64::MAX), (1, i64::MIN, 9)]);
        assert!(
            touched(&huge, &Form::dense(2, u64::MAX), 16384, u64::MAX, u64::MAX).len() <= MAX_RANGES as usize
        );
    }
}
