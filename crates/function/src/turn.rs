//! Whose turn it is to call a function, and how many of its calls a deadline left behind.
//!
//! Invariant: a forked child has none of its parent's threads, so neither their turns nor their calls.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::lock;

/// The calls of one function.
#[derive(Default)]
pub(crate) struct Turn {
    calls: Mutex<Calls>,
    ended: Condvar,
}

#[derive(Default)]
struct Calls {
    process: u32,
    /// A thread has the turn.
    is_taken: bool,
    /// Calls that a deadline left behind.
    left: usize,
}

/// The turn, until it is dropped.
pub(crate) struct Taken<'t>(&'t Turn);

impl Turn {
    /// Waits for the turn.
    pub(crate) fn take(&self) -> Taken<'_> {
        let mut calls = self.calls();
        while calls.is_taken {
            calls = self.ended.wait(calls).unwrap_or_else(PoisonError::into_inner);
        }
        calls.is_taken = true;
        Taken(self)
    }

    /// Counts calls that a deadline leaves behind.
    pub(crate) fn leave(&self, calls: usize) {
        self.calls().left += calls;
    }

    /// A call that was left behind has returned.
    pub(crate) fn returned(&self) {
        let mut calls = self.calls();
        calls.left = calls.left.saturating_sub(1);
    }

    /// Whether a call was left behind and has not returned.
    pub(crate) fn is_stuck(&self) -> bool {
        self.calls().left > 0
    }

    /// The calls of this process.
    fn calls(&self) -> MutexGuard<'_, Calls> {
        let (mut calls, process) = (lock(&self.calls), std::process::id());
        if calls.process != process {
            *calls = Calls { process, ..Calls::default() };
        }
        calls
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.calls().is_taken = false;
        self.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_sees_neither_the_turn_nor_the_left_calls_of_the_one_it_was_forked_from() {
        let turn = Turn::default();
        std::mem::forget(turn.take());
        turn.leave(2);
        assert!(turn.is_stuck());
        turn.returned();
        assert!(turn.is_stuck());
        // As a forked child finds it.
        lock(&turn.calls).process = 0;
        assert!(!turn.is_stuck());
        drop(turn.take());
        assert!(!turn.calls().is_taken);
    }
}
