//! Objects that lie outside the store's folder: on other disks, or in other pools of a parallel file system.
//!
//! The name of such an object in the store's folder is a symbolic link to a file below the folder of a target. A
//! program that reads the name follows the link and needs to know nothing else.
//! [`Request::Place`](crate::Request::Place) chooses the target before the object is created.
//!
//! Invariants
//! - an object for appends gets its name before its file is created, so a file without a link is never such an object;
//! - a put object gets its name when its bytes are complete: its file has a name of its own, with a `~`, and then the
//!   link is renamed to the object's name;
//! - a file is removed only if it lies below a target and the object's link led to it. The folder of a target is never
//!   created again: a missing one is a disk that is not mounted.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::tree::{self, TEMPORARY};

/// The folders of targets, and the targets chosen for objects that do not exist yet.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    folders: Vec<PathBuf>,
    /// Folders in which older objects may lie, and no new ones are created.
    former: Vec<PathBuf>,
    wanted: Mutex<HashMap<String, u32>>,
}

impl Targets {
    pub(crate) fn new(folders: Vec<PathBuf>, former: Vec<PathBuf>) -> Self {
        Targets { folders, former, wanted: Mutex::default() }
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.folders.len()).unwrap_or(u32::MAX)
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the target on which the object will be created.
    pub(crate) fn place(&self, key: &str, target: u32) {
        if (target as usize) < self.folders.len() {
            self.wanted().insert(key.to_owned(), target);
        }
    }

    /// The folder in which an object will be created; `None` if no target was chosen.
    pub(crate) fn take(&self, key: &str) -> Option<&Path> {
        let target = self.wanted().remove(key)?;
        self.folders.get(target as usize).map(PathBuf::as_path)
    }

    /// The file below a target to which the name is a link, and the folder of that target.
    pub(crate) fn linked(&self, path: &Path) -> Option<(PathBuf, &Path)> {
        if self.folders.is_empty() && self.former.is_empty() {
            return None;
        }
        let file = std::fs::read_link(path).ok()?;
        let mut all = self.folders.iter().chain(&self.former);
        all.find(|folder| file.starts_with(folder)).map(|folder| (file.clone(), folder.as_path()))
    }

    /// Creates the file of an object for appends, after its name.
    pub(crate) fn create(folder: &Path, key: &str, path: &Path) -> io::Result<File> {
        let file = folder.join(key);
        must_be_there(folder)?;
        tree::create_folders(folder, &file)?;
        symlink(&file, path)?;
        tree::create_new(&file).inspect_err(|_| {
            let _ = std::fs::remove_file(path);
        })
    }

    /// The path of a new file for a put object, with the folders above it.
    pub(crate) fn fresh(folder: &Path, key: &str) -> io::Result<PathBuf> {
        must_be_there(folder)?;
        let file = folder.join(format!("{key}{}", unique()));
        tree::create_folders(folder, &file)?;
        Ok(file)
    }

    /// Gives a complete file its name. With `replace`, an existing file loses the name; otherwise the error is
    /// `AlreadyExists`.
    pub(crate) fn name(file: &Path, path: &Path, replace: bool) -> io::Result<()> {
        if !replace {
            return symlink(file, path);
        }
        let temporary = path.with_file_name(unique());
        symlink(file, &temporary)?;
        std::fs::rename(&temporary, path).inspect_err(|_| {
            let _ = std::fs::remove_file(&temporary);
        })
    }

    /// Removes files of puts below the prefix to which no name leads, and empty folders; returns how many.
    pub(crate) fn sweep(&self, root: &Path, prefix: &str, older: Duration) -> io::Result<u64> {
        let mut removed = 0;
        for folder in self.folders.iter().chain(&self.former) {
            let from = prefix.rfind('/').map_or("", |slash| &prefix[..slash]);
            sweep_folder(root, folder, Path::new(from), (prefix, older), &mut removed)?;
        }
        Ok(removed)
    }
}

fn must_be_there(folder: &Path) -> io::Result<()> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        _ => Err(io::Error::other(format!(
            "the storage target {} is not there; mount it, or open the container with other targets",
            folder.display()
        ))),
    }
}

/// A name that is not a component of a key, and that no other process uses.
fn unique() -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{TEMPORARY}{}-{}-{time:x}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed))
}

/// Whether the folder is empty afterwards.
fn sweep_folder(
    root: &Path,
    target: &Path,
    below: &Path,
    (prefix, older): (&str, Duration),
    removed: &mut u64,
) -> io::Result<bool> {
    let entries = match std::fs::read_dir(target.join(below)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let mut empty = true;
    for entry in entries {
        let entry = entry?;
        let inner = below.join(entry.file_name());
        let key = inner.to_str().unwrap_or_default();
        let gone = if entry.file_type()?.is_dir() {
            let reaches = format!("{key}/").starts_with(prefix) || prefix.starts_with(&format!("{key}/"));
            reaches
                && sweep_folder(root, target, &inner, (prefix, older), removed)?
                && older.is_zero()
                && std::fs::remove_dir(entry.path()).is_ok()
        } else {
            // A file whose name has no `~` was created after its link, so it is not removed.
            let name = entry.file_name();
            let own = name.to_str().and_then(|name| name.split_once(TEMPORARY)).map(|(own, _)| own);
            let named = own.is_some_and(|own| {
                std::fs::read_link(root.join(below).join(own)).is_ok_and(|file| file == entry.path())
            });
            own.is_some()
                && key.starts_with(prefix)
                && !named
                && tree::is_as_old(&entry, older)
                && std::fs::remove_file(entry.path()).is_ok()
        };
        *removed += u64::from(gone);
        empty &= gone;
    }
    Ok(empty)
}
