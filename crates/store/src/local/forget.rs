//! Puts a file out of the page cache, and looks whether it went.
//!
//! The system is only asked; what is dirty, mapped or locked by others stays. So a few places are then read on condition that
//! nobody has to wait for the device: what comes at once was in memory. Caches of the device or of a host below are out of reach.

use std::fs::File;

/// Whether nothing was left in memory where it was looked; `None` where the system cannot tell.
#[cfg(target_os = "linux")]
pub(super) fn forget(file: &File, len: u64) -> Option<bool> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    use std::io::IoSliceMut;

    const PLACES: u64 = 8;
    let drop_all = || rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    drop_all().ok()?;
    let mut byte = [0u8];
    let mut cold = true;
    for place in 0..PLACES {
        let at = len.saturating_sub(1) / PLACES * place;
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN) => {}
            Ok(found) => cold &= found == 0,
            Err(_) => return None,
        }
    }
    // Asking may have begun to read ahead.
    drop_all().ok()?;
    Some(cold)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn forget(_file: &File, _len: u64) -> Option<bool> {
    None
}
