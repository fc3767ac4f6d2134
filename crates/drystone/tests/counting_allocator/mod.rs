//! A global allocator that counts held bytes, for tests of memory. Each such test is a program of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

/// The number of bytes held now.
pub(crate) static HELD: AtomicIsize = AtomicIsize::new(0);
/// The most bytes held since a test last set it.
pub(crate) static MOST: AtomicIsize = AtomicIsize::new(0);

fn count(change: isize) {
    let held = HELD.fetch_add(change, Ordering::Relaxed) + change;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: see above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: see above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
