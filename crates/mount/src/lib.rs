//! A container as a file system: its content as files that any program can read.
//!
//! ```text
//! tree     the files and folders of a snapshot                 pure
//! ahead    which bytes to produce for a read, and whether the kernel caches them      pure
//! shown    a snapshot's arrays and fragments, with their sizes; calls the engine
//! zarr     the Zarr hierarchy of a snapshot: paths -> documents and chunks
//! inodes   numbers of files and folders
//! room     each thread's buffer for an answer
//! pieces   bytes that were produced, or are produced in advance
//! open     an open view: its reads
//! stored   published replicas, which the kernel reads itself
//! fs       views: names, attributes, answers to the kernel
//! files    byte files: numbers, attributes, errnos
//! whole    the adapter to fuser: passes each request to the views or the files
//! ```
//!
//! ```text
//! /view/latest/GROUP/VARIABLE.npy    the newest snapshot; also .bin, .h5, .nc
//! /view/17/GROUP/VARIABLE.npy        snapshot 17
//! /view/17/zarr/...                  the snapshot as a Zarr hierarchy; also below latest
//! /fragments/NAME                    a declared fragment, its steps in order
//! /published/...                     published replicas, as they are stored
//! /files/...                         byte files, which programs write
//! ```
//!
//! Invariants
//! - the inode of a file belongs to one snapshot, so its size and its bytes never change;
//! - `latest` is looked up again at each open, so an open file does not change, and the next open sees the newest
//!   snapshot;
//! - a failed read returns an errno and prints a line to standard error; it never returns other bytes.

mod ahead;
mod files;
mod fs;
mod inodes;
mod locks;
mod open;
mod pieces;
mod room;
mod shown;
mod stored;
mod tree;
mod whole;
mod zarr;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use drystone::Container;
use drystone_file_store::Files;
use drystone_file_store::files::Owner;
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Number of threads that answer the kernel.
const THREADS: usize = 4;
/// If another process has unmounted the folder, the mount ends within this time.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How long programs may take to close their files after a signal. Files that stay open end with the process.
const PATIENCE: Duration = Duration::from_secs(1);

/// What programs may do with the byte files of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read them.
    Read,
    /// Write them, too; other mounts may do so as well.
    Write,
    /// Write them, and the kernel collects the writes in its cache. No other mount may write meanwhile.
    WriteBack,
}

/// Mounts a container at a folder and serves it until the folder is unmounted, or the process gets SIGINT, SIGTERM or
/// SIGHUP. `folder` is the container's own folder, if it has one; then its published replicas and its free space are
/// shown. `ready` is called when the file system is mounted.
///
/// A mount that a killed process left at the folder is unmounted first. Fails if the folder does not exist, FUSE is not
/// available, or the user may not mount.
pub fn serve(
    container: Container,
    folder: Option<PathBuf>,
    at: &Path,
    access: Access,
    ready: impl FnOnce(),
) -> io::Result<()> {
    take_away_dead(at)?;
    if std::fs::read_dir(at)?.next().is_some() {
        let why = format!(
            "{} is not empty, and the mount would cover its content: choose an empty folder",
            at.display()
        );
        return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, why));
    }
    let files = opened(&container, access)?;
    let mut config = Config::default();
    config.mount_options = vec![
        if access == Access::Read { MountOption::RO } else { MountOption::RW },
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::FSName(container.location().replace(',', "_")),
        MountOption::Subtype("drystone".into()),
        MountOption::DefaultPermissions,
    ];
    config.acl = if rustix::process::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let tree = files.clone().map(files::FileTree::new);
    let views = fs::Views::new(container, folder.as_deref(), tree.is_some());
    let whole = whole::Whole::new(views, tree, folder, access);
    let mut session = Session::new(whole, at, &config)?;
    let mut unmounter = session.unmount_callable();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let handle = signals.handle();
    let (tell, told) = mpsc::channel();
    let by_signal = tell.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _ = by_signal.send(None);
        }
    });
    ready();
    std::thread::spawn(move || tell.send(Some(session.run())));
    let ended = told.recv().unwrap_or(None);
    handle.close();
    let served = match ended {
        Some(served) => served,
        None => {
            if access != Access::Read
                && let Err(error) = written_back(at)
            {
                eprintln!("drystone: writing what the kernel has collected: {error}");
            }
            let busy = unmounter.unmount().is_err();
            // It also fails if another process has just unmounted the folder.
            match told.recv_timeout(if busy { AT_ONCE } else { PATIENCE }) {
                Ok(Some(served)) => served,
                _ if busy => {
                    // A file is open: the folder is freed at once, and the open file ends with the process.
                    detach(at)?;
                    told.recv_timeout(PATIENCE).ok().flatten().unwrap_or(Ok(()))
                }
                _ => Ok(()),
            }
        }
    };
    // Writes to files that programs have not closed are committed too.
    let shut = files.map_or(Ok(()), |files| files.shut());
    unless_detached(served, at).and(shut.map_err(io::Error::other))
}

/// The outcome of a mount. The kernel may abort the connection of a folder that was unmounted with open files, when the
/// last one is closed: that is no failure. A connection that is aborted while the folder is mounted leaves it dead.
fn unless_detached(served: io::Result<()>, at: &Path) -> io::Result<()> {
    let aborted = Some(rustix::io::Errno::CONNABORTED.raw_os_error());
    match served {
        Err(error) if error.raw_os_error() == aborted && std::fs::metadata(at).is_ok() => Ok(()),
        other => other,
    }
}

/// The byte files of a container. For writing, they need not exist yet.
fn opened(container: &Container, access: Access) -> io::Result<Option<Arc<Files>>> {
    let owner = Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    let files = match access {
        Access::Read => container.files(),
        Access::Write => container.files_to_write(owner, false).map(Some),
        Access::WriteBack => container.files_to_write(owner, true).map(Some),
    };
    files.map_err(io::Error::other)
}

/// Unmounts a folder that [`serve`] mounted. Any process may call it. Programs can go on with files that they have
/// open, and the mount ends when the last one is closed; what the kernel has collected of them is written first.
pub fn unmount(at: &Path) -> io::Result<()> {
    match rustix::mount::unmount(at, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::BUSY) => leave_open_files(at),
        Err(rustix::io::Errno::PERM) => match by_program(at, &["-u"]) {
            Err(error) if error.to_string().contains("busy") => leave_open_files(at),
            other => other,
        },
        Err(error) => Err(error.into()),
    }
}

fn leave_open_files(at: &Path) -> io::Result<()> {
    written_back(at)?;
    detach(at)
}

/// Lets the kernel write what it has collected of files that are still open, or mapped.
fn written_back(at: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(std::fs::File::open(at)?)?)
}

fn detach(at: &Path) -> io::Result<()> {
    match rustix::mount::unmount(at, UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        Err(_) => by_program(at, &["-u", "-z"]),
    }
}

/// Unmounts with the program fusermount3, which also mounts for ordinary users.
fn by_program(at: &Path, options: &[&str]) -> io::Result<()> {
    let done = Command::new("fusermount3").args(options).arg(at).output().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("fusermount3 (of the package fuse3) is needed to unmount: {error}"),
        )
    })?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
    }
}

/// Unmounts the folder if a killed process left it mounted. Every call to such a folder fails.
fn take_away_dead(at: &Path) -> io::Result<()> {
    match std::fs::metadata(at) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => detach(at),
        _ => Ok(()),
    }
}
