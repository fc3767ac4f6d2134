//! An open file: its tree, its container, and the values buffered in memory.
//!
//! A process has one [`Shared`] per file, however often the file is opened: all openings see each other's
//! changes at once, as HDF5 promises. Other processes see what was last committed, including the other ranks
//! of a [`Team`].
//!
//! Invariants
//! - every change of the tree sets `dirty`; a commit clears it;
//! - values are in the resident cells, in `pending` or `patches`, in the writer (`uncommitted`), or
//!   committed, and a newer location hides an older.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use drystone::format::schema::Schema;
use drystone::plan::selection::Selection;
use drystone::{Container, Writer};

use crate::file::config::Config;
use crate::file::head::Head;
use crate::file::heap::{CATALOGUE, Heap};
use crate::file::native;
use crate::file::patch::Patch;
use crate::file::spare::Spare;
use crate::library::failure::{Failure, Result};
use crate::model::catalogue::{self, Catalogue};
use crate::model::tree::{Id, Tree};
use crate::ranks::team::Team;

/// A box of cells that waits to be put.
pub struct Block {
    pub(crate) dataset: Id,
    pub(crate) first: Vec<u64>,
    pub(crate) count: Vec<u64>,
    pub(crate) data: Vec<u8>,
}

/// All cells of a small dataset.
pub struct Resident {
    pub(crate) data: Vec<u8>,
    pub(crate) dirty: bool,
}

/// Variables that the commit of a flush will create.
pub(crate) struct Deferred {
    /// Ids from this one on are deferred.
    pub(super) from: u32,
    /// On the rank that commits: the schema before, and after.
    pub(super) schemas: Option<(Arc<Schema>, Schema)>,
}

/// The mutable state, under one lock.
pub struct FileState {
    /// The objects.
    pub tree: Tree,
    /// Whether the tree is newer than the catalogue.
    pub dirty: bool,
    /// Number of handles that hold each object open.
    pub open: BTreeMap<Id, u32>,
    /// Path under which each object was made, in HDF5.
    pub named: BTreeMap<Id, String>,
    pub(crate) container: Container,
    /// For a file at a URL that this process changes alone.
    pub(crate) head: Option<Head>,
    pub(crate) writer: Option<Writer>,
    /// Writers of values that a commit has shown to the team and no flush has synced.
    pub(crate) shown: Vec<Writer>,
    /// The last commit of the team was not flushed.
    pub(crate) is_only_shown: bool,
    /// Datasets with values in the writer that are not committed.
    pub(crate) uncommitted: BTreeSet<Id>,
    pub(crate) resident: BTreeMap<Id, Resident>,
    pub(crate) resident_bytes: usize,
    /// Small writes that wait for the flush of all ranks.
    pub(crate) patches: BTreeMap<Id, Patch>,
    pub(crate) patched_bytes: usize,
    pub(crate) pending: VecDeque<Arc<Block>>,
    pub(crate) pending_bytes: usize,
    /// When something was written last.
    pub(crate) written: Instant,
    /// A write waits for room.
    pub(crate) pressed: bool,
    pub(crate) spare: Spare,
    pub(crate) heap: Heap,
    /// For a file of several ranks: distinguishes its variables from those of a killed program.
    pub(crate) session: Option<u64>,
    /// Paths of variables by id.
    pub(crate) variables: BTreeMap<u32, String>,
    /// Variables from this id on were not searched for those that other ranks have created.
    pub(crate) adopted: u32,
    /// Variables that the commit of the current flush will create.
    pub(crate) deferred: Option<Deferred>,
    /// The ranks are agreeing on which variables exist: none is created now.
    pub(crate) meeting: bool,
    /// Bytes of the catalogue that was put last.
    pub(crate) catalogue: u64,
    /// The first rank has committed since this one refreshed.
    pub(crate) outdated: bool,
    /// Whether objects were removed since the last commit.
    pub(crate) removed: bool,
    pub(crate) failed: Option<Failure>,
    /// The first pending block is being put.
    pub(crate) busy: bool,
    pub(crate) stop: bool,
    pub(crate) thread: Option<std::thread::JoinHandle<()>>,
}

/// A file that this process has open.
pub struct Shared {
    /// The stub, or the URL of the container.
    pub path: PathBuf,
    /// May it be changed?
    pub writable: bool,
    /// Its number, as programs see it.
    pub number: u64,
    /// The configuration of the first opener.
    pub config: Config,
    pub(crate) state: Mutex<FileState>,
    pub(crate) wake: Condvar,
    pub(crate) done: Condvar,
    pub(crate) opens: AtomicU64,
    /// A folder that is removed with the last closing: the container of a published file, or all of a file in
    /// memory.
    pub(crate) published: OnceLock<PathBuf>,
    /// Whether a program declared that others read while it writes.
    pub(crate) swmr: AtomicBool,
    /// Whether publishing was tried.
    pub(crate) settled: AtomicBool,
    /// The ranks that have it open together.
    pub(crate) team: Option<Arc<Team>>,
    _lock: Option<File>,
}

/// The objects of a container and their values of variable length.
///
/// They come from its catalogue. A container that HDF5 programs did not write has no catalogue: its objects are made,
/// with the numbers that they had `before`. If nothing was committed yet, they are those of an empty file.
pub(crate) fn load(container: &Container, before: Option<&Tree>) -> Result<(Tree, Heap)> {
    if native::is_native(&container.schema()) {
        return Ok(native::content(container, before));
    }
    let Catalogue { tree, heap } = catalogue(container)?;
    Ok((tree, Heap { stored: heap, ..Heap::default() }))
}

fn catalogue(container: &Container) -> Result<Catalogue> {
    if container.schema().resolve(CATALOGUE).is_none() {
        return Ok(Catalogue { tree: Tree::new(0, 0), heap: 0 });
    }
    let reading = container.reading(CATALOGUE, None)?;
    let there = reading.shape().first().copied().unwrap_or(0);
    if there == 0 {
        return Ok(Catalogue { tree: Tree::new(0, 0), heap: 0 });
    }
    let read = |n: u64| -> Result<Vec<u8>> {
        let mut bytes = vec![0; n as usize];
        let out = drystone::array::Target::dense(&mut bytes, &[n], 1)?;
        reading.read(&Selection::boxed(&[0], &[n]), &out)?;
        Ok(bytes)
    };
    let corrupt = |c: catalogue::Corrupt| Failure::damaged(c.to_string());
    let length = catalogue::length(&read(there.min(catalogue::HEADER as u64))?).map_err(corrupt)?;
    if length > there {
        return Err(Failure::damaged("the catalogue is longer than what was stored of it"));
    }
    Catalogue::decode(&read(length)?).map_err(corrupt)
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl Shared {
    pub(crate) fn new(
        path: PathBuf,
        writable: bool,
        config: Config,
        container: Container,
        (tree, heap): (Tree, Heap),
        lock: Option<File>,
        team: Option<Arc<Team>>,
    ) -> Arc<Shared> {
        let mut state = FileState {
            tree,
            dirty: false,
            open: BTreeMap::new(),
            named: BTreeMap::new(),
            container,
            head: None,
            writer: None,
            shown: Vec::new(),
            is_only_shown: false,
            uncommitted: BTreeSet::new(),
            resident: BTreeMap::new(),
            resident_bytes: 0,
            patches: BTreeMap::new(),
            patched_bytes: 0,
            pending: VecDeque::new(),
            pending_bytes: 0,
            written: Instant::now(),
            pressed: false,
            spare: Spare::default(),
            heap,
            session: team.as_ref().map(|team| team.session.load(Ordering::SeqCst)),
            variables: BTreeMap::new(),
            adopted: 0,
            deferred: None,
            meeting: false,
            catalogue: 0,
            outdated: false,
            removed: false,
            failed: None,
            busy: false,
            stop: false,
            thread: None,
        };
        state.learn_variables();
        state.adopted = state.container.schema().next_id;
        // A killed program may have left variables that no catalogue refers to.
        state.removed = writable && !state.unused().is_empty();
        Arc::new(Shared {
            path,
            writable,
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            config,
            state: Mutex::new(state),
            wake: Condvar::new(),
            done: Condvar::new(),
            opens: AtomicU64::new(0),
            published: OnceLock::new(),
            swmr: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            team,
            _lock: lock,
        })
    }

    /// Refreshes to what other processes have committed: for a file open for reading, which no other thread
    /// of this program is using.
    ///
    /// Objects keep their numbers, so handles lead to their present content.
    pub fn refresh(&self) -> Result<()> {
        if self.writable || self.team.is_some() {
            return Ok(());
        }
        let mut state = self.lock();
        let newer = state.container.clone();
        if !newer.refresh()? {
            return Ok(());
        }
        (state.tree, state.heap) = load(&newer, Some(&state.tree))?;
        state.learn_variables();
        Ok(())
    }

    /// The state. A panic elsewhere leaves it as it was between two statements; the next commit checks it.
    pub fn lock(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileState {
    /// Records that a handle holds an object.
    pub fn hold(&mut self, id: Id) {
        *self.open.entry(id).or_default() += 1;
    }

    /// Records that a handle releases an object.
    pub fn release(&mut self, id: Id) {
        if let Some(n) = self.open.get_mut(&id) {
            *n -= 1;
            if *n == 0 {
                self.open.remove(&id);
                self.reap(id);
            }
        }
    }

    /// Removes an object if neither a link nor a handle holds it, and then everything that only it led to.
    pub fn reap(&mut self, id: Id) {
        let open = &self.open;
        let gone = self.tree.reap(vec![id], |id| open.contains_key(&id));
        for id in gone {
            self.dirty = true;
            self.removed = true;
            self.named.remove(&id);
            if let Some(resident) = self.resident.remove(&id) {
                self.resident_bytes -= resident.data.len();
            }
            self.take_patch(id);
        }
    }
}
