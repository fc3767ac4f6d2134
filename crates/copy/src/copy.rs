//! The canonical strided copy: the form to which every conversion between layouts is reduced.
//!
//! An n-dimensional copy is an element size, two offsets and a list of loops. Many lists describe the same copy. The
//! canonical one is the shortest and has the destination's slowest loop first; kernels are chosen by it. Its size does
//! not depend on the number of elements.
//!
//! Invariants (established by [`StridedCopy::new`], relied on by the kernels)
//! - every loop runs at least twice, or the copy is empty and has no loops and no bytes;
//! - destination strides are positive and nest: each is at least the span of the loops inside it, so no destination
//!   byte is written twice, and parts of the outer loops are disjoint;
//! - both spans lie inside `0..=isize::MAX`, so no later sum can overflow.

use std::ops::Range;

use crate::dim::{Dim, canonical_loops, join_loops, span};
use crate::error::{CopyError, Side};
use crate::kernel;

/// A strided n-dimensional copy in canonical form: the fewest loops around the longest runs, slowest first in
/// the destination.
///
/// Equal copies compare equal, however they were described.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StridedCopy {
    src_offset: u64,
    dst_offset: u64,
    elem_bytes: usize,
    dims: Vec<Dim>,
}

impl StridedCopy {
    /// Puts a copy into canonical form.
    ///
    /// The offsets point at the first element visited, in bytes from the start of each buffer; with negative strides
    /// that element is not the lowest. The order of `dims` does not matter. A count of 0 in any loop makes the copy
    /// empty. Refuses overlapping destinations (including stride 0), elements of 0 bytes, and spans that exceed
    /// `0..=isize::MAX` on either side.
    pub fn new(
        src_offset: u64,
        dst_offset: u64,
        elem_bytes: usize,
        dims: Vec<Dim>,
    ) -> Result<Self, CopyError> {
        if elem_bytes == 0 {
            return Err(CopyError::EmptyElement);
        }
        if dims.iter().any(|dim| dim.count == 0) {
            return Ok(StridedCopy { src_offset: 0, dst_offset: 0, elem_bytes: 0, dims: Vec::new() });
        }
        let (src_offset, dst_offset, dims) =
            canonical_loops(src_offset, dst_offset, (elem_bytes, elem_bytes), dims)?;
        let mut copy = StridedCopy { src_offset, dst_offset, elem_bytes, dims };
        copy.absorb();
        Ok(copy)
    }

    /// A plain copy of `len` bytes; empty if `len` is 0.
    pub fn contiguous(src_offset: u64, dst_offset: u64, len: u64) -> Result<Self, CopyError> {
        let len = i64::try_from(len).map_err(|_| CopyError::Overflow { what: "the length of a copy" })?;
        StridedCopy::new(src_offset, dst_offset, 1, vec![Dim::new(len as u64, 1, 1)])
    }

    /// Makes a dense innermost loop a part of the element. One loop is enough: a second dense loop around it would have
    /// been joined with it.
    fn absorb(&mut self) {
        let elem = self.elem_bytes as i64;
        if let Some(inner) = self.dims.pop_if(|dim| (dim.src_stride, dim.dst_stride) == (elem, elem)) {
            self.elem_bytes *= inner.count as usize;
        }
    }

    /// First byte of the element that the loops visit first in the source.
    pub fn src_offset(&self) -> u64 {
        self.src_offset
    }

    /// First byte of the element that the loops visit first in the destination, its lowest one.
    pub fn dst_offset(&self) -> u64 {
        self.dst_offset
    }

    /// Bytes that are moved as one piece: the longest run that is contiguous on both sides; 0 if the copy is empty.
    pub fn elem_bytes(&self) -> usize {
        self.elem_bytes
    }

    /// The loops around the element, outermost first, ordered by falling destination stride.
    pub fn dims(&self) -> &[Dim] {
        &self.dims
    }

    /// Whether there is nothing to copy.
    pub fn is_empty(&self) -> bool {
        self.elem_bytes == 0
    }

    /// Bytes written. If elements are repeated, fewer bytes are read.
    pub fn bytes(&self) -> u64 {
        self.dims.iter().map(|dim| dim.count).product::<u64>() * self.elem_bytes as u64
    }

    /// The range from the lowest to the highest byte that is read; `0..0` if empty.
    pub fn src_span(&self) -> Range<u64> {
        let strides = self.dims.iter().map(|dim| (dim.count, dim.src_stride));
        span(self.src_offset, self.elem_bytes, strides).unwrap_or(0..0)
    }

    /// The range from the lowest to the highest byte that is written; `0..0` if empty.
    pub fn dst_span(&self) -> Range<u64> {
        let strides = self.dims.iter().map(|dim| (dim.count, dim.dst_stride));
        span(self.dst_offset, self.elem_bytes, strides).unwrap_or(0..0)
    }

    /// Checks that buffers of these sizes hold everything that the copy touches.
    pub fn check(&self, src_len: u64, dst_len: u64) -> Result<(), CopyError> {
        let sides = [(Side::Source, self.src_span(), src_len), (Side::Destination, self.dst_span(), dst_len)];
        for (side, touched, len) in sides {
            if touched.end > len {
                return Err(CopyError::OutOfBounds { side, touched, len });
            }
        }
        Ok(())
    }

    /// Checks the copy against both buffers, then runs it on this thread.
    pub fn run(&self, src: &[u8], dst: &mut [u8]) -> Result<(), CopyError> {
        // SAFETY: both ranges are live slices; `dst` is exclusive, so they do not overlap.
        unsafe { self.run_raw(src.as_ptr(), src.len(), dst.as_mut_ptr(), dst.len()) }
    }

    /// [`run`](Self::run) on raw buffers, for destinations that several threads fill at once.
    ///
    /// # Safety
    /// `src` is readable for `src_len` bytes and `dst` is writable for `dst_len` bytes; the two do not overlap; during
    /// the call no thread writes the source cells that this copy reads, and no other thread reads or writes the
    /// destination cells that it writes. Other destination cells are not changed.
    pub unsafe fn run_raw(
        &self,
        src: *const u8,
        src_len: usize,
        dst: *mut u8,
        dst_len: usize,
    ) -> Result<(), CopyError> {
        self.check(src_len as u64, dst_len as u64)?;
        if !self.is_empty() {
            // SAFETY: the check above puts both spans inside buffers for which the caller vouches.
            unsafe {
                let src = src.wrapping_add(self.src_offset as usize);
                let dst = dst.wrapping_add(self.dst_offset as usize);
                kernel::run(self.elem_bytes, &self.dims, (src, src_len), (dst, dst_len));
            }
        }
        Ok(())
    }

    /// Divides the copy into at most `parts` pieces of about equal size, which together do the same and write disjoint
    /// cells. Outer loops are divided first; a contiguous copy is divided at multiples of 4 KiB.
    pub fn split(&self, parts: usize) -> Vec<StridedCopy> {
        let parts = parts.max(1) as u64;
        if self.is_empty() {
            return Vec::new();
        }
        let enough = self.dims.iter().position(|dim| dim.count >= parts * 2);
        let longest = (0..self.dims.len()).max_by_key(|&k| (self.dims[k].count, usize::MAX - k));
        match enough.or(longest) {
            Some(k) => {
                let dim = self.dims[k];
                let pieces = even_ranges(dim.count, parts, if dim.count >= 64 * parts { 16 } else { 1 });
                pieces.map(|piece| self.restricted(k, piece)).collect()
            }
            None => {
                let len = self.elem_bytes as u64;
                let piece = |range: Range<u64>| StridedCopy {
                    src_offset: self.src_offset + range.start,
                    dst_offset: self.dst_offset + range.start,
                    elem_bytes: (range.end - range.start) as usize,
                    dims: Vec::new(),
                };
                even_ranges(len, parts, 4096).map(piece).collect()
            }
        }
    }

    /// The same copy with loop `k` limited to a part of its range; what exceeds the loop is left out.
    pub fn restricted(&self, k: usize, range: Range<u64>) -> StridedCopy {
        let Some(&dim) = self.dims.get(k) else { return self.clone() };
        let range = range.start..range.end.min(dim.count);
        if range.is_empty() {
            return StridedCopy { src_offset: 0, dst_offset: 0, elem_bytes: 0, dims: Vec::new() };
        }
        let mut piece = self.clone();
        let start = range.start as i64;
        piece.src_offset = piece.src_offset.wrapping_add_signed(start * dim.src_stride);
        piece.dst_offset = piece.dst_offset.wrapping_add_signed(start * dim.dst_stride);
        let count = range.end - range.start;
        if count == 1 {
            piece.dims.remove(k);
        } else if let Some(dim) = piece.dims.get_mut(k) {
            dim.count = count;
        }
        join_loops(&mut piece.dims);
        piece.absorb();
        piece
    }
}

/// Divides `0..len` into at most `parts` ranges that begin at multiples of `unit`.
fn even_ranges(len: u64, parts: u64, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let units = len.div_ceil(unit);
    let step = units.div_ceil(parts).max(1) * unit;
    (0..len.div_ceil(step)).map(move |k| k * step..len.min((k + 1) * step))
}
