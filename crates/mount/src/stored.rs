//! Published replicas, shown as their stored files. The kernel reads these files itself where that is allowed.
//!
//! Invariants
//! - an open file has the identity of its inode, or the open fails;
//! - all handles of a file that the kernel reads itself share one registration, which lasts until the last of them is
//!   closed.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use drystone::{Error, ErrorKind, Result};
use fuser::{BackingId, ReplyOpen};

use crate::inodes::Identity;
use crate::locks::locked;

/// The folders of published replicas in a container.
const PUBLISHED: [&str; 2] = ["netcdf", "zarr"];

/// The published files of a container in a local folder.
pub(crate) struct StoredFiles {
    /// The container's folder; `None` if it is in no local folder.
    root: Option<PathBuf>,
    /// Files that the kernel reads itself, by inode.
    passed: Mutex<HashMap<u64, Weak<BackingId>>>,
}

/// An open file.
pub(crate) struct OpenStored {
    file: File,
    /// Held while the handle is open.
    _passed: Option<Arc<BackingId>>,
}

/// An entry of a folder.
pub(crate) enum Entry {
    Folder,
    File(Identity),
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        let changed = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
        Identity { inode: found.ino(), size: found.size(), changed }
    }
}

fn failed(error: io::Error, path: &Path) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{}: {error}", path.display()))
}

fn missing() -> Error {
    Error::new(ErrorKind::NotFound, "no such file")
}

impl StoredFiles {
    /// The published files of a container in this folder; none if `container` is `None`.
    pub(crate) fn new(container: Option<&Path>) -> Self {
        StoredFiles { root: container.map(Path::to_owned), passed: Mutex::default() }
    }

    /// Whether the container has published replicas.
    pub(crate) fn is_there(&self) -> bool {
        PUBLISHED.iter().any(|folder| self.place(folder).is_ok_and(|place| place.is_dir()))
    }

    /// The path in the file system of a path below the published replicas.
    fn place(&self, path: &str) -> Result<PathBuf> {
        let published = PUBLISHED.contains(&path.split('/').next().unwrap_or_default());
        self.root.as_ref().filter(|_| published).map(|root| root.join(path)).ok_or_else(missing)
    }

    /// The entry at a path. Links, and entries that are neither file nor folder, are not shown.
    pub(crate) fn entry(&self, path: &str) -> Result<Entry> {
        let full = self.place(path)?;
        let found = full.symlink_metadata().map_err(|error| failed(error, &full))?;
        match (found.is_dir(), found.is_file()) {
            (true, _) => Ok(Entry::Folder),
            (_, true) => Ok(Entry::File(Identity::of(&found))),
            _ => Err(missing()),
        }
    }

    /// The entries of a folder, and whether each is a folder.
    pub(crate) fn entries(&self, path: &str) -> Result<Vec<(String, bool)>> {
        if path.is_empty() {
            let there =
                PUBLISHED.into_iter().filter(|folder| self.place(folder).is_ok_and(|place| place.is_dir()));
            return Ok(there.map(|folder| (folder.to_owned(), true)).collect());
        }
        let full = self.place(path)?;
        let mut out = Vec::new();
        for entry in full.read_dir().map_err(|error| failed(error, &full))? {
            let entry = entry.map_err(|error| failed(error, &full))?;
            let Ok(kind) = entry.file_type() else { continue };
            if let (Ok(name), true) = (entry.file_name().into_string(), kind.is_dir() || kind.is_file()) {
                out.push((name, kind.is_dir()));
            }
        }
        out.sort_unstable();
        Ok(out)
    }

    /// Opens a file if it still has this identity; `None` if it is another file.
    pub(crate) fn open(&self, path: &str, identity: Identity) -> Result<Option<File>> {
        let full = self.place(path)?;
        let file = File::open(&full).map_err(|error| failed(error, &full))?;
        let found = file.metadata().map_err(|error| failed(error, &full))?;
        Ok((Identity::of(&found) == identity).then_some(file))
    }

    /// Registers an open file with the kernel, which then reads it itself. The kernel refuses this to all users except
    /// root.
    pub(crate) fn pass(&self, number: u64, file: &File, reply: &ReplyOpen) -> io::Result<Arc<BackingId>> {
        let mut passed = locked(&self.passed);
        if let Some(known) = passed.get(&number).and_then(Weak::upgrade) {
            return Ok(known);
        }
        passed.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(reply.open_backing(file)?);
        passed.insert(number, Arc::downgrade(&new));
        Ok(new)
    }
}

impl OpenStored {
    pub(crate) fn new(file: File, passed: Option<Arc<BackingId>>) -> Self {
        OpenStored { file, _passed: passed }
    }

    /// Reads bytes from `offset` on; fewer at the end of the file.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while got < out.len() {
            match self.file.read_at(&mut out[got..], offset + got as u64)? {
                0 => break,
                now => got += now,
            }
        }
        Ok(got)
    }
}
