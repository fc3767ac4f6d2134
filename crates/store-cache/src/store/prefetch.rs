//! Fetches ranges before they are read.
//!
//! Invariants
//! - a prefetch waits while a read waits for the home store;
//! - a prefetched range is claimed first, so that a later read waits for it instead of fetching it again.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use drystone_store::Request;

use super::counts::add;
use super::{CacheStore, LONGEST, Shared, lock};
use crate::flight::Flight;
use crate::generation::parse;

/// The most memory, in bytes, for prefetched bytes that are under way to the folder, or that no folder holds.
pub const MOST_HELD: u64 = 8 << 20;
/// How often a prefetch checks whether reads still wait for the home store.
const PATIENCE: Duration = Duration::from_micros(200);

impl CacheStore {
    /// The most bytes that may be prefetched before they are read.
    pub fn room(&self) -> u64 {
        let of_folder = self.shared.folder.as_ref().filter(|folder| folder.health.aside().is_none());
        of_folder.map_or(MOST_HELD, |folder| (folder.budget() / 4).max(MOST_HELD.min(folder.budget())))
    }

    /// Fetches ranges that are wanted later, in their order, and returns when all have arrived. Before each request it
    /// waits until no read waits for the home store. It ends as soon as `go_on` returns false. Failures are ignored:
    /// the read repeats the request and reports the error.
    pub fn prefetch(&self, wanted: &[(String, Range<u64>)], go_on: &dyn Fn() -> bool) {
        let shared = &self.shared;
        let most = shared.home.features().far.map_or(4, |far| far.requests.max(1)) as usize;
        let mut under_way: Vec<Arc<Flight>> = Vec::new();
        'all: for (key, range) in
            wanted.iter().filter(|(key, _)| (shared.is_cached)(key) && parse(key).is_none())
        {
            for hole in shared.holes(key, range) {
                for at in (hole.start..hole.end).step_by(LONGEST as usize) {
                    let range = at..hole.end.min(at + LONGEST);
                    let len = range.end - range.start;
                    while shared.waiting.load(Ordering::SeqCst) > 0 {
                        if !go_on() {
                            break 'all;
                        }
                        std::thread::sleep(PATIENCE);
                    }
                    while !go_on()
                        || under_way.len() >= most
                        || !lock(shared.flights.get()).make_room(len, MOST_HELD)
                    {
                        if under_way.is_empty() {
                            break 'all; // no space is free until the held bytes are read
                        }
                        if !go_on() {
                            break 'all;
                        }
                        shared.store_flight(&under_way.remove(0));
                    }
                    // `claim` examines the range again, since a read may have fetched it while the prefetch waited.
                    let claimed = loop {
                        match shared.claim(key, &range) {
                            Some(claimed) => break claimed,
                            None if !go_on() => break 'all,
                            None => std::thread::sleep(PATIENCE),
                        }
                    };
                    for flight in claimed {
                        let Range { start, end } = flight.range;
                        let len = end - start;
                        flight
                            .begins(shared.home.submit(Request::read_many(key, vec![(start, len as usize)])));
                        add(&shared.tally.prefetched_bytes, len);
                        under_way.push(flight);
                    }
                }
            }
        }
        under_way.iter().for_each(|flight| shared.store_flight(flight));
    }
}

impl Shared {
    /// Claims the missing parts of a range for a prefetch, so that reads wait for it. `None` if a read waits or began
    /// meanwhile, since it may fetch the same bytes.
    fn claim(&self, key: &str, range: &Range<u64>) -> Option<Vec<Arc<Flight>>> {
        let (begun, era) = (self.begun.load(Ordering::SeqCst), self.now());
        let holes = self.holes(key, range);
        // A read increments its counter before it examines the flights.
        let mut flights = lock(self.flights.get());
        if self.waiting.load(Ordering::SeqCst) > 0 || self.begun.load(Ordering::SeqCst) != begun {
            return None;
        }
        let claimed: Vec<_> = holes.into_iter().map(|hole| Arc::new(Flight::new(era, key, hole))).collect();
        claimed.iter().for_each(|flight| flights.add(flight));
        Some(claimed)
    }

    /// Waits for a flight, and moves its bytes to the folder if there is one.
    fn store_flight(&self, flight: &Arc<Flight>) {
        match flight.bytes() {
            Some(bytes) => {
                if self.folder.is_some()
                    && self.keep(flight.era, &flight.key, flight.range.start, &bytes, flight.unread())
                {
                    lock(self.flights.get()).remove(flight);
                }
            }
            None => lock(self.flights.get()).remove(flight),
        }
    }
}
