//! The store with a cache in front of the home store.

mod counts;
mod pieces;
mod prefetch;
mod warm;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drystone_format::cache_unit::MAX_UNIT;
use drystone_format::keys;
use drystone_store::{LocalFiles, Pending, PutMode, Reply, Request, Result, Store, Upload};

use crate::flight::Flights;
use crate::folder::{CacheState, Folder};
use crate::index::Index;
use counts::{Tally, add};
use pieces::{Piece, Place};

pub use counts::Counts;
pub use prefetch::MOST_HELD;
pub use warm::Warmed;

/// Longest request of a prefetch, in bytes; several are under way at once.
const LONGEST: u64 = 4 << 20;
/// Number of recently loaded units that [`CacheStore::distrust`] removes.
const LOADED: usize = 4096;

/// A store whose log parts are cached: in a folder, if there is one, and in memory while they are prefetched. All other
/// requests go to the home store.
#[derive(Debug, Clone)]
pub struct CacheStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    home: Arc<dyn Store>,
    uuid: [u8; 16],
    folder: Option<Folder>,
    is_cached: fn(&str) -> bool,
    index: Mutex<Index>,
    flights: Mutex<Flights>,
    /// Number of reads that wait for the home store.
    waiting: AtomicUsize,
    /// Number of reads that have waited since the store was opened.
    begun: AtomicU64,
    /// Number of callers that bypass the cache.
    bypassed: AtomicUsize,
    /// Number of changes of cached objects through this store. Bytes that were requested before a change are not kept.
    era: AtomicU64,
    loaded: Mutex<Vec<(String, Range<u64>)>>,
    tally: Tally,
}

/// A read that waits for the home store, until it is dropped.
#[derive(Debug)]
struct Waits(Arc<Shared>);

impl Waits {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        shared.begun.fetch_add(1, Ordering::SeqCst);
        Waits(Arc::clone(shared))
    }
}

/// While this value exists, the home store answers every read, and nothing is kept.
#[derive(Debug)]
pub struct Bypass(Arc<Shared>);

impl Drop for Bypass {
    fn drop(&mut self) {
        self.0.bypassed.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a key is a segment of a log, whose bytes never change once a manifest names them, or a pack of log parts,
/// which never changes at all.
fn is_segment(key: &str) -> bool {
    match keys::parse_log_pack(key) {
        Some(_) => true,
        None => key.starts_with("log/") && key.ends_with(".seg") && keys::parse_log(key).is_some(),
    }
}

impl CacheStore {
    /// A cache in front of the home store of a container. Without a folder, only prefetched bytes are held, in memory.
    pub fn new(home: Arc<dyn Store>, uuid: [u8; 16], folder: Option<Folder>) -> Self {
        Self::for_keys(home, uuid, folder, is_segment)
    }

    /// The same, with another rule for which objects are cached: their bytes must not change once they were read.
    pub fn for_keys(
        home: Arc<dyn Store>,
        uuid: [u8; 16],
        folder: Option<Folder>,
        is_cached: fn(&str) -> bool,
    ) -> Self {
        let shared = Shared {
            home,
            uuid,
            folder,
            is_cached,
            index: Mutex::default(),
            flights: Mutex::default(),
            waiting: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            bypassed: AtomicUsize::new(0),
            era: AtomicU64::new(0),
            loaded: Mutex::default(),
            tally: Tally::default(),
        };
        CacheStore { shared: Arc::new(shared) }
    }

    /// Lets the home store answer every read, for callers that verify the bytes there.
    pub fn bypass(&self) -> Bypass {
        self.shared.bypassed.fetch_add(1, Ordering::SeqCst);
        Bypass(Arc::clone(&self.shared))
    }

    /// The state of the folder, if there is one.
    pub fn state(&self) -> Option<CacheState> {
        self.shared.folder.as_ref().map(Folder::state)
    }

    /// Removes the units that were loaded recently, after a reader has found bytes that differ from the manifest.
    /// Returns whether there were any; then another attempt of the read goes to the home store.
    pub fn distrust(&self) -> bool {
        let shared = &self.shared;
        let loaded = std::mem::take(&mut *lock(&shared.loaded));
        for (key, unit) in &loaded {
            shared.remove(key, unit);
            add(&shared.tally.repaired, 1);
        }
        !loaded.is_empty()
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.era.load(Ordering::SeqCst)
    }

    /// Keeps bytes of an object in the folder, of which this many were prefetched. They were requested in era `era`.
    /// Returns `false` if they are incomplete.
    fn keep(&self, era: u64, key: &str, offset: u64, bytes: &[u8], prefetched: u64) -> bool {
        let Some(folder) = self.folder.as_ref().filter(|_| self.bypassed.load(Ordering::SeqCst) == 0) else {
            return false;
        };
        let mut at = offset;
        for part in bytes.chunks(MAX_UNIT as usize) {
            let end = at + part.len() as u64;
            if self.now() != era {
                return false;
            }
            if !folder.keep((&self.uuid, key), at, part) {
                add(&self.tally.failures, 1);
                return false;
            }
            if self.now() != era {
                folder.remove(&self.uuid, key, &(at..end));
                return false;
            }
            let unread = if prefetched > 0 { part.len() as u64 } else { 0 };
            lock(&self.index).added(key, &(at..end), unread);
            at = end;
        }
        true
    }

    fn remove(&self, key: &str, unit: &Range<u64>) {
        if let Some(folder) = &self.folder {
            folder.remove(&self.uuid, key, unit);
        }
        lock(&self.index).removed(key, unit);
    }

    /// Records that an object was changed, or is about to be.
    fn changes(&self, key: &str) {
        if !(self.is_cached)(key) {
            return;
        }
        self.era.fetch_add(1, Ordering::SeqCst);
        lock(&self.flights).forget(key);
        lock(&self.index).forget(key);
        if let Some(folder) = &self.folder
            && let Some((units, _)) = folder.look(&Folder::dir(&self.uuid, key))
        {
            units.iter().for_each(|unit| folder.remove(&self.uuid, key, &unit));
        }
    }
}

/// Reads several ranges through the cache.
fn read_many(shared: &Arc<Shared>, key: String, ranges: Vec<(u64, usize)>, buffers: Vec<Vec<u8>>) -> Pending {
    let end = |&(offset, len): &(u64, usize)| offset.checked_add(len as u64).filter(|_| len > 0);
    let Some(ends) = ranges.iter().map(end).collect::<Option<Vec<u64>>>() else {
        return shared.home.submit(Request::ReadMany { key, ranges, buffers }); // the home store reports what is wrong
    };
    let era = shared.now();
    // before the cache is examined, so that no prefetch begins to fetch the same bytes
    let waits = Waits::begin(shared);
    let pieces: Vec<Vec<Piece>> =
        ranges.iter().zip(ends).map(|((offset, _), end)| shared.pieces(&key, &(*offset..end))).collect();
    pieces.iter().for_each(|pieces| shared.note_read(pieces));
    let of_home = pieces.iter().flatten().filter(|piece| matches!(piece.from, Place::Home));
    let holes: Vec<(u64, usize)> =
        of_home.map(|piece| (piece.range.start, (piece.range.end - piece.range.start) as usize)).collect();
    let (asked, waits, spare) = if holes.is_empty() {
        drop(waits);
        (Pending::completed(Ok(Reply::Read { buffers: Vec::new() })), None, buffers)
    } else {
        let whole = holes == ranges;
        let (given, spare) = if whole { (buffers, Vec::new()) } else { (Vec::new(), buffers) };
        let request = Request::ReadMany { key: key.clone(), ranges: holes.clone(), buffers: given };
        (shared.home.submit(request), Some(waits), spare)
    };
    if shared.folder.is_none() && holes == ranges {
        return asked.then(move |outcome| {
            drop(waits);
            outcome
        });
    }
    let shared = Arc::clone(shared);
    asked.then(move |outcome| {
        let _waits = waits; // until the bytes are kept
        let outcome = match outcome {
            Err(error) if holes == ranges => Err(error),
            // For a range with a hole the home store reports the error for the requested range.
            Err(_) => return shared.home.submit(Request::ReadMany { key, ranges, buffers: spare }).wait(),
            Ok(reply) => Ok(reply.into_buffers()),
        };
        let buffers = shared.assemble((era, &key), &ranges, &pieces, outcome?, spare)?;
        Ok(Reply::Read { buffers })
    })
}

impl Store for CacheStore {
    drystone_store::forward! {
        shared.home =>
        features, describe, device, watch, unchanged, len, read_whole, list, sweep, sync, exec
    }

    /// None: every read goes through the cache.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let shared = &self.shared;
        let Some(end) = offset.checked_add(out.len() as u64).filter(|_| !out.is_empty()) else {
            return shared.home.read(key, offset, out);
        };
        if !(shared.is_cached)(key) {
            return shared.home.read(key, offset, out);
        }
        let era = shared.now();
        let waits = Waits::begin(shared);
        let pieces = shared.pieces(key, &(offset..end));
        shared.note_read(&pieces);
        if let [Piece { from: Place::Home, .. }] = pieces.as_slice() {
            shared.home.read(key, offset, out)?;
            shared.keep(era, key, offset, out, 0);
            return Ok(());
        }
        drop(waits);
        for piece in &pieces {
            let range = (piece.range.start - offset) as usize..(piece.range.end - offset) as usize;
            let Some(part) = out.get_mut(range) else { continue };
            if shared.fill(key, piece, part) {
                continue;
            }
            let waits = Waits::begin(shared);
            if shared.home.read(key, piece.range.start, part).is_err() {
                // The error is reported for the requested range.
                return shared.home.read(key, offset, out);
            }
            shared.keep(era, key, piece.range.start, part, 0);
            drop(waits);
        }
        Ok(())
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        if at == 0 {
            self.shared.changes(key);
        }
        self.shared.home.append(key, at, parts)
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        let done = self.shared.home.write_at(key, parts, len);
        self.shared.changes(key);
        done
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        let done = self.shared.home.put(key, parts, mode, sync);
        self.shared.changes(key);
        done
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        self.shared.changes(key);
        self.shared.home.upload(key)
    }

    fn delete(&self, key: &str) -> Result<()> {
        let done = self.shared.home.delete(key);
        self.shared.changes(key);
        done
    }

    fn submit(&self, request: Request) -> Pending {
        let shared = &self.shared;
        match request {
            Request::ReadMany { key, ranges, buffers } if (shared.is_cached)(&key) && !ranges.is_empty() => {
                read_many(shared, key, ranges, buffers)
            }
            Request::Expect { key, ranges } if (shared.is_cached)(&key) => {
                let missing = |&(at, len): &(u64, u64)| {
                    let end = at.saturating_add(len);
                    let holes = shared.holes(&key, &(at..end));
                    holes.into_iter().map(|hole| (hole.start, hole.end - hole.start)).collect::<Vec<_>>()
                };
                let ranges: Vec<(u64, u64)> = ranges.iter().flat_map(missing).collect();
                match ranges.is_empty() {
                    true => Pending::completed(Ok(Reply::Expected { needless: true })),
                    false => shared.home.submit(Request::Expect { key, ranges }),
                }
            }
            Request::Put { ref key, .. } | Request::Delete { ref key } => {
                let (key, shared) = (key.clone(), Arc::clone(shared));
                shared.changes(&key);
                let home = Arc::clone(&shared.home);
                home.submit(request).then(move |outcome| {
                    shared.changes(&key);
                    outcome
                })
            }
            other => shared.home.submit(other),
        }
    }
}
