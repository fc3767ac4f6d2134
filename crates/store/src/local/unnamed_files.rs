//! Files without a name that wait for their bytes.
//!
//! A file system takes longer to make a file than to take a few KiB of it: on ext4 10 us, and several times as long where thousands
//! were removed nearby within minutes. Whoever puts one object after another finds the next files made, by another thread, while it
//! did something else.
//!
//! Invariants
//! - a file is handed out once, for an object in the folder in which it was made;
//! - nothing is made ahead for who puts now and then; at most [`SPARE`] files are open and empty, and vanish with the store or the process.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many files wait at most; when half of them are gone more are made, so that a thread is woken once for several.
const SPARE: usize = 8;
/// Who has put so many objects, each so soon after the one before, will go on.
const STREAK: u32 = 8;
const SOON: Duration = Duration::from_millis(50);

/// The waiting files of one process for one store.
#[derive(Debug, Default)]
pub(crate) struct Nameless {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    folder: PathBuf,
    files: Vec<File>,
    /// Puts in that folder, each soon after the one before.
    streak: u32,
    last: Option<Instant>,
    /// A thread is at it.
    making: bool,
    /// There are no such files here, or no more.
    refused: bool,
}

impl Nameless {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that was made in this folder, empty and without a name.
    pub(crate) fn take(&self, folder: &Path) -> Option<File> {
        let mut waiting = self.waiting();
        if waiting.folder == folder { waiting.files.pop() } else { None }
    }

    /// An object was put in this folder. Whether [`make`](Self::make) is due.
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
                // Whoever puts next makes a file for himself, and says what is wrong.
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

/// Makes a file without a name in this folder.
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
        let nameless = Nameless::default();
        if open(dir.path()).is_err() {
            return; // a file system without such files
        }
        assert!(!(0..STREAK).any(|_| nameless.was_put(dir.path())), "nobody knows yet whether it goes on");
        assert!(nameless.was_put(dir.path()));
        assert!(!nameless.was_put(dir.path()), "somebody is at it");
        nameless.make();
        assert_eq!(nameless.count(), SPARE);
        let inodes: std::collections::HashSet<u64> = std::iter::from_fn(|| nameless.take(dir.path()))
            .map(|file| std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap()))
            .collect();
        assert_eq!(inodes.len(), SPARE, "each is another one");
        assert!(nameless.was_put(dir.path()));
        nameless.make();
        assert!(nameless.take(&dir.path().join("other")).is_none());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        nameless.was_put(&dir.path().join("other"));
        assert_eq!(nameless.count(), 0, "they are of the folder before");
    }

    #[test]
    fn nothing_is_kept_for_who_puts_now_and_then() {
        let dir = tempfile::tempdir().unwrap();
        let nameless = Nameless::default();
        assert_eq!((0..=STREAK).filter(|_| nameless.was_put(dir.path())).count(), 1);
        nameless.make();
        let mut waiting = nameless.waiting();
        waiting.last = waiting.last.and_then(|last| last.checked_sub(SOON));
        drop(waiting);
        assert!(!nameless.was_put(dir.path()));
        assert_eq!(nameless.count(), 0);
    }
}
