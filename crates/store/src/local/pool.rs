//! A small pool of threads that execute submitted requests.
//!
//! Requests that name a common key in [`Request::ordered_keys`] run in the order of submission: each key has a queue,
//! and a job may start when it is first in all its queues. A job enters all its queues at once. So an older job never
//! waits for a younger one, and no job waits for ever.
//!
//! Threads are started when there are more jobs than idle threads, up to a limit. Dropping the pool finishes all
//! submitted requests and joins the threads.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::{Completer, Pending, Reply, Request, Result};

/// Executes one request in a thread of the pool.
pub(crate) type Execute = Arc<dyn Fn(Request) -> Result<Reply> + Send + Sync>;

struct Job {
    request: Request,
    execute: Execute,
    completer: Completer,
}

struct Waiting {
    job: Job,
    /// The number of its queues in which another job is before it.
    behind: usize,
}

#[derive(Default)]
struct Queue {
    next_id: u64,
    ready: VecDeque<(u64, Job)>,
    waiting: HashMap<u64, Waiting>,
    /// The jobs of each key, in order; the first one is ready or running.
    lines: HashMap<String, VecDeque<u64>>,
    threads: Vec<JoinHandle<()>>,
    idle: usize,
    closing: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
}

/// The threads of one process for one store.
#[derive(Default)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn enter(&mut self, job: Job) {
        let id = self.next_id;
        self.next_id += 1;
        let mut behind = 0;
        for key in distinct(job.request.ordered_keys()) {
            let line = self.lines.entry(key.clone()).or_default();
            behind += usize::from(!line.is_empty());
            line.push_back(id);
        }
        if behind == 0 {
            self.ready.push_back((id, job));
        } else {
            self.waiting.insert(id, Waiting { job, behind });
        }
    }

    /// Removes a finished job from its queues; returns how many others may start now.
    fn leave(&mut self, id: u64, keys: &[String]) -> usize {
        let mut released = 0;
        for key in keys {
            let Some(line) = self.lines.get_mut(key) else { continue };
            debug_assert_eq!(line.front(), Some(&id));
            line.pop_front();
            let Some(&next) = line.front() else {
                self.lines.remove(key);
                continue;
            };
            let Some(waiting) = self.waiting.get_mut(&next) else { continue };
            waiting.behind -= 1;
            if waiting.behind == 0
                && let Some(Waiting { job, .. }) = self.waiting.remove(&next)
            {
                self.ready.push_back((next, job));
                released += 1;
            }
        }
        released
    }
}

fn distinct(keys: &[String]) -> Vec<String> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys.dedup();
    keys
}

impl Pool {
    pub(crate) fn submit(&self, request: Request, execute: Execute) -> Pending {
        let (completer, pending) = Pending::waiting();
        let mut queue = self.shared.lock();
        queue.enter(Job { request, execute, completer });
        if queue.idle < queue.ready.len() && queue.threads.len() < thread_limit() {
            let shared = Arc::clone(&self.shared);
            let thread =
                std::thread::Builder::new().name("drystone-io".into()).spawn(move || shared.serve(false));
            match thread {
                Ok(thread) => queue.threads.push(thread),
                // There is no thread, and none can be started: the job is executed here.
                Err(_) if queue.threads.is_empty() => {
                    drop(queue);
                    self.shared.serve(true);
                    return pending;
                }
                Err(_) => {}
            }
        }
        drop(queue);
        self.shared.work.notify_one();
        pending
    }
}

impl Pool {
    /// Runs a job that no caller waits for. It is carried by an empty request.
    pub(crate) fn aside(&self, work: impl Fn() + Send + Sync + 'static) {
        let execute = move |request| {
            work();
            Ok(match request {
                Request::Sync { keys } => Reply::Sync { keys },
                _ => Reply::Placed,
            })
        };
        drop(self.submit(Request::Sync { keys: Vec::new() }, Arc::new(execute)));
    }
}

/// A few threads suffice: they overlap waiting for the device, and memory bandwidth limits the copying.
fn thread_limit() -> usize {
    static LIMIT: std::sync::LazyLock<usize> =
        std::sync::LazyLock::new(|| std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4)));
    *LIMIT
}

impl Shared {
    /// Executes ready jobs until the pool closes; with `once`, until no job is ready.
    fn serve(&self, once: bool) {
        let mut queue = self.lock();
        loop {
            let Some((id, job)) = queue.ready.pop_front() else {
                // A thread that still runs a job starts the waiting ones.
                if once || queue.closing {
                    return;
                }
                queue.idle += 1;
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            let keys = distinct(job.request.ordered_keys());
            // A panic drops the completer, which fails the request; the queues must still advance.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let Job { request, execute, completer } = job;
                let outcome = execute(request);
                // Everything that the job borrows from the store is returned before the caller learns of its end.
                drop(execute);
                completer.complete(outcome);
            }));
            queue = self.lock();
            // This thread executes one of the released jobs itself.
            for _ in 1..queue.leave(id, &keys) {
                self.work.notify_one();
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let threads = {
            let mut queue = self.shared.lock();
            queue.closing = true;
            std::mem::take(&mut queue.threads)
        };
        self.shared.work.notify_all();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn sync(keys: &[&str]) -> Request {
        Request::Sync { keys: keys.iter().map(|&key| key.into()).collect() }
    }

    fn record_order(log: &Arc<Mutex<Vec<Vec<String>>>>) -> Execute {
        let log = Arc::clone(log);
        Arc::new(move |request| {
            let Request::Sync { keys } = request else { unreachable!() };
            log.lock().unwrap().push(keys.clone());
            Ok(Reply::Sync { keys })
        })
    }

    #[test]
    fn requests_that_share_a_key_run_in_the_order_of_submission() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let execute = record_order(&log);
        let pool = Pool::default();
        let names = [&["a"][..], &["a", "b"], &["b"], &["b", "a", "b"], &["c"], &["a"], &["c", "a"]];
        let submitted: Vec<_> = (0..700).map(|i| names[i % 7]).collect();
        let pending: Vec<_> =
            submitted.iter().map(|keys| pool.submit(sync(keys), Arc::clone(&execute))).collect();
        pending.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
        let log = log.lock().unwrap();
        for key in ["a", "b", "c"] {
            let ran: Vec<_> = log.iter().filter(|keys| keys.iter().any(|k| k == key)).collect();
            let due: Vec<_> = submitted.iter().filter(|keys| keys.contains(&key)).collect();
            assert_eq!(ran.len(), due.len());
            assert!(ran.iter().zip(due).all(|(ran, due)| ran == due), "{key}");
        }
    }

    #[test]
    fn requests_on_different_keys_run_at_the_same_time() {
        let meet = Arc::new(Barrier::new(2));
        let pool = Pool::default();
        let execute: Execute = Arc::new(move |_| {
            meet.wait();
            Ok(Reply::Sync { keys: vec![] })
        });
        let first = pool.submit(sync(&["a"]), Arc::clone(&execute));
        let second = pool.submit(sync(&["b"]), execute);
        assert!(first.wait().is_ok() && second.wait().is_ok());
    }

    #[test]
    fn a_request_that_panics_fails_alone() {
        let pool = Pool::default();
        let bad = pool.submit(sync(&["a"]), Arc::new(|_| panic!("on purpose")));
        let good = pool.submit(sync(&["a"]), Arc::new(|_| Ok(Reply::Sync { keys: vec![] })));
        assert!(bad.wait().is_err());
        assert!(good.wait().is_ok());
    }

    #[test]
    fn dropping_the_pool_finishes_what_was_submitted() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let execute = record_order(&log);
        let pool = Pool::default();
        let pending: Vec<_> = (0..50).map(|_| pool.submit(sync(&["a"]), Arc::clone(&execute))).collect();
        drop(pool);
        assert_eq!(log.lock().unwrap().len(), 50);
        assert!(pending.iter().all(Pending::is_ready));
    }
}
