//! A static value that each process creates for itself.

use std::sync::OnceLock;

use drystone_store::process_id;

/// One value per process. A forked child does not see its parent's value; it creates its own at the first use.
#[derive(Debug)]
pub struct PerProcess<T> {
    first: OnceLock<Box<Made<T>>>,
}

#[derive(Debug)]
struct Made<T> {
    process: u32,
    value: T,
    /// The value of a child process, which only the child sees.
    next: OnceLock<Box<Made<T>>>,
}

impl<T> PerProcess<T> {
    /// A static in which no process has a value yet.
    pub const fn new() -> Self {
        PerProcess { first: OnceLock::new() }
    }

    /// The value of the calling process. `make` is called if there is none. If several threads make one at once, one
    /// wins and the others' values are dropped.
    pub fn get<E>(&'static self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        let mut make = Some(make);
        let mut slot = &self.first;
        loop {
            match (slot.get(), make.take()) {
                (Some(made), again) if made.process != process_id() => {
                    // Created by a process from which this one was forked.
                    slot = &made.next;
                    make = again;
                }
                (Some(made), _) => return Ok(&made.value),
                (None, Some(make)) => {
                    let made = Made { process: process_id(), value: make()?, next: OnceLock::new() };
                    // The inner lock is held only while a pointer is stored.
                    drop(slot.set(Box::new(made)));
                }
                // Another thread stored its value first; the next iteration finds it.
                (None, None) => std::hint::spin_loop(),
            }
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::PerProcess;

    #[test]
    fn one_value_is_made_and_a_failure_is_tried_again() {
        static NUMBER: PerProcess<u32> = PerProcess::new();
        assert_eq!(NUMBER.get(|| Err("no")), Err("no"));
        assert_eq!(NUMBER.get(|| Ok::<_, &str>(5)), Ok(&5));
        assert_eq!(NUMBER.get(|| Ok::<_, &str>(6)), Ok(&5));
    }
}
