//! Open files, kept for later use.
//!
//! Invariants
//! - at most [`CAPACITY`] files are kept open, each with one descriptor or two; a user of a handle may keep it open a
//!   little longer;
//! - a handle is given out only if its file still has the name. An object that was deleted or replaced is opened again,
//!   so that new bytes are seen. Callers for which the bytes never change are the exception (`known`);
//! - the lock protects the table only and is never held during I/O, except while a file is closed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};

use super::concurrent_readers::ConcurrentReaders;
use super::forget::is_in_memory;
use super::page::PAGE;

/// The number of files that one store keeps open in one process.
pub(crate) const CAPACITY: usize = 128;

/// An open file. Concurrent positioned reads and writes on it are allowed.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: File,
    writable: bool,
    identity: (u64, u64),
    /// Whether the folders up to the root were synced since this file was opened, that is, since it has its name.
    pub(crate) name_is_durable: AtomicBool,
    /// The offset up to which the kernel was asked to start writing (`early_writeback`).
    pub(crate) started: AtomicU64,
    /// Whether the file lies on a local file system, once determined.
    lies_here: OnceLock<bool>,
    /// A second descriptor for short reads out of order; the inner `None` means that it cannot be opened.
    aside: OnceLock<Option<File>>,
    /// End of the last sequential read.
    end: AtomicU64,
    /// Ranges of the last hint, ascending, as offsets and ends.
    hinted: Mutex<Vec<(u64, u64)>>,
    /// What is known about other readers.
    readers: ConcurrentReaders,
}

/// A read up to this length is short: of a table or a trailer.
const SHORT: usize = 16 << 10;
/// A short read is out of order if it begins this far beyond the end of the last read.
const FAR: u64 = 256 << 10;
/// For a run of more bytes, the kernel's own sequential read-ahead is the better choice.
const STREAM: u64 = 1 << 20;

impl Handle {
    /// The descriptor for a read. The kernel keeps the read pattern per descriptor. Reading a table some megabytes
    /// ahead would end the read-ahead of a sequential scan (64 MiB, 2 MiB at a time, each after its table, took 76 ms;
    /// with a descriptor for tables 55 ms). And after two adjacent hinted ranges the kernel would read on, though all
    /// wanted ranges had hints: for 120 pieces of 280 KiB it read 114 MiB where 64 MiB were wanted.
    pub(crate) fn to_read(&self, offset: u64, len: usize) -> &File {
        let ahead = offset.saturating_sub(self.end.load(Ordering::Relaxed));
        let table = len <= SHORT && ahead > FAR;
        let apart = (table || self.was_hinted(offset, len)) && self.lies_here();
        let file = apart.then(|| self.aside.get_or_init(|| aside(&self.file)).as_ref()).flatten();
        if !table || file.is_none() {
            self.end.store(offset.saturating_add(len as u64), Ordering::Relaxed);
        }
        file.unwrap_or(&self.file)
    }

    /// Reports that all bytes up to `end` are read in order, by the sequential descriptor.
    pub(crate) fn is_asked_in_order(&self, end: u64) {
        self.end.store(end, Ordering::Relaxed);
    }

    /// Whether the range continues a sequential scan: it begins in the file's first page, or at most one page
    /// after the last read. Always false on network file systems, whose read-ahead is unknown.
    pub(crate) fn is_next(&self, offset: u64) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        offset.checked_sub(end).is_some_and(|apart| apart <= PAGE) && self.lies_here()
    }

    /// Reports that the kernel gets hints for these ranges (offset and length), and for no others.
    pub(crate) fn advised(&self, ranges: &[(u64, u64)]) {
        let mut hinted: Vec<(u64, u64)> =
            ranges.iter().map(|&(at, len)| (at, at.saturating_add(len))).collect();
        hinted.sort_unstable();
        self.readers.advised(&hinted);
        *self.hinted.lock().unwrap_or_else(PoisonError::into_inner) = hinted;
    }

    /// Whether other readers seem to read the bytes between the ranges of the last hint. The caller then prefetches a
    /// whole range.
    pub(crate) fn has_concurrent_readers(&self, range: &Range<u64>) -> bool {
        // A probe by this descriptor reads one page and no more.
        let look = |at: u64| {
            let file = self.aside.get_or_init(|| aside(&self.file)).as_ref();
            file.is_some_and(|file| is_in_memory(file, at) == Some(true))
        };
        self.lies_here() && self.readers.is_there(range, look)
    }

    /// Whether the whole range got a hint. True only once per hint: a second read of the range may belong to a
    /// sequential scan.
    fn was_hinted(&self, offset: u64, len: usize) -> bool {
        let mut hinted = self.hinted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(n) = hinted.partition_point(|(at, _)| *at <= offset).checked_sub(1) else { return false };
        let (Some(&(begin, end)), to) = (hinted.get(n), offset.saturating_add(len as u64)) else {
            return false;
        };
        let holds = to <= end;
        if holds {
            let rest = [(begin, offset), (to, end)];
            hinted.splice(n..=n, rest.into_iter().filter(|(at, end)| at < end));
        }
        holds
    }

    /// Whether a run of `len` bytes continues the last read, so that the kernel already reads ahead.
    ///
    /// A hint just before each such run makes the kernel read that run alone and stop at its end, so the device idles
    /// while cells are copied: eight adjacent blocks of 4 MiB then take 1.2 to 1.5 times as long where the kernel would
    /// read 8 MiB ahead. A run that begins elsewhere needs a hint, since read-ahead starts small: without it, a plane
    /// in runs of 4 to 16 MiB takes 1.4 to 1.5 times as long.
    pub(crate) fn continues(&self, offset: u64, len: u64) -> bool {
        let end = self.end.load(Ordering::Relaxed);
        len > STREAM && end > 0 && offset.checked_sub(end).is_some_and(|apart| apart <= FAR)
    }

    /// Whether the file lies on a local file system.
    pub(crate) fn lies_here(&self) -> bool {
        *self.lies_here.get_or_init(|| super::mapping::is_local(&self.file))
    }
}

/// Where a name is looked up: relative to an open folder, or to the working directory.
///
/// The path of a container often has more components than the path below it, and every lookup visits each component.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathAt<'a> {
    folder: BorrowedFd<'a>,
    path: &'a Path,
}

impl<'a> PathAt<'a> {
    pub(crate) fn below(folder: BorrowedFd<'a>, path: &'a Path) -> Self {
        PathAt { folder, path }
    }

    pub(crate) fn at(path: &'a Path) -> Self {
        PathAt { folder: CWD, path }
    }

    /// The file that has the name, after following links.
    fn found(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.folder, self.path, AtFlags::empty())?)
    }

    pub(crate) fn is_symlink(&self) -> bool {
        let found = rustix::fs::statat(self.folder, self.path, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_symlink())
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

    /// An open handle on the file that had the name at the last lookup, whichever file has it now.
    pub(crate) fn known(&self, key: &str) -> Option<Arc<Handle>> {
        self.table().find(key, false)
    }

    /// An open handle on the file at `place`, and its length.
    pub(crate) fn get(
        &self,
        key: &str,
        place: &PathAt<'_>,
        writable: bool,
    ) -> io::Result<(Arc<Handle>, u64)> {
        let known = self.table().find(key, writable);
        if let Some(handle) = known
            && let Some(found) = still_named(&handle, place)
        {
            return Ok((handle, len(&found)));
        }
        let file = self.opening(|| open(place, writable))?;
        let found = rustix::fs::fstat(&file)?;
        if !FileType::from_raw_mode(found.st_mode).is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok((self.keep(key, file, &found, writable), len(&found)))
    }

    /// Keeps a file that was just created and is open for reading and writing.
    pub(crate) fn keep_created(&self, key: &str, file: File) -> io::Result<Arc<Handle>> {
        let found = rustix::fs::fstat(&file)?;
        Ok(self.keep(key, file, &found, true))
    }

    fn keep(&self, key: &str, file: File, found: &Stat, writable: bool) -> Arc<Handle> {
        let name_is_durable = AtomicBool::new(false);
        let started = AtomicU64::new(len(found));
        let handle = Arc::new(Handle {
            file,
            writable,
            identity: identity(found),
            name_is_durable,
            started,
            lies_here: OnceLock::new(),
            aside: OnceLock::new(),
            end: AtomicU64::new(0),
            hinted: Mutex::new(Vec::new()),
            readers: ConcurrentReaders::default(),
        });
        let displaced = self.table().insert(key, Arc::clone(&handle));
        drop(displaced); // closed here, after the lock is released
        handle
    }

    pub(crate) fn forget(&self, key: &str) {
        let forgotten = self.table().slots.remove(key);
        drop(forgotten);
    }

    /// Opens a file. If the process has too many files open, closes those kept here and tries again.
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

    /// Returns the handles that were evicted.
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

/// The status of the file at `place`, if it is still the file of `handle`.
///
/// Examining the open file alone would be cheaper but is not enough: where hard links are kept, a replaced file has as
/// many names as before, but not this one.
fn still_named(handle: &Handle, place: &PathAt<'_>) -> Option<Stat> {
    let found = place.found().ok()?;
    (identity(&found) == handle.identity).then_some(found)
}

/// Device and inode, which no other file gets as long as the handle keeps this one open.
fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev as _, found.st_ino as _)
}

fn len(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

fn open(place: &PathAt<'_>, writable: bool) -> io::Result<File> {
    // Non-blocking: opening a pipe that took the name must not wait. Regular files ignore the flag.
    let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened =
        rustix::io::retry_on_intr(|| rustix::fs::openat(place.folder, place.path, flags, Mode::empty()))?;
    Ok(opened.into())
}

/// The same file, opened a second time for random reads.
#[cfg(target_os = "linux")]
fn aside(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;

    // Opened by its descriptor, since another file may have its name by now.
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = open(&PathAt::at(Path::new(&own)), false).ok()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).ok()?;
    Some(file)
}

#[cfg(not(target_os = "linux"))]
fn aside(_file: &File) -> Option<File> {
    None
}

fn is_too_many_open_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn hinted_ranges_are_read_by_the_second_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, vec![1; 4 << 20]).unwrap();
        let (handle, _) = Handles::default().get("a", &PathAt::at(&path), false).unwrap();
        handle.advised(&[(2 << 20, 500 << 10), (0, 300 << 10)]);
        let by_itself =
            |offset: u64, len: usize| handle.to_read(offset, len).as_raw_fd() != handle.file.as_raw_fd();
        for (offset, len) in [(0, (300 << 10) + 1), (300 << 10, 1 << 20), ((2 << 20) - 1, 1 << 20)] {
            assert!(!by_itself(offset, len), "{offset}");
        }
        for (offset, len) in
            [(100 << 10, 100 << 10), (0, 100 << 10), (200 << 10, 99 << 10), (2 << 20, 500 << 10)]
        {
            assert_eq!(by_itself(offset, len), handle.lies_here(), "{offset}");
        }
        assert!(handle.continues((2 << 20) + (500 << 10), 2 << 20), "it was read all the same");
        for (offset, len) in [(0, 100 << 10), (298 << 10, 2 << 10), (2 << 20, 500 << 10)] {
            assert!(!by_itself(offset, len), "{offset}: once");
        }
    }

    #[test]
    fn short_reads_far_ahead_do_not_disturb_a_sequential_scan() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, [vec![1; 2 << 20], vec![2; 100]].concat()).unwrap();
        let handles = Handles::default();
        let (handle, _) = handles.get("a", &PathAt::at(&path), false).unwrap();
        // Whichever file has the name now, reads use the open file.
        std::fs::rename(&path, dir.path().join("b")).unwrap();
        std::fs::write(&path, "other").unwrap();
        let far = handle.to_read(2 << 20, 100);
        assert_eq!(far.as_raw_fd() != handle.file.as_raw_fd(), handle.lies_here());
        let mut out = [0; 100];
        far.read_exact_at(&mut out, 2 << 20).unwrap();
        assert_eq!(out, [2; 100]);
        let in_order = [(0, 1 << 20), (1 << 20, 100), ((1 << 20) + 300, 1 << 19), (0, 8), (2 << 20, 1 << 20)];
        for (offset, len) in in_order {
            assert_eq!(handle.to_read(offset, len).as_raw_fd(), handle.file.as_raw_fd(), "{offset}");
        }
    }

    #[test]
    fn a_long_run_behind_what_was_read_continues_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "bytes").unwrap();
        let (handle, _) = Handles::default().get("a", &PathAt::at(&path), false).unwrap();
        assert!(!handle.continues(0, 4 << 20), "nothing was read yet");
        handle.to_read(0, 4 << 20);
        assert!(handle.continues(4 << 20, 4 << 20));
        assert!(handle.continues((4 << 20) + 3000, 4 << 20), "a table is between them");
        assert!(!handle.continues(4 << 20, 1 << 20), "short runs get hints");
        assert!(!handle.continues(5 << 20, 4 << 20), "it begins elsewhere");
        assert!(!handle.continues(0, 4 << 20), "it is before what was read");
    }

    #[test]
    fn a_range_at_the_start_or_behind_the_last_read_is_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "bytes").unwrap();
        let (handle, _) = Handles::default().get("a", &PathAt::at(&path), false).unwrap();
        let next = || [0, 248, 1 << 20, (1 << 20) + 90, 2 << 20].map(|offset| handle.is_next(offset));
        if !handle.lies_here() {
            return;
        }
        assert_eq!(next(), [true, true, false, false, false]);
        handle.to_read(248, 1 << 20);
        assert_eq!(next(), [false, false, false, false, false], "these are before it, and far behind it");
        handle.to_read(0, 1 << 20);
        assert_eq!(next(), [false, false, true, true, false]);
    }
}
