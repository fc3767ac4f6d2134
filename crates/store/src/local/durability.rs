//! Determines which files and folders must be synced.
//!
//! A name is durable once its folder is synced, and also each folder above that might be new, up to the root. Folders
//! above the object's own are synced once. The handle records whether the name was synced since the file was opened.
//!
//! A failed sync is remembered as long as the bytes are the same. Systems report a lost page only once, so a second
//! sync would succeed although bytes are lost.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::tree;

#[derive(Debug, Default)]
pub(crate) struct Durability {
    known: Mutex<DurableNames>,
}

#[derive(Debug, Default)]
struct DurableNames {
    /// Folders whose own names are durable.
    durable_folders: HashSet<PathBuf>,
    lost_bytes: HashSet<String>,
}

impl Durability {
    fn known(&self) -> MutexGuard<'_, DurableNames> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `create` to the file at `path`; creates its folders if they are missing.
    pub(crate) fn with_folders<T>(
        &self,
        root: &Path,
        path: &Path,
        create: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        // Another process may remove an empty folder between the two steps.
        for _ in 0..8 {
            match create() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
            self.known().durable_folders.retain(|folder| !path.starts_with(folder));
            tree::create_folders(root, path)?;
        }
        create()
    }

    /// Reports that all bytes of the object were rewritten.
    pub(crate) fn bytes_renewed(&self, key: &str) {
        self.known().lost_bytes.remove(key);
    }

    pub(crate) fn sync_bytes(&self, key: &str, file: &File) -> io::Result<()> {
        if self.known().lost_bytes.contains(key) {
            return Err(io::Error::other(
                "an earlier sync of it failed, so bytes written before may be lost; write them again under another name",
            ));
        }
        file.sync_data().inspect_err(|_| {
            self.known().lost_bytes.insert(key.to_owned());
        })
    }

    /// Makes the names of the files at `paths` durable.
    pub(crate) fn sync_names<'p>(
        &self,
        root: &Path,
        paths: impl IntoIterator<Item = &'p Path>,
    ) -> io::Result<()> {
        let mut to_sync = BTreeSet::new();
        let mut to_remember = Vec::new();
        {
            let known = self.known();
            for path in paths {
                let mut folders = path.ancestors().skip(1);
                to_sync.extend(folders.next().map(Path::to_owned));
                // All folders from the object's upwards, including the root, which `create` may have made.
                for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(root)) {
                    if !known.durable_folders.contains(folder) {
                        to_sync.extend(folder.parent().map(Path::to_owned));
                        to_remember.push(folder.to_owned());
                    }
                }
            }
        }
        for folder in &to_sync {
            match sync_folder(folder) {
                // Folders above the root may be inaccessible.
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied && !folder.starts_with(root) => {}
                other => other?,
            }
        }
        self.known().durable_folders.extend(to_remember);
        Ok(())
    }
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some network file systems cannot sync folders because every change is synchronous.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}
