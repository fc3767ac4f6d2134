//! The thread that fetches bytes that are likely to be read next.
//!
//! Invariants
//! - the thread runs only while there is something to fetch, and for a short while after;
//! - a forked child starts a thread of its own;
//! - no caller waits for the thread; if it fails, the read itself reports the error.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::sync::lock;

/// The thread ends after it was idle for this long.
const IDLE: Duration = Duration::from_secs(2);
/// The most waiting jobs. Further jobs are dropped.
const WAITING: usize = 64;

/// One fetch. It calls its argument now and then, and ends once that returns false.
pub(crate) type Job = Box<dyn FnOnce(&dyn Fn() -> bool) + Send>;

/// Fetches in the background, one job after the other.
#[derive(Default)]
pub(crate) struct Prefetcher {
    state: Mutex<State>,
    changed: Condvar,
    /// Incremented to cancel all jobs that wait or run.
    era: AtomicU64,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// The process whose thread takes jobs.
    runs_in: Option<u32>,
    stopped: bool,
    /// When the last read ended.
    last_read: Option<Instant>,
}

impl std::fmt::Debug for Prefetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefetcher").finish_non_exhaustive()
    }
}

impl Prefetcher {
    /// Queues a job.
    pub(crate) fn take(self: &Arc<Self>, job: Job) {
        let mut state = lock(&self.state);
        let here = drystone_store::process_id();
        if state.runs_in.is_some_and(|process| process != here) {
            state.jobs.clear();
            state.runs_in = None;
        }
        if state.stopped || state.jobs.len() >= WAITING {
            return;
        }
        state.jobs.push_back(job);
        if state.runs_in.is_none() {
            let own = Arc::clone(self);
            let thread = std::thread::Builder::new().name("drystone-prefetch".into());
            if thread.spawn(move || own.run()).is_ok() {
                state.runs_in = Some(here);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// A read of the handle ended.
    pub(crate) fn read_ended(&self) {
        lock(&self.state).last_read = Some(Instant::now());
    }

    /// Time since the last read ended, if there was one.
    pub(crate) fn since_last_read(&self) -> Option<Duration> {
        lock(&self.state).last_read.map(|at| at.elapsed())
    }

    /// Cancels all jobs that wait or run.
    pub(crate) fn forget(&self) {
        self.era.fetch_add(1, Ordering::SeqCst);
        lock(&self.state).jobs.clear();
    }

    /// Cancels all jobs, and accepts no more.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.forget();
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.stopped {
                    state.runs_in = None;
                    return;
                }
                let (after, waited) = match self.changed.wait_timeout(state, IDLE) {
                    Ok((after, waited)) => (after, waited.timed_out()),
                    Err(poisoned) => (poisoned.into_inner().0, true),
                };
                state = after;
                if waited && state.jobs.is_empty() {
                    state.runs_in = None;
                    return;
                }
                continue;
            };
            let era = self.era.load(Ordering::SeqCst);
            drop(state);
            job(&|| self.era.load(Ordering::SeqCst) == era);
            state = lock(&self.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_in_order_and_cancelled_jobs_do_not_run() {
        let prefetcher = Arc::new(Prefetcher::default());
        let (sent, received) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let (says, said) = (sent.clone(), sent.clone());
        prefetcher.take(Box::new(move |go_on| {
            begun.send(()).expect("the test waits for it");
            while go_on() {
                std::thread::sleep(Duration::from_millis(1));
            }
            says.send("first").expect("the test waits for it");
        }));
        begins.recv().expect("it begins");
        prefetcher.take(Box::new(move |_| said.send("second").expect("the test waits for it")));
        prefetcher.forget();
        assert_eq!(received.recv(), Ok("first"), "the first job ended when jobs were cancelled");
        let last = sent.clone();
        prefetcher.take(Box::new(move |go_on| {
            assert!(go_on());
            last.send("third").expect("the test waits for it");
        }));
        assert_eq!(received.recv(), Ok("third"), "the second was not begun");
        prefetcher.stop();
        prefetcher.take(Box::new(move |_| _ = sent.send("fourth")));
        assert!(received.recv_timeout(Duration::from_millis(50)).is_err());
    }
}
