//! Log parts that lie in packs, read as if each of their files were an object of its own (docs/format/log-packs.md).
//!
//! [`PackedLogs`] stands before the store of a container with the feature `log-packs`. Requests for files of log parts go
//! through it; all others pass.
//!
//! Invariants
//! - a pack holds the bytes of closed parts, which never change, so it does not matter where a reader finds them;
//! - the directory is put before anything is deleted: a file that is missing is found in the directory read after that;
//! - packs are merged: a missing pack is looked for in a newer directory, and is damage only if that still names it.

mod local;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use drystone_format::log_packs::{Directory, MAX_DIRECTORY, MAX_TABLE, PackRef, Packed, Table};
use drystone_format::{Corrupt, frame, keys};
use drystone_store::{
    ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store, StoreError, StoreExt,
};

use crate::base::sync::lock;

/// The feature of a container whose log parts may lie in packs.
pub(crate) const FEATURE: &str = "log-packs";

/// The most newer directories in which a pack is looked for that was deleted.
const TRIES: usize = 8;

/// A handle that asks a far store for this many log parts looks at the directory before it asks for more: fewer parts are
/// hardly ever packed, and then each is asked for in vain first.
const MANY: usize = 8;

/// A store whose log parts may lie in packs.
#[derive(Debug, Clone)]
pub(crate) struct PackedLogs {
    inner: Arc<dyn Store>,
    uuid: [u8; 16],
    is_far: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    known: Arc<Known>,
    /// The bytes of the directory that it was read from.
    bytes: Vec<u8>,
    looked: bool,
    /// Log parts that were asked for before the directory of a far store was looked at.
    asked: HashSet<(u64, u32)>,
    begun: Option<Begun>,
}

/// A directory whose tables are being read.
#[derive(Debug)]
struct Begun {
    bytes: Vec<u8>,
    directory: Directory,
    tables: Vec<Pending>,
}

/// What a directory names.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) packs: Vec<PackRef>,
    /// Tables of the packs that are sound. What others hold is reported as missing where it is needed.
    tables: HashMap<u64, Arc<Table>>,
    parts: HashMap<(u64, u32), (u64, Packed)>,
}

/// Where the bytes of a file of a log part are.
#[derive(Debug, Clone)]
struct Place {
    pack: String,
    at: u64,
    length: u64,
}

impl Known {
    fn place(&self, (writer, part, is_idx): (u64, u32, bool)) -> Option<Place> {
        let (pack, packed) = self.parts.get(&(writer, part))?;
        let (at, length) = if is_idx { packed.idx } else { packed.segment };
        (length > 0).then(|| Place { pack: keys::log_pack(*pack), at, length })
    }

    /// The files in packs, and their lengths.
    pub(crate) fn files(&self) -> Vec<(String, u64)> {
        let of = |packed: &Packed| {
            let (writer, part) = (packed.writer, packed.part);
            [(keys::idx(writer, part), packed.idx.1), (keys::segment(writer, part), packed.segment.1)]
        };
        let files = self.parts.values().flat_map(|(_, packed)| of(packed));
        files.filter(|(_, length)| *length > 0).collect()
    }

    /// Whether a pack holds this part.
    pub(crate) fn has(&self, writer: u64, part: u32) -> bool {
        self.parts.contains_key(&(writer, part))
    }

    /// The table of a pack.
    pub(crate) fn table(&self, pack: u64) -> Option<&Arc<Table>> {
        self.tables.get(&pack)
    }
}

impl Place {
    /// Fails unless the file has the range.
    fn check(&self, key: &str, store: &dyn Store, offset: u64, wanted: usize) -> Result<()> {
        if offset.checked_add(wanted as u64).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        let (key, store, got) = (key.to_owned(), store.describe(), self.length.saturating_sub(offset));
        Err(StoreError::ShortRead { key, store, offset, wanted: wanted as u64, got })
    }

    fn check_all(&self, key: &str, store: &dyn Store, ranges: &[(u64, usize)]) -> Result<Vec<(u64, usize)>> {
        ranges.iter().try_for_each(|(offset, len)| self.check(key, store, *offset, *len))?;
        Ok(ranges.iter().map(|(offset, len)| (self.at + offset, *len)).collect())
    }
}

impl PackedLogs {
    pub(crate) fn over(inner: Arc<dyn Store>, uuid: [u8; 16]) -> Arc<Self> {
        let is_far = inner.features().far.is_some();
        Arc::new(PackedLogs { inner, uuid, is_far, state: Arc::default() })
    }

    /// The store without packs.
    pub(crate) fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// Takes the directory that was read together with the identity, and begins to read the tables of its packs. So they
    /// arrive together with the manifest.
    pub(crate) fn begin(&self, reply: Result<Reply>) {
        let bytes = match reply {
            Ok(Reply::Whole { bytes: Ok(bytes) }) => bytes,
            Err(StoreError::NotFound { .. }) => {
                // A file that is packed later is missing, and then the directory is looked at.
                lock(&self.state).looked = true;
                return;
            }
            _ => return,
        };
        // A damaged one is read again, and rebuilt, when a file is asked for.
        let found = Directory::decode(&bytes).ok().filter(|directory| directory.uuid == self.uuid);
        let Some(directory) = found else { return };
        let tables = directory.packs.iter().map(|pack| self.inner.submit(table_request(pack))).collect();
        lock(&self.state).begun = Some(Begun { bytes, directory, tables });
    }

    /// Takes the tables that [`begin`](Self::begin) asked for. If one is missing, its pack was merged since, and the
    /// directory is read again when a file is asked for.
    fn arrive(&self) -> Result<()> {
        let Some(begun) = lock(&self.state).begun.take() else { return Ok(()) };
        let replies = begun.tables.into_iter().map(Pending::wait).collect();
        let (known, missing) = self.assembled(begun.directory, replies, &Known::default())?;
        let mut state = lock(&self.state);
        if !missing && !state.looked {
            (state.known, state.bytes, state.looked) = (Arc::new(known), begun.bytes, true);
        }
        Ok(())
    }

    /// What the directory named when it was read last.
    pub(crate) fn known(&self) -> Arc<Known> {
        lock(&self.state).known.clone()
    }

    /// What the directory names now.
    pub(crate) fn look(&self) -> Result<Arc<Known>> {
        // Most containers have none, and asking for a length is faster than reading.
        if !self.is_far && lock(&self.state).bytes.is_empty() && !self.inner.exists(keys::LOG_PACKS)? {
            return Ok(self.known());
        }
        self.arrive()?;
        lock(&self.state).looked = true;
        let mut gone = 0;
        loop {
            let bytes = match self.inner.read_whole(keys::LOG_PACKS, MAX_DIRECTORY) {
                Ok(bytes) => bytes.unwrap_or_default(),
                Err(StoreError::NotFound { .. }) => return Ok(self.known()),
                Err(e) => return Err(e),
            };
            let before = {
                let state = lock(&self.state);
                if bytes == state.bytes {
                    return Ok(state.known.clone());
                }
                state.known.clone()
            };
            let found = Directory::decode(&bytes).ok().filter(|directory| directory.uuid == self.uuid);
            let directory = match found {
                Some(directory) => directory,
                None => rebuilt(self.inner.as_ref(), &self.uuid)?,
            };
            let (known, missing) = self.load(directory, &before)?;
            // It was merged into another one after the directory was read.
            if missing && gone < TRIES {
                gone += 1;
                continue;
            }
            let mut state = lock(&self.state);
            (state.known, state.bytes) = (Arc::new(known), bytes);
            return Ok(state.known.clone());
        }
    }

    /// Reads the tables that are not known, and whether one of the packs does not exist.
    fn load(&self, directory: Directory, before: &Known) -> Result<(Known, bool)> {
        let new = directory.packs.iter().filter(|pack| !before.tables.contains_key(&pack.id));
        let replies = self.inner.together(new.map(table_request).collect());
        self.assembled(directory, replies, before)
    }

    /// What a directory names, with the replies for the tables that were not known before, and whether one of its packs
    /// does not exist.
    fn assembled(
        &self,
        directory: Directory,
        replies: Vec<Result<Reply>>,
        before: &Known,
    ) -> Result<(Known, bool)> {
        let mut known = Known { packs: directory.packs, ..Known::default() };
        let new = known.packs.iter().filter(|pack| !before.tables.contains_key(&pack.id));
        let (mut tables, mut missing) = (HashMap::new(), false);
        for (pack, reply) in new.zip(replies) {
            match reply.map(Reply::into_buffers) {
                Ok(buffers) => {
                    let table = buffers.first().and_then(|bytes| Table::decode(bytes).ok());
                    if let Some(table) = table.filter(|table| is_named(table, pack, &self.uuid)) {
                        tables.insert(pack.id, Arc::new(table));
                    }
                }
                Err(StoreError::NotFound { .. }) => missing = true,
                Err(StoreError::ShortRead { .. }) => {} // damaged: verify says so
                Err(e) => return Err(e),
            }
        }
        for pack in &known.packs {
            let Some(table) = tables.get(&pack.id).or_else(|| before.tables.get(&pack.id)) else { continue };
            known.tables.insert(pack.id, table.clone());
            let parts = table.parts.iter().map(|part| ((part.writer, part.part), (pack.id, *part)));
            known.parts.extend(parts);
        }
        Ok((known, missing))
    }

    /// What is known before a far store is asked for a file of this part.
    fn known_for(&self, (writer, part, _): (u64, u32, bool)) -> Result<Arc<Known>> {
        if self.is_far {
            self.arrive()?;
            let mut state = lock(&self.state);
            if !state.looked && state.asked.insert((writer, part)) && state.asked.len() >= MANY {
                drop(state);
                return self.look();
            }
        }
        Ok(self.known())
    }

    /// Calls `act` with the place of a file of a log part, or `None` where it is an object of its own; for every other key
    /// with `None`.
    fn with<T>(&self, key: &str, mut act: impl FnMut(Option<&Place>) -> Result<T>) -> Result<T> {
        let Some(file) = keys::parse_log(key) else { return act(None) };
        let mut known = self.known_for(file)?;
        for _ in 0..TRIES {
            let place = known.place(file);
            let done = act(place.as_ref());
            if !matches!(done, Err(StoreError::NotFound { .. })) {
                return done;
            }
            let newer = self.look()?;
            let now = newer.place(file);
            match (&place, &now) {
                (None, None) => return done,
                (Some(before), Some(now)) if before.pack == now.pack => {
                    return Err(damaged(&now.pack, self.inner.as_ref(), "it is missing"));
                }
                _ => known = newer,
            }
        }
        act(None)
    }

    /// The object that holds a range of an object, and the range in it.
    pub(crate) fn placed_range(&self, key: String, range: Range<u64>) -> Result<(String, Range<u64>)> {
        let Some(file) = keys::parse_log(&key) else { return Ok((key, range)) };
        self.arrive()?;
        let looked = lock(&self.state).looked;
        let known = if looked { self.known() } else { self.look()? };
        Ok(match known.place(file) {
            Some(place) => {
                let end = range.end.min(place.length);
                (place.pack, place.at + range.start.min(end)..place.at + end)
            }
            None => (key, range),
        })
    }

    /// The objects that must be synced so that these survive: what lies in packs is on stable storage.
    fn unsynced<'a>(&self, wanted: &[&'a str]) -> Vec<&'a str> {
        let known = self.known();
        let is_packed = |key: &str| keys::parse_log(key).is_some_and(|file| known.place(file).is_some());
        wanted.iter().copied().filter(|key| !is_packed(key)).collect()
    }

    /// Syncs what does not lie in packs.
    fn sync_by(&self, wanted: &[&str], mut sync: impl FnMut(&[&str]) -> Result<()>) -> Result<()> {
        match sync(&self.unsynced(wanted)) {
            // It was packed after the directory was looked at.
            Err(StoreError::NotFound { key, .. }) if keys::parse_log(&key).is_some() => {
                self.look()?;
                sync(&self.unsynced(wanted))
            }
            other => other,
        }
    }

    /// The directory for a list that was just made: what was missing in the list is in it. A look at a far store would cost
    /// each commit a round trip, and a commit needs no parts that are closed: what needs them looks first.
    fn after_list(&self) -> Result<Arc<Known>> {
        if !self.is_far {
            return self.look();
        }
        self.arrive()?;
        Ok(self.known())
    }

    /// A list of objects below `log/`, with the files in packs as if they were objects. The directory was read after it.
    fn shown(&self, prefix: &str, mut listed: Vec<ListEntry>, known: &Known) -> Vec<ListEntry> {
        let is_packed = |key: &str| keys::parse_log(key).is_some_and(|(w, part, _)| known.has(w, part));
        listed.retain(|item| {
            item.key != keys::LOG_PACKS && keys::parse_log_pack(&item.key).is_none() && !is_packed(&item.key)
        });
        let files = known.files().into_iter().filter(|(key, _)| key.starts_with(prefix));
        listed.extend(files.map(|(key, len)| ListEntry { key, len }));
        listed.sort();
        listed
    }

    fn refuse_packed(&self, key: &str) -> Result<()> {
        let known = self.known();
        match keys::parse_log(key).and_then(|file| known.place(file)) {
            Some(_) => Err(StoreError::Unsupported {
                operation: format!("changing '{key}', which is packed"),
                store: self.inner.describe(),
            }),
            None => Ok(()),
        }
    }

    /// The same request to the pack that holds the file, `None` if no part of it makes sense there.
    fn placed(&self, request: &Request, place: &Place) -> Option<Result<Request>> {
        let store = self.inner.as_ref();
        Some(match request {
            Request::ReadMany { key, ranges, .. } => place
                .check_all(key, store, ranges)
                .map(|ranges| Request::read_many(place.pack.clone(), ranges)),
            Request::Expect { ranges, .. } => {
                let ranges = ranges.iter().map(|(offset, len)| (place.at.saturating_add(*offset), *len));
                Ok(Request::Expect { key: place.pack.clone(), ranges: ranges.collect() })
            }
            _ => return None,
        })
    }
}

/// The request for the table of a pack.
fn table_request(pack: &PackRef) -> Request {
    Request::read_many(keys::log_pack(pack.id), vec![(0, pack.table.min(MAX_TABLE) as usize)])
}

/// Whether a table is that of the pack that a directory names.
fn is_named(table: &Table, pack: &PackRef, uuid: &[u8; 16]) -> bool {
    let said = (pack.id, pack.parts, pack.length);
    table.uuid == *uuid && (table.id, table.parts.len() as u64, table.length) == said
}

fn damaged(key: &str, store: &dyn Store, what: &str) -> StoreError {
    StoreError::Damaged { key: key.to_owned(), store: store.describe(), reason: what.to_owned() }
}

/// The table of a pack and the length of its frame, as its own bytes describe it.
pub(crate) fn read_table(store: &dyn Store, id: u64) -> Result<(Table, u64)> {
    let key = keys::log_pack(id);
    let say = |found: Corrupt| damaged(&key, store, &format!("byte {}: {}", found.at, found.what));
    let header = store.read_vec(&key, 0, frame::HEADER)?;
    let length = Table::table_length(&header).map_err(say)?;
    let bytes = store.read_vec(&key, 0, length.min(MAX_TABLE) as usize)?;
    let table = Table::decode(&bytes).map_err(say)?;
    match table.id == id {
        true => Ok((table, length)),
        false => Err(damaged(&key, store, "it is another pack")),
    }
}

/// A directory of the packs that exist. What two of them hold has the same bytes in both.
pub(crate) fn rebuilt(store: &dyn Store, uuid: &[u8; 16]) -> Result<Directory> {
    let mut packs = Vec::new();
    for item in store.list("log/")? {
        let Some(id) = keys::parse_log_pack(&item.key) else { continue };
        let Ok((table, length)) = read_table(store, id) else { continue };
        if table.uuid == *uuid && table.length == item.len {
            packs.push(PackRef { id, parts: table.parts.len() as u64, table: length, length: item.len });
        }
    }
    Ok(Directory { uuid: *uuid, packs })
}

impl Store for PackedLogs {
    drystone_store::forward! {
        inner =>
        features, describe, device, watch, unchanged, upload, delete, sweep
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        self.inner.local().map(|_| self as &dyn LocalFiles)
    }

    fn len(&self, key: &str) -> Result<u64> {
        self.with(key, |place| match place {
            Some(place) => Ok(place.length),
            None => self.inner.len(key),
        })
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.with(key, |place| match place {
            Some(place) => {
                place.check(key, self.inner.as_ref(), offset, out.len())?;
                self.inner.read(&place.pack, place.at + offset, out)
            }
            None => self.inner.read(key, offset, out),
        })
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.with(key, |place| match place {
            Some(place) => match usize::try_from(place.length) {
                Ok(fits) if place.length <= limit => self.inner.read_vec(&place.pack, place.at, fits).map(Ok),
                _ => Ok(Err(place.length)),
            },
            None => self.inner.read_whole(key, limit),
        })
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        self.refuse_packed(key)?;
        self.inner.append(key, at, parts)
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        self.refuse_packed(key)?;
        self.inner.write_at(key, parts, len)
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        self.refuse_packed(key)?;
        self.inner.put(key, parts, mode, sync)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        let listed = self.inner.list(prefix)?;
        // A caller that lists everything wants to see the packs themselves.
        if !prefix.starts_with("log/") {
            return Ok(listed);
        }
        Ok(self.shown(prefix, listed, &*self.after_list()?))
    }

    fn sync(&self, wanted: &[&str]) -> Result<()> {
        self.sync_by(wanted, |keys| self.inner.sync(keys))
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        self.with(key, |place| match place {
            // A program's ranges are those of an object of its own: the caller reads them.
            Some(_) => Err(StoreError::Unsupported {
                operation: format!("running a method on '{key}', which is packed"),
                store: self.inner.describe(),
            }),
            None => self.inner.exec(key, method, input),
        })
    }

    fn submit(&self, request: Request) -> Pending {
        let key = match &request {
            Request::List { prefix } if prefix.starts_with("log/") => {
                let (this, prefix) = (self.clone(), prefix.clone());
                return self.inner.submit(request).then(move |reply| match reply? {
                    Reply::Listed { entries } => {
                        let known = this.after_list()?;
                        Ok(Reply::Listed { entries: this.shown(&prefix, entries, &known) })
                    }
                    other => Ok(other),
                });
            }
            Request::Sync { keys: some } if some.iter().any(|key| keys::parse_log(key).is_some()) => {
                let names: Vec<&str> = some.iter().map(String::as_str).collect();
                if self.unsynced(&names).len() < names.len() {
                    return Pending::completed(request.execute_on(self));
                }
                return self.inner.submit(request);
            }
            Request::ReadMany { key, .. }
            | Request::Expect { key, .. }
            | Request::Len { key }
            | Request::ReadWhole { key, .. }
            | Request::Exec { key, .. } => key,
            _ => return self.inner.submit(request),
        };
        let Some(file) = keys::parse_log(key) else { return self.inner.submit(request) };
        let place = match self.known_for(file) {
            Ok(known) => known.place(file),
            Err(e) => return Pending::completed(Err(e)),
        };
        if let Some(place) = &place {
            return match self.placed(&request, place) {
                Some(Ok(placed)) => {
                    let this = self.clone();
                    let again = again(&request);
                    self.inner.submit(placed).then(move |reply| this.or_moved(reply, again))
                }
                Some(Err(e)) => Pending::completed(Err(e)),
                None => Pending::completed(request.execute_on(self)),
            };
        }
        let again = again(&request);
        let this = self.clone();
        self.inner.submit(request).then(move |reply| this.or_moved(reply, again))
    }
}

impl PackedLogs {
    /// The outcome of a request, which is repeated if the file was moved meanwhile.
    fn or_moved(&self, reply: Result<Reply>, again: Option<Request>) -> Result<Reply> {
        match (reply, again) {
            (Err(StoreError::NotFound { .. }), Some(again)) => again.execute_on(self),
            (reply, _) => reply,
        }
    }
}

/// The same request once more, of those that read.
fn again(request: &Request) -> Option<Request> {
    match request {
        Request::ReadMany { key, ranges, .. } => Some(Request::read_many(key.clone(), ranges.clone())),
        Request::Len { key } => Some(Request::Len { key: key.clone() }),
        Request::ReadWhole { key, limit } => Some(Request::ReadWhole { key: key.clone(), limit: *limit }),
        _ => None,
    }
}
