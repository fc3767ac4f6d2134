//! Examines which parts of a file are in the page cache, and drops them from it.
//!
//! The kernel may ignore the request to drop a file; dirty, mapped or locked pages stay. So a few offsets are then read
//! with the condition that the read must not wait for the device; if it succeeds, the byte was in memory. Caches of the
//! device or of a host below are out of reach.

use std::fs::File;

/// Whether the byte at `at` can be read without waiting; `None` if the kernel cannot tell. The probe may start
/// read-ahead.
#[cfg(target_os = "linux")]
pub(super) fn is_in_memory(file: &File, at: u64) -> Option<bool> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let mut byte = [0u8];
    match preadv2(file, &mut [std::io::IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN) => Some(false),
        Ok(found) => Some(found > 0),
        Err(_) => None,
    }
}

/// Drops the file from memory. Returns whether no probed offset was left in memory; `None` if the kernel cannot tell.
#[cfg(target_os = "linux")]
pub(super) fn forget(file: &File, len: u64) -> Option<bool> {
    const PLACES: u64 = 8;
    let drop_all = || rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    drop_all().ok()?;
    let mut cold = true;
    for place in 0..PLACES {
        cold &= !is_in_memory(file, len.saturating_sub(1) / PLACES * place)?;
    }
    // The probes may have started read-ahead.
    drop_all().ok()?;
    Some(cold)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_in_memory(_file: &File, _at: u64) -> Option<bool> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn forget(_file: &File, _len: u64) -> Option<bool> {
    None
}
