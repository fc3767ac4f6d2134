//! A buffer for the bytes of one answer: each thread reuses its own, so that a read allocates and clears no memory.

use std::cell::RefCell;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `used` with the thread's buffer, whose content is unspecified.
pub(crate) fn with_room<T>(len: usize, used: impl FnOnce(&mut [u8]) -> T) -> T {
    ROOM.with_borrow_mut(|room| {
        if room.len() < len {
            room.resize(len, 0);
        }
        used(room.get_mut(..len).unwrap_or_default())
    })
}
