//! One tier: a store, how much it may hold, and how it fares.

use std::sync::Arc;

use drystone_plan::tier::place::Room;
use drystone_store::{Result, Store, StoreError};

use crate::health::Health;

/// How many bytes a tier has free; `None`: not known.
type Free = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// A place nearer than home.
pub struct Tier {
    pub(crate) store: Arc<dyn Store>,
    budget: Option<u64>,
    free: Free,
    reserve: u64,
    pub(crate) health: Health,
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier")
            .field("store", &self.store)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// A tier as a row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierState {
    /// Where it is.
    pub place: String,
    /// Bytes that it holds of this container.
    pub bytes: u64,
    /// Bytes of those that home does not have.
    pub undrained: u64,
    /// Reads that it answered.
    pub reads: u64,
    /// Why it is left alone now, if it is.
    pub aside: Option<String>,
}

impl Tier {
    /// A tier in a store that appends and that no other container uses. It holds at most `budget` bytes, if that is given.
    pub fn new(store: Arc<dyn Store>, budget: Option<u64>) -> Self {
        Tier { store, budget, free: Box::new(|| None), reserve: 0, health: Health::default() }
    }

    /// The same, with the bytes that its device has free, of which it leaves `reserve` to others.
    #[must_use]
    pub fn with_free(self, free: impl Fn() -> Option<u64> + Send + Sync + 'static, reserve: u64) -> Self {
        Tier { free: Box::new(free), reserve, ..self }
    }

    pub(crate) fn room(&self, held: u64, evictable: u64) -> Room {
        let aside = self.health.aside().is_some();
        let free = if aside { None } else { (self.free)() };
        Room { free, reserve: self.reserve, budget: self.budget, held, evictable, aside }
    }

    /// Does something there, and notes how it went.
    pub(crate) fn doing<T>(&self, act: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        let done = act(self.store.as_ref());
        match &done {
            Ok(_) => self.health.worked(),
            Err(error) if is_failure(error) => self.health.failed(error.to_string()),
            Err(_) => {}
        }
        done
    }
}

/// Whether an error is the tier's, and not the caller's. Of a full tier nothing is thought: the next part finds it full or not.
pub(crate) fn is_failure(error: &StoreError) -> bool {
    matches!(error, StoreError::Io { .. } | StoreError::Deadline { .. } | StoreError::Closed { .. })
}
