//! Bytes that were read for a generation, while it is not known whether they belong to it.
//!
//! Why: an object may be replaced between a request and its reply. A caller therefore reads the first bytes after all
//! others (docs/format/zarr.md). If they are those of the generation, all bytes that arrived before belong to it.
//!
//! Invariants
//! - bytes become units only after a later request for the first bytes has returned those of the generation;
//! - while bytes of a generation are in doubt, its first bytes are read from the home store;
//! - once another generation was found, this holds for ever.

use std::collections::HashMap;
use std::sync::Arc;

use drystone_store::{Result, Store};

use super::{Shared, lock};
use crate::generation::{FIRST, parse};

/// The most bytes that are held in memory. If there are more, the home store is asked for the first bytes.
const MOST: u64 = 8 << 20;

/// All bytes in doubt, by the name of their generation.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    names: HashMap<String, Doubt>,
    /// Numbers requests and arrivals, in their order.
    clock: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Doubt {
    /// Number of requests without a reply.
    under_way: usize,
    held: Vec<Held>,
    /// Whether another generation was found.
    moved: bool,
}

#[derive(Debug)]
struct Held {
    arrived: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// A request to the home store for bytes of a generation. It lasts until this value is dropped, after the bytes were
/// passed to `hold`.
#[derive(Debug)]
pub(super) struct Doubted(Arc<Shared>, String);

impl Drop for Doubted {
    fn drop(&mut self) {
        if let Some(doubt) = lock(&self.0.doubts).names.get_mut(&self.1) {
            doubt.under_way = doubt.under_way.saturating_sub(1);
        }
    }
}

/// Whether a range is exactly the first bytes.
pub(super) fn is_first(offset: u64, len: usize) -> bool {
    (offset, len) == (0, FIRST)
}

impl Shared {
    fn holds_generations(&self, name: &str) -> bool {
        self.folder.is_some() && parse(name).is_some()
    }

    /// Begins a request for bytes of a generation; `None` for other objects.
    pub(super) fn doubted(self: &Arc<Self>, name: &str) -> Option<Doubted> {
        if !self.holds_generations(name) {
            return None;
        }
        lock(&self.doubts).names.entry(name.to_owned()).or_default().under_way += 1;
        Some(Doubted(Arc::clone(self), name.to_owned()))
    }

    /// Whether the home store must answer for the first bytes.
    pub(super) fn is_in_doubt(&self, name: &str) -> bool {
        lock(&self.doubts).names.contains_key(name)
    }

    /// Holds bytes until it is known whether they belong to the generation.
    pub(super) fn hold(&self, name: &str, offset: u64, bytes: &[u8]) {
        if is_first(offset, bytes.len()) {
            return; // `settle` compares and keeps them
        }
        let full = {
            let mut doubts = lock(&self.doubts);
            doubts.clock += 1;
            let arrived = doubts.clock;
            let held = if bytes.len() as u64 <= MOST { bytes.to_vec() } else { Vec::new() };
            doubts.bytes += held.len() as u64;
            let doubt = doubts.names.entry(name.to_owned()).or_default();
            doubt.held.push(Held { arrived, offset, bytes: held });
            doubts.bytes > MOST
        };
        if full {
            let names: Vec<String> = lock(&self.doubts).names.keys().cloned().collect();
            // An error leaves them in doubt; the caller's own request reports it.
            names.iter().for_each(|name| _ = self.confirm(name));
            let mut doubts = lock(&self.doubts);
            if doubts.bytes > MOST {
                doubts
                    .names
                    .values_mut()
                    .flat_map(|doubt| &mut doubt.held)
                    .for_each(|held| held.bytes = Vec::new());
                doubts.bytes = 0;
            }
        }
    }

    /// Returns the time, on the clock of events, of a request for first bytes.
    pub(super) fn asks_first(&self) -> u64 {
        let mut doubts = lock(&self.doubts);
        doubts.clock += 1;
        doubts.clock
    }

    /// Asks the home store for the first bytes of a generation.
    pub(super) fn confirm(&self, name: &str) -> Result<()> {
        let asked = self.asks_first();
        let mut first = [0; FIRST];
        self.home.read(name, 0, &mut first)?;
        self.settle(name, asked, &first);
        Ok(())
    }

    /// Uses first bytes that were requested at time `asked`. If they are those of the generation, keeps the bytes that
    /// arrived before that time. Otherwise drops all held bytes.
    pub(super) fn settle(&self, name: &str, asked: u64, first: &[u8]) {
        let Some(generation) = parse(name).filter(|_| self.folder.is_some()) else { return };
        let is_same = generation.first == first;
        let mut sound = Vec::new();
        {
            let mut doubts = lock(&self.doubts);
            let doubts = &mut *doubts;
            let mut none = Doubt::default();
            let doubt = match is_same {
                true => doubts.names.get_mut(name).unwrap_or(&mut none),
                false => doubts.names.entry(name.to_owned()).or_default(),
            };
            let moved = doubt.moved || !is_same;
            for held in std::mem::take(&mut doubt.held) {
                match moved || held.arrived < asked {
                    true => {
                        doubts.bytes = doubts.bytes.saturating_sub(held.bytes.len() as u64);
                        sound.push(held);
                    }
                    false => doubt.held.push(held),
                }
            }
            doubt.moved = moved;
            let settled = !moved && doubt.under_way == 0 && doubt.held.is_empty();
            if settled {
                doubts.names.remove(name);
            }
            if moved {
                sound.clear();
            }
        }
        if is_same {
            let era = self.now();
            for held in sound {
                self.keep_verified(era, name, held.offset, &held.bytes, 0);
            }
            self.keep_verified(era, name, 0, first, 0);
        }
    }
}
