//! State that each process creates for itself, also after a fork.
//!
//! MPI launchers, HDF5 tools and Python's `multiprocessing` fork processes that have stores open. In the child the
//! threads are gone, and a lock that one of them held stays locked for ever. So nothing that was created before a fork
//! is used after it: each process creates its own value at the first use.
//!
//! The values of former processes are never dropped: their locks cannot be taken and their threads cannot be
//! joined. A child therefore keeps its parent's descriptors open until it ends.

use std::sync::OnceLock;

use crate::process_id;

/// One `T` per process, found by process id.
pub struct PerProcess<T> {
    make: fn() -> T,
    // Taken only by `drop`.
    first: Option<Box<Generation<T>>>,
}

struct Generation<T> {
    process: u32,
    value: T,
    // Only a process forked from this one sets the next value, which it created before. So the inner lock is held while
    // one pointer is stored, and another fork is unlikely to happen in that time.
    next: OnceLock<Box<Generation<T>>>,
}

impl<T> Generation<T> {
    fn new(value: T) -> Box<Self> {
        Box::new(Generation { process: process_id(), value, next: OnceLock::new() })
    }
}

impl<T> PerProcess<T> {
    /// `make` makes the value of each process.
    pub fn new(make: fn() -> T) -> Self {
        PerProcess { make, first: Some(Generation::new(make())) }
    }

    /// The value of the calling process.
    pub fn get(&self) -> &T {
        let process = process_id();
        let mut generation = self.first.as_ref().expect("present until dropped");
        while generation.process != process {
            generation = match generation.next.get() {
                Some(next) => next,
                None => {
                    // If several threads do this, one wins; the values of the others are empty and dropped.
                    let _ = generation.next.set(Generation::new((self.make)()));
                    continue;
                }
            };
        }
        &generation.value
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let process = process_id();
        let mut next = self.first.take();
        while let Some(generation) = next {
            let Generation { process: owner, value, next: mut following } = *generation;
            if owner != process {
                std::mem::forget(value);
            }
            next = following.take();
        }
    }
}

impl<T> std::fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerProcess")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_same_process_finds_the_same_value_from_every_thread() {
        let slot = PerProcess::new(|| AtomicU32::new(7));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| slot.get().fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(slot.get().load(Ordering::Relaxed), 11);
    }

    #[test]
    fn a_value_of_another_process_is_neither_used_nor_dropped() {
        struct Fatal(bool);
        impl Drop for Fatal {
            fn drop(&mut self) {
                assert!(!self.0, "the value of another process was dropped");
            }
        }
        let mut slot = PerProcess::new(|| Fatal(false));
        let first = slot.first.as_mut().unwrap();
        first.process = first.process.wrapping_add(1);
        first.value.0 = true;
        assert!(!slot.get().0);
        drop(slot);
    }
}
