//! The connected processes of this machine. One connection of each process stays open, even if it is idle.
//!
//! A client closes its connections after it has closed its last container on this server. A connected process therefore
//! has a container open, and a server of the node runs until no process is connected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of connections of each process, by process id.
#[derive(Debug, Default)]
pub(crate) struct Processes(Mutex<HashMap<i32, usize>>);

/// One connection of a process. It counts until this value is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    of: Arc<Processes>,
    process: i32,
    has_left: bool,
}

impl Processes {
    pub(crate) fn enter(self: &Arc<Self>, process: i32) -> Entered {
        *self.lock().entry(process).or_default() += 1;
        Entered { of: Arc::clone(self), process, has_left: false }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entered {
    /// Stops counting this connection, unless it is the last one of its process. Returns whether it no longer counts.
    pub(crate) fn leave_unless_last(&mut self) -> bool {
        let mut known = self.of.lock();
        if let Some(count) = known.get_mut(&self.process).filter(|count| **count > 1 && !self.has_left) {
            *count -= 1;
            self.has_left = true;
        }
        self.has_left
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut known = self.of.lock();
        if let Some(count) = known.get_mut(&self.process).filter(|_| !self.has_left) {
            *count -= 1;
            if *count == 0 {
                known.remove(&self.process);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_connection_of_a_process_stays() {
        let processes = Arc::new(Processes::default());
        let (mut first, mut second, mut other) = (processes.enter(1), processes.enter(1), processes.enter(2));
        assert!(!other.leave_unless_last());
        assert!(first.leave_unless_last() && first.leave_unless_last());
        assert!(!second.leave_unless_last());
        drop(first);
        assert!(!second.leave_unless_last(), "what has left does not count again");
        drop((second, other));
        assert!(processes.lock().is_empty());
    }
}
