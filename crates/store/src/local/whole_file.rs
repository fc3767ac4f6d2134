//! A file at a path of the caller's choice that appears only when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::atomic_file::{self, Placed};
use super::unnamed_files;

/// A new file, for results. An existing file with its name stays until [`finish`](Self::finish). If that is never
/// called nothing remains; on systems with unnamed files this holds even for a killed process.
///
/// A device or a pipe is written to directly. So is a file in a folder in which no new file can be created.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    place: PathBuf,
    waits: Waits,
}

/// The state of the file while it is written.
#[derive(Debug, PartialEq, Eq)]
enum Waits {
    Unnamed,
    Under(PathBuf),
    /// It already is the file that the path names.
    Not,
}

impl WholeFile {
    /// Begins a file at `path`, whose folder must exist. It is an error if a file exists there that may not be written
    /// to.
    pub fn create(path: &Path) -> io::Result<Self> {
        let at_once =
            |place: PathBuf| Ok(WholeFile { file: File::create(&place)?, place, waits: Waits::Not });
        // Links are followed: the file is replaced, not the link to it.
        let place = match fs::canonicalize(path) {
            Ok(place) => place,
            Err(_) if path.is_symlink() => return at_once(path.to_path_buf()), // a link to a pipe, or to a missing file
            Err(_) => path.to_path_buf(),
        };
        let permissions = match fs::metadata(&place) {
            Ok(found) if found.is_file() => {
                OpenOptions::new().write(true).open(&place)?;
                Some(found.permissions())
            }
            Ok(_) => return at_once(place),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (file, waits) = match begin(&place) {
            Err(error) if permissions.is_some() && error.kind() == ErrorKind::PermissionDenied => {
                return at_once(place);
            }
            begun => begun?,
        };
        let new = WholeFile { file, place, waits };
        if let Some(permissions) = permissions {
            new.file.set_permissions(permissions)?;
        }
        Ok(new)
    }

    /// Gives the file its name; with `sync`, after its bytes are on stable storage.
    pub fn finish(mut self, sync: bool) -> io::Result<()> {
        if sync && self.file.metadata()?.is_file() {
            self.file.sync_all()?;
        }
        if self.waits == Waits::Unnamed {
            match atomic_file::name(&self.file, &self.place) {
                Ok(Placed::Yes) => self.waits = Waits::Not,
                Ok(Placed::NameTaken) | Err(_) => self.name_beside(sync)?,
            }
        }
        if let Waits::Under(name) = &self.waits {
            fs::rename(name, &self.place)?;
            self.waits = Waits::Not;
        }
        Ok(())
    }

    /// Gives an unnamed file a name beside its final path, or makes a named copy of it if that is not possible.
    fn name_beside(&mut self, sync: bool) -> io::Result<()> {
        let name = atomic_file::temporary_name(&self.place);
        if let Ok(Placed::Yes) = atomic_file::name(&self.file, &name) {
            self.waits = Waits::Under(name);
            return Ok(());
        }
        let (mut copy, name) = atomic_file::create_temporary(&self.place, &|open| open())?;
        self.waits = Waits::Under(name);
        self.file.seek(SeekFrom::Start(0))?;
        io::copy(&mut self.file, &mut copy)?;
        copy.set_permissions(self.file.metadata()?.permissions())?;
        if sync { copy.sync_all() } else { Ok(()) }
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Waits::Under(name) = &self.waits {
            // The remains of a failed attempt are useless; failing to remove them does no harm.
            let _ = fs::remove_file(name);
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

fn begin(place: &Path) -> io::Result<(File, Waits)> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    match unnamed_files::open(folder.unwrap_or(Path::new("."))) {
        Ok(file) => Ok((file, Waits::Unnamed)),
        // A named file meets every other error again, and reports it.
        Err(_) => {
            let (file, name) = atomic_file::create_temporary(place, &|open| open())?;
            Ok((file, Waits::Under(name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_existing_file_stays_until_the_new_one_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut first = WholeFile::create(&path).unwrap();
        first.write_all(b"first").unwrap();
        assert!(!path.exists());
        first.finish(false).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut second = WholeFile::create(&path).unwrap();
        second.write_all(b"2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        second.finish(true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        drop(WholeFile::create(&path).unwrap());
        let under = WholeFile {
            file: File::create(dir.path().join("out.1~")).unwrap(),
            place: path,
            waits: Waits::Under(dir.path().join("out.1~")),
        };
        drop(under);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_named_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        // A file on another file system, where it has no name.
        let Ok(mut file) = tempfile::tempfile_in("/dev/shm") else { return };
        file.write_all(b"cells").unwrap();
        let place = dir.path().join("out");
        WholeFile { file, place: place.clone(), waits: Waits::Unnamed }.finish(true).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"cells");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn links_stay_and_devices_are_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "1").unwrap();
        symlink("file", &link).unwrap();
        let mut new = WholeFile::create(&link).unwrap();
        new.write_all(b"2").unwrap();
        new.finish(false).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"2");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        symlink("nowhere/file", dir.path().join("dangling")).unwrap();
        assert!(WholeFile::create(&dir.path().join("dangling")).is_err());
        let mut null = WholeFile::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"3").unwrap();
        null.finish(true).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[test]
    fn a_folder_or_a_missing_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(WholeFile::create(dir.path()).is_err());
        assert!(WholeFile::create(&dir.path().join("no/out")).is_err());
    }
}
