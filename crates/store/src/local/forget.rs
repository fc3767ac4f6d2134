//! Looks what of a file is in the page cache, and puts it out.
//!
//! To forget a file the system is only asked; what is dirty, mapped or locked by others stays. So a few places are then read on
//! condition that nobody has to wait for the device: what comes at once was in memory. Caches of the device or of a host below
//! are out of reach.

use std::fs::File;

/// Whether the byte at `at` can be had at once; `None` where the system cannot tell. Asking may begin to read it ahead.
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

/// Whether nothing was left in memory where it was looked; `None` where the system cannot tell.
#[cfg(target_os = "linux")]
pub(super) fn forget(file: &File, len: u64) -> Option<bool> {
    const PLACES: u64 = 8;
    let drop_all = || rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    drop_all().ok()?;
    let mut cold = true;
    for place in 0..PLACES {
        cold &= !is_in_memory(file, len.saturating_sub(1) / PLACES * place)?;
    }
    // Asking may have begun to read ahead.
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
