//! The calls for all tiles of a result: in several threads if the function allows it, and before its deadline.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Builder, available_parallelism};
use std::time::Instant;

use crate::abi::{Function, Job};
use crate::{Error, lock};

/// The most threads that call a function for one result.
const THREADS: usize = 16;

/// The calls of one result that are under way.
#[derive(Default)]
struct Calls {
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    calling: usize,
    /// No more calls begin.
    has_ended: bool,
    /// Calls under way were left behind.
    is_left: bool,
}

impl Calls {
    fn begin(&self) -> bool {
        let mut state = lock(&self.state);
        state.calling += usize::from(!state.has_ended);
        !state.has_ended
    }

    fn end(&self, function: &Function) {
        let mut state = lock(&self.state);
        state.calling -= 1;
        if state.is_left {
            function.turn().returned();
        }
        drop(state);
        self.returned.notify_all();
    }

    /// Begins no more calls, waits for those under way, and leaves them behind at the deadline.
    fn stop(&self, function: &Function, until: Instant) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        while state.calling > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.is_left = true;
                function.turn().leave(state.calling);
                return;
            }
            state = match self.returned.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// The number of a tile, and its job after the call or the reason why there is no output.
type Made = (usize, std::result::Result<Job, String>);

impl Function {
    /// Calls the function for `many` tiles. `input` makes the job of a tile by its number, `take` gets it back with the
    /// output.
    /// Errors: those of `input`; a function that fails, passes its deadline, or has not returned from a call that an
    /// earlier deadline left behind.
    pub fn run<E: From<Error>>(
        self: &Arc<Self>,
        many: usize,
        input: &mut dyn FnMut(usize) -> Result<Job, E>,
        take: &mut dyn FnMut(usize, Job),
    ) -> Result<(), E> {
        if many == 0 {
            return Ok(());
        }
        let declared = self.declared();
        let _taken = (!declared.thread_safe).then(|| self.turn().take());
        if self.turn().is_stuck() {
            return Err(Error::Deadline(format!(
                "function {:?} has not returned from a call that its deadline left behind: it is not called again \
                 before",
                declared.name
            ))
            .into());
        }
        let until = Instant::now() + declared.deadline;
        let threads = if declared.thread_safe { available_parallelism().map_or(1, usize::from) } else { 1 };
        let threads = threads.min(THREADS).min(many);
        let calls = Arc::new(Calls::default());
        let (give, jobs) = channel::<(usize, Job)>();
        let (done, made) = channel::<Made>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..threads {
            let (function, calls, jobs, done) =
                (Arc::clone(self), Arc::clone(&calls), Arc::clone(&jobs), done.clone());
            let work = move || {
                while let Ok((number, mut job)) = next_of(&jobs) {
                    if !calls.begin() {
                        return;
                    }
                    let made = function.call(&mut job).map(|()| job);
                    calls.end(&function);
                    if done.send((number, made)).is_err() {
                        return;
                    }
                }
            };
            let begun = Builder::new().name(format!("drystone-{}", declared.name)).spawn(work);
            begun.map_err(|error| Error::System(format!("cannot start a thread: {error}")))?;
        }
        drop(done);
        let (mut waiting, mut next) = (BTreeMap::new(), 0..many);
        let outcome = loop {
            while waiting.len() < 2 * threads {
                let Some(number) = next.next() else { break };
                let job = match input(number) {
                    Ok(job) => job,
                    Err(error) => {
                        calls.stop(self, until);
                        return Err(error);
                    }
                };
                waiting.insert(number, text(&job));
                drop(give.send((number, job)));
            }
            let Some((_, first)) = waiting.first_key_value() else { break Ok(()) };
            match made.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((number, Ok(job))) => {
                    waiting.remove(&number);
                    take(number, job);
                }
                Ok((number, Err(why))) => {
                    let tile = waiting.remove(&number).unwrap_or_default();
                    break Err(Error::Invalid(format!(
                        "function {:?} for the tile {tile}: it {why}",
                        declared.name
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {
                    break Err(Error::Deadline(format!(
                        "function {:?} did not return within {} s for the tile {first}",
                        declared.name,
                        declared.deadline.as_secs_f64(),
                    )));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(Error::Invalid(format!("function {:?} ended its thread", declared.name)));
                }
            }
        };
        calls.stop(self, until);
        Ok(outcome?)
    }
}

fn next_of(jobs: &Mutex<Receiver<(usize, Job)>>) -> Result<(usize, Job), RecvError> {
    lock(jobs).recv()
}

/// The box of a tile: `[0:4, 2:6]`.
fn text(job: &Job) -> String {
    let axes = job.offset.iter().zip(&job.count).map(|(at, n)| format!("{at}:{}", at.saturating_add(*n)));
    format!("[{}]", axes.collect::<Vec<_>>().join(", "))
}
