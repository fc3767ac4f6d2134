//! The handle on the files of a container: folders, open files, reads, writes, commits.
//!
//! A write appends to a log of its handle and records a pending extent; a commit puts pending extents into the journal.
//! Reads through this mount see all writes that have returned.
//!
//! Invariants
//! - an extent becomes pending after its bytes are in the log, and is committed together with the checksums of its log;
//! - a file without a name exists for as long as it is open;
//! - locks are taken in this order: `core`, `logs`, one log.

mod commits;
mod content;
mod known;
mod names;
mod registration;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use drystone_files::{Attrs, Owner, ROOT, Record, State};
use drystone_format::keys;
use drystone_store::Store;

use crate::data::{DataLog, Reader};
use crate::journal::Journal;
use crate::{Failure, Result, locked};
use known::Core;
use registration::{admitted, beat, claims, others, register};

pub use content::Handle;
pub use known::Stat;
pub use registration::{Life, Registry, Seen};

/// The longest time until a write is in the journal.
const SOON: Duration = Duration::from_secs(5);
/// How often writes that are due are committed.
const TICK: Duration = Duration::from_secs(1);
/// Permissions of the root until some file of the container is changed.
const ROOT_MODE: u32 = 0o755;

/// How the files are opened.
pub enum Access {
    /// For reading.
    Read,
    /// For writing, too.
    Write {
        /// How this process and others are known.
        registry: Registry,
        /// The owner of the root until it is changed.
        owner: Owner,
        /// Whether no other mount may write meanwhile.
        alone: bool,
    },
}

/// The files of a container.
pub struct Files {
    pub(crate) store: Arc<dyn Store>,
    durable: bool,
    me: Option<Me>,
    pub(crate) core: Mutex<Core>,
    pub(crate) logs: Mutex<HashMap<u64, Arc<Mutex<DataLog>>>>,
    free: Mutex<Vec<Arc<Mutex<DataLog>>>>,
    next_log: AtomicU32,
    pub(crate) reader: Reader,
    append: Mutex<()>,
    pub(crate) rolled: AtomicBool,
}

/// This mount, if it writes.
struct Me {
    id: u32,
    registry: Registry,
    /// Whether no other mount changed files when it began.
    first: bool,
    /// Whether no other mount may write.
    alone: bool,
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

impl Files {
    /// The files of the container in a store. With `durable`, a commit by a close survives a power cut.
    pub fn open(store: Arc<dyn Store>, uuid: [u8; 16], durable: bool, access: Access) -> Result<Arc<Files>> {
        let me = match access {
            Access::Read => None,
            Access::Write { registry, owner, alone } => {
                if !store.features().append {
                    return Err(Failure::NoAppend(store.describe()));
                }
                let id = register(store.as_ref(), registry, alone)?;
                Some((Me { id, registry, first: false, alone }, owner))
            }
        };
        let (mut me, owner) = me.map_or((None, None), |(me, owner)| (Some(me), Some(owner)));
        let begun = Files::begun(store.as_ref(), uuid, me.as_mut());
        let journal = match begun {
            Ok(journal) => journal,
            Err(error) => {
                if let Some(me) = me {
                    let _ = store.delete(&keys::mount(me.id));
                }
                return Err(error);
            }
        };
        let core = Core { journal, noted: HashMap::new(), used: HashMap::new(), orphans: HashMap::new() };
        let files = Arc::new(Files {
            store,
            durable,
            me,
            core: Mutex::new(core),
            logs: Mutex::default(),
            free: Mutex::default(),
            next_log: AtomicU32::new(0),
            reader: Reader::default(),
            append: Mutex::new(()),
            rolled: AtomicBool::new(false),
        });
        if let Some(owner) = owner {
            files.begin(owner)?;
            let weak = Arc::downgrade(&files);
            std::thread::spawn(move || look_after(&weak));
        }
        Ok(files)
    }

    /// The journal, for a mount that is registered if it writes.
    fn begun(store: &dyn Store, uuid: [u8; 16], me: Option<&mut Me>) -> Result<Journal> {
        let Some(me) = me else { return Journal::open(store, uuid, None) };
        // The order matters: a mount that is not among the others registers later, and so writes after all these
        // claims.
        let claims = claims(store)?;
        let beside = admitted(store, me.id, me.registry, me.alone)?;
        me.first = beside.iter().all(|other| other.seen.collects);
        if beside.is_empty() {
            claims.iter().try_for_each(|key| store.delete(key))?;
        }
        let mut journal = Journal::open(store, uuid, Some(me.id))?;
        if me.alone {
            journal.alone(store)?;
        }
        Ok(journal)
    }

    fn begin(&self, owner: Owner) -> Result<()> {
        let time = now();
        let attrs =
            Attrs { mode: ROOT_MODE, uid: owner.uid, gid: owner.gid, atime: time, mtime: time, ctime: time };
        drop(self.change(|state| {
            let fresh = state.get(ROOT).is_some_and(|root| root.attrs.mode == 0);
            Ok(if fresh { vec![Record::Attrs { ino: ROOT, attrs }] } else { Vec::new() })
        })?);
        Ok(())
    }

    /// Whether locks of files may be granted: no other mount writes, or the mounts that write grant none.
    pub fn grants_locks(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.first)
    }

    /// Whether another mount changes files of this container.
    pub fn is_shared(&self) -> Result<bool> {
        let Some(me) = self.me.as_ref().filter(|me| !me.alone) else { return Ok(false) };
        Ok(others(self.store.as_ref(), me.id, me.registry)?.iter().any(|other| !other.seen.collects))
    }

    /// Whether no other mount may write.
    pub fn is_alone(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.alone)
    }

    /// The state with everything that other mounts have committed.
    fn newest(&self) -> Result<MutexGuard<'_, Core>> {
        let mut core = locked(&self.core);
        core.journal.catch_up(self.store.as_ref())?;
        core.sort_out();
        Ok(core)
    }

    /// Calls `look` with the newest state, without copying it.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        Ok(look(&self.newest()?.journal.state))
    }

    /// Commits everything and removes the registration of this mount.
    pub fn shut(&self) -> Result<()> {
        let Some(me) = &self.me else { return Ok(()) };
        let inodes: Vec<u64> = locked(&self.core).noted.keys().copied().collect();
        let done = inodes.into_iter().try_for_each(|ino| self.commit(ino)).and_then(|()| self.sync(None));
        self.store.delete(&keys::mount(me.id))?;
        done
    }

    /// Number of this mount.
    pub(crate) fn number(&self) -> Option<u32> {
        self.me.as_ref().map(|me| me.id)
    }

    /// Numbers of the other mounts that write.
    pub(crate) fn others(&self) -> Result<HashSet<u32>> {
        match &self.me {
            Some(me) => {
                let others = others(self.store.as_ref(), me.id, me.registry)?;
                Ok(others.iter().map(|other| other.number).collect())
            }
            None => Ok(HashSet::new()),
        }
    }

    /// Gives a sign of life. If the registration is gone, another mount may write, so this one must not.
    fn beat(&self) -> Result<()> {
        match &self.me {
            Some(me) if me.alone && !beat(self.store.as_ref(), me.id, me.registry)? => {
                if locked(&self.core).journal.fence() { Err(Failure::Fenced) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn look_after_once(&self) {
        if let Err(error) = self.beat() {
            eprintln!("drystone: {error}");
        }
        let old: Vec<u64> = {
            let core = locked(&self.core);
            core.noted.iter().filter(|(_, noted)| noted.since.elapsed() > SOON).map(|(ino, _)| *ino).collect()
        };
        let done = old
            .into_iter()
            .try_for_each(|ino| self.commit(ino))
            .and_then(|()| if self.rolled.swap(false, Ordering::Relaxed) { self.reclaim() } else { Ok(()) });
        if let Err(error) = done {
            eprintln!("drystone: {error}");
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            eprintln!("drystone: {error}");
        }
    }
}

/// Commits old writes and removes unneeded logs, for as long as the mount exists.
fn look_after(files: &Weak<Files>) {
    loop {
        std::thread::sleep(TICK);
        match files.upgrade() {
            Some(files) => files.look_after_once(),
            None => return,
        }
    }
}
