//! The store with a cache in front of home.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use drystone_format::cache_unit::MAX_UNIT;
use drystone_format::keys;
use drystone_store::{
    Features, ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store, StoreError, Upload,
};

use crate::flight::{Flight, Flights};
use crate::folder::{CacheState, Folder, Missed};
use crate::index::Index;

/// Prefetched bytes that are on their way to the folder, or that no folder has, take at most this much memory.
pub const MOST_HELD: u64 = 8 << 20;
/// Longest request of a prefetch: several are under way at once.
const LONGEST: u64 = 4 << 20;
/// Units that were loaded lately, which [`CacheStore::distrust`] gives up.
const LOADED: usize = 4096;
/// A prefetch looks so often whether reads still wait for home.
const PATIENCE: Duration = Duration::from_micros(200);

/// What a cache did. The numbers only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ranges of reads that needed nothing from home.
    pub hits: u64,
    /// Ranges of reads for which home was asked.
    pub misses: u64,
    /// Bytes that came from the folder.
    pub hit_bytes: u64,
    /// Bytes that reads waited for from home.
    pub home_bytes: u64,
    /// Bytes that were fetched before they were wanted.
    pub prefetched_bytes: u64,
    /// Those of them that reads wanted.
    pub prefetch_used_bytes: u64,
    /// Units that failed their checksums, or were distrusted, and were fetched again.
    pub repaired: u64,
    /// Units that could not be kept or loaded since the folder was full or failed.
    pub failures: u64,
    /// Bytes that were given up for others.
    pub evicted_bytes: u64,
}

#[derive(Debug, Default)]
struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
    hit_bytes: AtomicU64,
    home_bytes: AtomicU64,
    prefetched_bytes: AtomicU64,
    prefetch_used_bytes: AtomicU64,
    repaired: AtomicU64,
    failures: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// What warming did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Bytes that were wanted.
    pub wanted: u64,
    /// Those of them that were fetched from home.
    pub fetched: u64,
    /// Those that are in the folder now.
    pub held: u64,
}

/// A store whose log parts are cached: in a folder, if there is one, and in memory while they are prefetched. Everything else is home's.
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
    /// Reads that wait for home.
    waiting: AtomicUsize,
    /// Reads that ever did.
    begun: AtomicU64,
    /// Callers that want to know what home has.
    bypassed: AtomicUsize,
    /// Raised whenever a cached object is changed by way of this store: what was asked for before is not kept.
    era: AtomicU64,
    loaded: Mutex<Vec<(String, Range<u64>)>>,
    tally: Tally,
}

/// Where a part of a range comes from.
#[derive(Debug)]
enum Place {
    Home,
    Unit(Range<u64>),
    Flight(Arc<Flight>),
}

#[derive(Debug)]
struct Piece {
    range: Range<u64>,
    from: Place,
}

/// A read that waits for home, until it is dropped.
#[derive(Debug)]
struct Waits(Arc<Shared>);

impl Waits {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        shared.begun.fetch_add(1, Ordering::SeqCst);
        Waits(Arc::clone(shared))
    }
}

/// While this is there, home answers every read, and nothing is kept.
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

/// Segments of logs: what a manifest names of them never changes.
fn is_segment(key: &str) -> bool {
    key.starts_with("log/") && key.ends_with(".seg") && keys::parse_log(key).is_some()
}

impl CacheStore {
    /// In front of the home of a container. Without a folder only prefetched bytes are held, in memory.
    pub fn new(home: Arc<dyn Store>, uuid: [u8; 16], folder: Option<Folder>) -> Self {
        Self::for_keys(home, uuid, folder, is_segment)
    }

    /// The same, with another rule of which objects are cached: those whose bytes, once read, are not changed by others.
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

    /// Lets home answer every read, for whoever checks what home has.
    pub fn bypass(&self) -> Bypass {
        self.shared.bypassed.fetch_add(1, Ordering::SeqCst);
        Bypass(Arc::clone(&self.shared))
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        let (tally, get) = (&self.shared.tally, |counter: &AtomicU64| counter.load(Ordering::Relaxed));
        Counts {
            hits: get(&tally.hits),
            misses: get(&tally.misses),
            hit_bytes: get(&tally.hit_bytes),
            home_bytes: get(&tally.home_bytes),
            prefetched_bytes: get(&tally.prefetched_bytes),
            // Bytes that arrived while they were read may be counted twice.
            prefetch_used_bytes: get(&tally.prefetch_used_bytes).min(get(&tally.prefetched_bytes)),
            repaired: get(&tally.repaired),
            failures: get(&tally.failures),
            evicted_bytes: self.shared.folder.as_ref().map_or(0, Folder::evicted),
        }
    }

    /// The folder as it is now, if there is one.
    pub fn state(&self) -> Option<CacheState> {
        self.shared.folder.as_ref().map(Folder::state)
    }

    /// Bytes that may be prefetched and not read yet.
    pub fn room(&self) -> u64 {
        let of_folder = self.shared.folder.as_ref().filter(|folder| folder.health.aside().is_none());
        of_folder.map_or(MOST_HELD, |folder| (folder.budget() / 4).max(MOST_HELD.min(folder.budget())))
    }

    /// Fetches ranges that are wanted later, in their order, and returns when all are there. Before each request it waits until no read
    /// waits for home, and ends as soon as `go_on` says no. What fails is left to the read.
    pub fn prefetch(&self, wanted: &[(String, Range<u64>)], go_on: &dyn Fn() -> bool) {
        let shared = &self.shared;
        let most = shared.home.features().far.map_or(4, |far| far.requests.max(1)) as usize;
        let mut under_way: Vec<Arc<Flight>> = Vec::new();
        'all: for (key, range) in wanted.iter().filter(|(key, _)| (shared.is_cached)(key)) {
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
                        || !lock(&shared.flights).make_room(len, MOST_HELD)
                    {
                        if under_way.is_empty() {
                            break 'all; // what is held is to be read yet
                        }
                        if !go_on() {
                            break 'all;
                        }
                        shared.land(&under_way.remove(0));
                    }
                    // Looked at again: a read that was waited for may have brought it.
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
        under_way.iter().for_each(|flight| shared.land(flight));
    }

    /// Brings ranges into the folder. `go_on` gets bytes done and bytes in all, and stops it by false. Errors are home's; an object that home
    /// lacks is passed over. Nothing is done without a folder.
    pub fn warm(
        &self,
        wanted: &[(String, Range<u64>)],
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Warmed> {
        let shared = &self.shared;
        let (mut warmed, era) = (Warmed::default(), shared.now());
        let wanted: Vec<_> = wanted.iter().filter(|(key, _)| (shared.is_cached)(key)).collect();
        warmed.wanted = wanted.iter().map(|(_, range)| range.end - range.start).sum();
        let most = shared.home.features().far.map_or(1, |far| far.requests.clamp(1, 8)) as usize;
        let mut holes: Vec<(&str, Range<u64>)> = Vec::new();
        for (key, range) in &wanted {
            for hole in shared.holes(key, range) {
                let parts = (hole.start..hole.end).step_by(LONGEST as usize);
                holes.extend(parts.map(|at| (key.as_str(), at..hole.end.min(at + LONGEST))));
            }
        }
        let missing: u64 = holes.iter().map(|(_, range)| range.end - range.start).sum();
        let mut done = warmed.wanted.saturating_sub(missing);
        for some in holes.chunks(most) {
            if !go_on(done, warmed.wanted) {
                break;
            }
            let ask = |(key, range): &(&str, Range<u64>)| {
                shared
                    .home
                    .submit(Request::read_many(*key, vec![(range.start, (range.end - range.start) as usize)]))
            };
            let pending: Vec<Pending> = some.iter().map(ask).collect();
            for ((key, range), pending) in some.iter().zip(pending) {
                let bytes = match pending.wait() {
                    Ok(reply) => reply.into_buffers().pop().unwrap_or_default(),
                    Err(StoreError::NotFound { .. }) => continue,
                    Err(other) => return Err(other),
                };
                warmed.fetched += bytes.len() as u64;
                done += bytes.len() as u64;
                shared.keep(era, key, range.start, &bytes, 0);
            }
        }
        go_on(done, warmed.wanted);
        warmed.held = wanted.iter().map(|(key, range)| shared.held(key, range)).sum();
        Ok(warmed)
    }

    /// How many bytes of these ranges are in the folder; `None` without one.
    pub fn held(&self, wanted: &[(String, Range<u64>)]) -> Option<u64> {
        self.shared.folder.as_ref()?;
        let cached = wanted.iter().filter(|(key, _)| (self.shared.is_cached)(key));
        Some(cached.map(|(key, range)| self.shared.held(key, range)).sum())
    }

    /// Pins or unpins ranges: units that have a pinned byte are not given up. `false`: there is no folder.
    pub fn pin(&self, wanted: &[(String, Range<u64>)], pinned: bool) -> Result<bool> {
        let shared = &self.shared;
        let Some(folder) = &shared.folder else { return Ok(false) };
        for (key, range) in wanted.iter().filter(|(key, _)| (shared.is_cached)(key)) {
            match pinned {
                true => folder.pin(&shared.uuid, key, range)?,
                false => folder.unpin(&shared.uuid, key, range)?,
            }
        }
        Ok(true)
    }

    /// Gives up the units that were loaded lately: a reader found that bytes are not what a manifest says. Whether there were any: then
    /// the read is worth another try, which home answers.
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

    /// Claims what is missing of a range for a prefetch. From then on reads wait for that. `None`: a read waits or began meanwhile, and
    /// may fetch the same.
    fn claim(&self, key: &str, range: &Range<u64>) -> Option<Vec<Arc<Flight>>> {
        let (begun, era) = (self.begun.load(Ordering::SeqCst), self.now());
        let holes = self.holes(key, range);
        // A read counts itself before it looks at the flights.
        let mut flights = lock(&self.flights);
        if self.waiting.load(Ordering::SeqCst) > 0 || self.begun.load(Ordering::SeqCst) != begun {
            return None;
        }
        let claimed: Vec<_> = holes.into_iter().map(|hole| Arc::new(Flight::new(era, key, hole))).collect();
        claimed.iter().for_each(|flight| flights.add(flight));
        Some(claimed)
    }

    /// The parts of a range that neither the folder nor a flight has.
    fn holes(&self, key: &str, range: &Range<u64>) -> Vec<Range<u64>> {
        let pieces = self.pieces(key, range);
        pieces
            .into_iter()
            .filter(|piece| matches!(piece.from, Place::Home))
            .map(|piece| piece.range)
            .collect()
    }

    /// Bytes of a range that the folder has.
    fn held(&self, key: &str, range: &Range<u64>) -> u64 {
        let pieces = self.pieces(key, range);
        let held = pieces.iter().filter(|piece| matches!(piece.from, Place::Unit(_)));
        held.map(|piece| piece.range.end - piece.range.start).sum()
    }

    /// Cuts a range by where its bytes are.
    fn pieces(&self, key: &str, range: &Range<u64>) -> Vec<Piece> {
        let home = |range: Range<u64>| Piece { range, from: Place::Home };
        if self.bypassed.load(Ordering::SeqCst) > 0 {
            return vec![home(range.clone())];
        }
        let mut pieces = match self.folder.as_ref().filter(|folder| folder.health.aside().is_none()) {
            None => vec![home(range.clone())],
            Some(folder) => {
                let dir = Folder::dir(&self.uuid, key);
                let parts = lock(&self.index).cover(folder, &dir, key, range);
                let piece = |part: drystone_plan::tier::cover::Covered| Piece {
                    range: part.range,
                    from: part.unit.map_or(Place::Home, Place::Unit),
                };
                parts.into_iter().map(piece).collect()
            }
        };
        let flights = lock(&self.flights);
        if flights.is_empty() {
            return pieces;
        }
        let units = flights.units(key);
        let by_flight = |piece: Piece| match piece.from {
            Place::Home => units
                .cover(piece.range)
                .into_iter()
                .map(|part| {
                    let flight = part.unit.and_then(|unit| flights.find(key, &unit));
                    Piece { range: part.range, from: flight.map_or(Place::Home, Place::Flight) }
                })
                .collect(),
            _ => vec![piece],
        };
        pieces = pieces.into_iter().flat_map(by_flight).collect();
        pieces
    }

    /// Keeps bytes of an object in the folder, of which so many were prefetched; they were asked for in this era. `false`: they are not all
    /// there.
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

    /// Waits for a flight, and brings it into the folder, if it goes there.
    fn land(&self, flight: &Arc<Flight>) {
        match flight.bytes() {
            Some(bytes) => {
                if self.folder.is_some()
                    && self.keep(flight.era, &flight.key, flight.range.start, &bytes, flight.unread())
                {
                    lock(&self.flights).remove(flight);
                }
            }
            None => lock(&self.flights).remove(flight),
        }
    }

    /// Fills `out` from a unit. `false`: it cannot, and home is to be asked.
    fn load(&self, key: &str, unit: &Range<u64>, from: u64, out: &mut [u8]) -> bool {
        let Some(folder) = &self.folder else { return false };
        let head = lock(&self.index).note(key, unit).head.clone();
        match folder.load((&self.uuid, key), unit, head, from, out) {
            Ok(head) => {
                add(&self.tally.hit_bytes, out.len() as u64);
                let mut index = lock(&self.index);
                let known = index.note(key, unit);
                known.head.get_or_insert(head);
                let used = known.unread.min(out.len() as u64);
                known.unread -= used;
                let touches = known.touched.is_none_or(|at| at.elapsed() > Folder::touch_after());
                if touches {
                    known.touched = Some(Instant::now());
                }
                drop(index);
                add(&self.tally.prefetch_used_bytes, used);
                if touches {
                    folder.touch(&self.uuid, key, unit);
                }
                let mut loaded = lock(&self.loaded);
                if loaded.last().is_none_or(|(k, u)| k != key || u != unit) {
                    if loaded.len() >= LOADED {
                        loaded.drain(..LOADED / 2);
                    }
                    loaded.push((key.to_owned(), unit.clone()));
                }
                true
            }
            Err(Missed::Failed) => {
                add(&self.tally.failures, 1);
                false
            }
            Err(missed) => {
                if missed == Missed::Damaged {
                    add(&self.tally.repaired, 1);
                }
                self.remove(key, unit);
                false
            }
        }
    }

    /// Fills `out` with a piece that does not come from home. `false`: home is to be asked after all.
    fn fill(&self, key: &str, piece: &Piece, out: &mut [u8]) -> bool {
        match &piece.from {
            Place::Home => false,
            Place::Unit(unit) => self.load(key, unit, piece.range.start, out),
            Place::Flight(flight) => {
                let Some(bytes) = flight.bytes() else { return false };
                let from = (piece.range.start - flight.range.start) as usize;
                let Some(wanted) = bytes.get(from..from + out.len()) else { return false };
                out.copy_from_slice(wanted);
                add(&self.tally.prefetch_used_bytes, flight.was_read(out.len() as u64));
                true
            }
        }
    }

    fn note_read(&self, pieces: &[Piece]) {
        let of_home = pieces.iter().filter(|piece| matches!(piece.from, Place::Home));
        let bytes: u64 = of_home.map(|piece| piece.range.end - piece.range.start).sum();
        add(if bytes == 0 { &self.tally.hits } else { &self.tally.misses }, 1);
        add(&self.tally.home_bytes, bytes);
    }

    /// The buffers of ranges of which home gave some pieces, in their order.
    fn assemble(
        &self,
        (era, key): (u64, &str),
        ranges: &[(u64, usize)],
        pieces: &[Vec<Piece>],
        from_home: Vec<Vec<u8>>,
        mut spare: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut from_home = from_home.into_iter();
        let mut buffers = Vec::with_capacity(ranges.len());
        for (&(offset, len), pieces) in ranges.iter().zip(pieces) {
            if let [Piece { from: Place::Home, .. }] = pieces.as_slice() {
                let bytes = from_home.next().unwrap_or_default();
                self.keep(era, key, offset, &bytes, 0);
                buffers.push(bytes);
                continue;
            }
            let mut buffer = spare.pop().unwrap_or_default();
            if buffer.capacity() < len {
                buffer = vec![0; len];
            } else {
                buffer.resize(len, 0);
            }
            for piece in pieces {
                let start = (piece.range.start - offset) as usize;
                let end = (piece.range.end - offset) as usize;
                let Some(out) = buffer.get_mut(start..end) else { continue };
                if matches!(piece.from, Place::Home) {
                    let bytes = from_home.next().unwrap_or_default();
                    if bytes.len() == out.len() {
                        out.copy_from_slice(&bytes);
                        self.keep(era, key, piece.range.start, &bytes, 0);
                        continue;
                    }
                } else if self.fill(key, piece, out) {
                    continue;
                }
                self.home.read(key, piece.range.start, out)?;
                self.keep(era, key, piece.range.start, out, 0);
            }
            buffers.push(buffer);
        }
        Ok(buffers)
    }

    /// The object is changed, or about to be.
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

/// Reads several ranges by way of the cache.
fn read_many(shared: &Arc<Shared>, key: String, ranges: Vec<(u64, usize)>, buffers: Vec<Vec<u8>>) -> Pending {
    let end = |&(offset, len): &(u64, usize)| offset.checked_add(len as u64).filter(|_| len > 0);
    let Some(ends) = ranges.iter().map(end).collect::<Option<Vec<u64>>>() else {
        return shared.home.submit(Request::ReadMany { key, ranges, buffers }); // home says what is wrong
    };
    let era = shared.now();
    let waits = Waits::begin(shared); // before it looks: no prefetch begins to fetch the same
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
        let _waits = waits; // until what came is kept
        let outcome = match outcome {
            Err(error) if holes == ranges => Err(error),
            // Of a range with a hole home says what is wrong as it was asked for.
            Err(_) => return shared.home.submit(Request::ReadMany { key, ranges, buffers: spare }).wait(),
            Ok(reply) => Ok(reply.into_buffers()),
        };
        let buffers = shared.assemble((era, &key), &ranges, &pieces, outcome?, spare)?;
        Ok(Reply::Read { buffers })
    })
}

impl Store for CacheStore {
    fn features(&self) -> Features {
        self.shared.home.features()
    }

    fn describe(&self) -> String {
        self.shared.home.describe()
    }

    fn device(&self) -> Option<String> {
        self.shared.home.device()
    }

    /// None: every read goes through the cache.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn watch(&self, key: &str) -> Result<bool> {
        self.shared.home.watch(key)
    }

    fn unchanged(&self) -> Result<()> {
        self.shared.home.unchanged()
    }

    fn len(&self, key: &str) -> Result<u64> {
        self.shared.home.len(key)
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
                // It is said of what was asked for.
                return shared.home.read(key, offset, out);
            }
            shared.keep(era, key, piece.range.start, part, 0);
            drop(waits);
        }
        Ok(())
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.shared.home.read_whole(key, limit)
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

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        self.shared.home.list(prefix)
    }

    fn delete(&self, key: &str) -> Result<()> {
        let done = self.shared.home.delete(key);
        self.shared.changes(key);
        done
    }

    fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
        self.shared.home.sweep(prefix, older)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        self.shared.home.sync(keys)
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        self.shared.home.exec(key, method, input)
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
