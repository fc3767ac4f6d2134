//! The measurement. A probe is written, synced, evicted from the page cache, and read at random places in two sizes,
//! with an increasing number of concurrent reads.
//!
//! Two sizes give the two parameters of a line: the cost of a request and the cost of its bytes. All depths are
//! measured in rounds, and the probe is evicted before each round. If another program uses the machine for a moment,
//! it disturbs one round of some depths rather than all rounds of one depth. A round reads no place twice, and small
//! reads lie far apart, so the read-ahead of one read serves no other. [`settle`] decides which times are used.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use drystone_plan::layout::{Doubt, LARGE, Profile, SMALL, Turns, settle};
use drystone_store::{Arrivals, PutMode, Request, Store, StoreError};

use crate::base::cpus;
use crate::base::random::{id64, now};
use crate::base::sync::lock;
use crate::{Error, Result};

/// The resources that a calibration may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Approximate duration. A request that has begun is awaited.
    pub time: Duration,
    /// The most bytes that are written; at least 16 MiB.
    pub bytes: u64,
}

impl Default for Limits {
    /// The default: 3 seconds, 256 MiB.
    fn default() -> Self {
        Limits { time: Duration::from_secs(3), bytes: 256 << 20 }
    }
}

/// The size in bytes of the pieces in which the probe is written.
const PIECE: u64 = 4 << 20;
/// The fewest pieces that have places for reads of both sizes at all depths.
const FEWEST: u64 = 4;
/// The least distance in bytes between small reads.
const APART: u64 = 128 << 10;
/// The number of rounds.
const TURNS: u32 = 5;
/// The numbers of requests in flight that are measured.
const DEPTHS: [u32; 5] = [1, 2, 4, 8, 16];
/// The same for a far store.
const FAR_DEPTHS: [u32; 5] = [1, 4, 16, 64, 128];
/// The most bytes of large requests in flight on a far store. They fill the link, and memory stays bounded.
const FAR_BYTES: u64 = 28 << 20;
const SYNCS: usize = 16;
const PREFIX: &str = "drystone-probe-";
/// A probe older than this was left by a process that was killed.
const STALE: u64 = 3600 * 1_000_000_000;

pub(super) fn measure(store: &dyn Store, limits: &Limits) -> Result<Profile> {
    if limits.bytes < FEWEST * PIECE || limits.time.is_zero() {
        return Err(Error::invalid("a calibration needs at least 16 MiB and some time"));
    }
    remove_stale(store)?;
    let load = cpus::load();
    let mut probe =
        Probe { store, prefix: format!("{PREFIX}{:016x}-{:016x}", now(), id64()), pieces: Vec::new() };
    let write = probe.write(limits)?;
    let sync = probe.syncs(limits.time / 6)?;
    let (turns, cold) = probe.reads(limits.time / 2)?;
    let (reads, doubt) = settle(&turns);
    if reads.is_empty() {
        return Err(Error::invalid("there was no time to read anything; allow more"));
    }
    let probed = probe.pieces.len() as u64 * PIECE;
    Ok(Profile { reads, write, sync, cold, probed, time: now(), doubt: Doubt { load, ..doubt } })
}

fn remove_stale(store: &dyn Store) -> Result<()> {
    let now = now();
    for entry in store.list(PREFIX)? {
        let born =
            entry.key.get(PREFIX.len()..PREFIX.len() + 16).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        if born.is_some_and(|born| now.saturating_sub(born) > STALE) {
            store.delete(&entry.key)?;
        }
    }
    Ok(())
}

/// The written probe: one object in a store that appends, else one object per piece.
struct Probe<'a> {
    store: &'a dyn Store,
    prefix: String,
    /// Key and offset of each piece.
    pieces: Vec<(String, u64)>,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if let Ok(entries) = self.store.list(&self.prefix) {
            for entry in entries {
                // Objects that cannot be deleted now are deleted by the next calibration.
                let _ = self.store.delete(&entry.key);
            }
        }
    }
}

impl Probe<'_> {
    /// Writes as much as the limits allow. Returns bytes per second, including the sync at the end.
    fn write(&mut self, limits: &Limits) -> Result<f64> {
        let mut data = vec![0u8; PIECE as usize];
        let (mut spent, append) = (Duration::ZERO, self.store.features().append);
        let most = limits.bytes / PIECE;
        while (self.pieces.len() as u64) < most
            && ((self.pieces.len() as u64) < FEWEST || spent < limits.time / 4)
        {
            fill(&mut data, id64());
            let n = self.pieces.len() as u64;
            let begun = Instant::now();
            let piece =
                if append { (self.prefix.clone(), n * PIECE) } else { (format!("{}-{n}", self.prefix), 0) };
            let done = match append {
                true => self.store.append(&piece.0, piece.1, &[&data]),
                false => self.store.put(&piece.0, &[&data], PutMode::IfAbsent, false),
            };
            match done {
                Ok(()) => self.pieces.push(piece),
                // A nearly full disk can still be measured with the pieces that fitted.
                Err(StoreError::NoSpace { .. }) if n >= FEWEST => break,
                Err(e) => return Err(e.into()),
            }
            spent += begun.elapsed();
        }
        let begun = Instant::now();
        self.sync()?;
        spent += begun.elapsed();
        Ok((self.pieces.len() as u64 * PIECE) as f64 / spent.as_secs_f64().max(1e-9))
    }

    fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.pieces.iter().map(|(key, _)| key.as_str()).collect();
        keys.dedup();
        keys
    }

    fn sync(&self) -> Result<()> {
        Ok(self.store.sync(&self.keys())?)
    }

    /// The median duration in seconds of a sync after a small write.
    fn syncs(&self, time: Duration) -> Result<f64> {
        let key = format!("{}-sync", self.prefix);
        let (mut at, data) = (0, [0x5a; 4096]);
        let (mut times, begun) = (Vec::new(), Instant::now());
        while times.len() < SYNCS && (times.is_empty() || begun.elapsed() < time) {
            let one = Instant::now();
            if self.store.features().append {
                self.store.append(&key, at, &[&data])?;
                at += data.len() as u64;
                self.store.sync(&[&key])?;
            } else {
                self.store.put(&key, &[&data], PutMode::Replace, true)?;
            }
            times.push(one.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times.get(times.len() / 2).copied().unwrap_or_default().max(1e-9))
    }

    fn forget(&self) -> Result<Option<bool>> {
        let mut cold = Some(true);
        for key in self.keys() {
            let one = match self.store.local() {
                Some(files) => files.evict(key)?,
                None => None,
            };
            cold = match (cold, one) {
                (Some(a), Some(b)) => Some(a && b),
                _ => None,
            };
        }
        Ok(cold)
    }

    /// Durations of reads, in rounds of all depths, and whether all bytes came from the medium.
    fn reads(&self, time: Duration) -> Result<(Vec<Turns>, Option<bool>)> {
        // A third of the pieces serve small reads, at least one. The order is random, and each place is read once per
        // round.
        let few = (self.pieces.len() / 3).max(1);
        let places = |from: usize, to: usize, apart: u64| {
            let mut all: Vec<(usize, u64)> =
                (from..to).flat_map(|piece| (0..PIECE / apart).map(move |n| (piece, n * apart))).collect();
            all.sort_by_cached_key(|_| id64());
            all
        };
        let is_far = self.store.features().far.is_some();
        let depths = if is_far { FAR_DEPTHS } else { DEPTHS };
        let share = |places: &[(usize, u64)], n: usize| {
            // A far store does not read ahead, so each depth may use all places; the greatest depth needs them.
            let many = if is_far { places.len() } else { places.len() / DEPTHS.len() };
            let from = if is_far { 0 } else { n * many };
            places.get(from..from + many).unwrap_or_default().to_vec()
        };
        let each = time / (2 * TURNS * DEPTHS.len() as u32);
        let mut out = depths.map(|depth| Turns { depth, ..Turns::default() }).to_vec();
        let mut cold = Some(true);
        for _ in 0..TURNS {
            cold = match (cold, self.forget()?) {
                (Some(a), Some(b)) => Some(a && b),
                _ => None,
            };
            let small = places(0, few, APART);
            let large = places(few, self.pieces.len(), LARGE);
            for (n, turns) in out.iter_mut().enumerate() {
                turns.small.extend(self.turn(&share(&small, n), SMALL, turns.depth, each)?);
                turns.large.extend(self.turn(&share(&large, n), LARGE, turns.depth, each)?);
            }
        }
        Ok((out, cold))
    }

    /// Wall-clock seconds per request in one round on a far store, with as many requests in flight as in a real read.
    fn far_turn(&self, places: &[(usize, u64)], len: u64, depth: u32, time: Duration) -> Result<Option<f64>> {
        let depth = u64::from(depth).min(FAR_BYTES / len).max(1) as usize;
        let arrivals = Arc::new(Arrivals::default());
        let mut asked = places.iter().filter_map(|&(piece, at)| Some((self.pieces.get(piece)?, at)));
        let mut submit = || {
            let Some(((key, offset), at)) = asked.next() else { return false };
            let request = Request::read_many(key.clone(), vec![(offset + at, len as usize)]);
            self.store.submit(request).deliver_to(&arrivals, 0);
            true
        };
        let begun = Instant::now();
        let mut under_way = (0..depth).take_while(|_| submit()).count();
        let mut done = 0u64;
        while under_way > 0 {
            let Some((_, outcome)) = arrivals.wait() else { break };
            outcome?;
            (done, under_way) = (done + 1, under_way - 1);
            if begun.elapsed() <= time && submit() {
                under_way += 1;
            }
        }
        Ok((done > 0).then(|| begun.elapsed().as_secs_f64().max(1e-9) / done as f64))
    }

    /// Wall-clock seconds per request in one round.
    fn turn(&self, places: &[(usize, u64)], len: u64, depth: u32, time: Duration) -> Result<Option<f64>> {
        if self.store.features().far.is_some() {
            return self.far_turn(places, len, depth, time);
        }
        let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
        // Threads and their memory are ready before the clock starts.
        let ready = Barrier::new((depth as usize).min(places.len()) + 1);
        let mut spent = Duration::ZERO;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..(depth as usize).min(places.len()))
                .map(|_| {
                    scope.spawn(|| {
                        let mut out = vec![1; len as usize];
                        ready.wait();
                        let begun = Instant::now();
                        while let Some(&(piece, at)) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let enough = begun.elapsed() > time && done.load(Ordering::Relaxed) > 0;
                            let Some((key, offset)) = self.pieces.get(piece).filter(|_| !enough) else {
                                return;
                            };
                            if let Err(e) = self.store.read(key, offset + at, &mut out) {
                                lock(&failed).get_or_insert(e);
                                return;
                            }
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            ready.wait();
            let begun = Instant::now();
            for thread in threads {
                // A panic is ignored: the places of that thread count as unread.
                let _ = thread.join();
            }
            spent = begun.elapsed();
        });
        if let Some(error) = lock(&failed).take() {
            return Err(error.into());
        }
        let done = done.into_inner();
        Ok((done > 0).then(|| spent.as_secs_f64().max(1e-9) / done as f64))
    }
}

/// Bytes that no device can compress.
fn fill(data: &mut [u8], seed: u64) {
    let mut state = seed | 1;
    for word in data.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_store::{DelayStore, LocalStore, MemoryStore, NoAppendStore};

    const LITTLE: Limits = Limits { time: Duration::from_millis(200), bytes: 24 << 20 };

    #[test]
    fn a_calibration_measures_every_store_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let local = LocalStore::create(folder.path()).unwrap();
        let stores: [&dyn Store; 3] = [&local, &MemoryStore::new(), &NoAppendStore::new(MemoryStore::new())];
        for store in stores {
            let profile = measure(store, &LITTLE).unwrap();
            assert!(profile.is_sound(), "{profile}");
            assert_eq!(profile.reads.len(), DEPTHS.len(), "{profile}");
            assert!(profile.is_plausible(), "{profile}");
            assert!(profile.probed <= LITTLE.bytes && profile.probed >= FEWEST * PIECE);
            assert_eq!(store.list("").unwrap(), [], "{}", store.describe());
        }
    }

    /// Symptom: a link of 30 ms was measured with at most 16 requests in flight, so the model never found that a
    /// wider window is faster.
    #[test]
    fn a_far_store_is_measured_up_to_128_requests_under_way() {
        let store = DelayStore::new(MemoryStore::new(), Duration::from_millis(20), 1e9);
        let limits = Limits { time: Duration::from_millis(3000), bytes: 64 << 20 };
        let profile = measure(&store, &limits).unwrap();
        let depths: Vec<u32> = profile.reads.iter().map(|at| at.depth).collect();
        assert_eq!(depths, FAR_DEPTHS);
        let (first, last) = (profile.reads[0].request, profile.reads[4].request);
        assert!(first > 5e-3 && last < first / 4.0, "{profile}");
        assert!(store.peak() >= 64, "{}", store.peak());
    }

    #[test]
    fn a_later_calibration_removes_the_probe_of_a_killed_one() {
        let store = MemoryStore::new();
        let old = format!("{PREFIX}{:016x}-{:016x}", now() - 2 * STALE, 1);
        let young = format!("{PREFIX}{:016x}-{:016x}", now(), 1);
        for key in [&old, &young] {
            store.put(key, &[b"x"], PutMode::IfAbsent, false).unwrap();
        }
        measure(&store, &LITTLE).unwrap();
        let left: Vec<String> = store.list("").unwrap().into_iter().map(|entry| entry.key).collect();
        assert_eq!(left, [young], "another process may be using it");
    }

    #[test]
    fn a_calibration_needs_some_bytes_and_some_time() {
        assert!(measure(&MemoryStore::new(), &Limits { bytes: 1, ..LITTLE }).is_err());
        assert!(measure(&MemoryStore::new(), &Limits { time: Duration::ZERO, ..LITTLE }).is_err());
    }
}
