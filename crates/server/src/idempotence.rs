//! Requests that are sent again because their reply was lost: done once, answered as often as they come.
//!
//! Outcomes are kept for a while, in memory. After a restart a client finds out by reading back, as it does with object stores.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::reply::Refusal;

/// Outcomes that are kept.
const KEPT: usize = 4096;

/// How a request ended.
type Outcome = Result<(), Refusal>;

/// One request, under way or done.
type Slot = Arc<tokio::sync::Mutex<Option<Outcome>>>;

#[derive(Default)]
pub(crate) struct Idempotence {
    slots: Mutex<(HashMap<String, Slot>, VecDeque<String>)>,
}

impl Idempotence {
    /// Does `work` unless the request of this name was done before; one that is under way is waited for. Outcomes that say nothing of
    /// whether it was done are not kept.
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
