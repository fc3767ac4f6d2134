//! Tests the kernels against a loop over single elements, for every width, order and sign of stride.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use drystone_copy::{CopyError, Dim, Side, StridedCopy, fill};
use proptest::prelude::*;

/// Copies one element after the other, by the definition. Neither canonical nor fast.
fn naive(src: &[u8], dst: &mut [u8], src_at: i64, dst_at: i64, elem: usize, dims: &[Dim]) {
    match dims.split_first() {
        None => {
            let (s, d) = (src_at as usize, dst_at as usize);
            dst[d..d + elem].copy_from_slice(&src[s..s + elem]);
        }
        Some((dim, rest)) => {
            for k in 0..dim.count as i64 {
                naive(src, dst, src_at + k * dim.src_stride, dst_at + k * dim.dst_stride, elem, rest);
            }
        }
    }
}

/// A copy as a user may write it, with buffers of the least size.
#[derive(Debug, Clone)]
struct Case {
    src_at: u64,
    dst_at: u64,
    elem: usize,
    dims: Vec<Dim>,
    src_len: usize,
    dst_len: usize,
}

/// Arranges `counts` with gaps, in the order given by `order`, each dimension forward or backward.
fn lay(elem: usize, counts: &[u64], order: &[usize], gaps: &[u64], back: &[bool]) -> (Vec<i64>, u64, u64) {
    let (mut strides, mut size, mut first) = (vec![0; counts.len()], elem as u64, 0);
    for &k in order {
        let stride = size + gaps[k];
        strides[k] = if back[k] { -(stride as i64) } else { stride as i64 };
        let reach = counts[k].saturating_sub(1) * stride;
        first += if back[k] { reach } else { 0 };
        size += reach;
    }
    (strides, first, size)
}

fn cases(max_count: u64) -> impl Strategy<Value = Case> {
    let elems =
        prop_oneof![1..=17usize, Just(24), Just(32), Just(40), Just(64), Just(100), Just(200), Just(2048)];
    (elems, 0..5usize).prop_flat_map(move |(elem, ndim)| {
        let order = || Just((0..ndim).collect::<Vec<_>>()).prop_shuffle();
        let gap = || prop_oneof![3 => Just(0u64), 1 => 1..9u64, 1 => Just(elem as u64)];
        let gaps = || prop::collection::vec(gap(), ndim);
        let max = if ndim > 2 { max_count.min(9) } else { max_count };
        let counts = prop::collection::vec(prop_oneof![1 => Just(1u64), 9 => 1..=max], ndim);
        let flags = || prop::collection::vec(prop::bool::weighted(0.25), ndim);
        let broadcast = prop::collection::vec(prop::bool::weighted(0.1), ndim);
        (counts, order(), order(), gaps(), gaps(), flags(), flags(), broadcast, 0..9u64, 0..9u64).prop_map(
            move |(counts, s_order, d_order, s_gaps, d_gaps, s_back, d_back, broadcast, s0, d0)| {
                let (s, s_first, s_size) = lay(elem, &counts, &s_order, &s_gaps, &s_back);
                let (d, d_first, d_size) = lay(elem, &counts, &d_order, &d_gaps, &d_back);
                let dims = (0..ndim).map(|k| Dim::new(counts[k], if broadcast[k] { 0 } else { s[k] }, d[k]));
                let (src_len, dst_len) = ((s0 + s_size) as usize, (d0 + d_size) as usize);
                let dims = dims.collect();
                Case { src_at: s0 + s_first, dst_at: d0 + d_first, elem, dims, src_len, dst_len }
            },
        )
    })
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|k| (k.wrapping_mul(2654435761) >> 13) as u8).collect()
}

fn check(case: &Case, run: impl Fn(&StridedCopy, &[u8], &mut [u8])) {
    let src = pattern(case.src_len);
    let mut expected = vec![0xEE; case.dst_len];
    let mut found = expected.clone();
    naive(&src, &mut expected, case.src_at as i64, case.dst_at as i64, case.elem, &case.dims);
    let copy = StridedCopy::new(case.src_at, case.dst_at, case.elem, case.dims.clone()).unwrap();
    run(&copy, &src, &mut found);
    assert!(expected == found, "{case:?} as {copy:?}");
    let product: u64 = case.dims.iter().map(|dim| dim.count).product();
    assert_eq!(copy.bytes(), product * case.elem as u64);
}

fn refused_side(result: Result<(), CopyError>) -> Option<Side> {
    match result {
        Err(CopyError::OutOfBounds { side, .. }) => Some(side),
        _ => None,
    }
}

const CASES: u32 = if cfg!(miri) { 8 } else { 3000 };
const MAX_COUNT: u64 = if cfg!(miri) { 10 } else { 70 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_moves_what_the_element_loop_moves(case in cases(MAX_COUNT)) {
        check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
    }

    #[test]
    fn the_pieces_of_a_split_do_what_the_whole_does(case in cases(MAX_COUNT), parts in 1..9usize) {
        check(&case, |copy, src, dst| {
            let pieces = copy.split(parts);
            assert!(pieces.len() <= parts);
            assert_eq!(pieces.iter().map(StridedCopy::bytes).sum::<u64>(), copy.bytes());
            for piece in pieces.iter().rev() {
                piece.run(src, dst).unwrap();
            }
        });
    }

    #[test]
    fn one_byte_less_on_either_side_is_refused(case in cases(MAX_COUNT)) {
        let copy = StridedCopy::new(case.src_at, case.dst_at, case.elem, case.dims.clone()).unwrap();
        let (src, dst) = (copy.src_span().end, copy.dst_span().end);
        prop_assert_eq!(copy.check(src, dst), Ok(()));
        let short_src = copy.check(src - 1, dst);
        let short_dst = copy.check(src, dst - 1);
        let (src_refused, dst_refused) = (refused_side(short_src), refused_side(short_dst));
        prop_assert_eq!((src_refused, dst_refused), (Some(Side::Source), Some(Side::Destination)));
    }
}

/// Transposes and field extractions of sizes around the tile sides, in every width.
#[test]
fn transposes_of_every_width_and_awkward_size_are_exact() {
    let sizes: &[(u64, u64)] = if cfg!(miri) {
        &[(9, 17)]
    } else {
        &[(1, 300), (3, 257), (3, 5001), (5001, 3), (8, 8), (33, 31), (64, 128), (130, 67), (200, 3)]
    };
    for elem in [1, 2, 3, 4, 5, 8, 12, 16, 24, 40] {
        for &(rows, cols) in sizes {
            for pad in [0, 1, 16] {
                let (e, r, c) = (elem as i64, rows as i64, cols as i64);
                let dims = vec![Dim::new(rows, c * e + pad, e), Dim::new(cols, e, r * e + pad)];
                let src_len = (rows * (cols * elem as u64 + pad as u64)) as usize;
                let dst_len = (cols * (rows * elem as u64 + pad as u64)) as usize;
                let case = Case { src_at: 0, dst_at: 0, elem, dims, src_len, dst_len };
                check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
            }
        }
    }
}

/// Records of a few members to columns and back: every width and number of members, with and without gaps between
/// records, more and fewer records than a stage holds, from every skew, and also into buffers that bypass the caches.
#[test]
fn records_become_columns_and_columns_records_wherever_they_begin() {
    let (counts, skews, room) = if cfg!(miri) {
        (&[130, 131][..], &[16, 3][..], 8 << 10)
    } else {
        (&[9, 2049, 9001, 9002][..], &[0, 3, 16, 48][..], 4 << 20)
    };
    let elems = if cfg!(miri) { &[2, 4, 8][..] } else { &[1, 2, 3, 4, 8, 12, 16][..] };
    for &elem in elems {
        for members in if cfg!(miri) { 3..=5 } else { 2..=9i64 } {
            for &count in counts {
                for (gap, &skew) in
                    [0, 8].into_iter().flat_map(|gap| skews.iter().map(move |skew| (gap, skew)))
                {
                    let (record, column) = (elem * members + gap, elem * count + 24);
                    let records = (record * count) as usize + 64;
                    let columns = (column * members) as usize + 64;
                    let split =
                        vec![Dim::new(members as u64, elem, column), Dim::new(count as u64, record, elem)];
                    let join =
                        vec![Dim::new(count as u64, elem, record), Dim::new(members as u64, column, elem)];
                    for (dims, src_len, dst_len) in [(split, records, columns), (join, columns, records)] {
                        for dst_len in [dst_len, dst_len.max(room)] {
                            let dims = dims.clone();
                            let (elem, src_at, dst_at) = (elem as usize, 5, skew);
                            let case = Case { src_at, dst_at, elem, dims, src_len, dst_len };
                            check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
                        }
                    }
                }
            }
        }
    }
}

/// Many small planes, each of which is transposed. The kernel is chosen once and run for every plane, also into buffers
/// that bypass the caches.
#[test]
fn many_small_planes_are_transposed_exactly() {
    let (shapes, least, room) = if cfg!(miri) {
        (&[(20, 3), (5, 20)][..], 2 << 10, 8 << 10)
    } else {
        (&[(2, 2), (20, 3), (3, 20), (64, 5), (5, 64), (300, 7), (40, 40)][..], 70 << 10, 4 << 20)
    };
    for elem in [4, 8, 16] {
        for &(rows, cols) in shapes {
            let (e, plane) = (elem as i64, rows * cols * elem as i64);
            let planes = least / plane + 1;
            let dims = vec![
                Dim::new(planes as u64, plane, plane),
                Dim::new(rows as u64, cols * e, e),
                Dim::new(cols as u64, e, rows * e),
            ];
            let len = (planes * plane) as usize + 32;
            for dst_len in [len, len.max(room)] {
                let case = Case { src_at: 3, dst_at: 16, elem, dims: dims.clone(), src_len: len, dst_len };
                check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
            }
        }
    }
}

/// Rows of many short elements are moved by whole registers if the processor can: every width, strides of whole
/// elements and of odd bytes, in both directions, and with any beginning of rows. [`check`] also compares the bytes
/// between elements, which must not change.
#[test]
fn short_elements_of_every_stride_move_exactly_wherever_they_begin() {
    let (count, rows) = if cfg!(miri) { (70, 2) } else { (1200, 3) };
    for elem in [1, 2, 4, 8, 16] {
        let e = elem as i64;
        let strides = (2..=10).map(|k| k * e).chain([e + 1, 2 * e + 1, 3 * e + 3, 7 * e + e / 2]);
        // The last stride is one whose lines are not prefetched.
        for stride in strides.skip(if cfg!(miri) { 12 } else { 0 }).chain([200 + e]) {
            for (skew, rest) in [(0, 0), (1, 13), (16, 1), (40, 7)] {
                let n = count + rest;
                let (wide, dense) = (stride * n as i64, e * n as i64);
                let pad = [0, 64, 3][rest as usize % 3];
                let (src_len, dst_len) = ((3 * wide) as usize + 256, (3 * dense) as usize + 256);
                let gather = vec![Dim::new(rows, wide + pad, dense + pad), Dim::new(n, stride, e)];
                let back = vec![Dim::new(rows, wide + pad, dense + pad), Dim::new(n, -stride, e)];
                let scatter = vec![Dim::new(rows, dense + pad, wide + pad), Dim::new(n, e, stride)];
                let last = (stride * (n as i64 - 1)) as u64;
                let apart = |src_at, dims| Case { src_at, dst_at: skew, elem, dims, src_len, dst_len };
                check(&apart(skew, gather), |copy, src, dst| copy.run(src, dst).unwrap());
                check(&apart(skew + last, back), |copy, src, dst| copy.run(src, dst).unwrap());
                for stride in [-e, 1 - e, 1, e / 2] {
                    let sliding = vec![Dim::new(n, stride, e)];
                    check(&apart(skew + n * elem as u64, sliding), |copy, src, dst| {
                        copy.run(src, dst).unwrap()
                    });
                }
                let (src_len, dst_len) = (dst_len, src_len);
                let case = Case { src_at: skew, dst_at: skew, elem, dims: scatter, src_len, dst_len };
                check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
            }
        }
    }
}

/// Elements that lie lines apart are moved by loops of few loads on processors that predict strides, and by others if
/// the plane is larger than a cache, or uses few of its sets. The test has counts around what a loop moves at once,
/// both directions, and rows that are adjacent and that are not.
#[test]
fn any_number_of_elements_lines_apart_is_moved_exactly() {
    let counts: &[u64] = if cfg!(miri) { &[0, 5] } else { &[0, 1, 2, 3, 4, 5, 7, 8, 9, 131, 1030] };
    let strides: &[i64] = if cfg!(miri) { &[1024] } else { &[112, 128, 136, 256, 1000, 1024, 1536, 4096] };
    for elem in [8, 16] {
        let e = elem as i64;
        for (&stride, &n) in strides.iter().flat_map(|stride| counts.iter().map(move |n| (stride, n))) {
            for (skew, pad, rows) in [(0, 0, 1), (1, 3, 3), (16, 48, 2)] {
                let (wide, dense) = (stride * n as i64 + pad, e * n as i64 + pad);
                let (src_len, dst_len) = ((rows * wide) as usize + 64, (rows * dense) as usize + 64);
                let rows = rows as u64;
                let last = skew + stride as u64 * n.saturating_sub(1);
                for (src_at, stride) in [(skew, stride), (last, -stride)] {
                    let dims = vec![Dim::new(rows, wide, dense), Dim::new(n, stride, e)];
                    let case = Case { src_at, dst_at: skew, elem, dims, src_len, dst_len };
                    check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
                }
                let dims = vec![Dim::new(rows, dense, wide), Dim::new(n, e, stride)];
                let (src_len, dst_len) = (dst_len, src_len);
                let case = Case { src_at: skew, dst_at: skew, elem, dims, src_len, dst_len };
                check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
            }
        }
    }
    // More lines than the second-level cache holds, at a stride that uses few sets.
    if !cfg!(miri) {
        let n = 17_001;
        let dims = vec![Dim::new(n, 1024, 16)];
        let case = Case {
            src_at: 8,
            dst_at: 24,
            elem: 16,
            dims,
            src_len: n as usize * 1024,
            dst_len: n as usize * 16 + 64,
        };
        check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
    }
}

/// Elements that share lines of an array which no cache holds, some of whose lines are prefetched: with elements that
/// begin at multiples of their size, and with others.
#[test]
fn short_elements_are_scattered_exactly_into_an_array_that_no_cache_holds() {
    let len = if cfg!(miri) { 32 << 10 } else { (64 << 20) + 4096 };
    for (elem, stride) in [(1, 7), (2, 20), (2, 16), (3, 24), (4, 30), (4, 24), (4, 32), (8, 64), (16, 128)] {
        for skew in [0, 1] {
            // Some cells in the middle, so that the rest shows unwanted writes.
            let bytes = if cfg!(miri) { 1100 } else { 70_000 };
            let dims = vec![Dim::new((bytes / elem) as u64, elem as i64, stride)];
            let (dst_at, src_len) = (len as u64 / 2 + skew, bytes + 8);
            let case = Case { src_at: 3, dst_at, elem, dims, src_len, dst_len: len };
            check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
        }
    }
}

/// Copies into large destinations bypass the caches by stores of aligned lines. Most allocators place large buffers 16
/// bytes into a line, so a skew of 48 is the beginning of a line.
#[test]
fn copies_into_large_buffers_are_exact_from_every_skew() {
    let (len, elems, skews) = if cfg!(miri) {
        (4096 + 512, &[4, 8, 160][..], &[16, 8][..])
    } else {
        ((4 << 20) + 4096, &[1, 2, 4, 8, 12, 16, 24, 64, 100, 160, 192, 512, 1500, 5000][..], &[0, 1, 48][..])
    };
    for &elem in elems {
        let e = elem as i64;
        let side = (len as f64 / 4.0 / elem as f64).sqrt() as i64 | 1;
        let n = side as u64;
        let transpose = |pad| vec![Dim::new(n, side * e, e), Dim::new(n, e, side * e + pad)];
        let gather = |s: i64, d| vec![Dim::new((len as u64 - 64 - elem as u64) / s.max(d) as u64, s, d)];
        let shapes = [
            transpose(0),
            transpose(8),
            transpose(64),
            gather(e, e + 3),
            gather(e + 64, e),
            gather(2 * e, e),
            gather(8 * e, e),
            gather(8 * e + 64, e),
            gather(e, 2 * e),
            gather(e, 3 * e),
            gather(e, 2 * e + 64),
            gather(2 * e, 3 * e + 48),
        ];
        for dims in shapes {
            for &skew in skews {
                let case =
                    Case { src_at: 3, dst_at: skew, elem, dims: dims.clone(), src_len: len, dst_len: len };
                check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
            }
        }
    }
}

/// Runs of lines from an array that no cache holds are prefetched far ahead: beyond the end of rows, planes and the
/// array itself.
#[test]
fn runs_out_of_a_large_array_are_gathered_exactly() {
    let (src_len, rows) = if cfg!(miri) { (16 << 10, 2) } else { ((2 << 20) + 4096, 9) };
    for elem in [128, 192, 200, 256, 500, 512] {
        let (e, n) = (elem as i64, if cfg!(miri) { 3 } else { 16 });
        for (stride, pitch) in [(e + 64, (e + 64) * n), (3 * e, 3 * e * n + 8), (-e - 8, (e + 8) * n)] {
            let behind = (rows as i64 - 1) * pitch + e + if stride > 0 { stride * (n - 1) } else { 0 };
            let ends = [(-stride).max(0) as u64 * (n as u64 - 1), (src_len as i64 - behind) as u64];
            for src_at in ends {
                let dims = vec![Dim::new(rows, pitch, e * n), Dim::new(n as u64, stride, e)];
                let dst_len = elem * n as usize * rows as usize;
                let case = Case { src_at, dst_at: 0, elem, dims, src_len, dst_len };
                check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
            }
        }
    }
}

/// Runs that begin inside a line bypass the caches only if no cache holds the destination.
#[test]
fn rows_of_a_box_move_exactly_into_an_array_that_no_cache_holds() {
    let (len, elems) = if cfg!(miri) {
        (16 << 10, &[128, 192, 328][..])
    } else {
        ((64 << 20) + 4096, &[128, 192, 328, 4104][..])
    };
    for &elem in elems {
        let pitch = 3 * elem as i64 + 8;
        let planes = 5;
        let rows = (len as i64 / planes / pitch / 4).max(1);
        let dims = vec![
            Dim::new(planes as u64, rows * elem as i64, len as i64 / planes / 64 * 64),
            Dim::new(rows as u64, elem as i64, pitch),
        ];
        let case = Case { src_at: 5, dst_at: 16, elem, dims, src_len: len / 8, dst_len: len };
        check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
    }
}

/// Lines of the array are prefetched, also beyond its end, if runs have gaps in it; the box is dense.
#[test]
fn a_box_moves_exactly_between_an_array_of_a_megabyte_and_its_own_cells() {
    let (array, cells, rows) = if cfg!(miri) { (8 << 10, 2 << 10, 3) } else { (1 << 20, 80 << 10, 9) };
    for elem in [8, 100, 128, 136, 191, 192, 216, 4096] {
        let (e, n) = (elem as i64, rows as u64);
        for pitch in [e + 64, e + 65, 2 * e + 200] {
            let planes = (cells as u64).div_ceil(n * elem as u64).max(2);
            let apart = (array as i64 / planes as i64).max(n as i64 * pitch + 8);
            let (far, near) = ([apart, pitch], [n as i64 * e, e]);
            let (array, cells) = ((apart * planes as i64) as usize + 16, (planes * n) as usize * elem + 16);
            let dims = |src: [i64; 2], dst: [i64; 2]| {
                vec![Dim::new(planes, src[0], dst[0]), Dim::new(n, src[1], dst[1])]
            };
            let gather = (dims(far, near), array, cells);
            let scatter = (dims(near, far), cells, array);
            for (dims, src_len, dst_len) in [gather, scatter] {
                let case = Case { src_at: 3, dst_at: 5, elem, dims, src_len, dst_len };
                check(&case, |copy, src, dst| copy.run(src, dst).unwrap());
            }
        }
    }
}

#[test]
fn threads_do_what_one_thread_does() {
    let n = if cfg!(miri) { 24i64 } else { 1100 };
    let dims = vec![Dim::new(n as u64, n * 8, 8), Dim::new(n as u64, 8, n * 8)];
    let len = (n * n * 8) as usize;
    let case = Case { src_at: 0, dst_at: 0, elem: 8, dims, src_len: len, dst_len: len };
    for threads in [0, 1, 2, 3, 7] {
        check(&case, |copy, src, dst| copy.run_threaded(src, dst, threads).unwrap());
    }
}

#[test]
fn a_box_in_a_larger_array_becomes_the_fewest_longest_runs() {
    // 10..50 cubed out of 100 cubed of four-byte values: 1600 runs of 160 bytes.
    let dims = vec![Dim::new(40, 4, 4), Dim::new(40, 40000, 6400), Dim::new(40, 400, 160)];
    let copy = StridedCopy::new(404040, 0, 4, dims).unwrap();
    assert_eq!(copy.elem_bytes(), 160);
    assert_eq!(copy.dims(), [Dim::new(40, 40000, 6400), Dim::new(40, 400, 160)]);
}

#[test]
fn loops_that_continue_on_both_sides_become_one_run() {
    let dims = vec![Dim::new(7, 1200, 1200), Dim::new(10, 120, 120), Dim::new(30, 4, 4), Dim::new(1, 9, 0)];
    let copy = StridedCopy::new(5, 6, 4, dims).unwrap();
    assert_eq!(copy, StridedCopy::contiguous(5, 6, 8400).unwrap());
    assert_eq!((copy.src_span(), copy.dst_span()), (5..8405, 6..8406));
}

#[test]
fn two_ways_to_write_a_copy_are_equal() {
    let forward = StridedCopy::new(0, 36, 4, vec![Dim::new(10, 4, -4)]).unwrap();
    let backward = StridedCopy::new(36, 0, 4, vec![Dim::new(10, -4, 4)]).unwrap();
    assert_eq!(forward, backward);
}

#[test]
fn a_copy_of_nothing_needs_no_buffer() {
    let copy = StridedCopy::new(1 << 40, 1 << 40, 8, vec![Dim::new(4, 8, 8), Dim::new(0, 8, 8)]).unwrap();
    assert!(copy.is_empty());
    assert_eq!((copy.bytes(), copy.src_span(), copy.dst_span()), (0, 0..0, 0..0));
    assert!(copy.split(3).is_empty());
    copy.run(&[], &mut []).unwrap();
}

#[test]
fn overlapping_destinations_are_refused() {
    let overlapping = [
        vec![Dim::new(2, 8, 0)],
        vec![Dim::new(2, 8, 7)],
        vec![Dim::new(2, 8, -7)],
        vec![Dim::new(4, 8, 16), Dim::new(4, 64, 32)],
    ];
    for dims in overlapping {
        let refused = StridedCopy::new(100, 100, 8, dims.clone());
        assert_eq!(refused, Err(CopyError::OverlappingDestination), "{dims:?}");
    }
}

#[test]
fn numbers_that_overflow_are_refused() {
    let (big, low) = (1 << 62, i64::MIN);
    let outrageous = [
        (0, 0, 8, vec![Dim::new(3, big, 8)]),
        (0, 0, 8, vec![Dim::new(u64::MAX, 0, 8)]),
        (0, 0, 8, vec![Dim::new(2, -8, 8)]),
        (7, 0, 8, vec![Dim::new(2, -8, 8)]),
        (0, 0, 8, vec![Dim::new(2, low, 8)]),
        (0, 0, 8, vec![Dim::new(2, 8, low)]),
        (u64::MAX, 0, 8, vec![]),
        (0, i64::MAX as u64, 1, vec![]),
        (0, 0, usize::MAX, vec![]),
        (0, 0, 1, vec![Dim::new(1 << 40, 0, 1), Dim::new(1 << 40, 0, 1 << 40)]),
    ];
    for (src, dst, elem, dims) in outrageous {
        let refused = StridedCopy::new(src, dst, elem, dims.clone());
        assert!(
            matches!(refused, Err(CopyError::Overflow { .. })),
            "{src} {dst} {elem} {dims:?}: {refused:?}"
        );
    }
    assert_eq!(StridedCopy::new(0, 0, 0, vec![]), Err(CopyError::EmptyElement));
}

#[test]
fn fill_writes_the_cells_and_nothing_else() {
    for (value, stride) in [(&[7u8, 7][..], 2), (&[1, 2], 2), (&[1, 2, 3], 3), (&[1, 2, 3], 5), (&[9], 1)] {
        let mut found = vec![0xEE; 4 + 13 * 100];
        let mut expected = found.clone();
        for row in 0..13 {
            for col in 0..17 {
                let at = 4 + row * 100 + col * stride as usize;
                expected[at..at + value.len()].copy_from_slice(value);
            }
        }
        fill(&mut found, 4 + 1200, &[(13, -100), (17, stride)], value).unwrap();
        assert!(found == expected, "{value:?} every {stride}");
    }
}

#[test]
fn the_cells_of_a_copy_can_be_filled_instead() {
    let copy = StridedCopy::new(0, 2, 4, vec![Dim::new(3, 4, 4), Dim::new(2, 12, 20)]).unwrap();
    let mut dst = vec![0; 40];
    copy.fill(&mut dst, &[1, 2]).unwrap();
    let ones: Vec<_> = (0..40).filter(|&k| dst[k] == 1).collect();
    assert_eq!(ones, [2, 4, 6, 8, 10, 12, 22, 24, 26, 28, 30, 32]);
    assert_eq!(dst.iter().filter(|&&byte| byte == 2).count(), 12);
}

#[test]
fn a_part_beyond_a_loop_is_left_out() {
    let copy = StridedCopy::new(0, 0, 1, vec![Dim::new(10, 2, 2)]).unwrap();
    assert_eq!(copy.restricted(0, 8..u64::MAX), copy.restricted(0, 8..10));
    assert_eq!(copy.restricted(0, 8..10).bytes(), 2);
    assert!(copy.restricted(0, u64::MAX - 1..u64::MAX).is_empty());
    assert_eq!(copy.restricted(5, 0..1), copy);
}
