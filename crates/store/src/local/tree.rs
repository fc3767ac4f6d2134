//! Folders and files below the root.
//!
//! A file whose name is not a component of a key is ignored: temporary files carry such names, so they are
//! never listed and cannot be mistaken for objects.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use crate::ListEntry;
use crate::key::{MAX_KEY_LEN, is_component};

/// First character of the names of temporary files; no component of a key begins with it.
pub(crate) const TEMPORARY: char = '~';

/// Opens a folder to look up names below it; on Linux, without the right to list it.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::OFlags;

    #[cfg(target_os = "linux")]
    let access = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let access = OFlags::RDONLY;
    let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, rustix::fs::Mode::empty()))?)
}

/// Creates a file that must not exist, to be read and written.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// Creates the missing folders between `root` and the file at `path`; `root` itself must exist.
pub(crate) fn create_folders(root: &Path, path: &Path) -> io::Result<()> {
    let Some(below) = path.parent().and_then(|parent| parent.strip_prefix(root).ok()) else { return Ok(()) };
    let mut folder = root.to_owned();
    for component in below {
        folder.push(component);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// All objects whose key begins with `prefix`, sorted by key.
pub(crate) fn list(root: &Path, prefix: &str) -> io::Result<Vec<ListEntry>> {
    let folder = prefix.rfind('/').map_or("", |slash| &prefix[..slash]);
    let mut found = Vec::new();
    // A missing root is an error; a missing folder is not.
    root.metadata()?;
    visit(root, folder, prefix, &mut found)?;
    found.sort_unstable();
    Ok(found)
}

fn visit(root: &Path, folder: &str, prefix: &str, found: &mut Vec<ListEntry>) -> io::Result<()> {
    let entries = match std::fs::read_dir(root.join(folder)) {
        Err(error) if is_gone(&error) => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_component(name)) else { continue };
        let key = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        // This also ends the descent if links to folders are circular.
        if key.len() > MAX_KEY_LEN {
            continue;
        }
        let mut kind = entry.file_type()?;
        let within = key.starts_with(prefix);
        let toward = prefix.starts_with(&key) && prefix.as_bytes().get(key.len()) == Some(&b'/');
        if !within && !toward {
            continue;
        }
        let metadata = if within || kind.is_symlink() {
            match entry.path().metadata() {
                // The file was deleted meanwhile, or is a link to nothing.
                Err(error) if is_gone(&error) => continue,
                other => Some(other?),
            }
        } else {
            None
        };
        if let Some(metadata) = &metadata {
            kind = metadata.file_type();
        }
        if kind.is_dir() {
            visit(root, &key, prefix, found)?;
        } else if let Some(metadata) = metadata.filter(|metadata| within && metadata.is_file()) {
            found.push(ListEntry { key, len: metadata.len() });
        }
    }
    Ok(())
}

/// Removes temporary files of keys that begin with `prefix`, and empty folders of such keys; returns how
/// many. With `older`, only files of at least that age, and no folders.
pub(crate) fn sweep(root: &Path, prefix: &str, older: Duration) -> io::Result<u64> {
    let folder = prefix.rfind('/').map_or("", |slash| &prefix[..slash]);
    let mut removed = 0;
    sweep_folder(root, folder, (prefix, older), &mut removed)?;
    Ok(removed)
}

/// Whether the folder is empty afterwards.
fn sweep_folder(
    root: &Path,
    folder: &str,
    (prefix, older): (&str, Duration),
    removed: &mut u64,
) -> io::Result<bool> {
    let entries = match std::fs::read_dir(root.join(folder)) {
        Err(error) if is_gone(&error) => return Ok(false),
        other => other?,
    };
    let inside = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let ours = inside.starts_with(prefix);
    let mut empty = true;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let kind = entry.file_type()?;
        let Some(name) = name.to_str() else {
            empty = false;
            continue;
        };
        let gone = if kind.is_dir() && is_component(name) {
            let below = format!("{inside}{name}");
            let reaches = format!("{below}/").starts_with(prefix) || prefix.starts_with(&format!("{below}/"));
            reaches
                && below.len() <= MAX_KEY_LEN
                && sweep_folder(root, &below, (prefix, older), removed)?
                && older.is_zero()
                && format!("{below}/").starts_with(prefix)
                && std::fs::remove_dir(entry.path()).is_ok()
        } else {
            ours && kind.is_file()
                && name.starts_with(TEMPORARY)
                && is_as_old(&entry, older)
                && std::fs::remove_file(entry.path()).is_ok()
        };
        *removed += u64::from(gone);
        empty &= gone;
    }
    Ok(empty)
}

/// Whether the file has not been written to for this long.
pub(crate) fn is_as_old(entry: &std::fs::DirEntry, older: Duration) -> bool {
    let written = entry.metadata().and_then(|metadata| metadata.modified());
    older.is_zero() || written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= older))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
