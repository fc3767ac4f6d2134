//! Growing parts: which tier takes them, and which copies are evicted for them.
//!
//! Invariant: a tier drops a part only if the home store has all of it on stable storage, and it is not pinned.

use drystone_plan::tier::evict::{self, Copy};
use drystone_plan::tier::place::{Placed, Room, place};
use drystone_store::{Result, Store, StoreError, StoreExt};

use super::TieredStore;
use crate::registry::guard;
use crate::staged::Staged;
use crate::tier::Tier;

/// The most bytes of a growing part that are kept in memory. Parts end at about 32 MiB, unless one block is longer.
const MOST_OPEN: usize = 40 << 20;

impl TieredStore {
    pub(super) fn rooms(&self) -> Vec<Room> {
        let copies = self.copies();
        let sum = |number: usize, all: bool| -> u64 {
            let mine = copies.iter().filter(|(tier, _)| *tier == number);
            mine.filter(|(_, copy)| all || copy.drained && !copy.pinned).map(|(_, copy)| copy.bytes).sum()
        };
        let tiers = self.tiers().iter().enumerate();
        tiers.map(|(number, tier)| tier.room(sum(number, true), sum(number, false))).collect()
    }

    pub(super) fn copies(&self) -> Vec<(usize, Copy)> {
        let copy = |(key, one): (&String, &Staged)| {
            let drained = one.is_home() && one.stable && one.closed.is_some();
            let (bytes, pinned) = (one.len, one.pinned > 0);
            (one.tier, Copy { key: key.clone(), bytes, drained, pinned, uses: one.uses, used: one.used })
        };
        self.lock().iter().map(copy).collect()
    }

    /// Evicts copies of a tier until `need` bytes are free.
    pub(super) fn make_room(&self, number: usize, need: u64) {
        let copies: Vec<Copy> =
            self.copies().into_iter().filter(|(tier, _)| *tier == number).map(|(_, copy)| copy).collect();
        for gone in evict::evict(&copies, need) {
            // From here on, reads use the home store. A read under way either finishes or falls back to the home store.
            self.lock().remove(&gone.key);
            if let Some(tier) = self.tiers().get(number) {
                let _ = tier.doing(|store| store.delete(&gone.key));
            }
        }
    }

    /// Chooses a place for `need` more bytes, from tier `from` on. Evicts copies if the tier needs the space.
    pub(super) fn choose(&self, need: u64, from: usize) -> Placed {
        let mut placed = place(need, &self.rooms(), from);
        if placed == Placed::Home && !self.home.features().append {
            // The home store takes only whole parts. Closed ones are drained now, which frees space.
            if self.drain(|| true).and_then(|_| self.settle()).is_ok() {
                placed = place(need, &self.rooms(), from);
            }
        }
        if let Placed::Tier(number, bytes) = placed
            && bytes > 0
        {
            self.make_room(number, bytes);
        }
        placed
    }

    /// Keeps in memory the bytes that were appended at `at` to a part in a tier that may hang, up to [`MOST_OPEN`].
    pub(super) fn remember(&self, key: &str, number: usize, at: u64, parts: &[&[u8]]) {
        if !self.tiers().get(number).is_some_and(Tier::may_hang) {
            return;
        }
        let mut open = guard(&self.open);
        if at == 0 {
            open.insert(key.to_owned(), Vec::new());
        }
        let Some(bytes) = open.get_mut(key).filter(|bytes| bytes.len() as u64 == at) else { return };
        if bytes.len() + parts.iter().map(|part| part.len()).sum::<usize>() > MOST_OPEN {
            open.remove(key);
            return;
        }
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
    }

    /// Appends to a part in its tier, or moves it to a lower tier that takes the bytes.
    pub(super) fn extend(&self, key: &str, one: Staged, parts: &[&[u8]]) -> Result<()> {
        let done = self.tier(one.tier, key)?.doing(|store| store.append(key, one.len, parts));
        let error = match done {
            Ok(()) => {
                if let Some(now) = self.lock().get_mut(key) {
                    now.grew(parts);
                    now.closed = None;
                }
                self.remember(key, one.tier, one.len, parts);
                return Ok(());
            }
            Err(error) => error,
        };
        // The failed append may have added bytes; only the first `len` bytes belong to the part.
        let kept = usize::try_from(one.len).unwrap_or(usize::MAX);
        let tier = self.tier(one.tier, key)?;
        let remembered = guard(&self.open).remove(key).filter(|bytes| bytes.len() == kept);
        let before = remembered.map_or_else(|| tier.store.read_vec(key, 0, kept), Ok);
        let Ok(before) = before else {
            return Err(error);
        };
        let mut all: Vec<&[u8]> = vec![&before];
        all.extend_from_slice(parts);
        // Until the new copy is there, reads use the old one.
        if self.begin(key, &all, one.tier + 1, one.home).is_err() {
            return Err(error);
        }
        let mut staged = self.lock();
        if staged.get(key).is_some_and(|now| now.tier == one.tier) {
            staged.remove(key); // It is at home now.
        }
        drop(staged);
        let _ = tier.store.delete(key);
        Ok(())
    }

    /// Creates a part in the first tier from `from` on that takes it, else at home.
    pub(super) fn begin(&self, key: &str, parts: &[&[u8]], from: usize, home: Option<u64>) -> Result<()> {
        let need: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let mut from = from;
        loop {
            match self.choose(need, from) {
                Placed::Tier(number, _) => {
                    match self.tier(number, key)?.doing(|store| store.append(key, 0, parts)) {
                        Ok(()) => {
                            let mut one = Staged { home, ..Staged::new(number) };
                            one.grew(parts);
                            self.lock().insert(key.to_owned(), one);
                            self.remember(key, number, 0, parts);
                            return Ok(());
                        }
                        // Another writer has an object with that name there.
                        Err(StoreError::AlreadyExists { .. }) => from = number + 1,
                        Err(_) => {
                            // The failed append may have left bytes.
                            let _ = self.tier(number, key)?.store.delete(key);
                            from = number + 1;
                        }
                    }
                }
                Placed::Home if self.home.features().append && home.is_none() => {
                    return self.home.append(key, 0, parts);
                }
                Placed::Home => {
                    let places: Vec<String> = self.tiers().iter().map(|tier| tier.store.describe()).collect();
                    let store = format!("{} and every tier ({})", self.home.describe(), places.join(", "));
                    return Err(StoreError::NoSpace { key: key.to_owned(), store, operation: "append to" });
                }
            }
        }
    }
}
