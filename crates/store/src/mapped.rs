//! Ranges of a file in the page cache, from which a reader copies the bytes only once.
//!
//! docs/decisions/082-mapped-reads.md says when this is done, and the arguments against it. A mapping is
//! read-only, and ends with its owner.

#[cfg(unix)]
mod mapping {
    use std::ops::Range;

    /// Ranges of an object in the page cache, until this value is dropped.
    #[derive(Debug)]
    pub struct Mapped {
        base: *mut std::ffi::c_void,
        /// Number of bytes from `base` on.
        len: usize,
        /// Offset of the mapping's first byte in the object.
        start: u64,
        /// The ranges that may be read.
        ranges: Vec<Range<u64>>,
    }

    // SAFETY: the memory is only read, and belongs to no thread.
    unsafe impl Send for Mapped {}
    // SAFETY: as above.
    unsafe impl Sync for Mapped {}

    impl Mapped {
        /// Takes ownership of a mapping.
        ///
        /// # Safety
        /// `base` is a readable mapping of `len` bytes that only this value unmaps; it begins with byte
        /// `start` of the object.
        #[cfg(target_os = "linux")]
        pub(crate) unsafe fn new(
            base: *mut std::ffi::c_void,
            len: usize,
            start: u64,
            ranges: &[Range<u64>],
        ) -> Self {
            Mapped { base, len, start, ranges: ranges.to_vec() }
        }

        /// The bytes of a range of the object, if it lies within a mapped one.
        ///
        /// # Safety
        /// The bytes are pages of the kernel, and another process may write to the file. The caller must do nothing
        /// that is unsound if they change meanwhile. Checksums and copies are sound; decoders are not.
        pub unsafe fn bytes(&self, range: &Range<u64>) -> Option<&[u8]> {
            let holds = |r: &Range<u64>| r.start <= range.start && range.end <= r.end;
            if range.start > range.end || !self.ranges.iter().any(holds) {
                return None;
            }
            let at = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
            let len = usize::try_from(range.end - range.start).ok()?;
            if at.checked_add(len)? > self.len {
                return None;
            }
            // SAFETY: the range lies in the mapping, which lives as long as `self`.
            Some(unsafe { std::slice::from_raw_parts(self.base.cast::<u8>().add(at), len) })
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: this is the mapping that was created, and nothing borrows from it.
            let _ = unsafe { rustix::mm::munmap(self.base, self.len) };
        }
    }
}

#[cfg(unix)]
pub use mapping::Mapped;

/// On other systems nothing is mapped.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum Mapped {}

#[cfg(not(unix))]
impl Mapped {
    /// No value of this type exists, so this is never called.
    ///
    /// # Safety
    /// No value of this type exists.
    pub unsafe fn bytes(&self, _range: &std::ops::Range<u64>) -> Option<&[u8]> {
        match *self {}
    }
}
