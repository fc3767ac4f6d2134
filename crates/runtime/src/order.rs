//! Executes changes of one key in the order of submission.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// For each key, the last change that is under way.
#[derive(Clone, Debug, Default)]
pub struct Order(Arc<Mutex<Waits>>);

#[derive(Debug, Default)]
struct Waits {
    last: HashMap<String, (u64, watch::Receiver<()>)>,
    count: u64,
}

/// A change's position behind earlier ones. Later ones wait until it is dropped.
#[derive(Debug)]
pub struct Ticket {
    order: Order,
    keys: Vec<String>,
    number: u64,
    before: Vec<watch::Receiver<()>>,
    _done: watch::Sender<()>,
}

impl Order {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a change behind all earlier changes of these keys.
    pub fn place(&self, keys: Vec<String>) -> Ticket {
        let (done, waits_for_us) = watch::channel(());
        let mut waits = self.waits();
        waits.count += 1;
        let number = waits.count;
        let mut before = Vec::new();
        for key in &keys {
            if let Some((_, earlier)) = waits.last.insert(key.clone(), (number, waits_for_us.clone())) {
                before.push(earlier);
            }
        }
        Ticket { order: self.clone(), keys, number, before, _done: done }
    }
}

impl Ticket {
    /// Waits for all earlier changes.
    pub async fn reached(&mut self) {
        for mut earlier in std::mem::take(&mut self.before) {
            // The sender never sends; it is dropped. A request that names a key twice does not wait for itself.
            if !earlier.same_channel(&self._done.subscribe()) {
                while earlier.changed().await.is_ok() {}
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut waits = self.order.waits();
        for key in &self.keys {
            if waits.last.get(key).is_some_and(|(number, _)| *number == self.number) {
                waits.last.remove(key);
            }
        }
    }
}
