//! The process number, without asking the kernel each time.
//!
//! Everything that a fork must not share is looked up by it, some twenty times in a small commit, at 0.13 us
//! each.
//!
//! Invariant: the number is kept in a page that the kernel empties in a child (`MADV_WIPEONFORK`), however
//! the child was made; so a number found there was written by this process. No lock is taken, since a fork
//! could find it held.

use std::sync::atomic::{AtomicU32, Ordering};

/// As [`std::process::id`].
pub fn process_id() -> u32 {
    let Some(kept) = page() else { return std::process::id() };
    match kept.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            kept.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// The page; `None` where the kernel does not empty pages.
#[cfg(all(target_os = "linux", not(miri)))]
fn page() -> Option<&'static AtomicU32> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicBool, AtomicPtr};

    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
    static REFUSED: AtomicBool = AtomicBool::new(false);

    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        if REFUSED.load(Ordering::Relaxed) {
            return None;
        }
        // The system rounds it up to a page.
        let len = size_of::<AtomicU32>();
        // SAFETY: the system chooses a place where nothing is.
        let made =
            unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let made = made.ok().filter(|made| {
            // SAFETY: it is the mapping that was just made.
            let wiped = unsafe { madvise(*made, len, Advice::LinuxWipeOnFork) }.is_ok();
            if !wiped {
                // SAFETY: no other thread has the pointer.
                let _ = unsafe { munmap(*made, len) };
            }
            wiped
        });
        let Some(made) = made else {
            REFUSED.store(true, Ordering::Relaxed);
            return None;
        };
        page = made.cast();
        if let Err(first) = PAGE.compare_exchange(null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: no other thread has the pointer.
            let _ = unsafe { munmap(made, len) };
            page = first;
        }
    }
    // SAFETY: it is a page that is never unmapped, of zeros or of what was stored here.
    Some(unsafe { &*page })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn page() -> Option<&'static AtomicU32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_system_says_from_every_thread() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| assert_eq!(process_id(), std::process::id())));
            }
        });
    }
}
