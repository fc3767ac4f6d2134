//! The locks of this crate: none guards a state that a panic could leave half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also after another thread has panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
