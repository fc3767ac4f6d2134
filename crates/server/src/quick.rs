//! Does short work on the current thread.
//!
//! Answering a request from the page cache takes less time than passing it to a thread that may block, and its answer
//! back.
//!
//! Invariant: at most one thread of the runtime waits for a disk.

use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use crate::reply::Refusal;

/// Work that takes longer than this has waited for a disk.
const SLOW: Duration = Duration::from_millis(2);
/// For this time after slow work, no work counts as quick.
const WARY: Duration = Duration::from_secs(1);

/// Decides whether short work runs on the current thread without moving the other tasks of that thread to another one.
///
/// Such work runs so on one thread at a time, and only while it has been quick. At worst, one of several threads waits
/// for a disk.
#[derive(Default)]
pub(crate) struct Quick(Mutex<Option<Instant>>);

impl Quick {
    /// Runs short work, which may wait for a disk, on the current thread, since passing it to another thread takes
    /// longer.
    pub(crate) fn in_place<T>(&self, work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
        let begun = Instant::now();
        let mut quick = match self.0.try_lock() {
            Ok(wary) => Some(wary),
            Err(TryLockError::Poisoned(wary)) => Some(wary.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        quick.take_if(|wary| wary.is_some_and(|until| begun < until));
        let is_quick = quick.is_some();
        let work = || if is_quick { work() } else { tokio::task::block_in_place(work) };
        let done = std::panic::catch_unwind(AssertUnwindSafe(work));
        if let Some(mut wary) = quick
            && begun.elapsed() > SLOW
        {
            *wary = Some(Instant::now() + WARY);
        }
        done.unwrap_or_else(|_| Err(Refusal::unfinished()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use std::sync::Arc;

    use drystone_wire::Status;

    use super::*;

    /// Prevents this symptom: all threads wait for a disk, and no request is answered.
    #[test]
    fn one_thread_at_most_waits_for_a_disk_and_none_soon_after() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let quick = Arc::new(Quick::default());
        let is_free = |quick: &Quick| quick.0.try_lock().is_ok_and(|wary| wary.is_none());
        let of = Arc::clone(&quick);
        let ran = runtime.spawn(async move {
            let done = of.in_place(|| Ok(of.0.try_lock().is_err()));
            let other = Arc::clone(&of);
            // The runtime continues, although this work blocks its only worker and waits for the task that runs next.
            let (tell, told) = std::sync::mpsc::channel();
            let next = tokio::spawn(async move { tell.send(()).is_ok() });
            let held = of.0.lock();
            let waited = other.in_place(|| Ok(told.recv_timeout(Duration::from_secs(20)).is_ok()));
            drop(held);
            assert!(next.await.unwrap());
            (done, waited)
        });
        assert_eq!(runtime.block_on(ran).unwrap(), (Ok(true), Ok(true)));
        assert!(is_free(&quick), "it was quick");
        drop(quick.in_place(|| -> Result<(), Refusal> {
            std::thread::sleep(SLOW * 2);
            Ok(())
        }));
        assert!(!is_free(&quick), "it was slow");
        let again = Quick(Mutex::new(Some(Instant::now() + WARY)));
        let held = runtime.block_on(async { again.in_place(|| Ok(again.0.try_lock().is_ok())) });
        assert_eq!(held, Ok(true), "done by the way for slow work");
        let panics =
            runtime.block_on(async { quick.in_place(|| -> Result<(), Refusal> { panic!("in a test") }) });
        assert!(panics.is_err_and(|refusal| refusal.status == Status::Io));
    }
}
