//! A value that each process creates for itself, also after a fork.
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
    first: OnceLock<Box<Generation<T>>>,
}

struct Generation<T> {
    process: u32,
    value: T,
    // Only a process forked from this one sets the next value, which it created before. So the inner lock is held while
    // one pointer is stored, and another fork is unlikely to happen in that time.
    next: OnceLock<Box<Generation<T>>>,
}

impl<T> PerProcess<T> {
    /// No process has a value yet.
    pub const fn new() -> Self {
        PerProcess { first: OnceLock::new() }
    }

    /// The value of the calling process. `make` is called if there is none. If several threads make one at once, one
    /// wins and the others' values are dropped.
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let process = process_id();
        let mut make = Some(make);
        let mut slot = &self.first;
        loop {
            match slot.get() {
                Some(found) if found.process == process => return Ok(&found.value),
                Some(former) => slot = &former.next,
                None => {
                    // A slot that was set by another thread of this process is found before `make` is needed again.
                    let Some(make) = make.take() else { continue };
                    drop(slot.set(Box::new(Generation { process, value: make()?, next: OnceLock::new() })));
                }
            }
        }
    }
}

impl<T: Default> PerProcess<T> {
    /// The value of the calling process, which is the default value at first.
    pub fn get(&self) -> &T {
        let Ok(value) = self.get_or_make(|| Ok::<_, std::convert::Infallible>(T::default()));
        value
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        PerProcess::new()
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
        let slot = PerProcess::<AtomicU32>::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| slot.get().fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(slot.get().load(Ordering::Relaxed), 4);
    }

    #[test]
    fn one_value_is_made_and_a_failure_is_tried_again() {
        static NUMBER: PerProcess<u32> = PerProcess::new();
        assert_eq!(NUMBER.get_or_make(|| Err("no")), Err("no"));
        assert_eq!(NUMBER.get_or_make(|| Ok::<_, &str>(5)), Ok(&5));
        assert_eq!(NUMBER.get_or_make(|| Ok::<_, &str>(6)), Ok(&5));
    }

    #[test]
    fn a_value_of_another_process_is_neither_used_nor_dropped() {
        #[derive(Default)]
        struct Fatal(bool);
        impl Drop for Fatal {
            fn drop(&mut self) {
                assert!(!self.0, "the value of another process was dropped");
            }
        }
        let slot = PerProcess::<Fatal>::new();
        let of_another =
            Generation { process: process_id().wrapping_add(1), value: Fatal(true), next: OnceLock::new() };
        assert!(slot.first.set(Box::new(of_another)).is_ok());
        assert!(!slot.get().0);
        drop(slot);
    }
}
