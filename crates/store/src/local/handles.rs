//! Open files, kept for the next use.
//!
//! Invariants
//! - at most [`CAPACITY`] files are kept open; who is using one keeps it open a little longer;
//! - a handle is handed out only if its file still bears the name: an object that was deleted or replaced, by
//!   whomever, is opened anew, so that what was written is seen;
//! - the lock protects the table only and is never held during I/O, except to close a file.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How many files one store keeps open in one process.
pub(crate) const CAPACITY: usize = 128;

/// An open file. Positioned reads and writes on it may run at once.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: File,
    writable: bool,
    identity: (u64, u64),
    /// The folders up to the root have been synced since this file was opened, thus since it has its name.
    pub(crate) name_is_durable: AtomicBool,
    /// Up to here the system was asked to start writing to the device (`early_writeback`).
    pub(crate) started: AtomicU64,
    /// Whether it lies on a file system of this machine, once somebody asked.
    lies_here: OnceLock<bool>,
}

impl Handle {
    /// Whether it lies on a file system of this machine.
    pub(crate) fn lies_here(&self) -> bool {
        *self.lies_here.get_or_init(|| super::mapping::is_local(&self.file))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Handles {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    clock: u64,
    slots: HashMap<String, Slot>,
}

#[derive(Debug)]
struct Slot {
    last_used: u64,
    handle: Arc<Handle>,
}

impl Handles {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An open handle on the file at `path`, and its metadata.
    pub(crate) fn get(&self, key: &str, path: &Path, writable: bool) -> io::Result<(Arc<Handle>, Metadata)> {
        let known = self.table().find(key, writable);
        if let Some(handle) = known
            && let Some(metadata) = still_named(&handle, path)
        {
            return Ok((handle, metadata));
        }
        let file = self.opening(|| open(path, writable))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok((self.keep(key, file, &metadata, writable), metadata))
    }

    /// Keeps a file that was just created, open for reading and writing.
    pub(crate) fn keep_created(&self, key: &str, file: File) -> io::Result<Arc<Handle>> {
        let metadata = file.metadata()?;
        Ok(self.keep(key, file, &metadata, true))
    }

    fn keep(&self, key: &str, file: File, metadata: &Metadata, writable: bool) -> Arc<Handle> {
        let name_is_durable = AtomicBool::new(false);
        let started = AtomicU64::new(metadata.len());
        let handle = Arc::new(Handle {
            file,
            writable,
            identity: identity(metadata),
            name_is_durable,
            started,
            lies_here: OnceLock::new(),
        });
        let displaced = self.table().insert(key, Arc::clone(&handle));
        drop(displaced); // closed here, without the lock
        handle
    }

    pub(crate) fn forget(&self, key: &str) {
        let forgotten = self.table().slots.remove(key);
        drop(forgotten);
    }

    /// Opens something; if the process has too many files open, closes those kept here and tries again.
    pub(crate) fn opening(&self, open: impl Fn() -> io::Result<File>) -> io::Result<File> {
        match open() {
            Err(error) if is_too_many_open_files(&error) => {
                let closed = std::mem::take(&mut self.table().slots);
                drop(closed);
                open()
            }
            other => other,
        }
    }

    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        self.table().slots.len()
    }
}

impl Table {
    fn find(&mut self, key: &str, writable: bool) -> Option<Arc<Handle>> {
        self.clock += 1;
        let slot = self.slots.get_mut(key).filter(|slot| slot.handle.writable || !writable)?;
        slot.last_used = self.clock;
        Some(Arc::clone(&slot.handle))
    }

    /// Returns what had to leave.
    fn insert(&mut self, key: &str, handle: Arc<Handle>) -> [Option<Slot>; 2] {
        let mut evicted = None;
        if self.slots.len() >= CAPACITY && !self.slots.contains_key(key) {
            let oldest = self.slots.iter().min_by_key(|(_, slot)| slot.last_used).map(|(key, _)| key.clone());
            evicted = oldest.and_then(|oldest| self.slots.remove(&oldest));
        }
        self.clock += 1;
        [evicted, self.slots.insert(key.to_owned(), Slot { last_used: self.clock, handle })]
    }
}

/// The metadata of the file at `path` if it is still the one behind `handle`.
///
/// Asking the open file alone would be cheaper, but not enough: where somebody keeps hard links, a replaced file
/// has as many names as before, only not this one.
fn still_named(handle: &Handle, path: &Path) -> Option<Metadata> {
    let metadata = path.metadata().ok()?;
    (identity(&metadata) == handle.identity).then_some(metadata)
}

/// Device and inode; not used for another file as long as the handle keeps this one open.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn open(path: &Path, writable: bool) -> io::Result<File> {
    // Not blocking: a pipe somebody put in our place must not hold us up. Regular files do not care.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).write(writable).custom_flags(flags).open(path)
}

fn is_too_many_open_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
