//! A container: the thin conductor that joins store, snapshot, caches and the current batch.
//!
//! Invariants
//! - the handle's snapshot changes only by `refresh`, or by a commit made through this handle;
//! - a handle pinned by `at` never changes and never writes.

mod far;
mod flush;
mod opening;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use drystone_format::identity::{Durability, Identity};
use drystone_format::manifest::Manifest;
use drystone_format::piece::Trailer;
use drystone_format::schema::{self, Name, Schema, Variable};
use drystone_format::table::Subchunk;
use drystone_plan::following::Following;
use drystone_store::Store;

use crate::cache::Cache;
use crate::calibrate::Known;
use crate::config::Config;
use crate::head::Look;
use crate::learn::Seen;
use crate::pages::PageLoader;
use crate::schema_op::SchemaOp;
use crate::shards::Shards;
use crate::snapshot::Snapshot;
use crate::targets::Placing;
use crate::transaction::{self, Change, Committed, Decision};
use crate::writer::{Writer, WriterOptions};
use crate::{Error, ErrorKind, Result, adoption, head};

pub use far::{is_url, public_options};
pub use opening::{CreateOptions, Mode};

/// Bytes of subchunk tables and of trailers kept per container.
const TABLE_CACHE: usize = 8 << 20;

pub(crate) struct Batch {
    pub(crate) ops: Vec<SchemaOp>,
    pub(crate) preview: Arc<Schema>,
    /// The schema on which it began.
    base: Arc<Schema>,
}

impl Batch {
    /// Adds operations, all or none; `version` is the commit that will hold them. `true` if anything changed.
    ///
    /// The preview is changed in place: a copy for every operation would make n of them cost n times n. What a failed one left half done
    /// goes by applying those before it again.
    fn extend(&mut self, ops: Vec<SchemaOp>, version: u64) -> Result<bool> {
        match apply_all(&ops, Arc::make_mut(&mut self.preview), version) {
            Ok(changed) => {
                self.ops.extend(ops);
                Ok(changed)
            }
            Err(failure) => {
                let mut preview = (*self.base).clone();
                apply_all(&self.ops, &mut preview, version)?;
                self.preview = Arc::new(preview);
                Err(failure)
            }
        }
    }

    /// What the batch does to the variable at a path, if it stands for another one, or for none, once the batch has ended.
    fn what_becomes_of(&self, path: &str) -> Option<&'static str> {
        let one = |v: &Variable| (v.id, v.uid);
        let (before, after) = (self.base.resolve(path).map(one), self.preview.resolve(path).map(one));
        match (before, after) {
            _ if before == after => None,
            (None, _) => Some("makes"),
            (_, None) => Some("takes away"),
            _ => Some("replaces"),
        }
    }
}

fn apply_all(ops: &[SchemaOp], schema: &mut Schema, version: u64) -> Result<bool> {
    let mut changed = false;
    for op in ops {
        changed |= op.apply(schema, version)?;
    }
    Ok(changed)
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: Identity,
    pub(crate) pages: PageLoader,
    /// Subchunk tables by (source, position), trailers by (source, position of the piece).
    pub(crate) tables: Cache<(u64, u32, u64), Vec<Subchunk>>,
    pub(crate) trailers: Cache<(u64, u32, u64), Trailer>,
    pub(crate) shards: Shards,
    writable: bool,
    pinned: bool,
    closed: AtomicBool,
    current: RwLock<Arc<Snapshot>>,
    /// Newest version this handle has flushed or seen flushed.
    flushed: AtomicU64,
    /// How much of each key this handle has synced.
    synced: Mutex<HashMap<String, u64>>,
    /// The newest snapshot that was found, and the highest manifest number seen then, which is above it if newer ones had to be
    /// passed over. They change together: a commit on a snapshot that is older than what is below `top` would undo what lies between.
    found: Mutex<(Arc<Snapshot>, u64)>,
    /// Missing manifest numbers below `top`, to be closed before anything is committed or marked.
    gaps: Mutex<Vec<u64>>,
    pub(crate) hint: head::Hint,
    /// Another commit was found where this handle's own should have come next.
    pub(crate) others_commit: AtomicBool,
    warnings: Mutex<Vec<String>>,
    pub(crate) batch: Mutex<Option<Batch>>,
    /// The run-time configuration that was found when it was opened.
    pub(crate) config: Option<Arc<Config>>,
    /// What was measured of the store.
    pub(crate) known: Known,
    /// The reads that were made.
    pub(crate) seen: Seen,
    /// What is read next, as far as they tell.
    pub(crate) following: Mutex<Following>,
    /// How objects are spread over storage targets, if there are several.
    pub(crate) placing: Option<Arc<Placing>>,
}

/// An open container. Cheap to clone; clones share the snapshot.
#[derive(Clone)]
pub struct Container {
    pub(crate) inner: Arc<Inner>,
}

impl Container {
    /// A read-only handle on an earlier (or the current) snapshot.
    pub fn at(&self, version: u64) -> Result<Self> {
        self.inner.require_open()?;
        let inner = &self.inner;
        let snapshot = if version == 0 {
            Snapshot::empty(inner.identity.uuid)
        } else {
            let manifest = head::read_manifest(inner.store.as_ref(), version, &inner.identity.uuid)?;
            Snapshot::load(manifest, &inner.pages)?
        };
        let snapshot = Arc::new(snapshot);
        let pinned = Inner {
            store: inner.store.clone(),
            identity: inner.identity.clone(),
            pages: PageLoader::new(inner.store.clone()),
            tables: Cache::new(TABLE_CACHE),
            trailers: Cache::new(TABLE_CACHE),
            shards: Shards::default(),
            writable: false,
            pinned: true,
            closed: AtomicBool::new(false),
            flushed: AtomicU64::new(0),
            synced: Mutex::default(),
            found: Mutex::new((snapshot.clone(), snapshot.version())),
            gaps: Mutex::new(Vec::new()),
            hint: head::Hint::default(),
            others_commit: AtomicBool::new(false),
            current: RwLock::new(snapshot),
            warnings: Mutex::new(Vec::new()),
            config: inner.config.clone(),
            known: Known::default(),
            seen: Seen::default(),
            following: Mutex::default(),
            placing: inner.placing.clone(),
            batch: Mutex::new(None),
        };
        Ok(Container { inner: Arc::new(pinned) })
    }

    /// Numbers of the snapshots that can be read, ascending: the chain of parents of the current one.
    pub fn snapshots(&self) -> Result<Vec<u64>> {
        Ok(self.history()?.into_iter().map(|(version, _)| version).collect())
    }

    /// The snapshots that can be read, ascending, each with the nanoseconds since 1970 at which it was committed.
    pub fn history(&self) -> Result<Vec<(u64, u64)>> {
        self.inner.require_open()?;
        let mut out = Vec::new();
        let mut version = self.snapshot().version();
        while version > 0 {
            version = match head::read_manifest(self.inner.store.as_ref(), version, &self.inner.identity.uuid)
            {
                Ok(manifest) => {
                    out.push((version, manifest.time));
                    manifest.parent // below its own version, or it is not decoded
                }
                Err(e) => {
                    let lost = e.kind() == ErrorKind::Corrupt
                        && self.inner.identity.durability != Durability::Durable
                        || head::is_void(self.inner.store.as_ref(), version);
                    match e.kind() {
                        _ if lost => head::below(self.inner.store.as_ref(), version)?, // in a power cut
                        ErrorKind::NotFound => break,
                        _ => return Err(e),
                    }
                }
            };
        }
        out.reverse();
        Ok(out)
    }

    /// Moves to the newest snapshot; `true` if it is another one.
    pub fn refresh(&self) -> Result<bool> {
        self.inner.require_open()?;
        if self.inner.pinned {
            return Ok(false);
        }
        let before = self.snapshot().version();
        let (newest, _) = self.inner.newest()?;
        let changed = newest.version() != before;
        self.inner.adopt_snapshot(newest);
        Ok(changed)
    }

    /// The handle's snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshot()
    }

    /// The schema: of the open batch if there is one, else of the snapshot.
    pub fn schema(&self) -> Arc<Schema> {
        let batch = lock(&self.inner.batch);
        batch.as_ref().map_or_else(|| self.inner.snapshot().schema.clone(), |b| b.preview.clone())
    }

    /// The variable at a path (links followed); `NotFound` names near misses.
    pub fn variable(&self, path: &str) -> Result<Variable> {
        self.inner.require_open()?;
        let schema = self.schema();
        schema.resolve(path).cloned().ok_or_else(|| no_such(&schema, path))
    }

    /// A path as the schema keeps it: without leading or trailing slashes.
    pub fn normal_path(path: &str) -> &str {
        path.trim_matches('/')
    }

    /// Applies schema operations as one commit (or adds them to the open batch). `true` if anything changed.
    pub fn apply(&self, ops: Vec<SchemaOp>) -> Result<bool> {
        self.inner.require_writable()?;
        let mut batch = lock(&self.inner.batch);
        if let Some(batch) = batch.as_mut() {
            return batch.extend(ops, self.snapshot().version() + 1);
        }
        drop(batch);
        self.commit_ops(&ops)
    }

    fn commit_ops(&self, ops: &[SchemaOp]) -> Result<bool> {
        let done = transaction::transact(&self.inner, |base, version| {
            let mut schema = (*base.schema).clone();
            let changed = apply_all(ops, &mut schema, version)?;
            Ok(if changed {
                Decision::Apply(Box::new(Change { schema: Some(schema), ..Change::default() }))
            } else {
                Decision::Keep { incomplete: Vec::new(), notes: Vec::new() }
            })
        })?;
        if !done.changed {
            self.inner.adopt_snapshot(done.snapshot);
        }
        Ok(done.changed)
    }

    /// Begins a batch: schema operations are collected until `end_batch`.
    pub fn begin_batch(&self) -> Result<()> {
        self.inner.require_writable()?;
        let (newest, _) = self.inner.newest()?;
        self.inner.adopt_snapshot(newest);
        let preview = self.inner.snapshot().schema.clone();
        let mut batch = lock(&self.inner.batch);
        if batch.is_some() {
            return Err(Error::invalid("a batch is open already; batches do not nest"));
        }
        *batch = Some(Batch { ops: Vec::new(), base: preview.clone(), preview });
        Ok(())
    }

    /// Ends the batch: commits what it collected, or (`commit` false) forgets it.
    pub fn end_batch(&self, commit: bool) -> Result<()> {
        let batch = lock(&self.inner.batch).take();
        match batch {
            None => Err(Error::invalid("no batch is open")),
            Some(batch) if commit && !batch.ops.is_empty() => self.commit_ops(&batch.ops).map(|_| ()),
            Some(_) => Ok(()),
        }
    }

    /// Makes what writers have closed visible (DESIGN §6, Commit); nothing new: the current snapshot.
    ///
    /// Steps of ranked writers become visible only when every rank has closed them; the others are in `incomplete`. `Conflict`
    /// if one rank of a step was closed by two writers.
    pub fn commit(&self) -> Result<Committed> {
        self.inner.require_writable()?;
        adoption::commit_all(&self.inner)
    }

    /// Makes visible, in one commit, what these writers hold that were closed by [`Writer::seal`]; nothing of others.
    pub fn commit_sealed(&self, writers: &[u64]) -> Result<Committed> {
        self.commit_sealed_with(writers, |_, _| Ok(false))
    }

    /// [`Container::commit_sealed`], with changes of the schema in the same commit: the writers may hold values of variables that it
    /// creates ([`Writer::put_to`]). `change` gets the newest schema and the version that the commit will have, says whether it changed
    /// anything, and is called again where another commit was faster.
    pub fn commit_sealed_with(
        &self,
        writers: &[u64],
        change: impl FnMut(&mut Schema, u64) -> Result<bool>,
    ) -> Result<Committed> {
        self.inner.require_writable()?;
        adoption::commit_of(&self.inner, writers, change)
    }

    /// The run-time configuration that acts on what is written through this handle.
    pub fn config(&self) -> Option<&Config> {
        self.inner.config.as_deref()
    }

    /// A writer (docs of [`Writer`]).
    pub fn writer(&self, options: WriterOptions) -> Result<Writer> {
        Writer::open(self.inner.clone(), options)
    }

    /// Makes everything committed so far survive a power cut; returns the version.
    pub fn flush(&self) -> Result<u64> {
        self.inner.flush()
    }

    /// [`Container::flush`] that does not sync the logs of these writers again: each was sealed, and [`Writer::sync`] brought it to stable
    /// storage, in whichever process.
    pub fn flush_after(&self, synced: &[u64]) -> Result<u64> {
        self.inner.flush_after(synced)
    }

    /// Warnings since the last call (what opening had to pass over, for one).
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.inner.warnings))
    }

    /// Where it is, for messages.
    pub fn location(&self) -> String {
        self.inner.store.describe()
    }

    /// Its identity.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// May this handle write?
    pub fn is_writable(&self) -> bool {
        self.inner.writable
    }

    /// Closes the handle: later calls are `InvalidArgument`. Writers opened from it go on until they are closed.
    pub fn close(&self) {
        self.inner.closed.store(true, Ordering::SeqCst);
        self.inner.settle();
    }

    /// Writes down what helps who comes next, as closing does; the handle and its clones go on.
    pub fn settle(&self) {
        self.inner.settle();
    }

    /// Has `close` been called?
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::SeqCst)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Inner {
    /// Writes down what helps who comes next.
    fn settle(&self) {
        self.hint.settle(self.store.as_ref(), self.identity.durability);
        if self.learns() {
            self.seen.keep(self.store.as_ref());
        }
    }

    /// Whether there is a newer snapshot than the handle's.
    pub(crate) fn is_outdated(&self) -> Result<bool> {
        head::has_newer(self.store.as_ref(), self.snapshot().version())
    }

    /// Refuses what is put to a variable that is there only when the open batch has ended, or is another one then.
    pub(crate) fn require_settled(&self, path: &str) -> Result<()> {
        let batch = lock(&self.batch);
        let Some(what) = batch.as_ref().and_then(|batch| batch.what_becomes_of(path)) else { return Ok(()) };
        Err(Error::invalid(format!(
            "the batch that is open {what} the variable \"{path}\", which is done when it ends: put to it then"
        )))
    }

    pub(crate) fn require_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::invalid(format!("the container {} is closed", self.store.describe())));
        }
        Ok(())
    }

    pub(crate) fn require_writable(&self) -> Result<()> {
        self.require_open()?;
        self.require_unpinned()
    }

    /// Whether it is the newest snapshot, open for writing.
    pub(crate) fn is_unpinned(&self) -> bool {
        self.writable && !self.pinned
    }

    /// Writers go on after the container's handle was closed: for them only the way it was opened counts.
    pub(crate) fn require_unpinned(&self) -> Result<()> {
        if self.pinned {
            return Err(Error::invalid(
                "this is an earlier snapshot: it can only be read; open the container to write",
            ));
        }
        if !self.writable {
            return Err(Error::invalid(format!(
                "{} is open for reading only; open it with mode \"r+\"",
                self.store.describe()
            )));
        }
        Ok(())
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest snapshot in the store and the highest manifest number there.
    pub(crate) fn newest(&self) -> Result<(Arc<Snapshot>, u64)> {
        let known = self.newest_known();
        if !head::has_newer(self.store.as_ref(), known.1)? {
            return Ok(known);
        }
        let head = head::find(&self.store, &self.pages, &self.identity, Look::From(known.1), None)?;
        if !head.warnings.is_empty() {
            lock(&self.warnings).extend(head.warnings);
        }
        let newer = (Arc::new(head.snapshot), head.top);
        let mut found = lock(&self.found);
        if newer.1 > found.1 {
            *found = newer.clone();
        }
        Ok(newer)
    }

    /// The newest snapshot that this handle has come across, and the highest manifest number.
    pub(crate) fn newest_known(&self) -> (Arc<Snapshot>, u64) {
        let current = self.snapshot();
        let mut found = lock(&self.found);
        if current.version() > found.1 {
            *found = (current.clone(), current.version());
        }
        found.clone()
    }

    /// Moves to a version that somebody has just committed, without looking for it, or beyond. `manifest` is what that has told of
    /// it, if anything; what is none is read.
    pub(crate) fn move_to(&self, version: u64, manifest: &[u8]) -> Result<()> {
        let current = self.snapshot();
        if current.version() >= version {
            return Ok(());
        }
        let told = Manifest::decode(manifest).ok();
        let told = told.filter(|m| m.version == version && m.uuid == self.identity.uuid);
        let found = told
            .map_or_else(|| head::read_manifest(self.store.as_ref(), version, &self.identity.uuid), Ok)
            .and_then(|manifest| Snapshot::after(&current, manifest, &self.pages));
        let snapshot = match found {
            Ok(snapshot) => Arc::new(snapshot),
            Err(e) if e.kind() == ErrorKind::NotFound => self.newest()?.0, // it has expired
            Err(e) => return Err(e),
        };
        self.adopt_snapshot(snapshot);
        Ok(())
    }

    /// Makes `snapshot` the handle's, unless that would go back.
    pub(crate) fn adopt_snapshot(&self, snapshot: Arc<Snapshot>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if snapshot.version() >= current.version() {
            *current = snapshot;
        }
    }

    /// Closes the gaps that a power cut left among the manifests.
    pub(crate) fn close_gaps(&self) -> Result<()> {
        let mut gaps = lock(&self.gaps);
        while let Some(&gap) = gaps.last() {
            head::put_void(self.store.as_ref(), gap, false)?;
            gaps.pop();
        }
        Ok(())
    }

    pub(crate) fn last_marked(&self, base: &Snapshot) -> u64 {
        base.manifest.last_marked.max(self.flushed.load(Ordering::SeqCst))
    }

    pub(crate) fn warn(&self, warning: String) {
        lock(&self.warnings).push(warning);
    }
}

/// "No such variable", with the nearest names.
pub(crate) fn no_such(schema: &Schema, path: &str) -> Error {
    let mut near: Vec<(usize, &String)> =
        schema.names.keys().chain(schema.groups.keys()).map(|name| (distance(path, name), name)).collect();
    // A name of which half is otherwise is another one.
    let alike = |d: usize, name: &str| d == 1 || 2 * d <= path.chars().count().max(name.chars().count());
    near.retain(|(d, name)| *d <= 3 && !name.is_empty() && alike(*d, name));
    near.sort();
    let hint = match near.first() {
        Some((_, name)) => format!("; did you mean \"{name}\"?"),
        None if schema.names.is_empty() => "; the container has no variables".into(),
        None => {
            let some: Vec<&str> = schema.names.keys().take(8).map(String::as_str).collect();
            format!("; there are: {}{}", some.join(", "), if schema.names.len() > 8 { ", …" } else { "" })
        }
    };
    if let Err(why) = schema::check_path(path) {
        return Error::not_found(format!("\"{path}\" is not a path: {why}{hint}"));
    }
    if schema.groups.contains_key(path) && !path.is_empty() {
        return Error::not_found(format!("\"{path}\" is a group, no variable"));
    }
    if let Some(Name::Link(target)) = schema.names.get(path) {
        return Error::not_found(format!("\"{path}\" is a link to \"{target}\", which is not there"));
    }
    Error::not_found(format!("there is no variable \"{path}\"{hint}"))
}

/// Edit distance, for suggestions.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
