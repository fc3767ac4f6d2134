//! Copies that also convert the type or the byte order of every number.
//!
//! A conversion has the same canonical loops as a copy, around one number of each side's type. Its bounds are checked
//! like those of the two copies that it replaces.

use std::ops::Range;

use crate::dim::{Dim, canonical_loops, span};
use crate::dtype::{Dtype, Narrowing};
use crate::error::{CopyError, Side};
use crate::kernel;

/// A strided copy with a conversion of every element.
///
/// Invariants: loops are canonical for the destination (positive, nested strides, each running at least twice);
/// both spans were proven to fit; `narrowing` is never `Refuse` where a value could be lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConvertCopy {
    src_offset: u64,
    dst_offset: u64,
    from: Dtype,
    to: Dtype,
    narrowing: Narrowing,
    dims: Vec<Dim>,
}

impl ConvertCopy {
    /// Puts a conversion into canonical form, like [`StridedCopy::new`](crate::StridedCopy::new). It also refuses a
    /// conversion that can lose something if `narrowing` says so.
    pub fn new(
        src_offset: u64,
        dst_offset: u64,
        (from, to): (Dtype, Dtype),
        narrowing: Narrowing,
        dims: Vec<Dim>,
    ) -> Result<Self, CopyError> {
        if narrowing == Narrowing::Refuse && !from.kind.widens_to(to.kind) {
            return Err(CopyError::Incompatible { source: from.to_string(), destination: to.to_string() });
        }
        if dims.iter().any(|dim| dim.count == 0) {
            return Err(CopyError::EmptyElement);
        }
        let (src_offset, dst_offset, dims) =
            canonical_loops(src_offset, dst_offset, (from.kind.bytes(), to.kind.bytes()), dims)?;
        Ok(ConvertCopy { src_offset, dst_offset, from, to, narrowing, dims })
    }

    /// Offsets, types, policy and loops.
    pub fn parts(&self) -> (u64, u64, (Dtype, Dtype), Narrowing, &[Dim]) {
        (self.src_offset, self.dst_offset, (self.from, self.to), self.narrowing, &self.dims)
    }

    /// Number of converted numbers.
    pub fn count(&self) -> u64 {
        self.dims.iter().map(|dim| dim.count).product()
    }

    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        self.count() * self.to.kind.bytes() as u64
    }

    /// The range from the lowest to the highest byte that is read.
    pub fn src_span(&self) -> Range<u64> {
        let strides = self.dims.iter().map(|dim| (dim.count, dim.src_stride));
        span(self.src_offset, self.from.kind.bytes(), strides).unwrap_or(0..0)
    }

    /// The range from the lowest to the highest byte that is written.
    pub fn dst_span(&self) -> Range<u64> {
        let strides = self.dims.iter().map(|dim| (dim.count, dim.dst_stride));
        span(self.dst_offset, self.to.kind.bytes(), strides).unwrap_or(0..0)
    }

    /// Checks that buffers of these sizes hold every byte that is touched.
    pub fn check(&self, src_len: u64, dst_len: u64) -> Result<(), CopyError> {
        for (side, touched, len) in
            [(Side::Source, self.src_span(), src_len), (Side::Destination, self.dst_span(), dst_len)]
        {
            if touched.end > len {
                return Err(CopyError::OutOfBounds { side, touched, len });
            }
        }
        Ok(())
    }

    /// Checks both buffers, then converts.
    pub fn run(&self, src: &[u8], dst: &mut [u8]) -> Result<(), CopyError> {
        self.check(src.len() as u64, dst.len() as u64)?;
        // SAFETY: both spans lie inside the two slices, which do not overlap.
        unsafe {
            let src = src.as_ptr().wrapping_add(self.src_offset as usize);
            let dst = dst.as_mut_ptr().wrapping_add(self.dst_offset as usize);
            kernel::convert((self.from, self.to), self.narrowing, &self.dims, src, dst);
        }
        Ok(())
    }
}
