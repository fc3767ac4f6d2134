//! Which cells of a part lie in one of its byte ranges.
//!
//! A part that is read as several ranges is scattered range by range as each arrives: no buffer spans the
//! holes between them. Ranges of [`touched`](crate::ranges::touched) hold whole cells, so every cell is in
//! exactly one.

use std::ops::Range;

use drystone_format::MAX_NDIM;

use crate::form::Form;
use crate::parts::SubchunkPart;

/// The cells of `part` whose bytes lie in `range`, as parts. They are stored as `form` says, not along a
/// curve.
pub fn within(part: &SubchunkPart, form: &Form, range: &Range<u64>) -> Vec<SubchunkPart> {
    let mut order = [0; MAX_NDIM];
    let ndim = form.dims().zip(&mut order).map(|(d, to)| *to = d).count();
    let mut out = Vec::new();
    let (item, at, strides) = (form.item, form.at, form.strides(&part.chunk_shape));
    visit(part, 0, &Geometry { ndim, order, item, at, strides }, range, &mut out);
    out
}

struct Geometry {
    ndim: usize,
    /// Dimensions from the slowest on.
    order: [usize; MAX_NDIM],
    item: u64,
    at: u64,
    strides: [u64; MAX_NDIM],
}

impl Geometry {
    /// First byte and end of the bytes that the cells of a part touch.
    fn span(&self, part: &SubchunkPart) -> Range<u64> {
        let (mut first, mut last) = (self.at, self.at);
        for (&(start, step, count), &stride) in part.chunk.iter().zip(&self.strides).take(self.ndim) {
            let reach = step.unsigned_abs().saturating_mul(count.saturating_sub(1));
            let (low, high) = if step < 0 {
                (start.saturating_sub(reach), start)
            } else {
                (start, start.saturating_add(reach))
            };
            first = first.saturating_add(low.saturating_mul(stride));
            last = last.saturating_add(high.saturating_mul(stride));
        }
        first..last.saturating_add(self.item)
    }
}

/// `part` with positions `from..to` along one dimension.
fn slice(part: &SubchunkPart, d: usize, from: u64, to: u64) -> SubchunkPart {
    let mut out = *part;
    let (start, step, _) = part.chunk[d];
    out.chunk[d] = (start.wrapping_add_signed(step.wrapping_mul(from as i64)), step, to - from);
    out.dest[d] += from;
    out
}

/// `level` counts dimensions from the slowest.
fn visit(
    part: &SubchunkPart,
    level: usize,
    geometry: &Geometry,
    range: &Range<u64>,
    out: &mut Vec<SubchunkPart>,
) {
    let span = geometry.span(part);
    if span.end <= range.start || span.start >= range.end {
        return;
    }
    if range.start <= span.start && span.end <= range.end {
        out.push(*part);
        return;
    }
    if level >= geometry.ndim {
        return; // one cell that the range cuts: not in it
    }
    let d = geometry.order[level];
    let count = part.chunk[d].2;
    // Positions along d touch the range in one run: spans of single positions ascend or descend with the
    // position.
    let touches = |i: u64| {
        let span = geometry.span(&slice(part, d, i, i + 1));
        (span.end > range.start, span.start < range.end, range.start <= span.start && span.end <= range.end)
    };
    let rising = part.chunk[d].1 >= 0;
    let begin = first(count, |i| if rising { touches(i).0 } else { touches(i).1 });
    let end = first(count, |i| if rising { !touches(i).1 } else { !touches(i).0 });
    let mut i = begin;
    while i < end {
        if touches(i).2 {
            let inside = i + first(end - i, |k| !touches(i + k).2);
            out.push(slice(part, d, i, inside));
            i = inside;
        } else {
            visit(&slice(part, d, i, i + 1), level + 1, geometry, range, out);
            i += 1;
        }
    }
}

/// The first of `0..n` for which the condition holds, else `n`. Where it holds for one number it holds for all later
/// ones.
fn first(n: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, block};
    use crate::ranges::touched;
    use drystone_format::entry::Encoding;
    use drystone_format::layout::{Cells, Layout, Order};

    /// Dense, or in a random order of dimensions and in wider cells.
    fn form_of(random: &mut Random, ndim: usize, item: u64) -> Form {
        if random.below(2) == 0 {
            return Form::dense(ndim, item);
        }
        let mut dims: Vec<u8> = (0..ndim as u8).collect();
        (0..ndim).for_each(|d| dims.swap(d, random.below(ndim as u64) as usize));
        let at = random.below(20) as u32;
        let room = at + item as u32 + random.below(20) as u32;
        let mut entry = block(&vec![0; ndim], &vec![1; ndim], 0);
        let layout = Layout::Cells(Cells { room, at, order: Order::Dims(dims) });
        entry.encoding = Encoding { item: item as u32, layout, ..Encoding::default() }.into();
        entry.validate().unwrap();
        Form::of(&entry).unwrap()
    }

    fn cells(part: &SubchunkPart, ndim: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
        let mut out = vec![(Vec::new(), Vec::new())];
        for d in 0..ndim {
            let (start, step, count) = part.chunk[d];
            out = out
                .into_iter()
                .flat_map(|(c, t): (Vec<u64>, Vec<u64>)| {
                    (0..count).map(move |i| {
                        let cell = start.wrapping_add_signed(step * i as i64);
                        ([c.as_slice(), &[cell]].concat(), [t.as_slice(), &[part.dest[d] + i]].concat())
                    })
                })
                .collect();
        }
        out
    }

    #[test]
    fn the_ranges_of_a_part_hold_each_of_its_cells_once() {
        let mut random = Random(7);
        for _ in 0..3000 {
            let ndim = 1 + random.below(4) as usize;
            let mut part = SubchunkPart {
                subchunk: 0,
                chunk_shape: [1; MAX_NDIM],
                chunk: [(0, 1, 1); MAX_NDIM],
                dest: [0; MAX_NDIM],
            };
            for d in 0..ndim {
                let length = 1 + random.below(9);
                let step = 1 + random.below(3);
                let count = 1 + random.below((length - 1) / step + 1);
                let first = random.below(length - (count - 1) * step);
                let back = count > 1 && random.below(2) == 0;
                part.chunk_shape[d] = length;
                part.chunk[d] = if back {
                    (first + (count - 1) * step, -(step as i64), count)
                } else {
                    (first, step as i64, count)
                };
                part.dest[d] = random.below(50);
            }
            let item = [1, 4, 8, 12][random.below(4) as usize];
            let form = form_of(&mut random, ndim, item);
            let payload = part.chunk_shape.iter().product::<u64>() * form.room;
            let unit = [8, 16, 64][random.below(3) as usize];
            let ranges = touched(&part, &form, unit, payload, random.below(3) * unit);
            let mut found: Vec<_> = ranges
                .iter()
                .flat_map(|range| within(&part, &form, range))
                .flat_map(|piece| cells(&piece, ndim))
                .collect();
            let mut expected = cells(&part, ndim);
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{part:?} in {ranges:?}");
        }
    }
}
