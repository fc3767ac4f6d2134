//! Changes that were submitted: those that share a key one after the other, the others at once, on a few threads.
//!
//! Reads do not come here: their completions complete them.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Changes under way at once, each of which its thread waits for.
const THREADS: usize = 8;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<(Vec<String>, Work)>,
    busy: HashSet<String>,
    threads: usize,
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The queue of one store in one process.
#[derive(Default)]
pub(crate) struct Queue(Arc<Shared>);

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// The first whose keys neither run nor are waited for by an earlier one.
    fn next(&mut self) -> Option<(Vec<String>, Work)> {
        let mut before: HashSet<&str> = self.busy.iter().map(String::as_str).collect();
        let mut found = None;
        for (n, (keys, _)) in self.waiting.iter().enumerate() {
            if keys.iter().all(|key| !before.contains(key.as_str())) {
                found = Some(n);
                break;
            }
            before.extend(keys.iter().map(String::as_str));
        }
        let (keys, work) = self.waiting.remove(found?)?;
        self.busy.extend(keys.iter().cloned());
        Some((keys, work))
    }
}

impl Queue {
    /// Does the work once all earlier work on its keys is done. `false`: there is no thread for it, and it was dropped.
    pub(crate) fn push(&self, keys: Vec<String>, work: Work) -> bool {
        let mut state = lock(&self.0);
        state.waiting.push_back((keys, work));
        if state.idle == 0 && state.threads < THREADS {
            let shared = self.0.clone();
            let made =
                std::thread::Builder::new().name("drystone-rados".into()).spawn(move || serve(&shared));
            match made {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => {
                    state.waiting.pop_back();
                    return false;
                }
                Err(_) => {}
            }
        }
        drop(state);
        self.0.changed.notify_one();
        true
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        lock(&self.0).closed = true;
        self.0.changed.notify_all();
    }
}

fn serve(shared: &Shared) {
    let mut state = lock(shared);
    loop {
        if let Some((keys, work)) = state.next() {
            drop(state);
            // What panics drops its completer, which tells whoever waits.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            state = lock(shared);
            for key in &keys {
                state.busy.remove(key);
            }
            shared.changed.notify_all();
            continue;
        }
        if state.closed && state.waiting.is_empty() {
            state.threads -= 1;
            return;
        }
        state.idle += 1;
        state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn work_on_one_key_is_done_in_order_and_on_others_meanwhile() {
        let queue = Queue::default();
        let (sender, receiver) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let first = sender.clone();
        queue.push(
            vec!["a".into()],
            Box::new(move || {
                let _ = gate.recv();
                let _ = first.send(0);
            }),
        );
        for n in 1..50 {
            let sender = sender.clone();
            queue.push(
                vec!["a".into()],
                Box::new(move || {
                    let _ = sender.send(n);
                }),
            );
        }
        let other = sender.clone();
        queue.push(
            vec!["b".into()],
            Box::new(move || {
                let _ = other.send(1000);
            }),
        );
        assert_eq!(receiver.recv(), Ok(1000));
        drop(open);
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
    }
}
