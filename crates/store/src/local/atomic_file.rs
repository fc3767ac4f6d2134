//! Files that appear whole or not at all.
//!
//! The bytes go to a temporary file in the same folder, which then gets the final name: by `rename` where it may
//! replace a file, and by `link` where it must not, because `link` is the oldest test-and-set that network file systems
//! also honour. Where there are no hard links, Linux's `RENAME_NOREPLACE` is used. A file that must not replace another
//! is written unnamed where the system supports that, so the folder is changed once and not three times.
//!
//! Temporary names contain `~`, which no key does. A killed process leaves its temporary file if that has a name. The
//! file is never listed, and `sweep` removes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::unnamed_files::{self, UnnamedFiles};
use super::{transfer, tree};
use crate::PutMode;

/// The outcome of placing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// The file has its final name.
    Yes,
    /// Another file has the name, and was not changed.
    NameTaken,
}

/// Opens a file with the given function, and retries after errors that the caller can resolve.
pub(crate) type Opening<'a> = &'a dyn Fn(&dyn Fn() -> io::Result<File>) -> io::Result<File>;

/// Steps before a file gets its name, executed while its bytes are written.
pub(crate) type Before<'a> = &'a dyn Fn() -> io::Result<()>;

/// Writes `parts`, one after the other, to a file named `path`. With `sync` its bytes are durable before it gets the
/// name; the name itself is not. `before` is called when the bytes are written, and may be called again after a
/// success. If it fails, the file gets no name.
pub(crate) fn write(
    path: &Path,
    parts: &[&[u8]],
    mode: PutMode,
    sync: bool,
    before: Before<'_>,
    opening: Opening<'_>,
    waiting: &UnnamedFiles,
) -> io::Result<Placed> {
    if mode == PutMode::IfAbsent
        && let Some(placed) = write_unnamed(path, parts, sync, before, opening, waiting)?
    {
        return Ok(placed);
    }
    let (file, temporary) = create_temporary(path, opening)?;
    let written =
        transfer::write_all(&file, 0, parts).and_then(|()| if sync { file.sync_data() } else { Ok(()) });
    let placed = written.and_then(|()| before()).and_then(|()| match mode {
        PutMode::Replace => std::fs::rename(&temporary, path).map(|()| Placed::Yes),
        PutMode::IfAbsent => name_if_absent(&file, &temporary, path),
    });
    if !matches!((mode, &placed), (PutMode::Replace, Ok(_))) {
        let _ = std::fs::remove_file(&temporary);
    }
    placed
}

/// Writes an unnamed file, which gets its name after all its bytes. `None` if the system has no unnamed files.
fn write_unnamed(
    path: &Path,
    parts: &[&[u8]],
    sync: bool,
    before: Before<'_>,
    opening: Opening<'_>,
    waiting: &UnnamedFiles,
) -> io::Result<Option<Placed>> {
    use std::sync::atomic::AtomicBool;

    static REFUSED: AtomicBool = AtomicBool::new(false);
    if REFUSED.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let fill = |file: &File| {
        transfer::write_all(file, 0, parts)?;
        if sync {
            file.sync_data()?;
        }
        before()
    };
    // The folder may have been replaced since the spare file was made, even by one on another disk.
    if let Some(file) = waiting.take(folder) {
        fill(&file)?;
        if let Ok(placed) = name(&file, path) {
            return Ok(Some(placed));
        }
    }
    let file = match opening(&|| unnamed_files::open(folder)) {
        Ok(file) => file,
        // The caller can create a missing folder. A named file would meet every other error again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Err(_) => return Ok(None),
    };
    fill(&file)?;
    match name(&file, path) {
        Ok(placed) => Ok(Some(placed)),
        // There is no /proc, or unnamed files cannot get names here. A named file reports every other error again.
        Err(error) => {
            use rustix::io::Errno;
            let never = [Errno::NOENT, Errno::OPNOTSUPP, Errno::NOSYS];
            let never = never.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
            REFUSED.store(never, Ordering::Relaxed);
            Ok(None)
        }
    }
}

/// Gives an unnamed file this name, unless the name is taken.
#[cfg(target_os = "linux")]
pub(super) fn name(file: &File, path: &Path) -> io::Result<Placed> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use rustix::io::Errno;
    use std::os::fd::AsRawFd;

    // Names the file by its descriptor, which systems before Linux 6.10 allow only to the administrator; else by its
    // path in /proc.
    let named = match linkat(file, c"", CWD, path, AtFlags::EMPTY_PATH) {
        Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {
            let open_file = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, open_file, CWD, path, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    };
    match named {
        Ok(()) => Ok(Placed::Yes),
        Err(Errno::EXIST) if file.metadata()?.nlink() > 0 => Ok(Placed::Yes),
        Err(Errno::EXIST) => Ok(Placed::NameTaken),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn name(_file: &File, _path: &Path) -> io::Result<Placed> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn name_if_absent(file: &File, temporary: &Path, path: &Path) -> io::Result<Placed> {
    match std::fs::hard_link(temporary, path) {
        Ok(()) => Ok(Placed::Yes),
        // A network file system may lose the reply, repeat the request, and find its own link. Then our file has two
        // names.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(if file.metadata()?.nlink() > 1 { Placed::Yes } else { Placed::NameTaken })
        }
        Err(error) if has_no_hard_links(&error) => rename_if_absent(temporary, path, error),
        Err(error) => Err(error),
    }
}

fn has_no_hard_links(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::PERM, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS, Errno::MLINK]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(target_os = "linux")]
fn rename_if_absent(temporary: &Path, path: &Path, _no_links: io::Error) -> io::Result<Placed> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, temporary, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Placed::Yes),
        Err(rustix::io::Errno::EXIST) => Ok(Placed::NameTaken),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_if_absent(_temporary: &Path, _path: &Path, no_links: io::Error) -> io::Result<Placed> {
    Err(no_links)
}

pub(super) fn create_temporary(path: &Path, opening: Opening<'_>) -> io::Result<(File, PathBuf)> {
    for _ in 0..1000 {
        let temporary = temporary_name(path);
        match opening(&|| tree::create_new(&temporary)) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("a thousand temporary names are taken; clear away the files that begin with '~'"))
}

/// A name in the folder of `path` that is most likely unused.
pub(super) fn temporary_name(path: &Path) -> PathBuf {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    // The time distinguishes processes with the same number on other nodes or in other containers. If names still
    // collide, the file system reports it and the next name is tried.
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!("{}{}-{serial}-{time:x}", tree::TEMPORARY, std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &Path, parts: &[&[u8]], mode: PutMode) -> Placed {
        write(path, parts, mode, false, &|| Ok(()), &|open| open(), &UnnamedFiles::default()).unwrap()
    }

    #[test]
    fn nothing_but_the_named_file_remains() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        assert_eq!(place(&path, &[b"1"], PutMode::IfAbsent), Placed::Yes);
        assert_eq!(place(&path, &[b"2"], PutMode::IfAbsent), Placed::NameTaken);
        assert_eq!(std::fs::read(&path).unwrap(), b"1");
        assert_eq!(place(&path, &[b"3"], PutMode::Replace), Placed::Yes);
        assert_eq!(std::fs::read(&path).unwrap(), b"3");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(path.metadata().unwrap().nlink(), 1);
    }

    #[test]
    fn a_failure_before_naming_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        for mode in [PutMode::IfAbsent, PutMode::Replace] {
            let refuse = || Err(io::Error::other("not yet"));
            let waiting = UnnamedFiles::default();
            assert!(write(&path, &[b"1"], mode, true, &refuse, &|open| open(), &waiting).is_err());
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn without_hard_links_a_rename_decides_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second, path) = (dir.path().join("1"), dir.path().join("2"), dir.path().join("k"));
        std::fs::write(&first, "1").unwrap();
        std::fs::write(&second, "2").unwrap();
        let no_links = || io::Error::from(io::ErrorKind::Unsupported);
        assert_eq!(rename_if_absent(&first, &path, no_links()).unwrap(), Placed::Yes);
        assert_eq!(rename_if_absent(&second, &path, no_links()).unwrap(), Placed::NameTaken);
        assert_eq!(std::fs::read(&path).unwrap(), b"1");
    }

    #[test]
    fn a_reply_that_was_lost_is_not_taken_for_a_lost_race() {
        // An NFS client repeats LINK when the reply is lost, and reports EEXIST for the link that it made itself.
        let dir = tempfile::tempdir().unwrap();
        let (temporary, path) = (dir.path().join("~t"), dir.path().join("k"));
        let file = tree::create_new(&temporary).unwrap();
        std::fs::hard_link(&temporary, &path).unwrap();
        assert_eq!(name_if_absent(&file, &temporary, &path).unwrap(), Placed::Yes);
    }
}
