//! Requests that clients repeat because a reply was lost. Each is executed once and answered each time.
//!
//! The last outcomes are kept in memory. After a restart of the server, a client reads the object back to learn the
//! outcome, as it does with object stores.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::reply::Refusal;

/// The number of outcomes that are kept.
const KEPT: usize = 4096;

/// The outcome of a request.
type Outcome = Result<(), Refusal>;

/// One request, under way or done.
type Slot = Arc<tokio::sync::Mutex<Option<Outcome>>>;

#[derive(Default)]
pub(crate) struct Idempotence {
    slots: Mutex<(HashMap<String, Slot>, VecDeque<String>)>,
}

impl Idempotence {
    /// Executes `work`, unless a request of this name was executed before. Waits for one that is under way. An outcome
    /// that leaves open whether the work was done is not kept.
    pub(crate) async fn once(&self, name: Option<String>, work: impl Future<Output = Outcome>) -> Outcome {
        let Some(name) = name else { return work.await };
        let slot = self.slot(name);
        let mut done = slot.lock().await;
        if let Some(outcome) = &*done {
            return outcome.clone();
        }
        let outcome = work.await;
        let is_known = match &outcome {
            Ok(()) => true,
            Err(refusal) => refusal.status == drystone_wire::Status::AlreadyExists,
        };
        if is_known {
            *done = Some(outcome.clone());
        }
        outcome
    }

    fn slot(&self, name: String) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, order) = &mut *slots;
        if let Some(slot) = known.get(&name) {
            return Arc::clone(slot);
        }
        if order.len() >= KEPT
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
        let slot = Slot::default();
        known.insert(name.clone(), Arc::clone(&slot));
        order.push_back(name);
        slot
    }
}
