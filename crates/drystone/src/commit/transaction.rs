//! One commit: puts new pages and one manifest, if absent, on top of the newest snapshot. If another commit came
//! first, it tries again.
//!
//! Invariants
//! - a manifest is put only after everything it names is in the store (and, under `durable`, on stable storage);
//! - a lost reply is settled by reading back: the write id identifies the author of the manifest;
//! - a commit that loses the race leaves nothing that any object refers to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use drystone_format::branch::{Branch, PageRef};
use drystone_format::derived::Kind;
use drystone_format::entry::{self, Entry};
use drystone_format::frame::{self, FrameKind};
use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_format::log::{FileHeader, FileKind};
use drystone_format::manifest::{MAX_PAGES, Manifest, Root, Section};
use drystone_format::published::{self, PAGE_SHARDS, ShardPage};
use drystone_format::schema::{Schema, Variable};
use drystone_format::source::{self, PAGE_SOURCES, Source};
use drystone_format::steps::Steps;
use drystone_plan::tree::{self, Emit, Leaf, NewEntries};
use drystone_store::{PutMode, Store, StoreError, StoreExt};

use super::dead::Dead;
use crate::base::metrics::add;
use crate::base::span::{self, SpanKind};
use crate::base::{random, writer_process};
use crate::container::Inner;
use crate::history::manifests;
use crate::history::pages::Page;
use crate::history::snapshot::Snapshot;
use crate::schema::derived;
use crate::{Error, ErrorKind, Result};

/// A step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub struct RunStep {
    pub run: u64,
    pub step: u64,
}

/// A step that only some ranks have closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// The step and its run.
    pub at: RunStep,
    /// The number of ranks of the run.
    pub nranks: u32,
    /// The ranks that have not closed the step.
    pub missing: Vec<u32>,
    /// Visible from an earlier close by all ranks; `missing` have not closed the replacement yet.
    pub again: bool,
}

impl std::fmt::Display for Incomplete {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.missing.is_empty() {
            return write!(
                f,
                "step {} of run {} is not visible: writers of different attempts closed it, so its blocks are in doubt; recover() \
                 settles it",
                self.at.step, self.at.run
            );
        }
        let shown: Vec<String> = self.missing.iter().take(16).map(u32::to_string).collect();
        let more = if self.missing.len() > 16 { ", …" } else { "" };
        write!(
            f,
            "step {} of run {} is {}: of {} ranks, {} not closed it{}: {}{more}",
            self.at.step,
            self.at.run,
            if self.again { "visible as before" } else { "not visible" },
            self.nranks,
            if self.missing.len() == 1 { "one has" } else { "some have" },
            if self.again { " again" } else { "" },
            shown.join(", ")
        )
    }
}

/// Sections up to this size stay in the manifest.
const INLINE_SECTION: usize = 8 << 10;
/// After this many lost races in a row a commit gives up.
const MAX_TRIES: usize = 10_000;

/// The changes of a commit; `None` and empty mean unchanged.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) schema: Option<Schema>,
    pub(crate) steps: Option<Steps>,
    /// New entries, with `commit`, `order` and `source` set.
    pub(crate) entries: NewEntries,
    /// The complete new source table.
    pub(crate) sources: Option<Vec<Source>>,
    pub(crate) ahead: Option<Vec<(u32, u64)>>,
    pub(crate) fence: Option<u64>,
    /// Entries to remove.
    pub(crate) dead: Option<Dead>,
    /// The complete new published record: arrays without pages, each with its shards.
    pub(crate) published: Option<Vec<(published::Array, Vec<published::Shard>)>>,
    /// The processes that wrote the groups taken from logs.
    pub(crate) writers: BTreeSet<String>,
    /// Named objects that may not be on stable storage yet (under `durable`).
    pub(crate) unsynced: Vec<String>,
    /// Incomplete steps, reported to the caller of the commit.
    pub(crate) incomplete: Vec<Incomplete>,
    pub(crate) notes: Vec<String>,
}

/// The outcome of a commit.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The snapshot that contains the commit, or the current one if nothing was new.
    pub snapshot: Arc<Snapshot>,
    /// Whether anything was new.
    pub changed: bool,
    /// Steps that only some ranks have closed.
    pub incomplete: Vec<Incomplete>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// Keys of steps (step + 1, 0 without step) from which the commit took blocks, if values of derived variables are
    /// to be stored.
    pub(crate) touched: BTreeSet<u64>,
}

/// The decision of a transaction's closure for a base.
pub(crate) enum Decision {
    /// Nothing to commit on this base.
    Keep {
        incomplete: Vec<Incomplete>,
        notes: Vec<String>,
    },
    Apply(Box<Change>),
}

/// Commits what `decide` returns for the newest base. If another commit wins, asks again for the newer base.
///
/// `decide` receives the base and the version that the commit will have. It may be called several times, so it must
/// have no lasting side effects.
pub(crate) fn transact(
    inner: &Inner,
    decide: impl FnMut(&Arc<Snapshot>, u64) -> Result<Decision>,
) -> Result<Committed> {
    transact_from(inner, false, false, decide)
}

/// As [`transact`], for a caller that certainly has something to commit. It does not look for a newer base first,
/// since the put of the manifest reveals one. It does look if other processes were seen to commit. `same`: the caller
/// has just checked that the container was not replaced.
pub(crate) fn transact_at_once(
    inner: &Inner,
    same: bool,
    decide: impl FnMut(&Arc<Snapshot>, u64) -> Result<Decision>,
) -> Result<Committed> {
    transact_from(inner, !inner.others_commit.load(Ordering::Relaxed), same, decide)
}

fn transact_from(
    inner: &Inner,
    at_once: bool,
    same: bool,
    mut decide: impl FnMut(&Arc<Snapshot>, u64) -> Result<Decision>,
) -> Result<Committed> {
    let (begun, since) = (span::begin(SpanKind::Commit), Instant::now());
    inner.require_unpinned()?;
    inner.require_whole()?;
    for tries in 0..MAX_TRIES {
        let looked = tries > 0 || !at_once;
        let (mut base, known) = inner.newest_known();
        let mut top = known;
        if looked {
            (base, top) = inner.newest()?;
            inner.others_commit.store(tries > 0 || top > known, Ordering::Relaxed);
            inner.require_whole()?;
        }
        let version = top + 1;
        let expired = |e: &Error| {
            matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound)
                && manifests::is_gone(inner.store.as_ref(), base.version())
        };
        let change = match decide(&base, version) {
            // A base that may not be the newest proves nothing.
            Err(_) | Ok(Decision::Keep { .. }) if !looked => continue,
            Err(e) if expired(&e) => continue,
            Err(e) => return Err(e),
            Ok(Decision::Keep { incomplete, notes }) => {
                // Another thread may have committed what this one closed, and not have moved the handle yet.
                inner.adopt_snapshot(base.clone());
                let touched = BTreeSet::new();
                return Ok(Committed { snapshot: base, changed: false, incomplete, notes, touched });
            }
            Ok(Decision::Apply(change)) => *change,
        };
        let incomplete = change.incomplete.clone();
        let notes = change.notes.clone();
        let touched = touched(&base, &change);
        // Looking for the newest snapshot also checks that the container was not replaced.
        let done = match attempt(inner, &base, version, change, looked || same) {
            Err(e) if expired(&e) => continue,
            other => other?,
        };
        if let Some(snapshot) = done {
            let snapshot = Arc::new(snapshot);
            inner.adopt_snapshot(snapshot.clone());
            add(&inner.tally.commits, 1);
            add(&inner.tally.commit_microseconds, since.elapsed().as_micros().try_into().unwrap_or(u64::MAX));
            begun.end(SpanKind::Commit, || inner.store.describe(), "", span::Values::default());
            inner.pack_after(&snapshot);
            return Ok(Committed { snapshot, changed: true, incomplete, notes, touched });
        }
    }
    Err(Error::conflict(format!("gave up after losing {MAX_TRIES} races for a commit in a row; try again")))
}

/// The steps whose new blocks may affect stored values of derived variables. Empty if none are stored.
fn touched(base: &Snapshot, change: &Change) -> BTreeSet<u64> {
    let schema = change.schema.as_ref().unwrap_or(&base.schema);
    let stores = |v: &Variable| v.derived.as_ref().is_some_and(|derived| derived.kind != Kind::Virtual);
    match schema.variables.values().any(stores) {
        true => change.entries.key_steps().clone(),
        false => BTreeSet::new(),
    }
}

/// Commits of at most this many entries try to put their pages into the manifest.
const SMALL_COMMIT: usize = 2048;

/// One try. `None` if another commit took the version. `same`: this commit has checked that the container was not
/// replaced. On a far store the check costs a request; a store that watches the container checks it before every
/// change.
pub(crate) fn attempt(
    inner: &Inner,
    base: &Arc<Snapshot>,
    version: u64,
    mut change: Change,
    same: bool,
) -> Result<Option<Snapshot>> {
    if !same {
        inner.require_same()?;
    }
    if let Some(schema) = &mut change.schema {
        derived::settle(schema, &base.schema, version);
    }
    let store = inner.store.as_ref();
    let durable = inner.identity.durability == Durability::Durable;
    let encoded = |schema: &Schema| {
        let unreadable = |why| Error::invalid(format!("the schema would not be readable: {why}"));
        schema.validate().map_err(unreadable).map(|()| schema.encode())
    };
    let schema = change.schema.as_ref().map(encoded).transpose()?;
    let mut draft = None;
    if change.entries.len() <= SMALL_COMMIT && schema.as_ref().is_none_or(|bytes| bytes.len() <= MAX_PAGES) {
        let pages = PageFile::in_manifest(version);
        draft = Some(Draft::new(inner, base, version, (&change, schema.as_deref()), pages)?)
            .filter(|d| d.pages.bytes.len() <= MAX_PAGES);
    }
    let draft = match draft {
        Some(draft) => draft,
        None => {
            let pages = PageFile::apart(inner.identity.uuid);
            Draft::new(inner, base, version, (&change, schema.as_deref()), pages)?
        }
    };
    let Draft { mut pages, manifest } = draft;
    let (made, replaced) = (std::mem::take(&mut pages.made), std::mem::take(&mut pages.replaced));
    inner.close_gaps()?;
    let too_large = |e| {
        Error::unsupported(format!(
            "{e}: too many sources or uncommitted steps for one manifest; commit more often"
        ))
    };
    let (bytes, apart) = if pages.apart {
        let id = pages.id;
        (manifest.encode().map_err(too_large)?, pages.finish(store, durable)?.then_some(id))
    } else {
        (manifest.encode_after(pages.bytes, pages.frames).map_err(too_large)?, None)
    };
    let (key, first) = (keys::manifest(version), change.unsynced.iter().map(String::as_str));
    let put = match change.unsynced.is_empty() {
        true => store.put(&key, &[&bytes], PutMode::IfAbsent, durable),
        false => store.put_after(&first.collect::<Vec<_>>(), &key, &[&bytes], PutMode::IfAbsent),
    };
    let won = match put {
        Ok(()) => true,
        Err(e) => settle(inner, version, &manifest.write_id, e)?,
    };
    if !won {
        if let Some(id) = apart {
            let _ = store.delete(&keys::pages(id));
        }
        return Ok(None);
    }
    inner.hint.committed(store, version, inner.identity.durability);
    inner.pages.forget(&replaced);
    made.into_iter().for_each(|(reference, page)| inner.pages.keep(reference, page));
    let schema = change.schema.map_or_else(|| base.schema.clone(), Arc::new);
    let steps = change.steps.map_or_else(|| base.steps.clone(), Arc::new);
    Ok(Some(Snapshot::of(manifest, schema, steps)))
}

/// A manifest and the pages it adds.
struct Draft {
    pages: PageFile,
    manifest: Manifest,
}

impl Draft {
    fn new(
        inner: &Inner,
        base: &Snapshot,
        version: u64,
        (change, schema): (&Change, Option<&[u8]>),
        mut pages: PageFile,
    ) -> Result<Self> {
        let old = &base.manifest;
        let durable = inner.identity.durability == Durability::Durable;
        let schema = schema.map_or_else(|| old.schema.clone(), |bytes| pages.section(bytes));
        let steps = match &change.steps {
            Some(steps) => pages.section(&steps.encode()),
            None => old.steps.clone(),
        };
        let (source_pages, source_count) = match &change.sources {
            Some(sources) => (pages.sources(sources, base, inner)?, sources.len() as u32),
            None => (old.source_pages.clone(), old.source_count),
        };
        let root: Option<Root> = if let (Some(dead), Some(root)) = (&change.dead, &old.root) {
            tree::prune(&inner.pages, root, &|entry| dead.has(entry), &mut pages)?
        } else if change.entries.is_empty() {
            old.root
        } else {
            tree::insert(&inner.pages, old.root.as_ref(), &change.entries, &mut pages)?
        };
        let published = match &change.published {
            Some(arrays) if arrays.is_empty() => None,
            Some(arrays) => {
                let arrays = pages.published(arrays, base, inner)?;
                Some(pages.section(&published::encode(&arrays)))
            }
            None => old.published.clone(),
        };
        let manifest = Manifest {
            version,
            parent: base.version(),
            write_id: random::id128(),
            uuid: inner.identity.uuid,
            time: random::now(),
            marked: durable,
            // Another thread may have flushed a newer version; then this attempt loses its race.
            last_marked: if durable { version } else { inner.last_marked(base).min(base.version()) },
            fence: change.fence.unwrap_or(old.fence),
            schema,
            steps,
            source_pages,
            source_count,
            root,
            ahead: change.ahead.clone().unwrap_or_else(|| old.ahead.clone()),
            published,
            boot: boot(inner, base, change),
        };
        Ok(Draft { pages, manifest })
    }
}

/// The boot that a manifest may name: all unflushed objects that it needs were written during that boot.
fn boot(inner: &Inner, base: &Snapshot, change: &Change) -> Option<String> {
    if inner.identity.durability == Durability::Durable {
        return None; // a durable manifest is never passed over
    }
    let boot = inner.boot()?;
    let same = base.version() <= inner.last_marked(base) || base.manifest.boot.as_deref() == Some(boot);
    let all = same && change.writers.iter().all(|process| writer_process::is_of_boot(process, boot));
    all.then(|| boot.to_owned())
}

/// After a failed put: whether the manifest in the store is ours (true) or another commit's (false). If there is
/// none, returns the error.
fn settle(inner: &Inner, version: u64, write_id: &[u8; 16], error: StoreError) -> Result<bool> {
    let store = inner.store.as_ref();
    match manifests::read_manifest(store, version, &inner.identity.uuid) {
        Ok(found) if found.write_id != *write_id => Ok(false),
        Ok(_) if inner.identity.durability == Durability::Durable => {
            // The manifest exists, but the reply that confirms stable storage never arrived.
            store.sync(&[&keys::manifest(version)]).map_err(|e| {
                Error::from(e)
                    .while_doing(format!("snapshot {version} is committed, but not known to be durable"))
            })?;
            Ok(true)
        }
        Ok(_) => Ok(true),
        Err(_) if matches!(error, StoreError::AlreadyExists { .. }) => Ok(false),
        Err(_) => Err(Error::from(error).while_doing(format!("committing snapshot {version}"))),
    }
}

/// The pages that one commit adds, collected in memory. They are put in the manifest's object, before the manifest,
/// or as a separate object.
struct PageFile {
    id: u64,
    apart: bool,
    bytes: Vec<u8>,
    frames: u64,
    /// The decoded pages of a small commit: the next commit adds to them.
    made: Vec<(PageRef, Page)>,
    /// Pages of the base that the new snapshot no longer has.
    replaced: Vec<PageRef>,
}

impl PageFile {
    /// Pages that go into the manifest of a version: this saves an object and a sync.
    fn in_manifest(version: u64) -> Self {
        PageFile {
            id: keys::IN_MANIFEST | version,
            apart: false,
            bytes: Vec::new(),
            frames: 0,
            made: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Pages in a separate file.
    fn apart(uuid: [u8; 16]) -> Self {
        let id = random::id64() & !keys::IN_MANIFEST;
        let header = FileHeader {
            kind: FileKind::Pages,
            uuid,
            id,
            part: 0,
            run: 0,
            rank: None,
            fence: 0,
            time: random::now(),
            origin: random::origin(),
            process: String::new(),
            base: 0,
        };
        let mut bytes = Vec::new();
        frame::push(&mut bytes, FrameKind::File, 0, &header.encode());
        PageFile { id, apart: true, bytes, frames: 1, made: Vec::new(), replaced: Vec::new() }
    }

    fn push(&mut self, kind: FrameKind, payload: &[u8]) -> PageRef {
        let offset = self.bytes.len() as u64;
        frame::push(&mut self.bytes, kind, self.frames, payload);
        self.frames += 1;
        let header = &self.bytes[offset as usize..offset as usize + frame::HEADER];
        let crc = u32::from_le_bytes([header[24], header[25], header[26], header[27]]);
        PageRef { file: self.id, offset, length: payload.len() as u32, crc }
    }

    fn section(&mut self, payload: &[u8]) -> Section {
        if payload.len() <= INLINE_SECTION {
            Section::Inline(payload.to_vec())
        } else {
            Section::Page(self.push(FrameKind::Section, payload))
        }
    }

    /// Pages of the source table. Unchanged pages are referred to again.
    fn sources(&mut self, sources: &[Source], base: &Snapshot, inner: &Inner) -> Result<Vec<PageRef>> {
        let mut out = Vec::new();
        for (i, page) in sources.chunks(PAGE_SOURCES).enumerate() {
            let unchanged = match base.manifest.source_pages.get(i) {
                Some(old) if inner.pages.sources(old)?.as_slice() == page => Some(*old),
                _ => None,
            };
            out.push(match unchanged {
                Some(old) => old,
                None => {
                    self.replaced.extend(base.manifest.source_pages.get(i));
                    let reference = self.push(FrameKind::Section, &source::encode_page(page));
                    self.keep(reference, || Page::Sources(Arc::new(page.to_vec())))
                }
            });
        }
        Ok(out)
    }

    /// Pages of the records of shards. Unchanged pages are referred to again.
    fn published(
        &mut self,
        arrays: &[(published::Array, Vec<published::Shard>)],
        base: &Snapshot,
        inner: &Inner,
    ) -> Result<Vec<published::Array>> {
        let before = base.published(&inner.pages)?;
        let mut out = Vec::with_capacity(arrays.len());
        for (array, shards) in arrays {
            let known = before.iter().find(|a| a.node == array.node).map_or(&[][..], |a| a.pages.as_slice());
            let mut array = array.clone();
            for (i, page) in shards.chunks(PAGE_SHARDS).enumerate() {
                let unchanged = match known.get(i) {
                    Some(old) if inner.pages.shards(&old.page)?.as_slice() == page => Some(old.page),
                    _ => None,
                };
                let at =
                    unchanged.unwrap_or_else(|| self.push(FrameKind::Section, &published::encode_page(page)));
                let first = page.first().map_or(0, |shard| shard.number);
                array.pages.push(ShardPage { first, count: page.len() as u32, page: at });
            }
            out.push(array);
        }
        Ok(out)
    }

    fn keep(&mut self, reference: PageRef, page: impl FnOnce() -> Page) -> PageRef {
        if !self.apart {
            self.made.push((reference, page()));
        }
        reference
    }

    /// Puts the file if it holds any page.
    fn finish(self, store: &dyn Store, sync: bool) -> Result<bool> {
        if self.frames == 1 {
            return Ok(false);
        }
        let key = keys::pages(self.id);
        if let Err(error) = store.put(&key, &[&self.bytes], PutMode::IfAbsent, sync) {
            // The reply was lost: the bytes were stored, and only the answer is missing.
            let there = store.read_all(&key, self.bytes.len() as u64).is_ok_and(|found| found == self.bytes);
            if !there || (sync && store.sync(&[&key]).is_err()) {
                return Err(Error::from(error).while_doing("writing index pages"));
            }
        }
        Ok(true)
    }
}

impl Emit for PageFile {
    fn leaf(&mut self, entries: Vec<Entry>) -> PageRef {
        let reference = self.push(FrameKind::Leaf, &entry::encode_block(&entries));
        self.keep(reference, || Page::Leaf(Arc::new(Leaf::Entries(entries))))
    }
    fn branch(&mut self, branch: Branch) -> PageRef {
        let reference = self.push(FrameKind::Branch, &branch.encode());
        self.keep(reference, || Page::Branch(Arc::new(branch)))
    }
    fn replaces(&mut self, page: &PageRef) {
        self.replaced.push(*page);
    }
}
