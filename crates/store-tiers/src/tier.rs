//! One tier: a store, its budget, and its health.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use drystone_plan::tier::place::{Room, reserve};
use drystone_store::{LocalStore, MemoryStore, Result, Store, StoreError};
use rustix::fs::FlockOperation;

use crate::health::Health;
use crate::patient::{PATIENCE, Patient, Threads, is_memory};

/// Returns the free bytes of a tier; `None` if unknown.
type Free = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// A storage tier that is nearer than the home store.
pub struct Tier {
    pub(crate) store: Arc<dyn Store>,
    budget: Option<u64>,
    free: Free,
    reserve: u64,
    /// The container's own folder, if the tier is a folder.
    folder: Option<PathBuf>,
    /// A shared lock of that folder, which keeps other processes from removing it; and the process that took it.
    held: Option<(Arc<File>, u32)>,
    /// Whether its content is lost with the process.
    pub(crate) volatile: bool,
    /// The threads that execute its requests; `None` if it cannot hang.
    threads: Option<Arc<Threads>>,
    pub(crate) health: Health,
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier")
            .field("store", &self.store)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// The state of a tier, as a row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierState {
    /// Its path or name.
    pub place: String,
    /// Bytes that it holds of this container.
    pub bytes: u64,
    /// Number of those bytes that the home store does not have.
    pub undrained: u64,
    /// The oldest step of those bytes.
    pub oldest: Option<u64>,
    /// Number of reads that it answered.
    pub reads: u64,
    /// Why it is not in use; `None` if it is.
    pub aside: Option<String>,
}

/// The path of parts in a container's folder of a tier.
pub(crate) fn parts_of(folder: &Path) -> PathBuf {
    folder.join("parts")
}

/// The path of parity objects in a container's folder of a tier.
pub(crate) fn parity_of(folder: &Path) -> PathBuf {
    folder.join("parity")
}

/// The path of the lock of a writer's parts in a container's folder of a tier.
pub(crate) fn lock_of(folder: &Path, writer: u64) -> PathBuf {
    folder.join("locks").join(format!("{writer:016x}"))
}

/// The name of a container's folder in a tier.
pub(crate) fn folder_name(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|b| format!("{b:02x}")).collect()
}

/// Makes a container's folder in a tier, and takes the shared lock with which it stays. There is no lock where the file
/// system has none; then the folder is never removed.
fn create(folder: &Path) -> Result<(LocalStore, Option<File>)> {
    loop {
        let store = LocalStore::create(parts_of(folder))?;
        let file = match File::open(folder) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(_) => return Ok((store, None)),
        };
        if rustix::fs::flock(&file, FlockOperation::LockShared).is_err() {
            return Ok((store, None));
        }
        // Another process may have removed the folder before the lock was taken.
        if is_at(&file, folder) && parts_of(folder).is_dir() {
            return Ok((store, Some(file)));
        }
    }
}

/// Whether a path still names this open file or folder.
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let places = (file.metadata(), std::fs::metadata(path));
    matches!(places, (Ok(held), Ok(now)) if (held.dev(), held.ino()) == (now.dev(), now.ino()))
}

impl Tier {
    /// A tier in a store that can append and that no other container uses. It holds at most `budget` bytes, if given.
    pub fn new(store: Arc<dyn Store>, budget: Option<u64>) -> Self {
        let free: Free = Box::new(|| None);
        Tier {
            store,
            budget,
            free,
            reserve: 0,
            folder: None,
            held: None,
            volatile: false,
            threads: None,
            health: Health::default(),
        }
    }

    /// A tier in the memory of this process. It takes a part if no other tier has space and the home store cannot
    /// append. Its closed parts are drained before the writer's parts are registered.
    pub fn volatile() -> Self {
        Tier { volatile: true, ..Tier::new(Arc::new(MemoryStore::new()), None) }
    }

    /// A tier in a folder. The container gets its own folder in it, and some space of the device is left to other
    /// users.
    pub fn in_folder(folder: &Path, uuid: &[u8; 16], budget: Option<u64>) -> Result<Self> {
        let own =
            std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf()).join(folder_name(uuid));
        let threads = Arc::new(Threads::default());
        let made = own.clone();
        type Made = (LocalStore, Option<File>, u64, bool);
        let made = threads.ask(PATIENCE, move || -> Result<Made> {
            let (store, held) = create(&made)?;
            let size = rustix::fs::statvfs(&made).map_or(0, |s| s.f_blocks.saturating_mul(s.f_frsize));
            Ok((store, held, size, is_memory(&made)))
        });
        let hangs = || StoreError::Deadline {
            key: String::new(),
            store: own.display().to_string(),
            operation: "open the folder",
            reason: format!("it does not answer within {PATIENCE:?}; leave it out of tiers="),
        };
        let (store, held, size, is_memory) = made.unwrap_or_else(|| Err(hangs()))?;
        let held = held.map(|file| (Arc::new(file), drystone_store::process_id()));
        let (place, waits) = (own.clone(), threads.clone());
        let free = move || {
            let place = place.clone();
            let look = move || rustix::fs::statvfs(&place).ok();
            let found = if is_memory { look() } else { waits.ask(PATIENCE, look).flatten() };
            found.map(|s| s.f_bavail.saturating_mul(s.f_frsize))
        };
        let tier = Tier::new(Arc::new(store), budget).with_free(free, reserve(size));
        let tier = Tier { folder: Some(own), held, ..tier };
        Ok(if is_memory { tier } else { tier.with_patience_on(threads, PATIENCE) })
    }

    /// Makes a tier whose store may hang abandon each request after `patience`. The bytes of each request are then
    /// copied; a tier in memory avoids these copies.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        self.with_patience_on(Arc::default(), patience)
    }

    fn with_patience_on(self, threads: Arc<Threads>, patience: Duration) -> Self {
        let store = Arc::new(Patient::new(self.store, threads.clone(), patience));
        Tier { store, threads: Some(threads), ..self }
    }

    /// Whether a request to it may be abandoned.
    pub(crate) fn may_hang(&self) -> bool {
        self.threads.is_some()
    }

    /// Runs `act` in the container's folder and returns its result; `None` if the tier is no folder or hangs.
    fn in_own<T: Send + 'static>(&self, act: impl FnOnce(&Path) -> T + Send + 'static) -> Option<T> {
        let folder = self.folder.clone()?;
        match &self.threads {
            Some(threads) => threads.ask(PATIENCE, move || act(&folder)),
            None => Some(act(&folder)),
        }
    }

    /// Sets the function that returns the free bytes of the tier's device. The tier leaves `reserve` bytes to other
    /// users.
    #[must_use]
    pub fn with_free(self, free: impl Fn() -> Option<u64> + Send + Sync + 'static, reserve: u64) -> Self {
        Tier { free: Box::new(free), reserve, ..self }
    }

    /// The container's own folder in it.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Takes the lock of a writer's parts in this tier; `None` if a living process has it, or if the tier is no folder.
    /// The lock is released when the file is dropped, or when the process ends.
    pub(crate) fn lock(&self, writer: u64) -> std::io::Result<Option<File>> {
        if self.folder.is_none() {
            return Ok(None);
        }
        let locked = self.in_own(move |folder| -> std::io::Result<Option<File>> {
            let lock = lock_of(folder, writer);
            lock.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            loop {
                let file = File::options().create(true).append(true).open(&lock)?;
                match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    // Its former holder may have removed the file before the lock was taken.
                    Ok(()) if is_at(&file, &lock) => return Ok(Some(file)),
                    Ok(()) => {}
                    Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                    Err(other) => return Err(other.into()),
                }
            }
        });
        locked.unwrap_or_else(|| Err(std::io::ErrorKind::TimedOut.into()))
    }

    /// Removes the lock file of a writer that has no parts left in the tier. The caller holds the lock.
    pub(crate) fn forget_lock(&self, writer: u64) {
        let _ = self.in_own(move |folder| std::fs::remove_file(lock_of(folder, writer)));
    }

    /// Removes the container's folder if it is empty and no other handle has it open.
    pub(crate) fn tidy(&self) {
        // A forked child shares its parent's lock.
        let held = self.held.as_ref().filter(|(_, process)| *process == drystone_store::process_id());
        let Some(file) = held.map(|(file, _)| file.clone()) else { return };
        let _ = self.in_own(move |folder| {
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                for below in ["parts/log", "parts", "parity", "locks", ""] {
                    let _ = std::fs::remove_dir(folder.join(below));
                }
            }
            // A failed exchange of locks may have dropped the shared one.
            let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
        });
    }

    pub(crate) fn room(&self, held: u64, evictable: u64) -> Room {
        let aside = self.health.aside().is_some();
        let free = if aside { None } else { (self.free)() };
        Room { free, reserve: self.reserve, budget: self.budget, held, evictable, aside }
    }

    /// Executes an operation in the tier, and records whether it failed.
    pub(crate) fn doing<T>(&self, act: impl FnOnce(&dyn Store) -> Result<T>) -> Result<T> {
        let done = act(self.store.as_ref());
        match &done {
            Ok(_) => self.health.worked(),
            Err(error) if is_failure(error) => self.health.failed(error.to_string()),
            Err(_) => {}
        }
        done
    }
}

/// Whether an error is a fault of the tier and not of the caller. Keys were checked before, so a key that the tier
/// refuses is a fault of its folder. A full tier is no fault: each new part checks the free space again.
fn is_failure(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::NotFound { .. }
            | StoreError::AlreadyExists { .. }
            | StoreError::ShortRead { .. }
            | StoreError::Conflict { .. }
            | StoreError::NoSpace { .. }
    )
}
