//! Packing: moves manifests that are on stable storage into a few packs, so that many small commits leave few files.
//!
//! ```text
//! single manifests, and the last packs -> plan: which to merge
//! ─► put and sync the pack ─► name it in the floor, sync ─► delete its manifests
//! ```
//!
//! Invariants
//! - one process packs at a time ([`keeper_lock`]);
//! - everything that a manifest needs is on stable storage before it is packed, except under `memory`, which
//!   guarantees nothing; the manifest itself becomes stable with its pack;
//! - a process that dies during packing leaves only things that the next packing removes: a pack that no floor names,
//!   or objects below the floor.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::packs::{Floor, PackRef, Table};
use drystone_format::source::Source;
use drystone_plan::packs::merged;
use drystone_store::{PutMode, Store, StoreExt};

use super::{Inner, keeper_lock};
use crate::base::random;
use crate::base::sync::lock;
use crate::history::descent;
use crate::history::packs::{self, Packed};
use crate::history::probing;
use crate::history::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result};

/// The number of newest manifests that stay single objects. An open or a refresh finds them by their names.
const KEPT: u64 = 4;
/// Number of commits after which a further commit packs.
pub(super) const BATCH: u64 = 64;
/// Number of commits after which unflushed commits are flushed in order to be packed.
const UNFLUSHED: u64 = 256;
/// The most bytes that such a flush syncs. A larger one is left to the user's flush.
const FLUSHED: u64 = 64 << 20;
/// A handle packs at its close if more single manifests than this exist.
const FEW: u64 = 12;
/// Neighbouring packs of at most this many bytes together are merged.
const TINY: u64 = 1 << 20;
/// The greatest length of a pack, in bytes.
const LONG: u64 = 32 << 20;

/// Gives the rest of a manifest file after packing: its new bytes, or none.
pub(crate) type Rest<'a> = &'a dyn Fn(u64, Vec<u8>) -> Result<Option<Vec<u8>>>;

impl Inner {
    /// After a commit: packs if due. A failure does not fail the commit; the next packing tries again.
    pub(crate) fn pack_after(&self, snapshot: &Snapshot) {
        self.pack_logs_after(snapshot);
        let Some(packs) = &self.packs else { return };
        let (version, floor) = (snapshot.version(), packs.known().version);
        if version < floor + BATCH + KEPT || version < self.packing_due.load(Ordering::Relaxed) {
            return;
        }
        self.packing_due.store(version + BATCH, Ordering::Relaxed);
        let mut safe = self.is_safe_to(snapshot);
        if safe < floor + BATCH && version >= floor + UNFLUSHED && self.settles_little(snapshot) {
            safe = version;
        }
        let last = safe.min(version - KEPT);
        if last >= floor + BATCH {
            let _ = self.pack(last);
        }
    }

    /// At the close of a handle that has committed: packs if due.
    pub(crate) fn pack_at_end(&self) {
        // Packs manifests together with logs, so that fewer handles wait for the medium.
        let few = if self.pack_logs_at_end() { KEPT } else { FEW };
        let Some(packs) = &self.packs else { return };
        let (snapshot, _) = self.newest_known();
        let version = snapshot.version();
        let committed = self.hint.is_ours();
        if !committed || version <= packs.known().version + few || self.require_same().is_err() {
            return;
        }
        let mut safe = self.is_safe_to(&snapshot);
        if safe < version && self.settles_little(&snapshot) {
            safe = version;
        }
        let last = safe.min(version - KEPT);
        if last > packs.known().version {
            let _ = self.pack(last);
        }
    }

    /// Whether a flush of the versions after `since` packs them first.
    pub(super) fn packs_many(&self, version: u64, since: u64) -> bool {
        self.packs.is_some() && version.saturating_sub(since) > FEW + KEPT
    }

    /// Packs all manifests but the newest ones, as far as everything they need is on stable storage. If packing
    /// fails, or another process is packing, the flush syncs each manifest instead.
    pub(super) fn pack_below(&self, version: u64) {
        let _ = self.pack(version.saturating_sub(KEPT));
    }

    /// The newest version that no power cut can destroy, or, if nothing is guaranteed, the newest version.
    fn is_safe_to(&self, snapshot: &Snapshot) -> u64 {
        match self.identity.durability {
            Durability::Memory => snapshot.version(),
            _ => self.last_marked(snapshot),
        }
    }

    /// Syncs everything that a snapshot needs, if few of its bytes may be unsynced. Its manifests become stable with
    /// their pack, since a sync of each would take most of the time. Parts in tiers are drained separately.
    fn settles_little(&self, snapshot: &Snapshot) -> bool {
        if self.tiers.is_some() || self.close_gaps().is_err() {
            return false;
        }
        // A manifest that was written before a mark does not show the mark.
        let marked = descent::newest_mark(self.store.as_ref()).unwrap_or_default();
        self.know_stable(self.last_marked(snapshot).max(marked));
        let packed = self.log_packs.as_ref().map(|logs| logs.known());
        let is_packed = |s: &Source| packed.as_ref().is_some_and(|known| known.has(s.writer, s.part));
        let left = || -> Result<u64> {
            let sources = snapshot.sources(&self.pages)?;
            let synced = lock(&self.synced);
            let left = |key: String, length: u64| {
                length.saturating_sub(synced.get(&key).copied().unwrap_or_default())
            };
            let of = sources.iter().filter(|source| source.kind == 0 && !is_packed(source));
            Ok(of.map(|s| left(keys::segment(s.writer, s.part), s.seg_length)).sum())
        };
        left().is_ok_and(|bytes| bytes <= FLUSHED)
            && self.sync_needed(snapshot, &[], false).is_ok_and(|done| done)
    }

    /// Packs manifests up to a version. Returns `false` if another process publishes, collects garbage or packs.
    fn pack(&self, last: u64) -> Result<bool> {
        let held = match keeper_lock::take(self) {
            Err(e) if e.kind() == ErrorKind::Conflict => return Ok(false),
            other => other?,
        };
        let done = self.pack_locked(last).and_then(|()| self.mark_packed(last));
        held.release()?;
        done.map(|()| true)
    }

    /// Marks the versions that became stable with their pack.
    fn mark_packed(&self, last: u64) -> Result<()> {
        let packed = self.packs.as_ref().map_or(0, |packs| packs.known().version).min(last);
        if self.identity.durability != Durability::Async || packed <= self.flushed.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.mark(packed, false).map(drop)
    }

    /// Whether there are more than a few single manifests, or remains of a killed packing.
    pub(crate) fn is_packing_due(&self, newest: u64) -> Result<bool> {
        let Some(packs) = &self.packs else { return Ok(false) };
        let floor = packs.look()?;
        Ok(newest > floor.version + FEW || !leftovers(packs, &floor)?.is_empty())
    }

    /// As [`pack`](Self::pack), for a caller that holds the lock. Nothing is flushed: everything that `last` needs is
    /// on stable storage.
    pub(crate) fn pack_locked(&self, last: u64) -> Result<()> {
        let Some(packs) = &self.packs else { return Ok(()) };
        let store = packs.inner().as_ref();
        let mut floor = packs.look()?;
        store.delete_all(&leftovers(packs, &floor)?)?;
        loop {
            let own = packs.list("manifest/")?;
            let own = own.iter().filter_map(|item| Some((keys::parse_manifest(&item.key)?, item.len)));
            let (mut new, mut bytes) = (Vec::new(), 0);
            for (version, len) in own.filter(|(version, _)| *version > floor.version && *version <= last) {
                // A missing number above them is free for the first commit that puts it; only a void fills it, not a
                // pack.
                let next = floor.version + new.len() as u64 + 1;
                if version != next || bytes + len > LONG {
                    break;
                }
                new.push(version);
                bytes += len;
            }
            let Some(&top) = new.last() else { return Ok(()) };
            let sizes: Vec<(u64, u64)> = floor.packs.iter().map(|pack| (pack.members, pack.length)).collect();
            let taken = merged(&sizes, (new.len() as u64, bytes), (TINY, LONG));
            let (kept, old) = floor.packs.split_at(floor.packs.len() - taken);
            let mut files = members(packs, old)?;
            for version in new {
                let file = store.read_all(&keys::manifest(version), probing::MANIFEST_LIMIT)?;
                files.push((version, file));
            }
            let first = old.first().map_or(floor.version + 1, |pack| pack.first);
            let pack = self.put_pack(store, (first, top), &files)?;
            let packed = kept.iter().copied().chain([pack]).collect();
            floor = self.put_floor(packs, &floor, top, packed)?;
        }
    }

    /// Shrinks packs that contain expired versions, which are those before `oldest`. The caller holds the lock.
    pub(crate) fn thin(&self, oldest: u64, rest: Rest<'_>) -> Result<()> {
        let Some(packs) = &self.packs else { return Ok(()) };
        let floor = packs.look()?;
        let (old, kept) = floor.packs.split_at(floor.packs.partition_point(|pack| pack.first < oldest));
        let (Some(first), Some(last)) = (old.first(), old.last()) else { return Ok(()) };
        let mut files = Vec::new();
        let mut changed = false;
        for (version, file) in members(packs, old)? {
            let before = file.len();
            let file = if version < oldest { rest(version, file)? } else { Some(file) };
            changed |= file.as_ref().is_none_or(|file| file.len() != before);
            files.extend(file.map(|file| (version, file)));
        }
        if !changed {
            return Ok(());
        }
        let mut packed: Vec<PackRef> = Vec::new();
        let (mut from, mut at) = (first.first, 0);
        while at < files.len() {
            let mut bytes = 0;
            let fits = |(_, file): &&(u64, Vec<u8>)| {
                bytes += file.len() as u64;
                bytes <= LONG
            };
            let some = files.iter().skip(at).take_while(fits).count().max(1);
            let part = files.get(at..at + some).unwrap_or_default();
            at += some;
            let to = if at == files.len() { last.last } else { part.last().map_or(from, |(v, _)| *v) };
            packed.push(self.put_pack(packs.inner().as_ref(), (from, to), part)?);
            from = to + 1;
        }
        packed.extend_from_slice(kept);
        self.put_floor(packs, &floor, floor.version, packed).map(drop)
    }

    fn put_pack(&self, store: &dyn Store, range: (u64, u64), files: &[(u64, Vec<u8>)]) -> Result<PackRef> {
        let sync = self.identity.durability != Durability::Memory;
        let (pack, bytes) = Table::pack(self.identity.uuid, random::id64(), range, files)?;
        store.put(&keys::pack(pack.id), &[&bytes], PutMode::IfAbsent, sync)?;
        Ok(pack)
    }

    /// Replaces the floor, and removes the objects that the new floor makes superfluous.
    fn put_floor(
        &self,
        packs: &Packed,
        before: &Floor,
        version: u64,
        packed: Vec<PackRef>,
    ) -> Result<std::sync::Arc<Floor>> {
        let sync = self.identity.durability != Durability::Memory;
        if *packs.look()? != *before {
            return Err(Error::conflict("another process has packed manifests meanwhile; try again"));
        }
        let floor = Floor { uuid: self.identity.uuid, version, packs: packed };
        packs.inner().put(keys::FLOOR, &[&floor.encode()], PutMode::Replace, sync)?;
        let floor = packs.look()?;
        packs.inner().delete_all(&leftovers(packs, &floor)?)?;
        Ok(floor)
    }

    /// Puts the floor again if it was lost or damaged while packs exist. Returns a message about that.
    pub(crate) fn mend_floor(&self) -> Result<Option<String>> {
        let Some(packs) = &self.packs else { return Ok(None) };
        let store = packs.inner().as_ref();
        let found = store.read_all(keys::FLOOR, drystone_format::packs::MAX_FLOOR);
        if found.is_ok_and(|bytes| Floor::decode(&bytes).is_ok()) {
            return Ok(None);
        }
        let floor = packs::rebuilt(store, &self.identity.uuid)?;
        if floor.version == 0 {
            return Ok(None);
        }
        store.put(keys::FLOOR, &[&floor.encode()], PutMode::Replace, true)?;
        packs.look()?;
        Ok(Some(format!("{} was made again from {} packs", keys::FLOOR, floor.packs.len())))
    }

    /// Damage of the floor and its packs: key and message.
    pub(crate) fn broken_packs(&self) -> Result<Vec<(String, String)>> {
        let Some(packs) = &self.packs else { return Ok(Vec::new()) };
        let store = packs.inner().as_ref();
        let mut out = Vec::new();
        let floor = match store.read_whole(keys::FLOOR, drystone_format::packs::MAX_FLOOR) {
            Ok(bytes) => match Floor::decode(&bytes.unwrap_or_default()) {
                Ok(floor) => floor,
                Err(found) => {
                    out.push((keys::FLOOR.into(), Error::damaged(keys::FLOOR, 0, &found).to_string()));
                    packs::rebuilt(store, &self.identity.uuid)?
                }
            },
            Err(e) if e.is_not_found() => {
                let floor = packs::rebuilt(store, &self.identity.uuid)?;
                // The manifests of a pack that was put before its floor still exist as single objects.
                let lost = floor.packs.iter().flat_map(|pack| pack.first..=pack.last).next();
                if let Some(first) = lost
                    && !store.exists(&keys::manifest(first))?
                {
                    let key = keys::FLOOR;
                    out.push((key.into(), format!("{key} is missing; recover() makes it again")));
                }
                floor
            }
            Err(e) => return Err(e.into()),
        };
        for pack in &floor.packs {
            let key = keys::pack(pack.id);
            let sound = packs::read_table(store, pack.id).map_err(Error::from).and_then(|_| {
                let len = store.len(&key)?;
                match len == pack.length {
                    true => Ok(()),
                    false => Err(Error::corrupt(format!("{key} is {len} bytes long, not {}", pack.length))),
                }
            });
            if let Err(e) = sound {
                out.push((key, e.to_string()));
            }
        }
        Ok(out)
    }
}

/// The files in these packs.
fn members(packs: &Packed, of: &[PackRef]) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut files = Vec::new();
    for pack in of {
        let table = packs.table(pack)?;
        let bytes = packs.inner().read_all(&keys::pack(pack.id), pack.length)?;
        for member in &table.members {
            let range = member.offset as usize..(member.offset + member.length) as usize;
            let file = bytes.get(range).ok_or_else(|| {
                Error::corrupt(format!("{} ends before snapshot {}", keys::pack(pack.id), member.version))
            })?;
            files.push((member.version, file.to_vec()));
        }
    }
    Ok(files)
}

/// Superfluous objects: packs that no floor names, single manifests below the floor, and marks below it that a newer
/// mark replaces.
fn leftovers(packs: &Packed, floor: &Floor) -> Result<Vec<String>> {
    let named: HashSet<u64> = floor.packs.iter().map(|pack| pack.id).collect();
    let listed = packs.inner().list("manifest/")?;
    let marked = listed.iter().filter_map(|item| keys::parse_mark(&item.key)).max().unwrap_or(0);
    // Without a floor, packs are superfluous only while their manifests still exist as files: the first packing was
    // killed. Otherwise the floor was lost, and `recover` makes it again from the packs.
    let first = listed.iter().filter_map(|item| keys::parse_manifest(&item.key)).min();
    if floor.version == 0 && first != Some(1) {
        return Ok(Vec::new());
    }
    let is_over = |key: &str| {
        keys::parse_manifest(key).is_some_and(|version| version <= floor.version)
            || keys::parse_pack(key).is_some_and(|id| !named.contains(&id))
            || keys::parse_mark(key).is_some_and(|version| version < marked && version <= floor.version)
    };
    Ok(listed.into_iter().map(|item| item.key).filter(|key| is_over(key)).collect())
}
