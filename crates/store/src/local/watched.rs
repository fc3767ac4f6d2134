//! The object that identifies a folder: a container that was removed or replaced has another one there, or
//! none.
//!
//! Invariants
//! - the file stays open, so no other file takes its number meanwhile;
//! - a copy with the same bytes, restored from a backup, is the same object.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A longer object cannot identify a folder.
const LONGEST: u64 = 64 << 10;

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
}

/// The object at the first look.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<Option<WatchedFile>>);

/// The object that has the name now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Same,
    Nothing,
    Another,
}

impl Watched {
    /// Starts to watch the file.
    pub(super) fn begin(&self, path: PathBuf) -> io::Result<()> {
        let (file, bytes) = open(&path)?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(WatchedFile { path, file, bytes });
        Ok(())
    }

    /// The name of what is watched.
    pub(super) fn key(&self) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = known.as_ref().and_then(|known| known.path.file_name());
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// One look at a name; the bytes are compared only if another file has it.
    pub(super) fn find(&self) -> io::Result<Comparison> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.as_mut() else { return Ok(Comparison::Same) };
        let nothing = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        let there = match rustix::fs::stat(&known.path).map_err(io::Error::from) {
            Err(error) if nothing(&error) => return Ok(Comparison::Nothing),
            other => other?,
        };
        let ours = rustix::fs::fstat(&known.file)?;
        if (there.st_dev, there.st_ino, there.st_mtime, there.st_size)
            == (ours.st_dev, ours.st_ino, ours.st_mtime, ours.st_size)
        {
            return Ok(Comparison::Same);
        }
        match open(&known.path) {
            Ok((file, bytes)) if bytes == known.bytes => known.file = file,
            Ok(_) => return Ok(Comparison::Another),
            Err(error) if nothing(&error) => return Ok(Comparison::Nothing),
            Err(error) => return Err(error),
        }
        Ok(Comparison::Same)
    }
}

fn open(path: &std::path::Path) -> io::Result<(File, Vec<u8>)> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    // Opening a pipe must not wait.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut bytes)?;
    Ok((file, bytes))
}
