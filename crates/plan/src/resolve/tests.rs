//! Resolution against a painter that colours cell by cell, oldest first.

use super::*;
use crate::random::{Random, block};
use crate::selection::{Axis, Selection};

const OPEN: [u64; MAX_NDIM] = [u64::MAX; MAX_NDIM];

fn candidate(offset: &[u64], count: &[u64], commit: u64) -> Candidate {
    Candidate { entry: block(offset, count, commit), limit: OPEN }
}

/// All positions of a box, row-major.
fn positions(lo: &[u64], hi: &[u64]) -> Vec<Vec<u64>> {
    lo.iter().zip(hi).fold(vec![vec![]], |all, (&lo, &hi)| {
        let extend = |at: Vec<u64>| (lo..hi).map(move |i| [at.clone(), vec![i]].concat());
        all.into_iter().flat_map(extend).collect()
    })
}

/// The candidate that shows at each position of the selection.
fn paint(candidates: &[Candidate], selection: &Selection) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|&a, &b| newest_cmp(&candidates[a].entry, &candidates[b].entry));
    let shape = selection.shape();
    let holds = |c: &Candidate, at: &[u64]| {
        at.iter().zip(&selection.axes).enumerate().all(|(d, (&i, axis))| {
            let cell = axis.cell(i);
            cell >= c.entry.offset[d] && cell - c.entry.offset[d] < c.entry.count[d] && cell < c.limit[d]
        })
    };
    let newest = |at: Vec<u64>| order.iter().rev().copied().find(|&c| holds(&candidates[c], &at));
    positions(&vec![0; shape.len()], &shape).into_iter().map(newest).collect()
}

fn check(candidates: &[Candidate], selection: &Selection) {
    let resolved = resolve(candidates, selection);
    let shape = selection.shape();
    let expected = paint(candidates, selection);
    let mut shown = vec![None; expected.len()];
    for visible in &resolved.visible {
        let ndim = shape.len();
        for at in positions(&visible.lo[..ndim], &visible.hi[..ndim]) {
            let number = at.iter().zip(&shape).fold(0, |n, (i, length)| n * length + i) as usize;
            assert_eq!(shown[number].replace(visible.candidate), None, "visible boxes overlap");
        }
    }
    assert_eq!(shown, expected, "{candidates:?} {selection:?}");
    assert_eq!(resolved.covered, expected.iter().flatten().count() as u64);
}

fn random_axis(random: &mut Random, length: u64) -> Axis {
    let step: i64 = [1, 1, 1, 2, 3, 7, -1, -2, -5][random.below(9) as usize];
    let start = random.below(length);
    let room = if step > 0 { length - 1 - start } else { start };
    let most = room / step.unsigned_abs() + 1;
    let count = if random.below(2) == 0 { most } else { random.below(most + 1) };
    Axis { start, step, count }
}

#[test]
fn random_overlaps_show_what_a_painter_paints() {
    let mut random = Random(3);
    for case in 0..3000 {
        let ndim = random.below(4) as usize;
        let edge = [0, 60, 20, 9][ndim];
        let number = if case % 20 == 0 { random.below(80) } else { random.below(12) };
        let candidates: Vec<Candidate> = (0..number)
            .map(|_| {
                let offset: Vec<u64> = (0..ndim).map(|_| random.below(edge)).collect();
                let count: Vec<u64> = (0..ndim).map(|_| random.below(edge)).collect();
                let mut made = candidate(&offset, &count, random.below(5));
                (made.entry.order, made.entry.put) = (random.below(3), random.below(1000));
                if random.below(8) == 0 {
                    made.limit[random.below(3) as usize] = random.below(edge);
                }
                made
            })
            .collect();
        let axes = (0..ndim).map(|_| random_axis(&mut random, edge)).collect();
        // Blocks of equal age do not overlap in a valid index. Here they may, and the painter breaks ties as
        // documented.
        check(&candidates, &Selection { axes });
    }
}

#[test]
fn a_value_without_dimensions_is_the_newest() {
    let candidates = [candidate(&[], &[], 3), candidate(&[], &[], 9), candidate(&[], &[], 4)];
    let resolved = resolve(&candidates, &Selection::all(&[]));
    assert_eq!((resolved.visible.len(), resolved.visible[0].candidate, resolved.covered), (1, 1, 1));
    assert_eq!(resolve(&[], &Selection::all(&[])), Resolved::default());
}

#[test]
fn blocks_of_another_ndim_and_empty_blocks_show_nowhere() {
    let candidates =
        [candidate(&[0], &[4], 1), candidate(&[0, 0], &[4, 0], 2), candidate(&[0, 0, 0], &[4; 3], 3)];
    assert_eq!(resolve(&candidates, &Selection::all(&[4, 4])), Resolved::default());
    assert_eq!(resolve(&candidates, &Selection::all(&[0])), Resolved::default());
}

#[test]
fn boxes_at_the_end_of_the_number_range_do_not_overflow() {
    let candidates = [candidate(&[u64::MAX - 5], &[u64::MAX], 1), candidate(&[0], &[u64::MAX], 2)];
    let resolved = resolve(&candidates, &Selection::all(&[u64::MAX]));
    assert_eq!(resolved.covered, u64::MAX);
    assert_eq!(resolved.visible.len(), 1);
}

/// `edge` blocks of 10 cells along each of three axes.
fn grid_of(edge: [u64; 3], commit: u64) -> Vec<Candidate> {
    let blocks = positions(&[0; 3], &edge);
    blocks.iter().map(|at| candidate(&[at[0] * 10, at[1] * 10, at[2] * 10], &[10; 3], commit)).collect()
}

#[test]
fn disjoint_blocks_are_never_cut() {
    let candidates = grid_of([48, 46, 46], 1); // 101,568 blocks
    for axes in [
        vec![Axis::full(475), Axis::full(460), Axis::full(460)],
        vec![
            Axis { start: 474, step: -3, count: 150 },
            Axis::full(460),
            Axis { start: 3, step: 9, count: 50 },
        ],
    ] {
        let selection = Selection { axes };
        let resolved = resolve(&candidates, &selection);
        assert_eq!(Some(resolved.covered), selection.cells());
        let mut candidates: Vec<usize> = resolved.visible.iter().map(|v| v.candidate).collect();
        let all = candidates.len();
        candidates.dedup();
        assert_eq!(candidates.len(), all);
    }
}

#[test]
fn full_rewrites_show_only_the_last() {
    let mut candidates = Vec::new();
    for commit in 0..1000 {
        // Every other rewrite is decomposed differently.
        let (blocks, edge) = if commit % 2 == 0 { (8, 12) } else { (12, 8) };
        for x in 0..blocks {
            for y in 0..blocks {
                candidates.push(candidate(&[x * edge, y * edge], &[edge; 2], commit));
            }
        }
    }
    let resolved = resolve(&candidates, &Selection::all(&[96, 96]));
    assert_eq!((resolved.visible.len(), resolved.covered), (144, 96 * 96));
    assert!(resolved.visible.iter().all(|v| candidates[v.candidate].entry.commit == 999));
}

#[test]
fn one_old_block_under_many_small_ones_shows_in_the_gaps() {
    let mut candidates = vec![candidate(&[0, 0], &[300, 300], 0)];
    for (commit, at) in positions(&[0, 0], &[60, 60]).into_iter().enumerate() {
        candidates.push(candidate(&[at[0] * 5 + 1, at[1] * 5], &[4, 4], commit as u64 + 1));
    }
    check(&candidates, &Selection::boxed(&[0, 0], &[300, 300]));
}

#[test]
fn nested_boxes_show_as_rings() {
    let candidates: Vec<Candidate> = (0..200).map(|i| candidate(&[i; 2], &[400 - 2 * i; 2], i)).collect();
    let resolved = resolve(&candidates, &Selection::all(&[400, 400]));
    assert_eq!(resolved.covered, 400 * 400);
    assert_eq!(resolved.visible.len(), 199 * 4 + 1);
}

#[test]
fn crowded_blocks_far_from_a_lonely_one_are_found_as_fast() {
    // 250 x 250 blocks in a corner of 2^40 x 2^40 cells; comparing every pair would take 2 * 10^9
    // comparisons.
    let mut candidates = vec![candidate(&[1 << 40, 1 << 40], &[5, 5], 1)];
    candidates.extend(
        positions(&[0, 0], &[250, 250]).iter().map(|at| candidate(&[at[0] * 7, at[1] * 3], &[7, 3], 1)),
    );
    let resolved = resolve(&candidates, &Selection::all(&[1 << 41, 1 << 41]));
    assert_eq!((resolved.visible.len(), resolved.covered), (62_501, 62_500 * 21 + 25));
}
