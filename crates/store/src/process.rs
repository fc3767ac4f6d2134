//! The process id, without a system call each time.
//!
//! State that must not be shared across a fork is looked up by this id, some twenty times in a small commit; a system
//! call takes 0.13 us.
//!
//! Invariant: the id is kept in a page that the kernel clears in a child (`MADV_WIPEONFORK`), however the child was
//! created. So an id found there was written by this process. No lock is used, since a fork could happen while it is
//! held.

use std::sync::atomic::{AtomicU32, Ordering};

/// The same number as [`std::process::id`].
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

/// The page; `None` if the kernel cannot clear pages at a fork.
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
        // SAFETY: a new mapping at an address that the kernel chooses, which overlaps no other memory.
        let made =
            unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let made = made.ok().filter(|made| {
            // SAFETY: it is the mapping that was just created.
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
    // SAFETY: the page is never unmapped, and holds zeros or what was stored here.
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
    fn the_id_is_the_system_s_in_every_thread() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| assert_eq!(process_id(), std::process::id())));
            }
        });
    }
}
