//! A store that injects failures, and models what each of them leaves behind.
//!
//! It forwards every request to an inner store, injects the faults of its [`Script`], and keeps a model of the medium:
//! what is durable, and what was changed since. After any request a test can get the state that a killed process or a
//! power cut would leave ([`FaultStore::survivor`]), open it, and check the guarantees.
//!
//! The script and its seed determine everything, so the same run leaves the same survivor. One lock orders all
//! requests; runs with several threads differ only in that order.

mod medium;
mod random;
mod script;

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::counting::{Tally, add};
use crate::request::end_within;
use crate::{
    Counters, Features, ListEntry, LocalFiles, MemoryStore, Pending, PutMode, Request, Result, Store,
    StoreError, StoreExt, Upload, validate_key, validate_prefix,
};
use medium::{Change, Medium};
use random::Xorshift;
pub use script::{Fault, Script};

/// A store that injects faults before `inner`, which must not be changed by other means meanwhile.
///
/// Share it by reference or `Arc`. A *change* is an append, a write inside an object, a put, a delete or a
/// sync. Changes and reads are numbered separately, from 0, in the order of arrival.
#[derive(Debug)]
pub struct FaultStore<S = MemoryStore> {
    inner: S,
    tally: Tally,
    state: Mutex<FaultState>,
}

#[derive(Debug)]
struct FaultState {
    script: Script,
    random: Xorshift,
    changes: u64,
    reads: u64,
    /// Number of requests so far: the clock of delayed listings.
    requests: u64,
    bytes_left: Option<u64>,
    created_at: HashMap<String, u64>,
    medium: Medium,
    survivor: Option<MemoryStore>,
}

impl FaultStore<MemoryStore> {
    /// An empty store in memory with these faults.
    pub fn in_memory(script: Script) -> Self {
        Self::with_medium(MemoryStore::new(), script, Medium::default())
    }
}

impl<S: Store> FaultStore<S> {
    /// Wraps a store. Its present objects are read into memory, and count as durable.
    pub fn new(inner: S, script: Script) -> Result<Self> {
        let mut medium = Medium::default();
        for entry in inner.list("")? {
            let bytes = inner.read_all(&entry.key, u64::MAX)?;
            medium.begin_with(entry.key, bytes);
        }
        Ok(Self::with_medium(inner, script, medium))
    }

    fn with_medium(inner: S, script: Script, medium: Medium) -> Self {
        let state = FaultState {
            random: Xorshift::new(script.seed),
            bytes_left: script.space,
            script,
            changes: 0,
            reads: 0,
            requests: 0,
            created_at: HashMap::new(),
            medium,
            survivor: None,
        };
        FaultStore { inner, tally: Tally::default(), state: Mutex::new(state) }
    }

    /// The requests so far by kind, including those that failed.
    pub fn counters(&self) -> Counters {
        self.tally.counters()
    }

    /// The number of changes requested so far. To crash a run at each change, run it once, then try every
    /// number below this one.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Kills the process now. Completed requests keep their effects; all later requests fail.
    pub fn kill(&self) {
        self.state().end(None);
    }

    /// Cuts the power now. Synced data stays; `seed` determines what remains of other data; all later requests fail.
    /// After a [`Fault::Crash`], it applies to the state that the crash left.
    pub fn power_cut(&self, seed: u64) {
        self.state().end(Some(seed));
    }

    /// The surviving state, as a new store. Before any crash or power cut: the state that a kill would leave now.
    pub fn survivor(&self) -> MemoryStore {
        let state = self.state();
        let left = state.survivor.clone().unwrap_or_else(|| state.medium.after_kill());
        // A copy, since each caller may change its survivor.
        copy_of(&left)
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn io_error(&self, key: &str, operation: &'static str, kind: io::ErrorKind, what: &str) -> StoreError {
        let source = io::Error::new(kind, what.to_owned());
        StoreError::Io { key: key.to_owned(), store: self.describe(), operation, source }
    }

    /// Admits a request that changes nothing.
    fn admit(&self) -> Result<MutexGuard<'_, FaultState>> {
        let mut state = self.state();
        if state.survivor.is_some() {
            return Err(self.closed());
        }
        state.requests += 1;
        Ok(state)
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed {
            store: self.describe(),
            reason: "its process was killed, or the power cut, by the test",
        }
    }

    /// Executes a change with the fault that is due, if any. `apply` makes the change in the inner store and describes
    /// it. `tear` picks what remains of a change that stops midway: in a crash, or if only some bytes fit.
    fn change(
        &self,
        key: &str,
        operation: &'static str,
        grows_by: u64,
        apply: impl FnOnce() -> Result<Change>,
        tear: impl FnOnce(&mut Xorshift, Option<u64>) -> Option<Change>,
    ) -> Result<()> {
        let mut state = self.admit()?;
        let number = state.changes;
        state.changes += 1;
        let FaultState { script, random, bytes_left, .. } = &mut *state;
        let mut fault = script.at_change(number, random);
        if bytes_left.is_some_and(|left| left < grows_by) {
            fault = fault.or(Some(Fault::NoSpace));
        }
        match fault {
            Some(Fault::Fail) => {
                return Err(self.io_error(key, operation, io::ErrorKind::Other, "injected failure"));
            }
            Some(Fault::Crash) => {
                if let Some(change) = tear(&mut state.random, None) {
                    state.done(change);
                }
                state.end(None);
                return Err(self.closed());
            }
            Some(Fault::NoSpace) => {
                let room = state.bytes_left.unwrap_or_else(|| state.random.below(grows_by.max(1)));
                if let Some(change) = tear(&mut state.random, Some(room)) {
                    self.apply_torn(&change)?;
                    state.done(change);
                    state.bytes_left = state.bytes_left.map(|left| left.saturating_sub(room));
                }
                let (key, store) = (key.to_owned(), self.describe());
                return Err(StoreError::NoSpace { key, store, operation });
            }
            Some(Fault::LostReply | Fault::ShortRead) | None => {}
        }
        let change = apply()?;
        state.bytes_left = state.bytes_left.map(|left| left.saturating_sub(grows_by));
        state.done(change);
        match fault {
            Some(Fault::LostReply) => Err(self.io_error(
                key,
                operation,
                io::ErrorKind::ConnectionReset,
                "injected loss of the reply",
            )),
            _ => Ok(()),
        }
    }

    fn apply_torn(&self, change: &Change) -> Result<()> {
        match change {
            Change::Append { key, at, data } => self.inner.append(key, *at, &[data]),
            Change::Inside { key, parts, len } => self.inner.write_at(key, &borrowed(parts), *len),
            _ => Ok(()),
        }
    }

    /// Whether the inner store would accept the append. A torn append that it refuses leaves nothing.
    fn would_append(&self, key: &str, at: u64) -> bool {
        match self.inner.len(key) {
            Ok(len) => at != 0 && len == at,
            Err(_) => at == 0,
        }
    }
}

impl FaultState {
    fn done(&mut self, change: Change) {
        let now = self.requests;
        match &change {
            Change::Append { key, at: 0, .. } => drop(self.created_at.insert(key.clone(), now)),
            Change::Put { key, .. } => drop(self.created_at.entry(key.clone()).or_insert(now)),
            Change::Delete { key } => drop(self.created_at.remove(key)),
            _ => {}
        }
        self.medium.apply(change);
    }

    fn end(&mut self, power_cut: Option<u64>) {
        self.survivor = Some(match power_cut {
            None => self.medium.after_kill(),
            Some(seed) => self.medium.after_power_cut(&mut Xorshift::new(seed)),
        });
    }
}

fn borrowed(parts: &[(u64, Vec<u8>)]) -> Vec<(u64, &[u8])> {
    parts.iter().map(|(at, data)| (*at, &data[..])).collect()
}

fn copy_of(store: &MemoryStore) -> MemoryStore {
    let copy = MemoryStore::new();
    for entry in store.list("").expect("memory can be listed") {
        let bytes = store.read_all(&entry.key, u64::MAX).expect("what is listed in memory can be read");
        copy.put(&entry.key, &[&bytes], PutMode::Replace, false).expect("what memory held it can hold again");
    }
    copy
}

impl<S: Store> Store for FaultStore<S> {
    crate::forward!(inner => device, watch, unchanged);

    fn features(&self) -> Features {
        // This model implements syncs itself, whatever the inner store does.
        Features { sync: true, uploads: false, ..self.inner.features() }
    }

    fn describe(&self) -> String {
        format!("{} with injected faults", self.inner.describe())
    }

    /// None, whatever the inner store has: faults must be able to hit every request.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn len(&self, key: &str) -> Result<u64> {
        add(&self.tally.lens, 1);
        let _state = self.admit()?;
        self.inner.len(key)
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.tally.read(out.len());
        let mut state = self.admit()?;
        let number = state.reads;
        state.reads += 1;
        let FaultState { script, random, .. } = &mut *state;
        let fault = script.at_read(number, random);
        match fault {
            Some(Fault::Fail | Fault::NoSpace) => {
                return Err(self.io_error(key, "read", io::ErrorKind::Other, "injected failure"));
            }
            Some(Fault::Crash) => {
                state.end(None);
                return Err(self.closed());
            }
            _ => {}
        }
        self.inner.read(key, offset, out)?;
        match fault {
            Some(Fault::ShortRead) if !out.is_empty() => {
                let wanted = out.len();
                let got = state.random.below(wanted as u64);
                // Overwrites the buffer, so that a test fails if its caller uses the buffer in spite of the error.
                out[got as usize..].fill(0xEE);
                let (key, store) = (key.to_owned(), self.describe());
                Err(StoreError::ShortRead { key, store, offset, wanted: wanted as u64, got })
            }
            Some(Fault::LostReply) => {
                out.fill(0xEE);
                Err(self.io_error(key, "read", io::ErrorKind::ConnectionReset, "injected loss of the reply"))
            }
            _ => Ok(()),
        }
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.read_whole_by_length(key, limit)
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        self.tally.append(parts);
        if !self.features().append {
            return self.inner.append(key, at, parts);
        }
        validate_key(key)?;
        let data = parts.concat();
        let whole = data.len() as u64;
        let change = |data: Vec<u8>| Change::Append { key: key.to_owned(), at, data };
        let apply = || {
            self.inner.append(key, at, parts)?;
            Ok(change(data.clone()))
        };
        let tear = |random: &mut Xorshift, room: Option<u64>| {
            let left = room.map_or_else(|| random.below(whole + 1), |room| room.min(whole)) as usize;
            self.would_append(key, at).then(|| change(data[..left].to_vec()))
        };
        self.change(key, "append to", whole, apply, tear)
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        parts.iter().for_each(|(_, data)| self.tally.append(&[data]));
        if !self.features().write_at {
            return self.inner.write_at(key, parts, len);
        }
        validate_key(key)?;
        let whole = parts.iter().map(|(_, data)| data.len() as u64).sum();
        let change = |parts: Vec<(u64, Vec<u8>)>| Change::Inside { key: key.to_owned(), parts, len };
        let apply = || {
            self.inner.write_at(key, parts, len)?;
            Ok(change(parts.iter().map(|(at, data)| (*at, data.to_vec())).collect()))
        };
        let tear = |random: &mut Xorshift, room: Option<u64>| {
            let mut left = room.map_or_else(|| random.below(whole + 1), |room| room.min(whole)) as usize;
            let first = |(at, data): &(u64, &[u8])| {
                let kept = data.len().min(left);
                left -= kept;
                (*at, data[..kept].to_vec())
            };
            let torn = parts.iter().map(first).collect();
            self.inner
                .len(key)
                .is_ok_and(|found| found <= len && end_within(parts, len))
                .then(|| change(torn))
        };
        self.change(key, "write to", whole, apply, tear)
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        let data = parts.concat();
        self.tally.put(data.len(), sync);
        validate_key(key)?;
        let change = |sync| Change::Put { key: key.to_owned(), data: data.clone(), sync };
        let apply = || {
            self.inner.put(key, parts, mode, sync)?;
            Ok(change(sync))
        };
        // If the put stops midway, the name may exist. With sync, the bytes were durable before the name.
        let tear = |random: &mut Xorshift, room: Option<u64>| {
            let refused = mode == PutMode::IfAbsent && self.inner.exists(key).unwrap_or(false);
            (room.is_none() && !refused && random.one_in(2)).then(|| change(sync))
        };
        self.change(key, "put", data.len() as u64, apply, tear)
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        validate_key(key)?;
        Err(StoreError::Unsupported {
            operation: format!("upload in pieces (of '{key}')"),
            store: self.describe(),
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        add(&self.tally.lists, 1);
        validate_prefix(prefix)?;
        let state = self.admit()?;
        let mut entries = self.inner.list(prefix)?;
        let is_visible = |created: &u64| state.requests.saturating_sub(*created) > state.script.list_delay;
        entries.retain(|entry| state.created_at.get(&entry.key).is_none_or(is_visible));
        Ok(entries)
    }

    fn delete(&self, key: &str) -> Result<()> {
        add(&self.tally.deletes, 1);
        validate_key(key)?;
        let change = || Change::Delete { key: key.to_owned() };
        let apply = || {
            self.inner.delete(key)?;
            Ok(change())
        };
        let tear = |random: &mut Xorshift, room: Option<u64>| {
            (room.is_none() && self.inner.exists(key).unwrap_or(false) && random.one_in(2)).then(change)
        };
        self.change(key, "delete", 0, apply, tear)
    }

    fn sweep(&self, prefix: &str, older: std::time::Duration) -> Result<u64> {
        let _state = self.admit()?;
        self.inner.sweep(prefix, older)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        add(&self.tally.syncs, 1);
        keys.iter().try_for_each(|key| validate_key(key))?;
        let change =
            |count: usize| Change::Sync { keys: keys[..count].iter().map(|&key| key.to_owned()).collect() };
        let apply = || {
            self.inner.sync(keys)?;
            Ok(change(keys.len()))
        };
        let tear = |random: &mut Xorshift, room: Option<u64>| {
            room.is_none().then(|| change(random.below(keys.len() as u64 + 1) as usize))
        };
        self.change(keys.first().unwrap_or(&""), "sync", 0, apply, tear)
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        add(&self.tally.execs, 1);
        let _state = self.admit()?;
        self.inner.exec(key, method, input)
    }

    fn submit(&self, request: Request) -> Pending {
        Pending::completed(request.execute_on(self))
    }
}
