//! Where requests wait for their turn, which [`Flow`] determines.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::flow::{Admit, Flow, Outcome};

/// The gate of one endpoint in this process.
#[derive(Debug)]
pub(crate) struct Gate {
    since: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    flow: Flow,
    under_way: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl Gate {
    pub(crate) fn new(max: usize) -> Arc<Gate> {
        let state = State { flow: Flow::new(max), under_way: 0, waiting: VecDeque::new() };
        Arc::new(Gate { since: Instant::now(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Waits until one more request may begin.
    pub(crate) async fn enter(self: &Arc<Self>) -> Turn {
        loop {
            let turn = {
                let mut state = self.state();
                let under_way = state.under_way;
                match state.flow.admit(under_way, self.now()) {
                    Admit::Now => {
                        state.under_way += 1;
                        return Turn { gate: Arc::clone(self), outcome: None, bytes: 0 };
                    }
                    Admit::At(time) => Err(time),
                    Admit::WhenOneEnds => {
                        let (sender, receiver) = oneshot::channel();
                        state.waiting.push_back(sender);
                        Ok(receiver)
                    }
                }
            };
            match turn {
                Ok(receiver) => drop(receiver.await),
                Err(time) => {
                    tokio::time::sleep(Duration::from_secs_f64((time - self.now()).max(0.0005))).await
                }
            }
        }
    }
}

/// A request under way. If it is dropped without an outcome it was cancelled, because its copy was faster or no caller
/// waits for it; that says nothing about the server.
#[derive(Debug)]
pub(crate) struct Turn {
    gate: Arc<Gate>,
    outcome: Option<Outcome>,
    bytes: u64,
}

impl Turn {
    /// Records how it ended.
    pub(crate) fn ended(&mut self, outcome: Outcome, bytes: u64) {
        self.outcome = Some(outcome);
        self.bytes = bytes;
    }

    /// Records that it was cancelled for a reason that says nothing about the server.
    pub(crate) fn abandoned(&mut self) {
        self.outcome = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.gate.now();
        let mut state = self.gate.state();
        state.under_way -= 1;
        if let Some(outcome) = self.outcome {
            state.flow.ended(outcome, self.bytes, now);
        }
        // Admits as many requests as the limit allows. A request that was cancelled meanwhile takes no place.
        let mut room = state.flow.limit().saturating_sub(state.under_way);
        while room > 0
            && let Some(next) = state.waiting.pop_front()
        {
            room -= usize::from(next.send(()).is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: a burst of reads had a quarter of its requests under way at once, though the server refused none.
    /// Cause: the slower of two copies of a late request counted as lost, and many lost requests halve the number under
    /// way.
    #[tokio::test]
    async fn a_cancelled_copy_says_nothing_about_the_server() {
        let gate = Gate::new(128);
        let limit = gate.state().flow.limit();
        for n in 0..1000 {
            let mut turn = gate.enter().await;
            if n % 2 == 0 {
                turn.ended(Outcome::Answered, 4096);
            }
        }
        assert_eq!(gate.state().flow.limit(), limit);
        assert_eq!(gate.state().under_way, 0);
        for _ in 0..2 * limit {
            gate.enter().await.ended(Outcome::Lost, 0);
        }
        assert!(gate.state().flow.limit() <= limit / 2, "requests that were not answered in time do");
    }
}
