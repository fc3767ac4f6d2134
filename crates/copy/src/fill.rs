//! Fills a strided destination with one repeated element.
//!
//! A fill is a copy whose source is one element that every loop repeats (stride 0), so it shares the
//! canonical form, the bounds check and the overlap check with all other copies.

use crate::copy::StridedCopy;
use crate::dim::Dim;
use crate::error::CopyError;

/// Writes `value` to every cell of a strided destination. `dims` holds pairs (count, stride in bytes), and `dst_offset`
/// is the first cell visited. Refuses an empty `value`, cells outside `dst`, and overlapping cells.
pub fn fill(dst: &mut [u8], dst_offset: u64, dims: &[(u64, i64)], value: &[u8]) -> Result<(), CopyError> {
    let dims = dims.iter().map(|&(count, stride)| Dim::new(count, 0, stride)).collect();
    StridedCopy::new(0, dst_offset, value.len(), dims)?.run(value, dst)
}

impl StridedCopy {
    /// Writes `value` to the cells that this copy would write, without reading a source. The length of
    /// `value` must divide the copy's runs ([`elem_bytes`](Self::elem_bytes)).
    pub fn fill(&self, dst: &mut [u8], value: &[u8]) -> Result<(), CopyError> {
        if self.is_empty() {
            return Ok(());
        }
        if value.is_empty() || !self.elem_bytes().is_multiple_of(value.len()) {
            return Err(CopyError::EmptyElement);
        }
        let run = ((self.elem_bytes() / value.len()) as u64, value.len() as i64);
        let dims: Vec<_> = self.dims().iter().map(|dim| (dim.count, dim.dst_stride)).chain([run]).collect();
        fill(dst, self.dst_offset(), &dims, value)
    }
}
