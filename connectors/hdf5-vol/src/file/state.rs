//! An open file: its tree, its container, and what waits in memory to be written.
//!
//! One process has one [`Shared`] per file, whoever opens it how often: all see each other's changes at once, as HDF5 promises.
//! Other processes see what was last committed, the other ranks of a [`Team`] too.
//!
//! Invariants
//! - whoever changes the tree sets `dirty`; whoever commits clears it;
//! - values are in the resident cells, in `pending` or `patches`, in the writer (`uncommitted`), or committed, and a newer place hides an older.

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
use crate::file::patch::Patch;
use crate::file::spare::Spare;
use crate::library::failure::{Failure, Result};
use crate::model::catalogue::{self, Catalogue};
use crate::model::tree::{Id, Tree};
use crate::ranks::team::Team;

/// Variable that holds the catalogue.
pub const CATALOGUE: &str = ".hdf5/catalogue";
/// Variable that holds values of variable length.
pub const HEAP: &str = ".hdf5/heap";

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

/// What the commit of a flush will create.
pub(crate) struct Promise {
    /// Ids from this one on are promised.
    pub(super) from: u32,
    /// Of the rank that commits: the schema before, and as it will be.
    pub(super) schemas: Option<(Arc<Schema>, Schema)>,
}

/// Values of variable length: what is committed, and what came since.
#[derive(Default)]
pub struct Heap {
    /// Bytes in the container.
    pub(crate) stored: u64,
    /// Bytes that follow them.
    pub(crate) pending: Vec<u8>,
    /// Pages of the container that were read.
    pub(crate) pages: BTreeMap<u64, Arc<Vec<u8>>>,
}

/// What changes, under one lock.
pub struct FileState {
    /// The objects.
    pub tree: Tree,
    /// Is the tree newer than the catalogue?
    pub dirty: bool,
    /// Objects held open, by how many handles.
    pub open: BTreeMap<Id, u32>,
    /// Path under which each object was made, in HDF5.
    pub named: BTreeMap<Id, String>,
    pub(crate) container: Container,
    pub(crate) writer: Option<Writer>,
    /// Writers of values that a commit has shown to the team and no flush has synced.
    pub(crate) shown: Vec<Writer>,
    /// The last commit of the team was not flushed.
    pub(crate) is_only_shown: bool,
    /// Datasets of which the writer holds values that no commit has.
    pub(crate) uncommitted: BTreeSet<Id>,
    pub(crate) resident: BTreeMap<Id, Resident>,
    pub(crate) resident_bytes: usize,
    /// Crumbs that wait for the flush of all ranks.
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
    /// Of a file of several ranks: tells its variables from those of a program that was killed.
    pub(crate) session: Option<u64>,
    /// Paths of variables by id.
    pub(crate) variables: BTreeMap<u32, String>,
    /// Variables from this id on were not looked at for those that other ranks have made.
    pub(crate) adopted: u32,
    /// What the commit of the flush that is under way will create.
    pub(crate) promised: Option<Promise>,
    /// The ranks are agreeing on which variables there are: none is made now.
    pub(crate) meeting: bool,
    /// Bytes of the catalogue that was put last.
    pub(crate) catalogue: u64,
    /// The first rank has committed since this one looked.
    pub(crate) outdated: bool,
    /// Did objects go since the last commit?
    pub(crate) removed: bool,
    pub(crate) failed: Option<Failure>,
    /// The first pending block is being put.
    pub(crate) busy: bool,
    pub(crate) stop: bool,
    pub(crate) thread: Option<std::thread::JoinHandle<()>>,
}

/// A file that this process has open.
pub struct Shared {
    /// The stub.
    pub path: PathBuf,
    /// May it be changed?
    pub writable: bool,
    /// Its number, as programs see it.
    pub number: u64,
    /// What the first opener configured.
    pub config: Config,
    pub(crate) state: Mutex<FileState>,
    pub(crate) wake: Condvar,
    pub(crate) done: Condvar,
    pub(crate) opens: AtomicU64,
    /// A folder that goes with the last closing: the container that a published file needs no more, all of a file in memory.
    pub(crate) published: OnceLock<PathBuf>,
    /// Did a program declare that others read while it writes?
    pub(crate) swmr: AtomicBool,
    /// Whether publishing was tried.
    pub(crate) settled: AtomicBool,
    /// The ranks that have it open together.
    pub(crate) team: Option<Arc<Team>>,
    _lock: Option<File>,
}

/// The catalogue of a container; that of an empty file if none was committed yet.
pub(crate) fn load(container: &Container) -> Result<Catalogue> {
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
        (tree, heap): (Tree, u64),
        lock: Option<File>,
        team: Option<Arc<Team>>,
    ) -> Arc<Shared> {
        let mut state = FileState {
            tree,
            dirty: false,
            open: BTreeMap::new(),
            named: BTreeMap::new(),
            container,
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
            heap: Heap { stored: heap, ..Heap::default() },
            session: team.as_ref().map(|team| team.session.load(Ordering::SeqCst)),
            variables: BTreeMap::new(),
            adopted: 0,
            promised: None,
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
        // A program that was killed may have left variables that no catalogue speaks of.
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

    /// Looks for what other processes have committed since: of a file that is open for reading, by nobody else of this program.
    ///
    /// Objects keep their numbers, so handles lead to what is now under them.
    pub fn refresh(&self) -> Result<()> {
        if self.writable || self.team.is_some() {
            return Ok(());
        }
        let mut state = self.lock();
        let newer = state.container.clone();
        if !newer.refresh()? {
            return Ok(());
        }
        let Catalogue { tree, heap } = load(&newer)?;
        state.tree = tree;
        state.heap = Heap { stored: heap, ..Heap::default() };
        state.learn_variables();
        Ok(())
    }

    /// The state. A panic elsewhere leaves it as it was between two statements, which the next commit checks.
    pub fn lock(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileState {
    /// Notes that a handle holds an object.
    pub fn hold(&mut self, id: Id) {
        *self.open.entry(id).or_default() += 1;
    }

    /// Notes that a handle lets go of an object.
    pub fn release(&mut self, id: Id) {
        if let Some(n) = self.open.get_mut(&id) {
            *n -= 1;
            if *n == 0 {
                self.open.remove(&id);
                self.reap(id);
            }
        }
    }

    /// Removes an object if neither a link nor a handle holds it, and what it led to.
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
