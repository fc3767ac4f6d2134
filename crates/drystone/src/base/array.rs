//! Views of the caller's memory with any strides: checked once, then used through the rules crate.

use std::marker::PhantomData;

use crate::{Error, Result};

/// An array in the caller's memory: element `(i, j, …)` begins at `base + start + i·strides[0] + …`.
#[derive(Debug, Clone)]
struct Layout {
    base: *mut u8,
    len: usize,
    start: usize,
    shape: Vec<u64>,
    strides: Vec<i64>,
    item: usize,
}

fn layout(first: *mut u8, shape: &[u64], strides: &[i64], item: usize) -> Result<Layout> {
    let too_large = || Error::invalid("the array's extent does not fit the address space");
    if shape.len() != strides.len() {
        return Err(Error::invalid("an array view needs one stride per dimension"));
    }
    let (mut below, mut above) = (0u64, item as u64);
    if shape.contains(&0) {
        above = 0;
    } else {
        for (&n, &s) in shape.iter().zip(strides) {
            let reach = s.unsigned_abs().checked_mul(n - 1).ok_or_else(too_large)?;
            let side = if s < 0 { &mut below } else { &mut above };
            *side = side.checked_add(reach).ok_or_else(too_large)?;
        }
    }
    let len = below.checked_add(above).filter(|&n| n <= isize::MAX as u64).ok_or_else(too_large)?;
    let start = below as usize;
    Ok(Layout {
        base: first.wrapping_sub(start),
        len: len as usize,
        start,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        item,
    })
}

macro_rules! common {
    () => {
        /// Extent per dimension.
        pub fn shape(&self) -> &[u64] {
            &self.0.shape
        }
        /// Bytes from one cell to the next per dimension.
        pub fn strides(&self) -> &[i64] {
            &self.0.strides
        }
        /// Bytes per element.
        pub fn item(&self) -> usize {
            self.0.item
        }
        /// Offset of the first element within the touched bytes.
        pub fn start(&self) -> usize {
            self.0.start
        }
    };
}

/// Memory to read from, borrowed for `'a`.
#[derive(Debug, Clone)]
pub struct Source<'a>(Layout, PhantomData<&'a [u8]>);

// SAFETY: a Source is a shared borrow of bytes; its constructor's contract makes them immutable for 'a.
unsafe impl Send for Source<'_> {}
// SAFETY: as above.
unsafe impl Sync for Source<'_> {}

impl<'a> Source<'a> {
    /// A view of an array whose first element is at `first`.
    ///
    /// # Safety
    /// All elements the shape and strides (bytes) describe must be readable and unchanged for `'a`.
    pub unsafe fn new(first: *const u8, shape: &[u64], strides: &[i64], item: usize) -> Result<Self> {
        Ok(Source(layout(first.cast_mut(), shape, strides, item)?, PhantomData))
    }
    /// A dense row-major array in a slice.
    pub fn dense(bytes: &'a [u8], shape: &[u64], item: usize) -> Result<Self> {
        let strides = dense_strides(shape, item as u64)?;
        let view = layout(bytes.as_ptr().cast_mut(), shape, &strides, item)?;
        if view.len != bytes.len() {
            return Err(Error::invalid(format!("{} bytes given for an array of {}", bytes.len(), view.len)));
        }
        Ok(Source(view, PhantomData))
    }
    common!();
    /// All bytes that the array touches, including holes between elements.
    pub fn bytes(&self) -> &'a [u8] {
        if self.0.len == 0 {
            return &[];
        }
        // SAFETY: the constructor's contract: these bytes belong to one live allocation, readable for 'a.
        unsafe { std::slice::from_raw_parts(self.0.base, self.0.len) }
    }
}

/// Memory to write to, borrowed exclusively for `'a`.
#[derive(Debug)]
pub struct Target<'a>(Layout, PhantomData<&'a mut [u8]>);

// SAFETY: a Target is an exclusive borrow of bytes.
unsafe impl Send for Target<'_> {}
// SAFETY: shared use goes through `raw`, whose callers must write disjoint cells.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    /// A view of an array whose first element is at `first`.
    ///
    /// # Safety
    /// All elements that shape and strides (bytes) describe must be writable, distinct, and used only through this view
    /// for `'a`.
    pub unsafe fn new(first: *mut u8, shape: &[u64], strides: &[i64], item: usize) -> Result<Self> {
        Ok(Target(layout(first, shape, strides, item)?, PhantomData))
    }
    /// A dense row-major array in a slice.
    pub fn dense(bytes: &'a mut [u8], shape: &[u64], item: usize) -> Result<Self> {
        let strides = dense_strides(shape, item as u64)?;
        let view = layout(bytes.as_mut_ptr(), shape, &strides, item)?;
        if view.len != bytes.len() {
            return Err(Error::invalid(format!("{} bytes given for an array of {}", bytes.len(), view.len)));
        }
        Ok(Target(view, PhantomData))
    }
    common!();
    /// Whether elements follow one another in row-major order, without holes.
    pub(crate) fn is_dense(&self) -> bool {
        dense_strides(self.shape(), self.item() as u64).is_ok_and(|dense| dense == self.strides())
    }
    /// Pointer to the touched bytes, and their number. Concurrent users must write disjoint cells of the array only.
    pub(crate) fn raw(&self) -> (*mut u8, usize) {
        (self.0.base, self.0.len)
    }
}

/// Row-major strides in bytes.
pub fn dense_strides(shape: &[u64], item: u64) -> Result<Vec<i64>> {
    let mut strides = vec![0; shape.len()];
    let mut step = item;
    for (stride, &n) in strides.iter_mut().zip(shape).rev() {
        *stride = i64::try_from(step).map_err(|_| Error::invalid("the array is too large"))?;
        step = step.checked_mul(n.max(1)).ok_or_else(|| Error::invalid("the array is too large"))?;
    }
    Ok(strides)
}
