//! Joins boxes that share a face, so that blocks of many writers become few.

use std::collections::BTreeMap;

/// A box of cells, and which of the given boxes it consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// First cell.
    pub offset: Vec<u64>,
    /// Extent.
    pub count: Vec<u64>,
    /// Numbers of the boxes that fill it, each once.
    pub parts: Vec<usize>,
}

/// If there are more boxes than this, none are joined: the search for overlaps compares all pairs.
const MAX_BOXES: usize = 2048;

/// Joins boxes of one array that share a whole face, as long as no joined box has more than `max_cells` cells.
///
/// If boxes overlap, none is joined, since their order decides which values are visible. The result is in the order of
/// the first part of each. Every box has as many dimensions as the first, and ends below 2^64.
pub fn join(boxes: &[(Vec<u64>, Vec<u64>)], max_cells: u64) -> Vec<Joined> {
    let mut joined: Vec<Joined> = boxes
        .iter()
        .enumerate()
        .map(|(i, (offset, count))| Joined { offset: offset.clone(), count: count.clone(), parts: vec![i] })
        .collect();
    let ndim = boxes.first().map_or(0, |(offset, _)| offset.len());
    if boxes.len() > MAX_BOXES || overlap(boxes) {
        return joined;
    }
    loop {
        let before = joined.len();
        for d in (0..ndim).rev() {
            joined = along(joined, d, max_cells);
        }
        if joined.len() == before {
            break;
        }
    }
    joined.sort_by_key(|one| one.parts.iter().copied().min());
    joined
}

fn overlap(boxes: &[(Vec<u64>, Vec<u64>)]) -> bool {
    let meet = |(ao, ac): &(Vec<u64>, Vec<u64>), (bo, bc): &(Vec<u64>, Vec<u64>)| {
        (0..ao.len()).all(|d| ao[d] < bo[d].saturating_add(bc[d]) && bo[d] < ao[d].saturating_add(ac[d]))
    };
    boxes.iter().enumerate().any(|(i, a)| boxes.iter().skip(i + 1).any(|b| meet(a, b)))
}

/// Joins neighbours along one dimension.
fn along(boxes: Vec<Joined>, d: usize, max_cells: u64) -> Vec<Joined> {
    let mut rows: BTreeMap<(Vec<u64>, Vec<u64>), Vec<Joined>> = BTreeMap::new();
    for one in boxes {
        let (mut offset, mut count) = (one.offset.clone(), one.count.clone());
        (offset[d], count[d]) = (0, 0);
        rows.entry((offset, count)).or_default().push(one);
    }
    let mut out: Vec<Joined> = Vec::new();
    for (_, mut row) in rows {
        row.sort_by_key(|one| one.offset[d]);
        let from = out.len();
        for one in row {
            let cells = |n: u64| {
                one.count
                    .iter()
                    .enumerate()
                    .fold(1u64, |c, (i, m)| c.saturating_mul(if i == d { n } else { *m }))
            };
            match out[from..].last_mut() {
                Some(last)
                    if last.offset[d].saturating_add(last.count[d]) == one.offset[d]
                        && cells(last.count[d].saturating_add(one.count[d])) <= max_cells =>
                {
                    last.count[d] += one.count[d];
                    last.parts.extend(one.parts);
                }
                _ => out.push(one),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiles(n: u64, edge: u64) -> Vec<(Vec<u64>, Vec<u64>)> {
        (0..n * n).map(|i| (vec![i / n * edge, i % n * edge], vec![edge, edge])).collect()
    }

    #[test]
    fn tiles_become_one_box_whatever_their_order() {
        let mut boxes = tiles(4, 3);
        boxes.reverse();
        let found = join(&boxes, u64::MAX);
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].offset[..], &found[0].count[..]), (&[0, 0][..], &[12, 12][..]));
        let mut parts = found[0].parts.clone();
        parts.sort_unstable();
        assert_eq!(parts, (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn boxes_stay_below_the_limit_and_gaps_stay_open() {
        assert_eq!(join(&tiles(4, 3), 36).len(), 4);
        let apart = vec![(vec![0], vec![2]), (vec![3], vec![2]), (vec![5], vec![1])];
        let found = join(&apart, u64::MAX);
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].offset[0], found[1].count[0]), (3, 3));
    }

    #[test]
    fn boxes_that_overlap_keep_their_order() {
        let boxes = vec![(vec![0], vec![4]), (vec![4], vec![4]), (vec![2], vec![1])];
        let found = join(&boxes, u64::MAX);
        assert_eq!(found.iter().map(|one| one.parts[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(join(&[(vec![], vec![]), (vec![], vec![])], 9).len(), 2);
    }
}
