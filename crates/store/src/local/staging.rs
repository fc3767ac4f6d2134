//! Objects of a folder that arrive in pieces and appear when they are complete.
//!
//! The pieces go to one file beside the object's place, named by the upload. So an upload goes on where it was after
//! its server was started again, and `sweep` removes what is never ended.
//!
//! Invariants
//! - a staged file grows at its end only: a piece whose beginning is there already must have the same bytes;
//! - its name begins with `~`: it is never listed, and is no object;
//! - the object's name is given to a file of the announced length, and never to a second one.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::atomic_file::{self, Placed};
use super::durability::sync_folder;
use super::{transfer, tree};
use crate::{Result, StoreError, validate_key};

/// Bytes of an earlier attempt are compared in parts of this length.
const COMPARED: usize = 64 << 10;

/// One upload to an object of a local folder.
#[derive(Debug)]
pub struct Staging {
    root: PathBuf,
    path: PathBuf,
    staged: PathBuf,
    key: String,
    store: String,
}

/// The staged file of an upload, open.
#[derive(Debug)]
pub struct Staged {
    file: File,
    key: String,
    store: String,
}

impl Staging {
    /// The upload `id` of the object `key` below `root`. `id` has letters and digits alone.
    pub fn new(root: &Path, key: &str, id: &str) -> Result<Staging> {
        validate_key(key)?;
        let store = format!("local store {}", root.display());
        if id.is_empty() || id.len() > 64 || !id.bytes().all(|c| c.is_ascii_alphanumeric()) {
            let reason = "the name of an upload has 1 to 64 letters and digits";
            return Err(StoreError::InvalidKey { key: key.to_owned(), reason });
        }
        let path = root.join(key);
        let staged = path.with_file_name(format!("{}{id}.upload", tree::TEMPORARY));
        Ok(Staging { root: root.to_owned(), path, staged, key: key.to_owned(), store })
    }

    /// Opens the staged file, or with `begins` makes it where there is none, and the folder of the object. `NotFound`:
    /// nothing of this upload is here, or the root is not.
    pub fn open(&self, begins: bool) -> Result<Staged> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(begins).truncate(false);
        let file = match options.open(&self.staged) {
            Err(error) if begins && error.kind() == ErrorKind::NotFound => {
                self.make_folder().and_then(|()| options.open(&self.staged))
            }
            opened => opened,
        };
        let file = file.map_err(|error| self.error("upload", error))?;
        Ok(Staged { file, key: self.key.clone(), store: self.store.clone() })
    }

    /// Gives the object's name to the staged file, which has `len` bytes. `AlreadyExists`: another object has the
    /// name; the staged file is removed. An upload that was ended before has ended well where the object has that
    /// length.
    pub fn end(&self, len: u64) -> Result<()> {
        let file = match File::open(&self.staged) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return match self.path.metadata() {
                    Ok(there) if there.is_file() && there.len() == len => Ok(()),
                    _ => Err(self.error("end the upload of", error)),
                };
            }
            other => other.map_err(|error| self.error("end the upload of", error))?,
        };
        let found = file.metadata().map_err(|error| self.error("end the upload of", error))?.len();
        if found != len {
            let (key, store) = (self.key.clone(), self.store.clone());
            return Err(StoreError::Conflict { key, store, expected: len, found });
        }
        let placed = atomic_file::name_if_absent(&file, &self.staged, &self.path);
        let placed = placed.map_err(|error| self.error("end the upload of", error))?;
        self.abandon()?;
        match placed {
            Placed::Yes => Ok(()),
            Placed::NameTaken => {
                Err(StoreError::AlreadyExists { key: self.key.clone(), store: self.store.clone() })
            }
        }
    }

    /// Removes the staged file, if there is one.
    pub fn abandon(&self) -> Result<()> {
        match std::fs::remove_file(&self.staged) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.error("abandon the upload of", error))
            }
            _ => Ok(()),
        }
    }

    /// Makes the folder of the object, and its name durable: the store that syncs the object may know the folder from
    /// before it was removed.
    fn make_folder(&self) -> io::Result<()> {
        tree::create_folders(&self.root, &self.path)?;
        let mut above = self.path.ancestors().skip(2).take_while(|folder| folder.starts_with(&self.root));
        above.try_for_each(sync_folder)
    }

    fn error(&self, operation: &'static str, source: io::Error) -> StoreError {
        error(&self.key, &self.store, operation, source)
    }
}

impl Staged {
    /// Adds bytes that begin at `at`. `Conflict`: bytes before them are missing, or other bytes are there.
    pub fn add(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let fail = |source| error(&self.key, &self.store, "upload", source);
        let found = self.file.metadata().map_err(fail)?.len();
        let conflict = || {
            let (key, store) = (self.key.clone(), self.store.clone());
            Err(StoreError::Conflict { key, store, expected: at, found })
        };
        let Some(there) = found.checked_sub(at) else { return conflict() };
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(bytes.len());
        let (again, new) = bytes.split_at(there);
        let mut before = vec![0; again.len().min(COMPARED)];
        for (n, part) in again.chunks(COMPARED).enumerate() {
            let before = before.get_mut(..part.len()).unwrap_or_default();
            let got = transfer::read_full(&self.file, at + (n * COMPARED) as u64, before).map_err(fail)?;
            if got != part.len() || before != part {
                return conflict();
            }
        }
        transfer::write_all(&self.file, at + there as u64, &[new]).map_err(fail)
    }
}

fn error(key: &str, store: &str, operation: &'static str, source: io::Error) -> StoreError {
    let (key, store) = (key.to_owned(), store.to_owned());
    match source.kind() {
        ErrorKind::NotFound => StoreError::NotFound { key, store },
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::NoSpace { key, store, operation },
        ErrorKind::PermissionDenied => {
            StoreError::PermissionDenied { key, store, operation, reason: source.to_string() }
        }
        _ => StoreError::Io { key, store, operation, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(root: &Path, id: &str) -> Staging {
        Staging::new(root, "log/a.seg", id).unwrap()
    }

    #[test]
    fn a_piece_that_comes_again_is_there_once() {
        let dir = tempfile::tempdir().unwrap();
        let upload = upload(dir.path(), "1f");
        assert!(matches!(upload.open(false), Err(StoreError::NotFound { .. })), "nothing was begun");
        assert!(!dir.path().join("log").exists());
        let mut staged = upload.open(true).unwrap();
        staged.add(0, b"01234").unwrap();
        staged.add(0, b"01234567").unwrap();
        let mut staged = upload.open(true).unwrap();
        staged.add(5, b"56789").unwrap();
        staged.add(0, b"01").unwrap();
        for (at, bytes) in [(11, &b"x"[..]), (0, b"x"), (8, b"8x")] {
            assert!(matches!(staged.add(at, bytes), Err(StoreError::Conflict { .. })), "{at}");
        }
        assert_eq!(tree::list(dir.path(), "").unwrap(), [], "nothing is seen of it");
        assert!(matches!(upload.end(9), Err(StoreError::Conflict { .. })));
        upload.end(10).unwrap();
        assert_eq!(std::fs::read(dir.path().join("log/a.seg")).unwrap(), b"0123456789");
        upload.end(10).unwrap();
        assert!(matches!(upload.end(11), Err(StoreError::NotFound { .. })));
        assert_eq!(std::fs::read_dir(dir.path().join("log")).unwrap().count(), 1, "and nothing else is left");
    }

    #[test]
    fn the_first_object_of_a_folder_makes_it_and_no_object_makes_a_root() {
        let dir = tempfile::tempdir().unwrap();
        let deep = Staging::new(dir.path(), "a/b/c.seg", "1").unwrap();
        deep.open(true).unwrap().add(0, b"new").unwrap();
        deep.end(3).unwrap();
        assert_eq!(std::fs::read(dir.path().join("a/b/c.seg")).unwrap(), b"new");
        let gone = dir.path().join("gone");
        assert!(matches!(upload(&gone, "1").open(true), Err(StoreError::NotFound { .. })));
        assert!(!gone.exists());
    }

    #[test]
    fn an_object_that_is_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("log")).unwrap();
        std::fs::write(dir.path().join("log/a.seg"), "old").unwrap();
        let (one, other) = (upload(dir.path(), "1"), upload(dir.path(), "2"));
        one.open(true).unwrap().add(0, b"new").unwrap();
        other.open(true).unwrap().add(0, b"more").unwrap();
        assert!(matches!(one.end(3), Err(StoreError::AlreadyExists { .. })));
        other.abandon().unwrap();
        other.abandon().unwrap();
        assert_eq!(std::fs::read(dir.path().join("log/a.seg")).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path().join("log")).unwrap().count(), 1);
        for id in ["", "../x", "a.b", "~"] {
            assert!(Staging::new(dir.path(), "log/a.seg", id).is_err(), "{id}");
        }
    }
}
