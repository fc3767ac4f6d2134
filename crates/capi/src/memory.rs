//! Arrays in the caller's memory: shape and strides are checked against the given size before a byte is
//! accessed.

use drystone::array::{Source, Target, dense_strides};
use drystone::format::MAX_NDIM;

use crate::argument::{list, optional_list};
use crate::failure::{Failure, Result};

/// An array as a caller describes it.
pub(crate) struct Memory {
    first: *mut u8,
    shape: Vec<u64>,
    strides: Vec<i64>,
    item: usize,
}

/// Dimensions, up to the limit.
pub(crate) unsafe fn extents<'a>(given: *const u64, ndim: u32, what: &str) -> Result<&'a [u64]> {
    // SAFETY: guaranteed by the caller: `ndim` entries.
    unsafe { list(given, check_ndim(ndim)?, what) }
}

/// Like the function above, where NULL is allowed.
pub(crate) unsafe fn optional_extents<'a>(
    given: *const u64,
    ndim: u32,
    what: &str,
) -> Result<Option<&'a [u64]>> {
    // SAFETY: guaranteed by the caller: `ndim` entries.
    unsafe { optional_list(given, check_ndim(ndim)?, what) }
}

pub(crate) fn check_ndim(ndim: u32) -> Result<usize> {
    let most = MAX_NDIM + 1; // of a variable, and its step axis
    if ndim as usize > most {
        return Err(Failure::invalid(format!("{ndim} dimensions; at most {MAX_NDIM} are supported")));
    }
    Ok(ndim as usize)
}

impl Memory {
    /// An array whose first element is at `data`, with `size` bytes from its lowest to its highest; strides
    /// are bytes, NULL for a dense array in row-major order.
    ///
    /// # Safety
    /// `strides` is NULL or has an entry per dimension.
    pub(crate) unsafe fn new(
        data: *mut u8,
        size: u64,
        shape: &[u64],
        strides: *const i64,
        item: u64,
    ) -> Result<Self> {
        // SAFETY: guaranteed by the caller.
        let strides = match unsafe { optional_list(strides, shape.len(), "the strides")? } {
            Some(strides) => strides.to_vec(),
            None => dense_strides(shape, item)?,
        };
        let needed = span(shape, &strides, item)?;
        if needed > size {
            return Err(Failure::invalid(format!(
                "the memory has {size} bytes, an array of shape {shape:?} with elements of {item} bytes and strides \
                 {strides:?} takes {needed}"
            )));
        }
        if data.is_null() && needed > 0 {
            return Err(Failure::invalid(format!("the memory is NULL, {needed} bytes are needed")));
        }
        let item = usize::try_from(item).map_err(|_| Failure::invalid("the elements are too large"))?;
        // Capacity for a leading axis.
        let mut extents = Vec::with_capacity(shape.len() + 1);
        extents.extend_from_slice(shape);
        Ok(Memory { first: data, shape: extents, strides, item })
    }

    /// The same with a leading axis of one cell.
    pub(crate) fn with_leading_axis(mut self) -> Self {
        self.shape.insert(0, 1);
        self.strides.insert(0, 0);
        self
    }

    /// A view for reading.
    ///
    /// # Safety
    /// The checked bytes are readable, and do not change while the source is used.
    pub(crate) unsafe fn source<'a>(&self) -> Result<Source<'a>> {
        // SAFETY: all elements lie within the checked bytes, which the caller guarantees.
        Ok(unsafe { Source::new(self.first, &self.shape, &self.strides, self.item)? })
    }

    /// A view for writing.
    ///
    /// # Safety
    /// The checked bytes are writable, and no other thread uses them while the target is used.
    pub(crate) unsafe fn target<'a>(&self) -> Result<Target<'a>> {
        if !self.is_distinct() {
            return Err(Failure::invalid(format!(
                "elements of the array to read into may share bytes (shape {:?}, strides {:?})",
                self.shape, self.strides
            )));
        }
        // SAFETY: all elements lie within the checked bytes, which the caller guarantees, and are distinct.
        Ok(unsafe { Target::new(self.first, &self.shape, &self.strides, self.item)? })
    }

    /// Whether it is certain that no two elements share a byte.
    fn is_distinct(&self) -> bool {
        if self.shape.contains(&0) {
            return true;
        }
        let axes = self.shape.iter().zip(&self.strides).filter(|(n, _)| **n > 1);
        let mut axes: Vec<(u64, u64)> = axes.map(|(n, s)| (s.unsigned_abs(), *n)).collect();
        axes.sort_unstable();
        let mut reach = self.item as u64;
        for (stride, n) in axes {
            if stride < reach {
                return false;
            }
            reach = reach.saturating_add(stride.saturating_mul(n - 1));
        }
        true
    }
}

/// Bytes from the lowest to the highest that the array touches.
pub(crate) fn span(shape: &[u64], strides: &[i64], item: u64) -> Result<u64> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let reach = |(n, stride): (&u64, &i64)| stride.unsigned_abs().checked_mul(n - 1);
    let mut parts = shape.iter().zip(strides).map(reach);
    parts
        .try_fold(item, |sum, part| sum.checked_add(part?))
        .filter(|span| i64::try_from(*span).is_ok())
        .ok_or_else(|| Failure::invalid("the array's extent does not fit the address space"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(size: u64, shape: &[u64], strides: &[i64]) -> Result<Memory> {
        let mut byte = 0u8;
        // SAFETY: there is a stride per dimension, and nothing is read through the memory.
        unsafe { Memory::new(&raw mut byte, size, shape, strides.as_ptr(), 4) }
    }

    #[test]
    fn an_array_lies_within_its_memory_or_is_refused() {
        assert!(memory(24, &[2, 3], &[12, 4]).is_ok());
        assert!(memory(23, &[2, 3], &[12, 4]).is_err());
        assert!(memory(24, &[2, 3], &[-12, 4]).is_ok());
        assert!(memory(0, &[0, 3], &[1 << 40, 4]).is_ok());
        assert!(memory(u64::MAX, &[1 << 62, 1 << 62], &[i64::MAX, i64::MIN]).is_err());
        assert!(memory(u64::MAX, &[2], &[i64::MIN]).is_err());
    }

    #[test]
    fn elements_that_share_bytes_cannot_be_read_into() {
        assert!(memory(24, &[2, 3], &[12, 4]).unwrap().is_distinct());
        assert!(memory(24, &[3, 2], &[4, -12]).unwrap().is_distinct());
        assert!(!memory(24, &[2, 3], &[0, 4]).unwrap().is_distinct());
        assert!(!memory(24, &[3], &[2]).unwrap().is_distinct());
    }
}
