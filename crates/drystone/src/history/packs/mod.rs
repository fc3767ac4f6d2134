//! Manifests that lie in packs, read as if each were an object of its own (docs/format/packs.md).
//!
//! [`Packed`] stands before the store of a container with the feature `packs`. Requests for manifests go through it; all
//! others pass.
//!
//! Invariants
//! - up to the floor only packs count: an object at or below it was left by a commit that lost, or has been packed;
//! - a version up to the floor that is in no pack has expired: it reads as a tombstone;
//! - the floor is put before anything is deleted. So a put of a manifest is the first of its version exactly if the
//!   floor is below it *after* the put, and a missing version is free only if the floor is below it after the look.

mod local;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use drystone_format::packs::{Floor, MAX_FLOOR, MAX_TABLE, Member, PackRef, Table};
use drystone_format::{Corrupt, frame, keys};
use drystone_store::{
    ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store, StoreError, StoreExt,
};

use crate::base::sync::lock;

/// The last bytes of a tombstone, the object that stands for an expired snapshot. The pages that other snapshots need
/// precede them.
pub(crate) const GONE: &[u8; 4] = b"gone";

/// The feature of a container whose manifests may lie in packs.
pub(crate) const FEATURE: &str = "packs";

/// A pack of at most this many bytes is fetched whole when a far store is opened.
const WHOLE_PACK: u64 = 256 << 10;
/// Of a longer one its table is fetched, which has at most so many bytes and so many for each member, and its end,
/// where its newest members lie.
const TABLE_HEAD: u64 = 128;
const TABLE_MEMBER: u64 = 15;
const LAST_MEMBERS: u64 = 64 << 10;
/// The most packs whose tables are fetched at first. Packs are merged, so there are seldom more.
const MANY_PACKS: usize = 8;

/// The most newer floors in which a pack is looked for that was deleted.
const TRIES: usize = 8;

/// A store whose manifests may lie in packs.
#[derive(Debug)]
pub(crate) struct Packed {
    inner: Arc<dyn Store>,
    uuid: [u8; 16],
    is_far: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    floor: Arc<Floor>,
    /// The bytes it was read from.
    bytes: Vec<u8>,
    tables: HashMap<u64, Arc<Table>>,
}

/// Where a manifest is.
enum Place {
    /// An object of its own, or missing.
    Own,
    In(PackRef, Member),
    /// It has expired, and left no pages.
    Gone,
}

impl Packed {
    pub(crate) fn over(inner: Arc<dyn Store>, uuid: [u8; 16]) -> Arc<Self> {
        let is_far = inner.features().far.is_some();
        Arc::new(Packed { inner, uuid, is_far, state: Mutex::default() })
    }

    /// The store without packs.
    pub(crate) fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// The floor that was seen last.
    pub(crate) fn known(&self) -> Arc<Floor> {
        lock(&self.state).floor.clone()
    }

    /// The floor as it is now.
    pub(crate) fn look(&self) -> Result<Arc<Floor>> {
        // Most containers have none, and asking for a length is faster than reading.
        if !self.is_far && lock(&self.state).bytes.is_empty() && !self.inner.exists(keys::FLOOR)? {
            return Ok(self.known());
        }
        self.take(self.inner.read_whole(keys::FLOOR, MAX_FLOOR))
    }

    /// The request for the floor, to be sent with others; [`take`](Self::take) gets its answer.
    pub(crate) fn request() -> Request {
        Request::ReadWhole { key: keys::FLOOR.into(), limit: MAX_FLOOR }
    }

    /// Takes the floor that was read together with the hint, before anything else. What the packs hold for an opening is
    /// fetched together with the manifests above the floor: the tables, and the newest members, which newer manifests
    /// name pages of.
    pub(crate) fn begin(&self, reply: Result<Reply>) -> Result<()> {
        let floor = match reply {
            Ok(Reply::Whole { bytes }) => self.take(Ok(bytes))?,
            _ => return Ok(()), // it is read again with the manifests
        };
        for (newer, pack) in floor.packs.iter().rev().take(MANY_PACKS).enumerate() {
            let table = TABLE_HEAD.saturating_add(pack.members.saturating_mul(TABLE_MEMBER));
            let table = table.min(pack.length);
            let last = LAST_MEMBERS.min(pack.length - table);
            let ranges = match newer {
                0 if pack.length <= WHOLE_PACK => vec![(0, pack.length)],
                0 => vec![(0, table), (pack.length - last, last)],
                _ => vec![(0, table)],
            };
            drop(self.inner.submit(Request::Expect { key: keys::pack(pack.id), ranges }));
        }
        Ok(())
    }

    /// Passes on a hint for a manifest that may lie in a pack.
    fn expect(&self, key: &str, ranges: Vec<(u64, u64)>) -> Pending {
        let version = keys::parse_manifest(key).unwrap_or(0);
        let hinted = match self.place_in(&self.known(), version) {
            Ok(Place::Own) => Some((key.to_owned(), ranges)),
            Ok(Place::In(pack, member)) => {
                let in_member = ranges
                    .into_iter()
                    .filter(|(at, len)| at.checked_add(*len).is_some_and(|end| end <= member.length));
                Some((keys::pack(pack.id), in_member.map(|(at, len)| (member.offset + at, len)).collect()))
            }
            // The read itself reports what is wrong.
            Ok(Place::Gone) | Err(_) => None,
        };
        match hinted {
            Some((key, ranges)) => self.inner.submit(Request::Expect { key, ranges }),
            None => Pending::completed(Ok(Reply::Expected { needless: true })),
        }
    }

    /// The floor as it was read.
    pub(crate) fn take(&self, read: Result<std::result::Result<Vec<u8>, u64>>) -> Result<Arc<Floor>> {
        let bytes = match read {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(StoreError::NotFound { .. }) => return Ok(self.known()),
            Err(e) => return Err(e),
        };
        let mut state = lock(&self.state);
        if bytes != state.bytes {
            let found = Floor::decode(&bytes).ok().filter(|floor| floor.uuid == self.uuid);
            let floor = match found {
                Some(floor) => floor,
                None => rebuilt(self.inner.as_ref(), &self.uuid)?,
            };
            // The floor never goes down: a lower one is the answer to a slow request.
            if floor.version >= state.floor.version {
                let live = |id: &u64| floor.packs.iter().any(|pack| pack.id == *id);
                state.tables.retain(|id, _| live(id));
                (state.floor, state.bytes) = (Arc::new(floor), bytes);
            }
        }
        Ok(state.floor.clone())
    }

    /// The table of a pack.
    pub(crate) fn table(&self, pack: &PackRef) -> Result<Arc<Table>> {
        if let Some(table) = lock(&self.state).tables.get(&pack.id) {
            return Ok(table.clone());
        }
        let table = Arc::new(read_table(self.inner.as_ref(), pack.id)?);
        let ends = table.members.last().map_or(0, |m| m.offset + m.length);
        let same = (table.uuid, table.first, table.last) == (self.uuid, pack.first, pack.last);
        if !same || ends > pack.length {
            return Err(damaged(&keys::pack(pack.id), self.inner.as_ref(), "it is not what the floor names"));
        }
        lock(&self.state).tables.insert(pack.id, table.clone());
        Ok(table)
    }

    fn place_in(&self, floor: &Floor, version: u64) -> Result<Place> {
        // Version 0 is a container without commits: it has no manifest and has not expired.
        if version == 0 || version > floor.version {
            return Ok(Place::Own);
        }
        let Some(pack) = floor.pack(version) else { return Ok(Place::Gone) };
        Ok(self.table(pack)?.member(version).map_or(Place::Gone, |member| Place::In(*pack, *member)))
    }

    /// Calls `own` with a manifest that is an object of its own, or `packed` with its place in a pack (`None`: it has
    /// expired).
    fn with<T>(
        &self,
        key: &str,
        mut own: impl FnMut() -> Result<T>,
        mut packed: impl FnMut(Option<(&str, u64, u64)>) -> Result<T>,
    ) -> Result<T> {
        let Some(version) = keys::parse_manifest(key) else { return own() };
        let mut floor = self.known();
        for _ in 0..TRIES {
            let done = match self.place_in(&floor, version) {
                Ok(Place::Own) => own(),
                Ok(Place::Gone) => return packed(None),
                Ok(Place::In(pack, member)) => {
                    packed(Some((&keys::pack(pack.id), member.offset, member.length)))
                }
                Err(e) => Err(e),
            };
            // The search for the newest manifest of a far store requests the floor as well.
            if done.is_ok() && (version <= floor.version || self.is_far) {
                return done;
            }
            if let Err(e) = &done
                && !matches!(e, StoreError::NotFound { .. })
            {
                return done;
            }
            let newer = self.look()?;
            if *newer == *floor || version > newer.version {
                return match floor.pack(version).filter(|_| version <= floor.version) {
                    Some(pack) => Err(damaged(&keys::pack(pack.id), self.inner.as_ref(), "it is missing")),
                    None => done,
                };
            }
            floor = newer;
        }
        own()
    }

    /// A whole member, or tombstone.
    fn limited(&self, bytes_of: (&str, u64, u64), limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let (pack, offset, length) = bytes_of;
        match usize::try_from(length) {
            Ok(fits) if length <= limit => self.inner.read_vec(pack, offset, fits).map(Ok),
            _ => Ok(Err(length)),
        }
    }

    fn short(&self, key: &str, offset: u64, wanted: usize, got: u64) -> StoreError {
        let (key, store) = (key.to_owned(), self.inner.describe());
        StoreError::ShortRead { key, store, offset, wanted: wanted as u64, got: got.saturating_sub(offset) }
    }

    /// Whether a manifest that was just put is the first of its version. If not, it is deleted again.
    fn is_first(&self, key: &str, version: u64) -> Result<()> {
        if version > self.look()?.version {
            return Ok(());
        }
        self.inner.delete(key)?;
        Err(StoreError::AlreadyExists { key: key.to_owned(), store: self.inner.describe() })
    }

    fn refuse_packed(&self, key: &str, mode: PutMode) -> Result<Option<u64>> {
        let Some(version) = keys::parse_manifest(key) else { return Ok(None) };
        let store = self.inner.describe();
        match version <= self.known().version {
            true if mode == PutMode::IfAbsent => {
                Err(StoreError::AlreadyExists { key: key.to_owned(), store })
            }
            true => Err(StoreError::Unsupported {
                operation: format!("changing '{key}', which is packed"),
                store,
            }),
            false => Ok(Some(version)),
        }
    }

    /// The objects that must be synced so that these survive: for a packed manifest its pack and the floor.
    fn synced(&self, wanted: &[&str]) -> Result<Vec<String>> {
        let floor = self.known();
        let mut out = Vec::new();
        for key in wanted {
            match keys::parse_manifest(key) {
                Some(version) => match self.place_in(&floor, version)? {
                    Place::Own => out.push((*key).to_owned()),
                    Place::Gone => out.push(keys::FLOOR.to_owned()),
                    Place::In(pack, _) => out.extend([keys::pack(pack.id), keys::FLOOR.to_owned()]),
                },
                None => out.push((*key).to_owned()),
            }
        }
        let mut seen = std::collections::HashSet::new();
        out.retain(|key| seen.insert(key.clone()));
        Ok(out)
    }
}

/// The table of a pack, as its own bytes describe it.
pub(crate) fn read_table(store: &dyn Store, id: u64) -> Result<Table> {
    let key = keys::pack(id);
    let say = |found: Corrupt| damaged(&key, store, &format!("byte {}: {}", found.at, found.what));
    let header = store.read_vec(&key, 0, frame::HEADER)?;
    let length = Table::length(&header).map_err(say)?;
    let bytes = store.read_vec(&key, 0, length.min(MAX_TABLE) as usize)?;
    let table = Table::decode(&bytes).map_err(say)?;
    match table.id == id {
        true => Ok(table),
        false => Err(damaged(&key, store, "it is another pack")),
    }
}

fn damaged(key: &str, store: &dyn Store, what: &str) -> StoreError {
    StoreError::Damaged { key: key.to_owned(), store: store.describe(), reason: what.to_owned() }
}

/// A floor made from the existing packs: where ranges overlap the wider ones count, since packs are merged into wider
/// ones.
pub(crate) fn rebuilt(store: &dyn Store, uuid: &[u8; 16]) -> Result<Floor> {
    let mut found: Vec<PackRef> = Vec::new();
    for item in store.list("manifest/")? {
        let Some(id) = keys::parse_pack(&item.key) else { continue };
        let Ok(table) = read_table(store, id) else { continue };
        if table.uuid == *uuid {
            let (first, last, members) = (table.first, table.last, table.members.len() as u64);
            found.push(PackRef { id, first, last, members, length: item.len });
        }
    }
    found.sort_by_key(|pack| (pack.first, std::cmp::Reverse(pack.last)));
    let mut packs: Vec<PackRef> = Vec::new();
    for pack in found {
        if packs.last().is_none_or(|before| before.last < pack.first) {
            packs.push(pack);
        }
    }
    Ok(Floor { uuid: *uuid, version: packs.last().map_or(0, |pack| pack.last), packs })
}

impl Store for Packed {
    drystone_store::forward! {
        inner =>
        features, describe, device, watch, unchanged, append, write_at, upload, delete, sweep,
        exec
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        self.inner.local().map(|_| self as &dyn LocalFiles)
    }

    fn len(&self, key: &str) -> Result<u64> {
        self.with(
            key,
            || self.inner.len(key),
            |place| Ok(place.map_or(GONE.len() as u64, |(_, _, length)| length)),
        )
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        if keys::parse_manifest(key).is_none() {
            return self.inner.read(key, offset, out);
        }
        let out = std::cell::RefCell::new(out);
        self.with(
            key,
            || self.inner.read(key, offset, &mut out.borrow_mut()),
            |place| {
                let mut out = out.borrow_mut();
                let (wanted, length) = (out.len(), place.map_or(GONE.len() as u64, |(_, _, length)| length));
                if offset.checked_add(wanted as u64).is_none_or(|end| end > length) {
                    return Err(self.short(key, offset, wanted, length));
                }
                match place {
                    Some((pack, at, _)) => self.inner.read(pack, at + offset, &mut out),
                    None => {
                        let from = offset as usize;
                        out.iter_mut().zip(GONE.iter().skip(from)).for_each(|(to, byte)| *to = *byte);
                        Ok(())
                    }
                }
            },
        )
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.with(
            key,
            || self.inner.read_whole(key, limit),
            |place| match place {
                Some(place) => self.limited(place, limit),
                None => Ok(Ok(GONE.to_vec())),
            },
        )
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        let version = self.refuse_packed(key, mode)?;
        self.inner.put(key, parts, mode, sync)?;
        match version {
            Some(version) if mode == PutMode::IfAbsent => self.is_first(key, version),
            _ => Ok(()),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        // A caller that lists everything wants to see the packs themselves.
        if !prefix.starts_with("manifest/") {
            return self.inner.list(prefix);
        }
        let mut floor = self.look()?;
        let mut listed = self.inner.list(prefix)?;
        for _ in 0..TRIES {
            let newer = self.look()?;
            if *newer == *floor {
                break;
            }
            // What was listed may have been packed meanwhile.
            floor = newer;
            listed = self.inner.list(prefix)?;
        }
        if floor.version == 0 {
            return Ok(listed);
        }
        listed.retain(|item| keys::parse_manifest(&item.key).is_none_or(|version| version > floor.version));
        for pack in &floor.packs {
            // An unreadable pack is reported as missing where it is needed.
            let Ok(table) = self.table(pack) else { continue };
            let items =
                table.members.iter().map(|m| ListEntry { key: keys::manifest(m.version), len: m.length });
            listed.extend(items.filter(|item| item.key.starts_with(prefix)));
        }
        listed.sort();
        Ok(listed)
    }

    fn sync(&self, wanted: &[&str]) -> Result<()> {
        let some = self.synced(wanted)?;
        let names: Vec<&str> = some.iter().map(String::as_str).collect();
        match self.inner.sync(&names) {
            // It was packed after the floor was looked at.
            Err(StoreError::NotFound { key, .. })
                if keys::parse_manifest(&key).is_some() || keys::parse_pack(&key).is_some() =>
            {
                self.look()?;
                let some = self.synced(wanted)?;
                let names: Vec<&str> = some.iter().map(String::as_str).collect();
                self.inner.sync(&names)
            }
            other => other,
        }
    }

    fn submit(&self, request: Request) -> Pending {
        let request = match request {
            Request::Expect { key, ranges } if keys::parse_manifest(&key).is_some() => {
                return self.expect(&key, ranges);
            }
            other => other,
        };
        let one = match &request {
            Request::ReadMany { key, .. }
            | Request::Len { key }
            | Request::ReadWhole { key, .. }
            | Request::Put { key, .. } => keys::parse_manifest(key),
            Request::Sync { keys: some } => some.iter().find_map(|key| keys::parse_manifest(key)),
            Request::List { prefix } if prefix.starts_with("manifest/") => Some(0),
            _ => None,
        };
        let is_change = matches!(request, Request::Put { .. } | Request::Sync { .. });
        match one {
            Some(version) if !self.is_far || is_change || version <= self.known().version => {
                Pending::completed(request.execute_on(self))
            }
            _ => self.inner.submit(request),
        }
    }
}
