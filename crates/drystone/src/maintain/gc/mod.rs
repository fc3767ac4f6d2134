//! Garbage collection: removes objects that no retained manifest needs (docs/guide/gc.md).
//!
//! ```text
//! history, keep, older_than -> what expires      newest index -> dead entries
//! ─► commit: the index without them               ─► flush: no power cut falls back before it
//! ─► expired manifests become tombstones, newest first      ─► unnamed page files and log parts are deleted
//! ```
//!
//! Invariants
//! - nothing is deleted before the commit that no longer needs it is on stable storage and all snapshots that need it
//!   are expired. So a process that dies in between leaves only objects that the next collection removes;
//! - page files are listed before that commit: an earlier commit attempt that put one has either won, and is seen, or
//!   has lost;
//! - log parts are deleted only if they are settled for ever and no retained manifest needs a byte of them, or if no
//!   commit could ever take them;
//! - numbers of manifests are never reused: probes and commits find a tombstone.

mod abandoned;
mod needed;

use crate::commit::dead::Dead;
use crate::history::packs::GONE;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::manifest::Manifest;
use drystone_format::source::{Source, SourceState};
use drystone_store::{PutMode, Store, StoreExt, TOGETHER};

use crate::base::random;
use crate::base::sync::lock;
use crate::commit::transaction::{Change, Decision, transact};
use crate::container::{Container, Inner, keeper_lock};
use crate::history::manifests;
use crate::history::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result};
use abandoned::Abandoned;
use needed::Needed;

/// The snapshots to keep. Without these options no snapshot expires, and only leftovers are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GcOptions {
    /// How many of the newest snapshots to keep, including the one that the collection commits; at least 1.
    pub keep: Option<u64>,
    /// Snapshots younger than this are kept.
    pub older_than: Option<Duration>,
    /// Reports what would be removed, and changes nothing.
    pub dry_run: bool,
}

/// The result of a collection, or of its dry run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GcReport {
    /// Snapshots that can still be read.
    pub kept: Vec<u64>,
    /// Snapshots that expired.
    pub expired: Vec<u64>,
    /// Index entries that were removed: blocks that are overwritten, hidden or cut away, and blocks of deleted
    /// variables.
    pub superseded: u64,
    /// The removed objects, with the bytes freed: log parts, page files, manifests (the bytes of a tombstone count as
    /// kept).
    pub removed: Vec<(String, u64)>,
    /// Bytes that were freed.
    pub bytes: u64,
    /// Whether this was a dry run.
    pub dry_run: bool,
}

impl GcReport {
    fn add(&mut self, removed: Vec<(String, u64)>) {
        self.bytes += removed.iter().map(|(_, len)| len).sum::<u64>();
        self.removed.extend(removed);
    }
}

/// Files of unfinished puts that are older than this were left by a dead process.
const ABANDONED: Duration = Duration::from_secs(86_400);

impl Container {
    /// Removes objects that no retained snapshot needs; see [`GcOptions`]. Afterwards, reading an expired snapshot is
    /// `NotFound`, also for readers that have it open.
    ///
    /// `progress` receives (objects processed, objects in all). If it returns `false`, the collection stops with
    /// `Cancelled`: everything removed until then was garbage, and the next call continues. Errors: `Conflict` if
    /// another process publishes or collects garbage. Log parts with visible blocks are never removed, even if the
    /// blocks are published.
    pub fn gc(&self, options: &GcOptions, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<GcReport> {
        if options.keep == Some(0) {
            return Err(Error::invalid("keep=0 would remove everything; keep at least 1 snapshot"));
        }
        if options.dry_run {
            self.inner.require_open()?;
            let mut report = self.plan_gc(options)?;
            report.add(self.collect_files(true)?);
            return Ok(report);
        }
        self.inner.require_writable()?;
        let done = keeper_lock::take_in_time(&self.inner).and_then(|lock| {
            let done = self.collect(options, progress).and_then(|mut report| {
                report.add(self.collect_files(false)?);
                Ok(report)
            });
            let released = lock.release();
            done.and_then(|report| released.map(|()| report))
        });
        done.map_err(|e| e.while_doing(format!("collecting garbage of {}", self.location())))
    }

    /// The plan of a collection on the newest snapshot.
    fn plan_gc(&self, options: &GcOptions) -> Result<GcReport> {
        let inner = &self.inner;
        inner.log_packs.as_ref().map(|logs| logs.look()).transpose()?;
        let (newest, _) = inner.newest()?;
        let chain = chain(inner, &newest)?;
        // The collection's own commit adds one snapshot, unless nothing expires.
        let (mut kept, expired) = divide(&chain, options, 1);
        let mut report = GcReport { dry_run: options.dry_run, ..GcReport::default() };
        let dead = if expired.is_empty() { Dead::default() } else { Dead::find(inner, &newest)? };
        report.superseded = dead.len();
        report.expired = expired.iter().map(|m| m.version).collect();
        if !options.dry_run {
            return Ok(report);
        }
        let mut future = newest.manifest.clone();
        future.version = newest.version() + 1;
        let sources = newest.sources(&inner.pages)?;
        let abandoned = Abandoned::find(inner, &sources)?;
        let sources = dead.sources(abandoned.settled(sources), &lost_files(inner));
        let mut needed = Needed::of(inner, &kept)?;
        needed.add_pages(inner, &newest.manifest)?;
        needed.add_sources(&sources);
        for item in garbage(inner, &needed, (&sources, &abandoned), inner.store.list("index/")?)? {
            report.bytes += item.1;
            report.removed.push(item);
        }
        let oldest = kept.first().map_or(newest.version() + 1, |m| m.version);
        for (key, len, rest) in expiring(inner, &needed, oldest.saturating_sub(1))? {
            let freed = len.saturating_sub(rest.len() as u64);
            report.bytes += freed;
            report.removed.push((key, freed));
        }
        kept.push(future);
        report.kept = kept.iter().map(|m| m.version).collect();
        Ok(report)
    }

    fn collect(&self, options: &GcOptions, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<GcReport> {
        let inner = &self.inner;
        let store = inner.store.as_ref();
        let sync = inner.identity.durability != Durability::Memory;
        if inner.tiers.is_some() {
            // Flushes before anything is changed: the collection's commit must be flushed, which parts on other nodes
            // may not permit yet.
            inner.flush()?;
        }
        // Listed before the commit: objects that are put from here on are not considered.
        let index = store.list("index/")?;
        // This process holds the publishers' lock, so unfinished puts there are abandoned. Elsewhere, other processes
        // may be putting.
        store.sweep("zarr/", Duration::ZERO)?;
        store.sweep("", ABANDONED)?;
        let mut report = self.plan_gc(options)?;
        let (newest, _) = inner.newest()?;
        let sources = newest.sources(&inner.pages)?;
        let abandoned = Abandoned::find(inner, &sources)?;
        if report.expired.is_empty() {
            let kept = chain(inner, &newest)?;
            let needed = Needed::of(inner, &kept)?;
            let oldest = kept.first().map_or(newest.version(), |m| m.version);
            if !abandoned.is_open_in(&sources)
                && garbage(inner, &needed, (&sources, &abandoned), index.clone())?.is_empty()
                && expiring(inner, &needed, oldest.saturating_sub(1))?.is_empty()
            {
                report.kept = kept.iter().map(|m| m.version).collect();
                if inner.is_packing_due(newest.version())? {
                    inner.flush()?;
                    inner.pack_locked(newest.version() - 1)?;
                }
                inner.pack_logs_locked(&newest, u64::MAX)?;
                return Ok(report);
            }
        }
        let lost = lost_files(inner);
        let done = transact(inner, |base, _| {
            let mut change = Change::default();
            let mut sources = base.sources(&inner.pages)?;
            let ended = abandoned.is_open_in(&sources);
            if ended {
                sources = abandoned.settled(sources);
            }
            if !report.expired.is_empty() {
                let dead = Dead::find(inner, base)?;
                report.superseded = dead.len();
                sources = dead.sources(sources, &lost);
                change.dead = Some(dead);
            }
            if change.dead.is_some() || ended {
                change.sources = Some(sources);
            }
            Ok(Decision::Apply(Box::new(change)))
        })?;
        inner.flush()?;
        let newest = done.snapshot;
        let chain = chain(inner, &newest)?;
        let (kept, expired) = divide(&chain, options, 0);
        report.kept = kept.iter().map(|m| m.version).collect();
        report.expired = expired.iter().map(|m| m.version).collect();
        let needed = Needed::of(inner, &kept)?;
        let sources = newest.sources(&inner.pages)?;
        forget_lost(inner, &sources);
        let oldest = kept.first().map_or(newest.version(), |m| m.version);
        let expiring = expiring(inner, &needed, oldest.saturating_sub(1))?;
        let garbage = garbage(inner, &needed, (&sources, &abandoned), index)?;
        let total = (expiring.len() + garbage.len()) as u64;
        let mut seen = 0;
        let mut tell = |report: &mut GcReport, key: String, freed: u64| {
            report.bytes += freed;
            report.removed.push((key, freed));
            seen += 1;
            match progress(seen, total) {
                true => Ok(()),
                false => Err(Error::new(ErrorKind::Cancelled, "stopped by its caller; call again to go on")),
            }
        };
        if inner.packs.is_some() {
            let rests: HashMap<u64, &[u8]> = expiring
                .iter()
                .filter_map(|(key, _, rest)| Some((keys::parse_manifest(key)?, rest.as_slice())))
                .collect();
            inner.pack_locked(newest.version() - 1)?;
            inner.thin(oldest, &|version, file| {
                let rest = rests.get(&version).map_or(file, |rest| rest.to_vec());
                // Pages that are missing below the floor have expired.
                Ok((rest.len() > GONE.len()).then_some(rest))
            })?;
            for (key, len, rest) in expiring {
                tell(&mut report, key, len.saturating_sub(rest.len() as u64))?;
            }
        } else {
            for (key, len, rest) in expiring {
                store.put(&key, &[&rest], PutMode::Replace, sync)?;
                tell(&mut report, key, len.saturating_sub(rest.len() as u64))?;
            }
        }
        let mut marks = Vec::new();
        for mark in store.list("manifest/")? {
            if keys::parse_mark(&mark.key).is_some_and(|version| version < oldest) {
                marks.push(mark.key);
            }
        }
        store.delete_all(&marks)?;
        let parts = garbage.iter().filter_map(|(key, _)| keys::parse_log(key));
        inner.drop_packed_logs(&parts.map(|(writer, part, _)| (writer, part)).collect())?;
        for some in garbage.chunks(TOGETHER) {
            let keys: Vec<String> = some.iter().map(|(key, _)| key.clone()).collect();
            store.delete_all(&keys)?;
            for (key, len) in some {
                tell(&mut report, key.clone(), *len)?;
            }
        }
        inner.pack_logs_locked(&newest, u64::MAX)?;
        Ok(report)
    }
}

/// Forgets lost log files that the source table needs no more.
fn forget_lost(inner: &Inner, sources: &[Source]) {
    let needed =
        |key: &str| sources.iter().any(|s| s.seg_length > 0 && keys::segment(s.writer, s.part) == key);
    let is_log = |key: &str| keys::parse_log(key).is_some();
    lock(&inner.losses).found.retain(|loss| loss.passed_over || !is_log(&loss.key) || needed(&loss.key));
}

/// Files that the handle found missing.
fn lost_files(inner: &Inner) -> BTreeSet<String> {
    lock(&inner.losses).found.iter().map(|loss| loss.key.clone()).collect()
}

/// The readable manifests, ascending: those of the snapshot and its ancestors, up to the first expired one.
fn chain(inner: &Inner, newest: &Snapshot) -> Result<Vec<Manifest>> {
    let store = inner.store.as_ref();
    let mut out = Vec::new();
    let mut version = newest.version();
    let mut manifests = manifests::Manifests::new(store, &inner.identity.uuid);
    while version > 0 {
        version = match manifests.read(version) {
            Ok(manifest) => {
                let parent = manifest.parent;
                out.push(manifest);
                parent
            }
            Err(_) if manifests::is_void(store, version) => manifests::below(store, version)?,
            Err(e) if e.kind() == ErrorKind::Corrupt && inner.identity.durability != Durability::Durable => {
                manifests::below(store, version)?
            }
            Err(e) if e.kind() == ErrorKind::NotFound => break,
            Err(e) => return Err(e),
        };
    }
    out.reverse();
    Ok(out)
}

/// Divides snapshots into retained and expired ones, both ascending. `more` newer ones are still to come. The newest
/// is retained unless one comes.
fn divide(chain: &[Manifest], options: &GcOptions, more: u64) -> (Vec<Manifest>, Vec<Manifest>) {
    let now = random::now();
    let mut first_kept = 0;
    if options.keep.is_some() || options.older_than.is_some() {
        for (i, manifest) in chain.iter().enumerate() {
            let newer = (chain.len() - i - 1) as u64 + more;
            let among_newest = options.keep.is_some_and(|keep| newer < keep);
            let age = Duration::from_nanos(now.saturating_sub(manifest.time));
            let young = options.older_than.is_some_and(|limit| age < limit);
            let keep_last = options.keep.is_none() && newer == 0;
            if among_newest || young || keep_last {
                break;
            }
            first_kept = i + 1;
        }
    }
    let (expired, kept) = chain.split_at(first_kept.min(chain.len()));
    (kept.to_vec(), expired.to_vec())
}

/// Manifest objects up to a version that contain more than other snapshots need, newest first: key, length, new
/// content.
fn expiring(inner: &Inner, needed: &Needed, last: u64) -> Result<Vec<(String, u64, Vec<u8>)>> {
    let mut out = Vec::new();
    for item in inner.store.list("manifest/")? {
        let Some(version) = keys::parse_manifest(&item.key).filter(|v| *v <= last) else { continue };
        let pages = match needed.has_file(keys::IN_MANIFEST | version) {
            true => manifests::pages_of(inner.store.as_ref(), version)?,
            false => Vec::new(),
        };
        let rest = [pages.as_slice(), GONE].concat();
        if item.len != rest.len() as u64
            || pages.is_empty()
                && item.len == GONE.len() as u64
                && !manifests::is_gone(inner.store.as_ref(), version)
        {
            out.push((item.key, item.len, rest));
        }
    }
    // An expired snapshot may need pages of earlier ones. It must be readable as long as it can be found, so the
    // newest expires first.
    out.reverse();
    Ok(out)
}

/// The page files and log parts that no snapshot needs, with their lengths.
fn garbage(
    inner: &Inner,
    needed: &Needed,
    (sources, abandoned): (&[Source], &Abandoned),
    index: Vec<drystone_store::ListEntry>,
) -> Result<Vec<(String, u64)>> {
    let mut out = Vec::new();
    for item in index {
        if keys::parse_pages(&item.key).is_some_and(|id| !needed.has_file(id)) {
            out.push((item.key, item.len));
        }
    }
    let settled: BTreeSet<(u64, u32)> = sources
        .iter()
        .filter(|s| s.kind == 0 && s.state != SourceState::Open)
        .map(|s| (s.writer, s.part))
        .collect();
    let known: BTreeSet<(u64, u32)> =
        sources.iter().filter(|s| s.kind == 0).map(|s| (s.writer, s.part)).collect();
    let over = |writer, part| {
        settled.contains(&(writer, part)) || abandoned.has(writer) && !known.contains(&(writer, part))
    };
    for item in inner.store.list("log/")? {
        if let Some((writer, part, _)) = keys::parse_log(&item.key)
            && over(writer, part)
            && !needed.has_part(writer, part)
        {
            out.push((item.key, item.len));
        }
    }
    Ok(out)
}
