//! The loops of a copy, and their canonical form: sorted by destination stride, nested, joined where one
//! continues another.

use std::ops::Range;

use crate::error::CopyError;

/// One loop of a strided copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim {
    /// Number of iterations.
    pub count: u64,
    /// Bytes from one element to the next in the source. A negative stride walks backwards; 0 repeats one element.
    pub src_stride: i64,
    /// Bytes from one element to the next in the destination. A negative stride walks backwards.
    pub dst_stride: i64,
}

impl Dim {
    /// A loop of `count` steps with these strides in bytes.
    pub const fn new(count: u64, src_stride: i64, dst_stride: i64) -> Self {
        Dim { count, src_stride, dst_stride }
    }

    /// Distance from the first to the last element on each side. Exact for canonical loops.
    pub(crate) fn reach(&self) -> (i64, i64) {
        let steps = self.count.saturating_sub(1) as i64;
        (steps * self.src_stride, steps * self.dst_stride)
    }
}

/// Puts loops around elements of the given sizes (source, destination) into canonical form, but keeps a dense innermost
/// loop. No count may be 0.
pub(crate) fn canonical_loops(
    mut src_offset: u64,
    mut dst_offset: u64,
    (src_elem, dst_elem): (usize, usize),
    mut dims: Vec<Dim>,
) -> Result<(u64, u64, Vec<Dim>), CopyError> {
    dims.retain(|dim| dim.count > 1);
    // From here on no sum over counts and strides can overflow.
    span(src_offset, src_elem, dims.iter().map(|dim| (dim.count, dim.src_stride)))
        .ok_or(CopyError::Overflow { what: "the span of the source" })?;
    span(dst_offset, dst_elem, dims.iter().map(|dim| (dim.count, dim.dst_stride)))
        .ok_or(CopyError::Overflow { what: "the span of the destination" })?;
    for dim in dims.iter_mut().filter(|dim| dim.dst_stride < 0) {
        let (src_reach, dst_reach) = dim.reach();
        src_offset = src_offset.wrapping_add_signed(src_reach);
        dst_offset = dst_offset.wrapping_add_signed(dst_reach);
        (dim.src_stride, dim.dst_stride) = (-dim.src_stride, -dim.dst_stride);
    }
    dims.sort_by_key(|dim| std::cmp::Reverse(dim.dst_stride));
    let mut inner_span = dst_elem as i64;
    for dim in dims.iter().rev() {
        if dim.dst_stride < inner_span {
            return Err(CopyError::OverlappingDestination);
        }
        inner_span += dim.reach().1;
    }
    join_loops(&mut dims);
    Ok((src_offset, dst_offset, dims))
}

/// Joins adjacent loops that continue each other on both sides.
pub(crate) fn join_loops(dims: &mut Vec<Dim>) {
    let mut joined: Vec<Dim> = Vec::with_capacity(dims.len());
    for outer in dims.drain(..).rev() {
        match joined.last_mut() {
            Some(inner) if continues(&outer, inner) => inner.count *= outer.count,
            _ => joined.push(outer),
        }
    }
    joined.reverse();
    *dims = joined;
}

/// Whether the outer loop continues where the inner one ends, on both sides.
fn continues(outer: &Dim, inner: &Dim) -> bool {
    let reaches = |outer: i64, stride: i64| i128::from(outer) == i128::from(stride) * i128::from(inner.count);
    reaches(outer.src_stride, inner.src_stride) && reaches(outer.dst_stride, inner.dst_stride)
}

/// The range from the lowest to the highest byte that the loops touch, if it lies in `0..=isize::MAX`.
pub fn span(offset: u64, elem_bytes: usize, strides: impl Iterator<Item = (u64, i64)>) -> Option<Range<u64>> {
    let first = i64::try_from(offset).ok()?;
    let (mut low, mut high) = (first, first);
    for (count, stride) in strides {
        let reach = i64::try_from(count.saturating_sub(1)).ok()?.checked_mul(stride)?;
        let end = if reach < 0 { &mut low } else { &mut high };
        *end = end.checked_add(reach)?;
    }
    let end = high.checked_add(i64::try_from(elem_bytes).ok()?)?;
    (low >= 0 && end <= isize::MAX as i64).then_some(low as u64..end as u64)
}
