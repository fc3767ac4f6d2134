//! The decoded bytes that a rule reads: the ranges that a transform decodes.

use std::ops::Range;

use drystone_rules::{Dim, Rule, Term};
use drystone_transform::ranges::join;

/// Holes of decoded bytes up to this size are read over.
const GAP: u64 = 512;
/// Most ranges of one rule; beyond this, holes are read too.
const MOST: u64 = 4096;

/// The bytes that a rule reads, rounded outward to `unit`, ascending and disjoint, in a source of `len` bytes. At most
/// about 4096 ranges for every thousand terms.
pub fn wanted(rule: &Rule, unit: u64, len: u64) -> Vec<Range<u64>> {
    let unit = unit.max(1);
    let each = (MOST / (rule.terms().len() as u64).max(1)).max(1);
    let mut found = Vec::new();
    for term in rule.terms() {
        match term {
            Term::Copy(copy) => {
                spans(copy.src_span(), copy.elem_bytes() as u64, copy.dims(), each, &mut found);
            }
            other => found.push(other.src_span()),
        }
    }
    found.sort_by_key(|range| range.start);
    let mut out = Vec::with_capacity(found.len());
    for range in found {
        let end = range.end.div_ceil(unit).saturating_mul(unit).min(len);
        join(&mut out, (range.start / unit * unit).min(len)..end, GAP);
    }
    out
}

/// The spans of a strided copy. From the innermost loop outwards, cells are merged to runs as long as holes are small.
fn spans(span: Range<u64>, element: u64, dims: &[Dim], most: u64, out: &mut Vec<Range<u64>>) {
    let mut loops: Vec<(u64, u64)> =
        dims.iter().map(|dim| (dim.src_stride.unsigned_abs(), dim.count)).collect();
    loops.sort_by_key(|(pace, _)| std::cmp::Reverse(*pace));
    let mut run = element;
    while let Some(&(pace, count)) = loops.last() {
        let many = loops.iter().fold(1u64, |n, (_, count)| n.saturating_mul(*count));
        if pace.saturating_sub(run) > GAP && many <= most {
            break;
        }
        run = run.saturating_add(pace.saturating_mul(count.saturating_sub(1)));
        loops.pop();
    }
    let mut at = vec![0u64; loops.len()];
    loop {
        let along = at
            .iter()
            .zip(&loops)
            .fold(0u64, |sum, (i, (pace, _))| sum.saturating_add(i.saturating_mul(*pace)));
        let start = span.start.saturating_add(along);
        out.push(start..start.saturating_add(run).min(span.end));
        let Some(d) = (0..loops.len()).rev().find(|&d| at[d] + 1 < loops[d].1) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_rules::StridedCopy;

    fn rule(src: u64, offset: u64, element: usize, dims: &[(u64, i64)]) -> Rule {
        let mut strides = Vec::new();
        let mut stride = element as i64;
        for (count, _) in dims.iter().rev() {
            strides.push(stride);
            stride *= *count as i64;
        }
        let dims =
            dims.iter().zip(strides.iter().rev()).map(|((count, src), dst)| Dim::new(*count, *src, *dst));
        let copy = StridedCopy::new(offset, 0, element, dims.collect()).unwrap();
        Rule::new(src, copy.dst_span().end, vec![Term::Copy(copy)]).unwrap()
    }

    #[test]
    fn near_cells_are_one_range_and_far_ones_are_many() {
        assert_eq!(wanted(&rule(3000, 8, 8, &[(100, 24)]), 1, 3000), [8..2392]);
        assert_eq!(wanted(&rule(9000, 0, 4, &[(3, 4000)]), 16, 9000), [0..16, 4000..4016, 8000..8016]);
        assert_eq!(wanted(&rule(9000, 8000, 4, &[(3, -4000)]), 1, 9000), [0..4, 4000..4004, 8000..8004]);
        let many = wanted(&rule(1 << 24, 0, 4, &[(1 << 13, 2048)]), 1, 1 << 24);
        assert_eq!(many.len(), 1, "more than 4096 ranges are read with their holes");
    }

    #[test]
    fn every_byte_that_a_rule_reads_is_wanted() {
        let mut seed = 7u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..2000 {
            let dims: Vec<(u64, i64)> =
                (0..1 + below(3)).map(|_| (1 + below(6), below(1500) as i64 - 400)).collect();
            let low: i64 = dims.iter().map(|(n, s)| (*n as i64 - 1) * (*s).min(0)).sum();
            let high: i64 = dims.iter().map(|(n, s)| (*n as i64 - 1) * (*s).max(0)).sum();
            let (offset, element) = ((-low) as u64 + below(50), 1 + below(9) as usize);
            let len = offset + high as u64 + element as u64 + below(10);
            let rule = rule(len, offset, element, &dims);
            let found = wanted(&rule, 1 + below(20), len);
            assert!(
                found.windows(2).all(|pair| pair[0].end < pair[1].start)
                    && found.iter().all(|r| r.end <= len)
            );
            let mut cells = vec![offset as i64];
            for (count, stride) in &dims {
                cells = cells.iter().flat_map(|c| (0..*count as i64).map(move |i| c + i * stride)).collect();
            }
            for cell in cells {
                let (from, to) = (cell as u64, cell as u64 + element as u64);
                assert!(
                    found.iter().any(|r| r.start <= from && to <= r.end),
                    "{cell} of {rule:?} in {found:?}"
                );
            }
        }
    }
}
