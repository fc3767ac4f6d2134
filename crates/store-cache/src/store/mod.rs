//! The store with a cache in front of the home store.

mod counts;
mod doubts;
mod pieces;
mod prefetch;
mod warm;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drystone_format::cache_unit::MAX_UNIT;
use drystone_format::keys;
use drystone_store::{LocalFiles, Pending, PerProcess, PutMode, Reply, Request, Result, Store, Upload};

use crate::flight::Flights;
use crate::folder::{CacheState, Folder};
use crate::generation::parse;
use crate::index::Index;
use crate::plain_names::PlainNames;
use counts::{Tally, add};
use doubts::{Doubts, is_first};
use pieces::{Piece, Place};

pub use counts::Counts;
pub use prefetch::MOST_HELD;
pub use warm::Warmed;

/// Longest request of a prefetch, in bytes; several are under way at once.
const LONGEST: u64 = 4 << 20;
/// Number of recently loaded units that [`CacheStore::evict_recent`] removes.
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
    /// Locks of these are held while a folder is listed, or a reply is awaited. A forked child begins with none.
    index: PerProcess<Mutex<Index>>,
    flights: PerProcess<Mutex<Flights>>,
    doubts: Mutex<Doubts>,
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

/// A read that waits for the home store, until this value is dropped.
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

    /// Like [`new`](Self::new); `is_cached` decides which objects are cached. Their bytes must not change after they
    /// were read.
    pub fn for_keys(
        home: Arc<dyn Store>,
        uuid: [u8; 16],
        folder: Option<Folder>,
        is_cached: fn(&str) -> bool,
    ) -> Self {
        let shared = Shared {
            home: Arc::new(PlainNames { inner: home }),
            uuid,
            folder,
            is_cached,
            index: PerProcess::new(),
            flights: PerProcess::new(),
            doubts: Mutex::default(),
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

    /// The warning that the folder was removed and cannot be made again; once.
    pub fn take_warning(&self) -> Option<String> {
        self.shared.folder.as_ref().and_then(Folder::take_warning)
    }

    /// Removes the units that were loaded recently, after a reader has found bytes that differ from the manifest.
    /// Returns whether there were any. If so, a repeated read goes to the home store.
    pub fn evict_recent(&self) -> bool {
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

    /// Whether reads of an object go through the cache: a log part, or the name of a generation.
    fn is_cached(&self, key: &str) -> bool {
        (self.is_cached)(key) || parse(key).is_some()
    }

    /// Keeps bytes that the home store sent; bytes of a generation are held until it is known whether they belong to
    /// it.
    fn keep(&self, era: u64, key: &str, offset: u64, bytes: &[u8], prefetched: u64) -> bool {
        if parse(key).is_none() {
            return self.keep_verified(era, key, offset, bytes, prefetched);
        }
        if self.folder.is_some() {
            self.hold(key, offset, bytes);
        }
        false
    }

    /// The length of a generation from its name, if the folder has its first bytes and none of its bytes are in doubt.
    fn known_len(&self, key: &str) -> Option<u64> {
        let generation = parse(key).filter(|_| !self.is_in_doubt(key))?;
        let first = generation.first.len() as u64;
        (self.held(key, &(0..first)) == first).then_some(generation.length)
    }

    /// Keeps bytes of an object, requested in era `era`, in the folder. If `prefetched` is not 0, they count as not
    /// read yet. Returns `false` unless all are kept.
    fn keep_verified(&self, era: u64, key: &str, offset: u64, bytes: &[u8], prefetched: u64) -> bool {
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
            lock(self.index.get()).added(key, &(at..end), unread);
            at = end;
        }
        true
    }

    fn remove(&self, key: &str, unit: &Range<u64>) {
        if let Some(folder) = &self.folder {
            folder.remove(&self.uuid, key, unit);
        }
        lock(self.index.get()).removed(key, unit);
    }

    /// Records that an object was changed, or is about to be.
    fn changes(&self, key: &str) {
        if !(self.is_cached)(key) {
            return;
        }
        self.era.fetch_add(1, Ordering::SeqCst);
        lock(self.flights.get()).forget(key);
        lock(self.index.get()).forget(key);
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
    // Begins before the cache is examined, so that no prefetch begins to fetch the same bytes.
    let waits = Waits::begin(shared);
    let pieces: Vec<Vec<Piece>> =
        ranges.iter().zip(ends).map(|((offset, _), end)| shared.pieces(&key, &(*offset..end))).collect();
    pieces.iter().for_each(|pieces| shared.note_read(pieces));
    let of_home = pieces.iter().flatten().filter(|piece| matches!(piece.from, Place::Home));
    let holes: Vec<(u64, usize)> =
        of_home.map(|piece| (piece.range.start, (piece.range.end - piece.range.start) as usize)).collect();
    let confirms =
        matches!(ranges.as_slice(), [(offset, len)] if is_first(*offset, *len)) && !holes.is_empty();
    let asked_first = confirms.then(|| shared.asks_first());
    let doubted = if holes.is_empty() || confirms { None } else { shared.doubted(&key) };
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
        let _until_kept = (waits, doubted);
        let outcome = match outcome {
            Err(error) if holes == ranges => Err(error),
            // The request is repeated as the caller made it, so that an error names the requested ranges.
            Err(_) => return shared.home.submit(Request::ReadMany { key, ranges, buffers: spare }).wait(),
            Ok(reply) => Ok(reply.into_buffers()),
        };
        let buffers = shared.assemble((era, &key), &ranges, &pieces, outcome?, spare)?;
        if let (Some(asked), Some(first)) = (asked_first, buffers.first()) {
            shared.settle(&key, asked, first);
        }
        Ok(Reply::Read { buffers })
    })
}

impl Store for CacheStore {
    drystone_store::forward! {
        shared.home =>
        features, describe, device, watch, unchanged, read_whole, list, sweep, sync, exec
    }

    fn len(&self, key: &str) -> Result<u64> {
        self.shared.known_len(key).map_or_else(|| self.shared.home.len(key), Ok)
    }

    /// Returns `None`, since every read goes through the cache.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let shared = &self.shared;
        let Some(end) = offset.checked_add(out.len() as u64).filter(|_| !out.is_empty()) else {
            return shared.home.read(key, offset, out);
        };
        if !shared.is_cached(key) {
            return shared.home.read(key, offset, out);
        }
        let era = shared.now();
        let waits = Waits::begin(shared);
        let pieces = shared.pieces(key, &(offset..end));
        shared.note_read(&pieces);
        if let [Piece { from: Place::Home, .. }] = pieces.as_slice() {
            let confirms = is_first(offset, out.len());
            let asked = if confirms { shared.asks_first() } else { 0 };
            let _doubted = if confirms { None } else { shared.doubted(key) };
            shared.home.read(key, offset, out)?;
            shared.keep(era, key, offset, out, 0);
            if confirms {
                shared.settle(key, asked, out);
            }
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
            Request::Len { ref key } if parse(key).is_some() => match shared.known_len(key) {
                Some(len) => Pending::completed(Ok(Reply::Len { len })),
                None => shared.home.submit(request),
            },
            Request::ReadMany { key, ranges, buffers } if shared.is_cached(&key) && !ranges.is_empty() => {
                read_many(shared, key, ranges, buffers)
            }
            Request::Expect { key, ranges } if shared.is_cached(&key) => {
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
