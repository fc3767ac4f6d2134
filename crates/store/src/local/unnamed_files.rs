//! Unnamed files (`O_TMPFILE`) made ahead, which wait for their bytes.
//!
//! A file system takes longer to make a file than to take a few KiB of it: on ext4 10 us, and several times
//! as long where thousands of files were removed nearby within minutes. A caller that puts one object after
//! another finds the next files made by another thread.
//!
//! Invariants
//! - a file is given out once, for an object in the folder in which it was made;
//! - nothing is made ahead for a caller that puts only now and then; at most [`SPARE`] files are open and
//!   empty, and they vanish with the store or the process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// At most this many files wait. When half of them are gone more are made, so that a thread is woken once for
/// several.
const SPARE: usize = 8;
/// A caller that has put this many objects, each soon after the one before, is expected to go on.
const STREAK: u32 = 8;
const SOON: Duration = Duration::from_millis(50);

/// The waiting files of one process for one store.
#[derive(Debug, Default)]
pub(crate) struct UnnamedFiles {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    folder: PathBuf,
    files: Vec<File>,
    /// Puts in that folder, each soon after the one before.
    streak: u32,
    last: Option<Instant>,
    /// A thread is making files.
    making: bool,
    /// The system has no such files, or has no more.
    refused: bool,
}

impl UnnamedFiles {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that was made in this folder, empty and unnamed.
    pub(crate) fn take(&self, folder: &Path) -> Option<File> {
        let mut waiting = self.waiting();
        if waiting.folder == folder { waiting.files.pop() } else { None }
    }

    /// An object was put in this folder. Returns whether [`make`](Self::make) is due.
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
            drop(files); // closed here, without the lock
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

    /// Makes what is missing.
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
                // The next put makes a file itself, and reports the error.
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

/// Makes an unnamed file in this folder.
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
    fn files_are_made_for_who_puts_one_object_after_another_in_a_folder() {
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
    fn nothing_is_kept_for_who_puts_now_and_then() {
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
