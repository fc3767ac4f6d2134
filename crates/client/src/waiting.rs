//! The queue of small requests that wait to be batched.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use drystone_wire::Ask;
use tokio::sync::oneshot;

use crate::failure::Failure;

/// The most small requests in a batch.
const ASKS: usize = 64;
/// The most answer bytes of a batch.
const BYTES: u64 = 4 << 20;

/// If requests take at least this many microseconds, a sender waits briefly for more.
const SLOW: u64 = 5000;
/// The longest such wait.
const LINGER: Duration = Duration::from_millis(1);

/// Numbers and payload of an answer.
pub(crate) type Answered = Result<(Vec<u64>, Vec<u8>), Failure>;

/// The queue of small requests.
#[derive(Default)]
pub(crate) struct Together {
    queue: Mutex<Queue>,
    /// Microseconds that a batch takes; 0 if none has been answered.
    round: AtomicU64,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Small>,
    under_way: usize,
}

/// A small request.
pub(crate) struct Small {
    pub(crate) container: String,
    pub(crate) ask: Ask,
    pub(crate) payload: Bytes,
    /// The most bytes of the answer.
    pub(crate) answer: u64,
    pub(crate) done: oneshot::Sender<Answered>,
}

impl Together {
    /// Adds a request. Returns whether a new sender shall start, because fewer than the limit are active.
    pub(crate) fn push(&self, small: Small, senders: usize) -> bool {
        let mut queue = self.lock();
        queue.waiting.push_back(small);
        let begins = queue.under_way < senders;
        queue.under_way += usize::from(begins);
        begins
    }

    /// Records the duration of a batch.
    pub(crate) fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.round.load(Ordering::Relaxed);
        let now = if before == 0 {
            time
        } else {
            time.min((before / 4).saturating_mul(3).saturating_add(time / 4))
        };
        self.round.store(now, Ordering::Relaxed);
    }

    /// How long a sender waits for more requests before it takes the first ones: a small fraction of a
    /// request's duration.
    pub(crate) fn linger(&self) -> Option<Duration> {
        (self.round.load(Ordering::Relaxed) >= SLOW).then_some(LINGER)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch: requests of one container, oldest first. If it is empty, the sender must end.
    pub(crate) fn next(&self) -> Vec<Small> {
        let mut queue = self.lock();
        let Some(first) = queue.waiting.front() else {
            queue.under_way -= 1;
            return Vec::new();
        };
        let container = first.container.clone();
        let (mut taken, mut bytes, mut left) = (Vec::new(), 0_u64, VecDeque::new());
        while let Some(small) = queue.waiting.pop_front() {
            let sum = bytes.saturating_add(small.answer);
            let fits = taken.is_empty() || (taken.len() < ASKS && sum <= BYTES);
            if small.container == container && fits {
                bytes = sum;
                taken.push(small);
            } else {
                left.push_back(small);
            }
        }
        queue.waiting = left;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(container: &str, answer: u64) -> Small {
        let ask = Ask::Len { key: container.into() };
        Small { container: container.into(), ask, payload: Bytes::new(), answer, done: oneshot::channel().0 }
    }

    #[test]
    fn asks_of_one_container_go_together_as_far_as_they_fit() {
        let together = Together::default();
        let begins = |container: &str, answer| together.push(small(container, answer), 2);
        assert_eq!([begins("a", 1), begins("b", 1), begins("a", BYTES)], [true, true, false]);
        assert!(!begins("a", BYTES - 1));
        let taken = || together.next().iter().map(|one| (one.container.clone(), one.answer)).collect();
        let first: Vec<(String, u64)> = taken();
        assert_eq!(first, [("a".to_owned(), 1), ("a".to_owned(), BYTES - 1)]);
        assert_eq!(taken(), [("b".to_owned(), 1)]);
        assert_eq!(taken(), [("a".to_owned(), BYTES)], "one that is too long goes alone");
        assert!(taken().is_empty());
        assert!(begins("a", 0), "a sender has ended");
    }
}
