//! Watches the object that identifies a folder: if a container was removed or replaced, its folder has another such
//! object, or none.
//!
//! Invariants
//! - the file stays open, so no other file gets its inode meanwhile;
//! - a copy with the same bytes, restored from a backup, is the same object.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A longer object cannot identify a folder.
const LONGEST: u64 = 64 << 10;
/// If the first read follows within this time, it uses the bytes found when watching began.
const MOMENT: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    since: Instant,
}

/// The object when watching began.
#[derive(Debug, Default)]
pub(super) struct Watched {
    known: Mutex<Option<WatchedFile>>,
    /// Whether it has not been read through the store since then.
    is_unread: AtomicBool,
}

/// Which object has the name now.
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
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(WatchedFile { path, file, bytes, since: Instant::now() });
        self.is_unread.store(true, Ordering::Release);
        Ok(())
    }

    /// The content found when watching began, for a read that follows at once. `None`: the object has to be read.
    pub(super) fn first_read(&self, path: impl FnOnce() -> Option<PathBuf>) -> Option<Vec<u8>> {
        if !self.is_unread.load(Ordering::Acquire) {
            return None;
        }
        let (path, known) = (path()?, self.known.lock().unwrap_or_else(PoisonError::into_inner));
        let known = known.as_ref().filter(|known| known.path == path)?;
        let is_first = self.is_unread.swap(false, Ordering::AcqRel) && known.since.elapsed() < MOMENT;
        (is_first && (known.bytes.len() as u64) < LONGEST).then(|| known.bytes.clone())
    }

    /// The key of the watched object.
    pub(super) fn key(&self) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let name = known.as_ref().and_then(|known| known.path.file_name());
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Looks up the name once. The bytes are compared only if another file has it.
    pub(super) fn find(&self) -> io::Result<Comparison> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
    // Fewer bytes than requested mean the end of the file.
    let mut bytes = vec![0; 4096];
    let len = (&file).read(&mut bytes)?;
    bytes.truncate(len);
    if len == 4096 {
        (&file).take(LONGEST - 4096).read_to_end(&mut bytes)?;
    }
    Ok((file, bytes))
}
