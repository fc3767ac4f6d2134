//! The store over the tiers and home.
//!
//! Invariants
//! - a part lies in one tier at most; home may have it, too;
//! - a tier gives up a part only after home has all of it on stable storage, and nobody pinned it;
//! - what home answers is never refused because a tier failed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drystone_plan::tier::drain::{self, Waiting};
use drystone_plan::tier::evict::{self, Copy};
use drystone_plan::tier::place::{Placed, Room, place};
use drystone_store::{
    Features, ListEntry, LocalFiles, Pending, PutMode, Request, Result, Store, StoreError, StoreExt,
    validate_key, validate_prefix,
};

use crate::staged::{Staged, crc32c};
use crate::tier::{Tier, TierState, is_failure};

/// What a drain did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    /// Parts that were brought home.
    pub parts: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A store whose log parts lie in tiers before they are at home.
#[derive(Debug)]
pub struct TieredStore {
    home: Arc<dyn Store>,
    tiers: Vec<Tier>,
    is_part: fn(&str) -> bool,
    staged: Mutex<BTreeMap<String, Staged>>,
    /// Numbers events: closing, reading.
    now: AtomicU64,
    reads: Vec<AtomicU64>,
}

/// Keys that lie in tiers: the parts of logs.
fn is_log_part(key: &str) -> bool {
    key.starts_with("log/")
}

impl TieredStore {
    /// Tiers, nearest first, over the home of a container.
    pub fn new(tiers: Vec<Tier>, home: Arc<dyn Store>) -> Self {
        Self::for_keys(tiers, home, is_log_part)
    }

    /// The same, with another rule of which keys lie in tiers.
    pub fn for_keys(tiers: Vec<Tier>, home: Arc<dyn Store>, is_part: fn(&str) -> bool) -> Self {
        let reads = tiers.iter().map(|_| AtomicU64::new(0)).collect();
        let staged = Mutex::default();
        TieredStore { home, tiers, is_part, staged, now: AtomicU64::new(1), reads }
    }

    /// Takes over what earlier processes left in the tiers; how many parts. To be called before the store is used.
    pub fn adopt(&self) -> Result<usize> {
        let home: BTreeMap<String, u64> =
            self.home.list("")?.into_iter().map(|entry| (entry.key, entry.len)).collect();
        let mut staged = self.lock();
        for (number, tier) in self.tiers.iter().enumerate() {
            // A tier that cannot be listed is set aside: what it holds is looked for at home.
            let Ok(found) = tier.doing(|store| store.list("")) else { continue };
            for entry in found.into_iter().filter(|entry| (self.is_part)(&entry.key)) {
                let at_home = home.get(&entry.key).copied();
                if at_home.is_some_and(|len| len > entry.len) {
                    // The tier failed while the part grew, and the part went on at home: what the tier kept is its beginning.
                    let _ = tier.doing(|store| store.delete(&entry.key));
                    continue;
                }
                let one = Staged {
                    len: entry.len,
                    crc: None,
                    closed: Some(0),
                    home: at_home,
                    ..Staged::new(number)
                };
                let longer = staged.get(&entry.key).is_none_or(|known: &Staged| known.len < entry.len);
                if longer {
                    staged.insert(entry.key, one);
                }
            }
        }
        Ok(staged.len())
    }

    /// The part is complete: it may be drained.
    pub fn close_part(&self, key: &str) {
        let now = self.tick();
        if let Some(one) = self.lock().get_mut(key) {
            one.closed.get_or_insert(now);
        }
    }

    /// Closed parts that home does not have, in the order in which they will be drained.
    pub fn waiting(&self) -> Vec<Waiting> {
        let staged = self.lock();
        let waits = |(key, one): (&String, &Staged)| {
            let closed = one.closed.filter(|_| !one.is_home())?;
            Some(Waiting { closed, key: key.clone(), bytes: one.len })
        };
        drain::order(staged.iter().filter_map(waits).collect())
    }

    /// Brings closed parts home, oldest first, as long as `go_on` says so before each.
    pub fn drain(&self, mut go_on: impl FnMut() -> bool) -> Result<Drained> {
        let mut done = Drained::default();
        for part in self.waiting() {
            if !go_on() {
                break;
            }
            self.bring_home(&part.key)?;
            done.parts += 1;
            done.bytes += part.bytes;
        }
        Ok(done)
    }

    /// Syncs at home the parts that are there; from then on tiers may give them up.
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

    /// Keeps the part in its tier until it was unpinned as often; whether it lies in one.
    pub fn pin(&self, key: &str) -> bool {
        self.lock().get_mut(key).map(|one| one.pinned = one.pinned.saturating_add(1)).is_some()
    }

    /// Takes one [`pin`](Self::pin) back.
    pub fn unpin(&self, key: &str) {
        if let Some(one) = self.lock().get_mut(key) {
            one.pinned = one.pinned.saturating_sub(1);
        }
    }

    /// A row per tier.
    pub fn tiers(&self) -> Vec<TierState> {
        let staged = self.lock();
        let row = |(number, tier): (usize, &Tier)| {
            let of = |wanted: fn(&Staged) -> bool| {
                staged.values().filter(|one| one.tier == number && wanted(one)).map(|one| one.len).sum()
            };
            TierState {
                place: tier.store.describe(),
                bytes: of(|_| true),
                undrained: of(|one| !one.is_home()),
                reads: self.reads.get(number).map_or(0, |reads| reads.load(Ordering::Relaxed)),
                aside: tier.health.aside(),
            }
        };
        self.tiers.iter().enumerate().map(row).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Staged>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::Relaxed)
    }

    fn find(&self, key: &str) -> Option<Staged> {
        self.lock().get(key).cloned()
    }

    fn tier(&self, number: usize, key: &str) -> Result<&Tier> {
        self.tiers.get(number).ok_or_else(|| self.not_found(key))
    }

    fn not_found(&self, key: &str) -> StoreError {
        StoreError::NotFound { key: key.to_owned(), store: self.describe() }
    }

    fn rooms(&self) -> Vec<Room> {
        let copies = self.copies();
        let sum = |number: usize, all: bool| -> u64 {
            let mine = copies.iter().filter(|(tier, _)| *tier == number);
            mine.filter(|(_, copy)| all || copy.drained && !copy.pinned).map(|(_, copy)| copy.bytes).sum()
        };
        let tiers = self.tiers.iter().enumerate();
        tiers.map(|(number, tier)| tier.room(sum(number, true), sum(number, false))).collect()
    }

    fn copies(&self) -> Vec<(usize, Copy)> {
        let copy = |(key, one): (&String, &Staged)| {
            let drained = one.is_home() && one.stable && one.closed.is_some();
            let (bytes, pinned) = (one.len, one.pinned > 0);
            (one.tier, Copy { key: key.clone(), bytes, drained, pinned, uses: one.uses, used: one.used })
        };
        self.lock().iter().map(copy).collect()
    }

    /// Gives up copies of a tier.
    fn make_room(&self, number: usize, need: u64) {
        let copies: Vec<Copy> =
            self.copies().into_iter().filter(|(tier, _)| *tier == number).map(|(_, copy)| copy).collect();
        for gone in evict::evict(&copies, need) {
            // Readers go home from here on; a read under way finishes or goes home, too.
            self.lock().remove(&gone.key);
            if let Some(tier) = self.tiers.get(number) {
                let _ = tier.doing(|store| store.delete(&gone.key));
            }
        }
    }

    /// Where `need` more bytes go, from this tier on, after room was made for them.
    fn choose(&self, need: u64, from: usize) -> Placed {
        let mut placed = place(need, &self.rooms(), from);
        if placed == Placed::Home && !self.home.features().append {
            // Home takes whole parts only: what is closed goes there now, and leaves room.
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

    /// Copies the whole part home, unless it is there.
    fn bring_home(&self, key: &str) -> Result<()> {
        let Some(one) = self.find(key) else { return Ok(()) };
        if one.is_home() {
            return Ok(());
        }
        let mut bytes = self.tier(one.tier, key)?.doing(|store| store.read_all(key, u64::MAX))?;
        // A part that grows meanwhile is copied as it was.
        bytes.truncate(usize::try_from(one.len).unwrap_or(usize::MAX));
        if one.crc.is_some_and(|crc| crc.finalize() != crc32c(&bytes)) {
            return Err(self.damaged(key, one.tier, "its bytes are not those that were written"));
        }
        let mode = if one.home.is_some() { PutMode::Replace } else { PutMode::IfAbsent };
        match self.home.put(key, &[&bytes], mode, false) {
            Ok(()) => {}
            Err(StoreError::AlreadyExists { .. }) => {
                let there = self.home.read_all(key, u64::MAX)?;
                if there != bytes {
                    return Err(self.damaged(key, one.tier, "home has another object of that name"));
                }
            }
            Err(other) => return Err(other),
        }
        if let Some(now) = self.lock().get_mut(key) {
            now.home = Some(one.len);
        }
        Ok(())
    }

    fn damaged(&self, key: &str, tier: usize, what: &str) -> StoreError {
        StoreError::Io {
            key: key.to_owned(),
            store: self.tiers.get(tier).map_or_else(|| self.describe(), |tier| tier.store.describe()),
            operation: "drain",
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("{what}; keep the tier's folder and run recover()"),
            ),
        }
    }

    /// Adds to a part where it lies, or moves it down until it can be added to.
    fn extend(&self, key: &str, one: Staged, parts: &[&[u8]]) -> Result<()> {
        let done = self.tier(one.tier, key)?.doing(|store| store.append(key, one.len, parts));
        let error = match done {
            Ok(()) => {
                if let Some(now) = self.lock().get_mut(key) {
                    now.grew(parts);
                    now.closed = None;
                }
                return Ok(());
            }
            Err(error) if is_failure(&error) || matches!(error, StoreError::NoSpace { .. }) => error,
            Err(other) => return Err(other),
        };
        // What was added before the failure is not known: only the first `len` bytes are the part.
        let kept = usize::try_from(one.len).unwrap_or(usize::MAX);
        let tier = self.tier(one.tier, key)?;
        let before = tier.store.read_vec(key, 0, kept);
        let Ok(before) = before else {
            return Err(error);
        };
        let mut all: Vec<&[u8]> = vec![&before];
        all.extend_from_slice(parts);
        self.lock().remove(key);
        let moved = self.begin(key, &all, one.tier + 1, one.home);
        match moved {
            Ok(()) => {
                let _ = tier.store.delete(key);
                Ok(())
            }
            Err(_) => {
                self.lock().insert(key.to_owned(), one);
                Err(error)
            }
        }
    }

    /// Makes a part in the first tier from `from` on that takes it, else at home.
    fn begin(&self, key: &str, parts: &[&[u8]], from: usize, home: Option<u64>) -> Result<()> {
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
                            return Ok(());
                        }
                        Err(error) if is_failure(&error) || matches!(error, StoreError::NoSpace { .. }) => {
                            // It may have left a piece of it.
                            let _ = self.tier(number, key)?.store.delete(key);
                            from = number + 1;
                        }
                        Err(other) => return Err(other),
                    }
                }
                Placed::Home if self.home.features().append && home.is_none() => {
                    return self.home.append(key, 0, parts);
                }
                Placed::Home => {
                    let places: Vec<String> = self.tiers.iter().map(|tier| tier.store.describe()).collect();
                    let store = format!("{} and every tier ({})", self.home.describe(), places.join(", "));
                    return Err(StoreError::NoSpace { key: key.to_owned(), store, operation: "append to" });
                }
            }
        }
    }
}

impl Store for TieredStore {
    fn features(&self) -> Features {
        let home = self.home.features();
        Features { append: true, write_at: false, exec: false, put_is_durable: false, targets: 0, ..home }
    }

    fn describe(&self) -> String {
        self.home.describe()
    }

    fn device(&self) -> Option<String> {
        self.home.device()
    }

    /// None: a part may lie in any tier, and move.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn watch(&self, key: &str) -> Result<bool> {
        self.home.watch(key)
    }

    fn unchanged(&self) -> Result<()> {
        self.home.unchanged()
    }

    fn len(&self, key: &str) -> Result<u64> {
        validate_key(key)?;
        match self.find(key) {
            Some(one) => Ok(one.len),
            None => self.home.len(key),
        }
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        validate_key(key)?;
        let Some(one) = self.find(key) else { return self.home.read(key, offset, out) };
        let tier = self.tier(one.tier, key)?;
        let near = match tier.health.aside() {
            Some(_) if one.is_home() => return self.home.read(key, offset, out),
            _ => tier.doing(|store| store.read(key, offset, out)),
        };
        match near {
            Ok(()) => {
                if let Some(reads) = self.reads.get(one.tier) {
                    reads.fetch_add(1, Ordering::Relaxed);
                }
                let now = self.tick();
                if let Some(one) = self.lock().get_mut(key) {
                    one.uses = one.uses.saturating_add(1);
                    one.used = now;
                }
                Ok(())
            }
            Err(error) => {
                let evicted = self.find(key).is_none();
                if evicted || one.is_home() { self.home.read(key, offset, out) } else { Err(error) }
            }
        }
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        validate_key(key)?;
        match self.find(key) {
            Some(_) => self.read_whole_by_length(key, limit),
            None => self.home.read_whole(key, limit),
        }
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        validate_key(key)?;
        if !(self.is_part)(key) {
            return self.home.append(key, at, parts);
        }
        let found = self.find(key);
        if let Some(one) = found {
            return match at {
                0 => Err(StoreError::AlreadyExists { key: key.to_owned(), store: self.describe() }),
                at if at == one.len => self.extend(key, one, parts),
                at => Err(StoreError::Conflict {
                    key: key.to_owned(),
                    store: self.describe(),
                    expected: at,
                    found: one.len,
                }),
            };
        }
        if at > 0 {
            return self.home.append(key, at, parts);
        }
        if self.home.exists(key)? {
            return Err(StoreError::AlreadyExists { key: key.to_owned(), store: self.describe() });
        }
        self.begin(key, parts, 0, None)
    }

    fn write_at(&self, key: &str, _parts: &[(u64, &[u8])], _len: u64) -> Result<()> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("write_at (to '{key}')"), store: self.describe() })
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        validate_key(key)?;
        let staged = self.find(key);
        if mode == PutMode::IfAbsent && staged.is_some() {
            return Err(StoreError::AlreadyExists { key: key.to_owned(), store: self.describe() });
        }
        self.home.put(key, parts, mode, sync)?;
        if let Some(one) = staged {
            self.lock().remove(key);
            let _ = self.tier(one.tier, key)?.doing(|store| store.delete(key));
        }
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        validate_prefix(prefix)?;
        let mut all: BTreeMap<String, u64> =
            self.home.list(prefix)?.into_iter().map(|entry| (entry.key, entry.len)).collect();
        let staged = self.lock();
        let here = staged.iter().filter(|(key, _)| key.starts_with(prefix));
        all.extend(here.map(|(key, one)| (key.clone(), one.len)));
        Ok(all.into_iter().map(|(key, len)| ListEntry { key, len }).collect())
    }

    fn delete(&self, key: &str) -> Result<()> {
        validate_key(key)?;
        self.home.delete(key)?;
        let removed = self.lock().remove(key);
        match removed {
            Some(one) => self.tier(one.tier, key)?.doing(|store| store.delete(key)),
            None => Ok(()),
        }
    }

    fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
        self.home.sweep(prefix, older)
    }

    /// Brings parts home first: a tier promises nothing about power cuts.
    fn sync(&self, keys: &[&str]) -> Result<()> {
        for key in keys {
            validate_key(key)?;
            match self.find(key) {
                Some(_) => self.bring_home(key)?,
                None if !self.home.exists(key)? => return Err(self.not_found(key)),
                None => {}
            }
        }
        self.home.sync(keys)
    }

    fn exec(&self, key: &str, method: &str, _input: &[u8]) -> Result<Vec<u8>> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("exec of {method}"), store: self.describe() })
    }

    fn submit(&self, request: Request) -> Pending {
        let at_home = match &request {
            Request::ReadMany { key, .. }
            | Request::Expect { key, .. }
            | Request::Len { key }
            | Request::ReadWhole { key, .. } => self.find(key).is_none(),
            Request::Put { key, .. } | Request::Delete { key } => !(self.is_part)(key),
            _ => false,
        };
        if at_home {
            return self.home.submit(request);
        }
        Pending::completed(request.execute_on(self))
    }
}
