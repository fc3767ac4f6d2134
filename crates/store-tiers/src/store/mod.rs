//! The store over the tiers and the home store.
//!
//! Invariants
//! - a part is in at most one tier, and may be at home as well;
//! - a tier drops a part only if the home store has all of it on stable storage, and it is not pinned;
//! - a request that the home store can answer does not fail because a tier failed;
//! - a registered part has a length wherever it lies, and the error of a read that cannot reach it names its node.

mod drain_part;
mod draining;
mod growing;
mod local;
mod node_copies;
mod owner;
mod redundancy;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use drystone_format::keys;
use drystone_plan::tier::redundancy::Scheme;
use drystone_store::{
    Features, ListEntry, LocalFiles, Pending, PutMode, Request, Result, Store, StoreError, StoreExt, Upload,
    validate_key, validate_prefix,
};

use crate::appends::Appends;
use crate::registry::{Node, Registry, guard};
use crate::staged::{Staged, Sum};
use crate::tier::{Tier, TierState};
use drain_part::Moving;
use node_copies::Folders;
use owner::Owned;
use redundancy::Redundancy;

pub use draining::Drained;
pub use owner::Away;
pub use redundancy::{Kept, ParityObject, Rebuilt, Turn};

/// The attached tiers, and the number of reads that each answered.
#[derive(Debug, Default)]
struct Attached {
    tiers: Vec<Tier>,
    reads: Vec<AtomicU64>,
}

/// A store whose log parts are in tiers until they are drained.
#[derive(Debug)]
pub struct TieredStore {
    pub(crate) home: Arc<dyn Store>,
    attached: OnceLock<Attached>,
    pub(crate) is_part: fn(&str) -> bool,
    staged: Mutex<BTreeMap<String, Staged>>,
    /// Counts events, such as closing and reading a part.
    now: AtomicU64,
    pub(crate) moving: Moving,
    /// For a container: the parts in tiers of other processes and nodes.
    pub(crate) registry: Option<Registry>,
    /// Writers whose parts belong to this handle.
    pub(crate) owners: Mutex<BTreeMap<u64, Owned>>,
    pub(crate) folders: Folders,
    pub(crate) redundancy: Redundancy,
    /// Bytes of growing parts in tiers that may hang, so that such a part can continue in another tier.
    open: Mutex<BTreeMap<String, Vec<u8>>>,
    appends: Appends,
}

/// Whether a key is a log part; these objects go to tiers.
fn is_log_part(key: &str) -> bool {
    key.starts_with("log/")
}

/// Whether a key is a segment; in the store of a container, only segments go to tiers. Step records go to the home
/// store at once, so that a commit on any node finds them.
fn is_segment(key: &str) -> bool {
    key.starts_with("log/") && key.ends_with(".seg")
}

impl TieredStore {
    /// A store with tiers, nearest first, over the home store of a container. Nothing is registered, so no other
    /// process may read the container.
    pub fn new(tiers: Vec<Tier>, home: Arc<dyn Store>) -> Self {
        Self::for_keys(tiers, home, is_log_part)
    }

    /// Like [`new`](Self::new); `is_part` decides which objects go to tiers.
    pub fn for_keys(tiers: Vec<Tier>, home: Arc<dyn Store>, is_part: fn(&str) -> bool) -> Self {
        let store = Self::over(home, is_part, None);
        store.attach(tiers);
        store
    }

    /// The store of a container whose parts may be in tiers, on this node or on others. Its tiers are
    /// [attached](Self::attach) later.
    pub fn of_container(home: Arc<dyn Store>, uuid: [u8; 16], node: Node, scheme: Scheme) -> Self {
        let store = Self::over(home, is_segment, Some(Registry::new(uuid, node)));
        TieredStore { redundancy: Redundancy::new(scheme), ..store }
    }

    fn over(home: Arc<dyn Store>, is_part: fn(&str) -> bool, registry: Option<Registry>) -> Self {
        TieredStore {
            home,
            attached: OnceLock::new(),
            is_part,
            staged: Mutex::default(),
            now: AtomicU64::new(1),
            moving: Moving::default(),
            registry,
            owners: Mutex::default(),
            folders: Folders::default(),
            redundancy: Redundancy::default(),
            open: Mutex::default(),
            appends: Appends::default(),
        }
    }

    /// Uses these tiers from now on, nearest first. Returns `false` if tiers are attached already. Call it before
    /// anything is written.
    pub fn attach(&self, tiers: Vec<Tier>) -> bool {
        let reads = tiers.iter().map(|_| AtomicU64::new(0)).collect();
        self.attached.set(Attached { tiers, reads }).is_ok()
    }

    /// The tiers, nearest first.
    pub(crate) fn tiers(&self) -> &[Tier] {
        self.attached.get().map_or(&[], |attached| attached.tiers.as_slice())
    }

    /// Whether new parts go to tiers.
    pub fn has_tiers(&self) -> bool {
        !self.tiers().is_empty()
    }

    /// The node of a container's store.
    pub fn node(&self) -> Option<&Node> {
        self.registry.as_ref().map(|registry| &registry.node)
    }

    /// Whether an append is under way, or was recently.
    pub fn is_busy(&self) -> bool {
        self.appends.is_busy()
    }

    /// Adopts parts that earlier processes left in the tiers; returns how many. Call it before the store is used.
    pub fn adopt(&self) -> Result<usize> {
        let home: BTreeMap<String, u64> =
            self.home.list("")?.into_iter().map(|entry| (entry.key, entry.len)).collect();
        let mut staged = self.lock();
        for (number, tier) in self.tiers().iter().enumerate() {
            // A tier that cannot be listed is not used for now; its parts are looked up at home.
            let Ok(found) = tier.doing(|store| store.list("")) else { continue };
            for entry in found.into_iter().filter(|entry| (self.is_part)(&entry.key)) {
                let at_home = home.get(&entry.key).copied();
                if at_home.is_some_and(|len| len > entry.len) {
                    // The tier failed while the part grew, and the part continued at home: the tier has only a prefix.
                    let _ = tier.doing(|store| store.delete(&entry.key));
                    continue;
                }
                let one = Staged {
                    len: entry.len,
                    sum: Sum::Unknown,
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

    /// Pins the part: its tier does not evict it until every pin is undone. Returns whether the part is in a tier.
    pub fn pin(&self, key: &str) -> bool {
        self.lock().get_mut(key).map(|one| one.pinned = one.pinned.saturating_add(1)).is_some()
    }

    /// Undoes one [`pin`](Self::pin).
    pub fn unpin(&self, key: &str) {
        if let Some(one) = self.lock().get_mut(key) {
            one.pinned = one.pinned.saturating_sub(1);
        }
    }

    /// The state of each tier, except a volatile one.
    pub fn rows(&self) -> Vec<TierState> {
        let staged = self.lock();
        let row = |(number, tier): (usize, &Tier)| {
            let of = |wanted: fn(&Staged) -> bool| {
                staged.values().filter(|one| one.tier == number && wanted(one)).map(|one| one.len).sum()
            };
            TierState {
                place: tier.store.describe(),
                bytes: of(|_| true),
                undrained: of(|one| !one.is_home()),
                oldest: staged
                    .values()
                    .filter(|one| one.tier == number && !one.is_home())
                    .filter_map(|one| one.step)
                    .min(),
                reads: self.reads(number).map_or(0, |reads| reads.load(Ordering::Relaxed)),
                aside: tier.health.aside(),
            }
        };
        let shown = self.tiers().iter().enumerate().filter(|(_, tier)| !tier.volatile);
        shown.map(row).collect()
    }

    fn reads(&self, number: usize) -> Option<&AtomicU64> {
        self.attached.get()?.reads.get(number)
    }

    /// Records that a tier answered a read.
    fn hit(&self, key: &str, number: usize) {
        if let Some(reads) = self.reads(number) {
            reads.fetch_add(1, Ordering::Relaxed);
        }
        let now = self.tick();
        if let Some(one) = self.lock().get_mut(key) {
            one.uses = one.uses.saturating_add(1);
            one.used = now;
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Staged>> {
        guard(&self.staged)
    }

    fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn find(&self, key: &str) -> Option<Staged> {
        self.lock().get(key).cloned()
    }

    pub(crate) fn tier(&self, number: usize, key: &str) -> Result<&Tier> {
        self.tiers().get(number).ok_or_else(|| self.not_found(key))
    }

    fn not_found(&self, key: &str) -> StoreError {
        StoreError::NotFound { key: key.to_owned(), store: self.describe() }
    }
}

impl Store for TieredStore {
    drystone_store::forward!(home => describe, device, watch, unchanged, sweep);

    fn features(&self) -> Features {
        let home = self.home.features();
        if self.registry.is_some() {
            // A segment has one writer, in a tier as at home, so the features of the home store stay valid.
            let uploads = home.uploads && !self.has_tiers();
            return Features { write_at: false, exec: false, uploads, ..home };
        }
        Features {
            append: true,
            write_at: false,
            exec: false,
            put_is_durable: false,
            targets: 0,
            uploads: false,
            ..home
        }
    }

    /// For a container whose home store has local files: this store, which reads a part from its file. Otherwise
    /// `None`, since a part may move.
    fn local(&self) -> Option<&dyn LocalFiles> {
        self.registry.as_ref().and_then(|_| self.home.local()).map(|_| self as &dyn LocalFiles)
    }

    fn len(&self, key: &str) -> Result<u64> {
        validate_key(key)?;
        match self.find(key) {
            Some(one) => Ok(one.len),
            None => self.len_other(key),
        }
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        validate_key(key)?;
        let Some(one) = self.find(key) else { return self.read_other(key, offset, out) };
        let tier = self.tier(one.tier, key)?;
        let near = match tier.health.aside() {
            Some(_) if one.is_home() => return self.home.read(key, offset, out),
            _ => tier.doing(|store| store.read(key, offset, out)),
        };
        match near {
            Ok(()) => {
                self.hit(key, one.tier);
                Ok(())
            }
            Err(error) => {
                let now = self.find(key);
                if now.as_ref().is_some_and(|now| now.tier > one.tier) {
                    return self.read(key, offset, out); // It moved to a lower tier meanwhile.
                }
                let evicted = now.is_none();
                // After this handle was closed, another one may have drained the part.
                let is_gone = one.closed.is_some() && matches!(error, StoreError::NotFound { .. });
                match evicted || one.is_home() {
                    true => self.home.read(key, offset, out),
                    false if is_gone && self.home.read(key, offset, out).is_ok() => Ok(()),
                    false => Err(error),
                }
            }
        }
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        validate_key(key)?;
        self.notice(key);
        match self.find(key) {
            None if self.registered(key)?.is_none() => self.home.read_whole(key, limit),
            _ => self.read_whole_by_length(key, limit),
        }
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        validate_key(key)?;
        if !(self.is_part)(key) {
            return self.home.append(key, at, parts);
        }
        if self.registry.is_some() && !self.has_tiers() {
            return self.home.append(key, at, parts);
        }
        let _append = self.appends.begin();
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
        // A container's writer has a new number, so none of its parts can exist. Other stores need the check.
        if self.registry.is_none() && self.home.exists(key)? {
            return Err(StoreError::AlreadyExists { key: key.to_owned(), store: self.describe() });
        }
        self.own(key)?;
        self.begin(key, parts, 0, None)
    }

    fn write_at(&self, key: &str, _parts: &[(u64, &[u8])], _len: u64) -> Result<()> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("write_at (to '{key}')"), store: self.describe() })
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        validate_key(key)?;
        if self.features().uploads {
            return self.home.upload(key);
        }
        let operation = format!("upload in pieces (of '{key}')");
        Err(StoreError::Unsupported { operation, store: self.describe() })
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
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        if let Some(registry) =
            self.registry.as_ref().filter(|_| prefix.starts_with("log/") || prefix.is_empty())
        {
            // The registrations are read before the home store is listed: a part that is drained in between is found at
            // home.
            registry.is_outdated();
            let found = registry.look(self.home.as_ref())?;
            let said = found.parts.iter().filter(|(key, _)| key.starts_with(prefix));
            all.extend(said.map(|(key, said)| (key.clone(), said.part.length)));
        }
        for entry in self.home.list(prefix)? {
            let len = all.entry(entry.key).or_insert(0);
            *len = entry.len.max(*len);
        }
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

    /// Drains parts first, since bytes in a tier may not survive a power cut.
    fn sync(&self, keys: &[&str]) -> Result<()> {
        for key in keys {
            self.prepare_sync(key)?;
            if self.registry.is_none() && !self.home.exists(key)? {
                return Err(self.not_found(key));
            }
        }
        self.home.sync(keys)
    }

    fn exec(&self, key: &str, method: &str, _input: &[u8]) -> Result<Vec<u8>> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("exec of {method}"), store: self.describe() })
    }

    fn submit(&self, request: Request) -> Pending {
        if let Request::Sync { keys } = &request {
            // The home store executes the sync after all requests that were submitted to it before.
            return match keys.iter().try_for_each(|key| self.prepare_sync(key)) {
                Ok(()) => self.home.submit(request),
                Err(e) => Pending::completed(Err(e)),
            };
        }
        let other = |key: &str| match self.find(key) {
            Some(_) => false,
            // If the registrations cannot be read, the request reports the error.
            None => self.registered(key).is_ok_and(|said| said.is_none()),
        };
        let at_home = match &request {
            Request::ReadMany { key, .. }
            | Request::Expect { key, .. }
            | Request::Len { key }
            | Request::ReadWhole { key, .. } => {
                self.notice(key);
                other(key)
            }
            Request::Put { key, .. } | Request::Delete { key } => {
                !(self.is_part)(key) || self.registry.is_some() && self.find(key).is_none()
            }
            Request::Place { .. } => true,
            Request::Append { key, .. } => {
                !(self.is_part)(key) || self.registry.is_some() && !self.has_tiers()
            }
            _ => false,
        };
        if at_home {
            return self.home.submit(request);
        }
        Pending::completed(request.execute_on(self))
    }
}

impl TieredStore {
    /// Drains an object before it is synced at home.
    fn prepare_sync(&self, key: &str) -> Result<()> {
        validate_key(key)?;
        if self.find(key).is_some() {
            return self.drain_part(key);
        }
        match self.registered(key)? {
            Some(said)
                if self.home.len(key).is_ok_and(|len| len < said.part.length)
                    || !self.home.exists(key)? =>
            {
                Err(self.not_yet_home(key, &said))
            }
            _ => Ok(()),
        }
    }

    /// Marks the registrations as outdated if the object is a manifest, which may name parts that are not known yet.
    fn notice(&self, key: &str) {
        if let Some(registry) = self.registry.as_ref().filter(|_| keys::parse_manifest(key).is_some()) {
            registry.is_outdated();
        }
    }
}
