//! Unnamed files (`O_TMPFILE`), created in advance.
//!
//! Creating a file takes longer than writing a few KiB to it: on ext4 10 us, and several times as long if thousands of
//! files were removed from nearby folders within minutes. For a caller that puts one object after another, another
//! thread creates the next files.
//!
//! Invariants
//! - a file is given out once, for an object in the folder in which it was created;
//! - no file is created in advance for a caller that puts only occasionally; at most [`SPARE`] files are open and
//!   empty, and they vanish with the store or the process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// At most this many spare files are kept. When half of them are used more are created, so that a thread is woken once
/// for several.
const SPARE: usize = 8;
/// A caller that has put this many objects in quick succession is expected to continue.
const STREAK: u32 = 8;
const SOON: Duration = Duration::from_millis(50);

/// The spare files of one process for one store.
#[derive(Debug, Default)]
pub(crate) struct UnnamedFiles {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    folder: PathBuf,
    files: Vec<File>,
    /// Number of puts in that folder in quick succession.
    streak: u32,
    last: Option<Instant>,
    /// Whether a thread is creating files.
    making: bool,
    /// Whether the system has no unnamed files, or cannot create more.
    refused: bool,
}

impl UnnamedFiles {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A spare file of this folder, empty and unnamed.
    pub(crate) fn take(&self, folder: &Path) -> Option<File> {
        let mut waiting = self.waiting();
        if waiting.folder == folder { waiting.files.pop() } else { None }
    }

    /// Reports that an object was put in this folder. Returns whether [`make`](Self::make) is due.
    pub(crate) fn was_put(&self, folder: &Path) -> bool {
        let mut waiting = self.waiting();
        let now = Instant::now();
        let goes_on = waiting.folder == folder
            && waiting.last.is_some_and(|last| now.saturating_duration_since(last) < SOON);
        waiting.last = Some(now);
        if !goes_on {
            if waiting.folder != folder {
                folder.clone_into(&mut waiting.folder);
            }
            waiting.streak = 0;
            let files = std::mem::take(&mut waiting.files);
            drop(waiting);
            drop(files); // closed here, after the lock is released
            return false;
        }
        waiting.streak = waiting.streak.saturating_add(1);
        let due = waiting.streak >= STREAK
            && waiting.files.len() <= SPARE / 2
            && !waiting.making
            && !waiting.refused;
        waiting.making |= due;
        due
    }

    /// Creates the missing spare files.
    pub(crate) fn make(&self) {
        loop {
            let folder = {
                let mut waiting = self.waiting();
                if waiting.files.len() >= SPARE || waiting.streak < STREAK || waiting.refused {
                    waiting.making = false;
                    return;
                }
                waiting.folder.clone()
            };
            let made = open(&folder);
            let mut waiting = self.waiting();
            match made {
                Ok(file) if waiting.folder == folder => waiting.files.push(file),
                Ok(_) => {}
                // The next put creates a file itself, and reports the error.
                Err(error) => {
                    waiting.refused = error.kind() != io::ErrorKind::NotFound;
                    waiting.streak = 0;
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.waiting().files.len()
    }
}

/// Creates an unnamed file in this folder.
#[cfg(target_os = "linux")]
pub(crate) fn open(folder: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666))?))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open(_folder: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn files_are_created_ahead_for_a_caller_that_puts_many_objects_in_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let files = UnnamedFiles::default();
        if open(dir.path()).is_err() {
            return; // a file system without such files
        }
        assert!(!(0..STREAK).any(|_| files.was_put(dir.path())), "too few puts so far");
        assert!(files.was_put(dir.path()));
        assert!(!files.was_put(dir.path()), "another thread is making files");
        files.make();
        assert_eq!(files.count(), SPARE);
        let inodes: std::collections::HashSet<u64> = std::iter::from_fn(|| files.take(dir.path()))
            .map(|file| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap()))
            .collect();
        assert_eq!(inodes.len(), SPARE, "each is another one");
        assert!(files.was_put(dir.path()));
        files.make();
        assert!(files.take(&dir.path().join("other")).is_none());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        files.was_put(&dir.path().join("other"));
        assert_eq!(files.count(), 0, "they are of the folder before");
    }

    #[test]
    fn no_file_is_kept_for_a_caller_that_puts_occasionally() {
        let dir = tempfile::tempdir().unwrap();
        let files = UnnamedFiles::default();
        assert_eq!((0..=STREAK).filter(|_| files.was_put(dir.path())).count(), 1);
        files.make();
        let mut waiting = files.waiting();
        waiting.last = waiting.last.and_then(|last| last.checked_sub(SOON));
        drop(waiting);
        assert!(!files.was_put(dir.path()));
        assert_eq!(files.count(), 0);
    }
}
