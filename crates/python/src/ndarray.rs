//! NumPy arrays as the engine's views of memory: any strides, without copies.
//!
//! Invariants
//! - a view is used only while the caller holds a reference to its array, so its memory stays valid;
//! - the target of a read is writable, and no two of its elements overlap.

use drystone::array::{Source, Target};
use numpy::npyffi::flags::NPY_ARRAY_WRITEABLE;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::{Result, invalid};

/// The memory layout of an array.
pub(crate) struct View {
    data: *mut u8,
    shape: Vec<u64>,
    strides: Vec<i64>,
    item: usize,
    writable: bool,
}

impl View {
    pub(crate) fn of(array: &Bound<'_, PyUntypedArray>) -> Result<Self> {
        let item = array.dtype().itemsize();
        let object = array.as_array_ptr();
        // SAFETY: `array` is a live ndarray, so the pointer and the fields behind it are valid.
        let (data, flags) = unsafe { ((*object).fields.data.cast::<u8>(), (*object).fields.flags) };
        Ok(View {
            data,
            shape: array.shape().iter().map(|n| *n as u64).collect(),
            strides: array.strides().iter().map(|s| *s as i64).collect(),
            item,
            writable: flags & NPY_ARRAY_WRITEABLE != 0,
        })
    }

    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The first byte and the number of bytes, if the elements are contiguous in row-major order.
    pub(crate) fn dense_bytes(&self) -> Option<(*mut u8, usize)> {
        let mut run = self.item as u64;
        for (n, stride) in self.shape.iter().zip(&self.strides).rev() {
            if *n > 1 && u64::try_from(*stride).ok()? != run {
                return None;
            }
            run = run.checked_mul(*n)?;
        }
        Some((self.data, usize::try_from(run).ok()?))
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Makes the last `shape.len()` axes part of the element; `None` if they differ or are not dense.
    pub(crate) fn fold(mut self, shape: &[u64]) -> Option<Self> {
        let outer = self.shape.len().checked_sub(shape.len())?;
        if self.shape[outer..] != *shape {
            return None;
        }
        let empty = self.shape.contains(&0); // NumPy gives such arrays strides that mean nothing
        for n in shape.iter().rev() {
            if *n > 1 && !empty && self.strides[self.strides.len() - 1] != self.item as i64 {
                return None;
            }
            self.item = self.item.checked_mul(*n as usize)?;
            self.strides.pop();
        }
        self.shape.truncate(outer);
        Some(self)
    }

    /// True if certainly no two elements share a byte.
    pub(crate) fn has_distinct_elements(&self) -> bool {
        if self.shape.contains(&0) {
            return true;
        }
        let mut axes: Vec<(u64, u64)> = self
            .shape
            .iter()
            .zip(&self.strides)
            .filter(|(n, _)| **n > 1)
            .map(|(n, s)| (s.unsigned_abs(), *n))
            .collect();
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

    /// A view for reading from the array.
    ///
    /// # Safety
    /// The array must stay referenced, and must not be changed, while the source is used.
    pub(crate) unsafe fn source<'a>(&self) -> Result<Source<'a>> {
        // SAFETY: NumPy guarantees that all elements of a live array are readable; the caller keeps it alive and
        // unchanged.
        Ok(unsafe { Source::new(self.data, &self.shape, &self.strides, self.item)? })
    }

    /// The same with a leading axis of one cell.
    pub(crate) fn with_leading_axis(mut self) -> Self {
        self.shape.insert(0, 1);
        self.strides.insert(0, 0);
        self
    }

    /// A view for writing into the array.
    ///
    /// # Safety
    /// The array must stay referenced, and must not be used otherwise, while the target is used.
    pub(crate) unsafe fn target<'a>(&self) -> Result<Target<'a>> {
        if !self.writable || !self.has_distinct_elements() {
            return Err(invalid("the array to read into is read-only or overlaps itself"));
        }
        // SAFETY: NumPy guarantees that all elements of a live writable array are writable. They are distinct
        // (checked). The caller keeps the array alive and does not use it otherwise.
        Ok(unsafe { Target::new(self.data, &self.shape, &self.strides, self.item)? })
    }
}

/// Arrays of at least this many bytes are aligned here to a cache line; NumPy's own start 16 bytes into one.
/// Rows of whole lines can then be written with non-temporal stores (measured: 2 to 2.4 times as fast).
const LARGE: u64 = 4 << 20;
/// Bytes of a cache line.
const LINE: u64 = 64;

/// A new dense array, zeroed if its elements have bytes that a read does not write. A large array that is not
/// zeroed starts at a cache line, and is a view of the bytes that own its memory.
pub(crate) fn empty<'py>(
    descr: &Bound<'py, PyAny>,
    shape: &[u64],
    zeroed: bool,
) -> Result<Bound<'py, PyUntypedArray>> {
    let py = descr.py();
    let numpy = py.import(pyo3::intern!(py, "numpy"))?;
    let item: u64 = descr.getattr(pyo3::intern!(py, "itemsize"))?.extract()?;
    let objects: bool = descr.getattr(pyo3::intern!(py, "hasobject"))?.extract()?;
    let bytes = shape.iter().try_fold(item, |bytes, n| bytes.checked_mul(*n));
    let made = match bytes {
        Some(bytes) if bytes >= LARGE && !zeroed && !objects => {
            let raw = numpy.getattr(pyo3::intern!(py, "empty"))?.call1((bytes.saturating_add(LINE), "u1"))?;
            let start = View::of(raw.cast()?)?.data.addr() as u64;
            let skip = start.next_multiple_of(LINE) - start;
            numpy.getattr(pyo3::intern!(py, "ndarray"))?.call1((
                PyTuple::new(py, shape)?,
                descr,
                raw,
                skip,
            ))?
        }
        _ => numpy
            .getattr(if zeroed { pyo3::intern!(py, "zeros") } else { pyo3::intern!(py, "empty") })?
            .call1((PyTuple::new(py, shape)?, descr))?,
    };
    Ok(made.cast_into::<PyUntypedArray>()?)
}
