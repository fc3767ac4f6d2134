//! Room for the bytes of one answer: each thread uses its own again, so that nothing is allocated or cleared for a
//! read.

use std::cell::RefCell;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Uses the thread's room; what it holds at first is what was left there.
pub(crate) fn with_room<T>(len: usize, used: impl FnOnce(&mut [u8]) -> T) -> T {
    ROOM.with_borrow_mut(|room| {
        if room.len() < len {
            room.resize(len, 0);
        }
        used(room.get_mut(..len).unwrap_or_default())
    })
}
