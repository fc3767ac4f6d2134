//! Locks of this crate: none guards a state that a panic leaves half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also behind a panic of another thread.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
