//! Complete parts: which of them wait for the drain, and when tiers may evict them.

use drystone_plan::tier::drain::{self, Waiting};
use drystone_store::{Result, Store};

use super::TieredStore;
use crate::registry::guard;
use crate::staged::Staged;

/// The result of a drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Number of parts that were drained.
    pub parts: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl TieredStore {
    /// Records that the part is complete, so that it may be drained.
    pub fn close_part(&self, key: &str) {
        self.close_part_at(key, None);
    }

    /// Like [`close_part`](Self::close_part), for a part that ends with this step. Older steps are drained first,
    /// whichever process wrote them.
    pub fn close_part_at(&self, key: &str, step: Option<u64>) {
        let now = self.tick();
        guard(&self.open).remove(key);
        if let Some(one) = self.lock().get_mut(key) {
            let closed =
                if self.registry.is_some() { step.map_or(0, |step| step.saturating_add(1)) } else { now };
            if one.closed.is_none() {
                (one.closed, one.step) = (Some(closed), step);
            }
        }
    }

    /// Closed parts that the home store does not have, in the order in which they will be drained.
    pub fn waiting(&self) -> Vec<Waiting> {
        let staged = self.lock();
        let waits = |(key, one): (&String, &Staged)| {
            let closed = one.closed.filter(|_| !one.is_home())?;
            Some(Waiting { closed, key: key.clone(), bytes: one.len })
        };
        drain::order(staged.iter().filter_map(waits).collect())
    }

    /// Whether a part is in a tier that is not in use because it failed.
    pub fn is_in_failed_tier(&self, key: &str) -> bool {
        let tier = self.find(key).and_then(|one| self.tiers().get(one.tier));
        tier.is_some_and(|tier| tier.health.aside().is_some())
    }

    /// Drains closed parts, oldest first, as long as `go_on` returns true before each.
    pub fn drain(&self, mut go_on: impl FnMut() -> bool) -> Result<Drained> {
        let mut done = Drained::default();
        for part in self.waiting() {
            if !go_on() {
                break;
            }
            self.drain_part(&part.key)?;
            done.parts += 1;
            done.bytes += part.bytes;
        }
        Ok(done)
    }

    /// Syncs the drained parts at home; from then on tiers may evict them.
    pub fn settle(&self) -> Result<()> {
        let keys: Vec<(String, u64)> = {
            let staged = self.lock();
            let new = |one: &Staged| one.closed.is_some() && one.is_home() && !one.stable;
            staged.iter().filter(|(_, one)| new(one)).map(|(key, one)| (key.clone(), one.len)).collect()
        };
        self.home.sync(&keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>())?;
        let mut staged = self.lock();
        for (key, len) in keys {
            if let Some(one) = staged.get_mut(&key).filter(|one| one.len == len) {
                one.stable = true;
            }
        }
        Ok(())
    }

    /// Whether the home store has all closed parts on stable storage.
    pub fn is_drained(&self) -> bool {
        let staged = self.lock();
        !staged.values().any(|one| one.closed.is_some() && !(one.is_home() && one.stable))
    }

    /// Evicts copies of parts that the home store has on stable storage, and removes folders that become empty. Call it
    /// when the container is no longer used here: other handles adopt the other parts from now on.
    pub fn evict_copies(&self) {
        for number in 0..self.tiers().len() {
            self.make_room(number, u64::MAX);
        }
        if self.lock().is_empty() {
            let writers = self.locked_writers();
            for tier in self.tiers() {
                writers.iter().for_each(|writer| tier.forget_lock(*writer));
                tier.tidy();
            }
        }
        self.release();
    }
}
