//! The locks of this crate. A panic leaves no state half changed that one of them guards, so a poisoned lock is taken
//! too.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also after another thread has panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
