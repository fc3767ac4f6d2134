//! Asks the kernel to start writing dirty pages at once.
//!
//! Otherwise the pages of a long append stay in memory until a sync has to write them all. With an early start the
//! device works while the simulation computes, and the sync waits only for the rest. It is a hint: it makes nothing
//! durable, and systems without the call ignore it.

use std::fs::File;

/// At least this many bytes per call. A call takes about 30 microseconds, however many bytes it starts.
pub(crate) const WORTH_STARTING: u64 = 1 << 20;

#[cfg(target_os = "linux")]
pub(crate) fn start(file: &File, offset: u64, len: u64) {
    use std::ffi::{c_int, c_uint};
    use std::os::fd::AsRawFd;

    unsafe extern "C" {
        // off64_t is 64 bits wide on every Linux target.
        fn sync_file_range(fd: c_int, offset: i64, len: i64, flags: c_uint) -> c_int;
    }
    const SYNC_FILE_RANGE_WRITE: c_uint = 2;

    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: the call takes plain numbers and touches no memory of ours; `file` keeps the descriptor open. Errors are
    // ignored, since the following sync reports a failing device.
    let _ = unsafe { sync_file_range(file.as_raw_fd(), offset, len, SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn start(_file: &File, _offset: u64, _len: u64) {}
