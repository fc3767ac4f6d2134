//! A container as a file system: what it holds, as files that any program reads.
//!
//! ```text
//! tree     paths -> what they are; a folder -> its entries      pure
//! ahead    a read and the reads before it -> which bytes to make, and whether the kernel keeps them  pure
//! shown    a snapshot's arrays, fragments and their sizes        asks the engine
//! zarr     the Zarr hierarchy of a snapshot: paths -> documents and chunks
//! inodes   numbers of files and folders
//! room     each thread's room for an answer
//! pieces   bytes that were made, and those that are made ahead
//! open     an open view: its reads
//! stored   what was published, which the kernel reads itself
//! fs       views: names, attributes, answers to the kernel
//! files    byte files: numbers, attributes, errnos
//! whole    each request to the views or the files               the adapter to fuser
//! ```
//!
//! ```text
//! /view/latest/GROUP/VARIABLE.npy    the newest snapshot; also .bin, .h5, .nc
//! /view/17/GROUP/VARIABLE.npy        snapshot 17
//! /view/17/zarr/...                  the snapshot as a Zarr hierarchy; also below latest
//! /fragments/NAME                    a declared fragment, step behind step
//! /published/...                     what was published, as it is stored
//! /files/...                         byte files, which programs write
//! ```
//!
//! Invariants
//! - an inode of a file belongs to one snapshot, so its size and its bytes never change;
//! - `latest` is looked up anew at each open, so an open file stays as it is and the next open sees the newest
//!   snapshot;
//! - a failed read is an errno and a line on standard error, never other bytes.

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

/// Threads that answer the kernel.
const THREADS: usize = 4;
/// Within this a mount ends that another has unmounted.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How long programs have to close their files after a signal; those that stay open end with the process.
const PATIENCE: Duration = Duration::from_secs(1);

/// Mounts a container at a folder and serves it until the folder is unmounted, or the process gets SIGINT, SIGTERM or
/// SIGHUP. `folder` is where the container lies, if that is a folder: what was published there is shown, and its room.
/// `ready` is called when the file system is mounted.
///
/// A mount point that a killed process left is taken away first. Fails where the folder is missing, FUSE is not
/// available, or the user may not mount.
pub fn serve(
    container: Container,
    folder: Option<PathBuf>,
    at: &Path,
    write: bool,
    ready: impl FnOnce(),
) -> io::Result<()> {
    take_away_dead(at)?;
    let files = opened(&container, write)?;
    let mut config = Config::default();
    config.mount_options = vec![
        if write { MountOption::RW } else { MountOption::RO },
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
    let whole = whole::Whole::new(views, tree, folder, write);
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
            let busy = unmounter.unmount().is_err();
            // It fails where another has unmounted it just now, too.
            match told.recv_timeout(if busy { AT_ONCE } else { PATIENCE }) {
                Ok(Some(served)) => served,
                _ if busy => {
                    // A file is open: the folder is free at once, and the open file ends with the process.
                    detach(at)?;
                    told.recv_timeout(PATIENCE).ok().flatten().unwrap_or(Ok(()))
                }
                _ => Ok(()),
            }
        }
    };
    // What programs have written and not closed is committed, too.
    let shut = files.map_or(Ok(()), |files| files.shut());
    served.and(shut.map_err(io::Error::other))
}

/// The byte files; to write, they need not be there yet.
fn opened(container: &Container, write: bool) -> io::Result<Option<Arc<Files>>> {
    let owner = Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    let files = if write { container.files_to_write(owner).map(Some) } else { container.files() };
    files.map_err(io::Error::other)
}

/// Unmounts what [`serve`] mounted, from any process.
pub fn unmount(at: &Path) -> io::Result<()> {
    match rustix::mount::unmount(at, UnmountFlags::empty()) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => by_program(at, &["-u"]),
        Err(error) => Err(error.into()),
    }
}

fn detach(at: &Path) -> io::Result<()> {
    match rustix::mount::unmount(at, UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        Err(_) => by_program(at, &["-u", "-z"]),
    }
}

/// Ordinary users unmount by the program that mounted for them.
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

/// A process that was killed leaves a mount point at which every call fails.
fn take_away_dead(at: &Path) -> io::Result<()> {
    match std::fs::metadata(at) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => detach(at),
        _ => Ok(()),
    }
}
