//! Publishing: replaces the stub by a genuine HDF5 file with the same content, which needs no plug-in
//! (docs/guide/hdf5.md).
//!
//! The library that has the file open copies it through its own functions, from this connector to its own
//! format, and compares.
//!
//! Invariants
//! - the name leads to the stub with its whole container, or to the genuine file: only a rename changes it;
//! - it is tried once per open file: a library that shuts down closes its files again, and then shows nothing
//!   of their content;
//! - the copy has as many objects as links of the tree lead to, whatever the library showed;
//! - the container is removed after the rename, and only when nothing in this process uses it any more.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::file::opening::Opening;
use crate::file::stub::{self, FileContent};
use crate::library::abi::Hid;
use crate::library::failure::{Failure, Result, system};
use crate::library::host::{Host, quietly};
use crate::library::props::List;
use crate::ranks::team::{Act, attempt};

/// Replaces the stub, if that is configured and this is the last opening of a file that was opened for
/// writing. With several ranks the first does it, and the others wait.
pub fn at_the_end(host: &'static Host, connector: Hid, opening: &Arc<Opening>) -> Result<()> {
    let last = Arc::strong_count(opening) == 1 && opening.shared.opens.load(Ordering::SeqCst) == 1;
    if !opening.writable() || !opening.shared.config.publish {
        return Ok(());
    }
    let Some(team) = opening.team() else {
        return match last && !opening.shared.settled.swap(true, Ordering::SeqCst) {
            true => publish(host, connector, opening),
            false => Ok(()),
        };
    };
    if opening.shared.settled.load(Ordering::SeqCst) {
        return Ok(());
    }
    let said = team.meet(Act::Publish, [u64::from(last), 0, 0], Ok(()))?;
    if said.iter().any(|numbers| numbers[0] == 0) {
        return Ok(());
    }
    opening.shared.settled.store(true, Ordering::SeqCst);
    let done = if team.is_first() { attempt(|| publish(host, connector, opening)) } else { Ok(()) };
    team.meet(Act::Published, [0; 3], done).map(drop)
}

fn publish(host: &'static Host, connector: Hid, opening: &Opening) -> Result<()> {
    if opening.team().is_none() {
        opening.flush()?; // ranks have flushed together, before
    }
    let path = &opening.shared.path;
    let failed = |e: &std::io::Error| system(path, "unable to publish file", e);
    let (FileContent::Stub(stub), userblock) = stub::find(path).map_err(|e| failed(&e))? else {
        return Ok(());
    };
    let container = stub::folder_of(path, &stub);
    let temporary = temporary(path);
    let result = copy(host, connector, opening, path, &temporary).and_then(|()| {
        carry_user_block(path, &temporary, userblock).map_err(|e| failed(&e))?;
        let file = File::open(&temporary).map_err(|e| failed(&e))?;
        file.sync_all().map_err(|e| failed(&e))?;
        std::fs::rename(&temporary, path).map_err(|e| failed(&e))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| failed(&e))
    });
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    } else {
        if let (folder, None) = container {
            let _ = opening.shared.published.set(folder);
        }
    }
    result
}

/// Beside the file, so that a rename can replace it.
fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".publishing");
    path.with_file_name(name)
}

/// Copies the program's bytes before the stub to where the copy has room for them.
fn carry_user_block(from: &Path, to: &Path, userblock: u64) -> std::io::Result<()> {
    if stub::find(to)? != (FileContent::Hdf5, userblock) {
        return Err(std::io::Error::other("the copy has a user block of another size"));
    }
    let mut to = File::options().write(true).open(to)?;
    std::io::copy(&mut File::open(from)?.take(userblock), &mut to).map(drop)
}

/// Whether the library is shutting down.
fn is_ending(host: &Host) -> bool {
    let mut ending = false;
    // SAFETY: the function has this signature where there is one.
    unsafe {
        let found = libc::dlsym(host.library(), c"H5is_library_terminating".as_ptr());
        if !found.is_null() {
            let ask: unsafe extern "C" fn(*mut bool) -> i32 = std::mem::transmute(found);
            ask(&mut ending);
        }
    }
    ending
}

fn copy(host: &'static Host, connector: Hid, opening: &Opening, path: &Path, temporary: &Path) -> Result<()> {
    let name = |path: &Path| {
        CString::new(path.as_os_str().as_bytes()).map_err(|_| Failure::invalid("a path with NUL"))
    };
    if is_ending(host) {
        let why = "the program ended without closing it";
        eprintln!("drystone: {} was not published: {why}; drystone publish --hdf5 does it", path.display());
        return Err(Failure::write(format!("{} was not published: {why}", path.display())));
    }
    let objects = opening.shared.lock().tree.reachable() as u64;
    let (from, to) = (name(path)?, name(temporary)?);
    let access = List::new(host, "H5P_CLS_FILE_ACCESS_ID_g\0")?;
    // SAFETY: the host's library is never closed; names end with NUL; plain calls with ids of this library.
    // That the file is opened for reading keeps its closing from publishing once more.
    unsafe {
        let hdf5 =
            drystone_hdf5_copy::Hdf5::of(host.library()).map_err(|e| Failure::library(e.to_string()))?;
        if (host.api.H5Pset_vol)(access.id, connector, std::ptr::null()) < 0 {
            return Err(Failure::library("this connector cannot be chosen for reading"));
        }
        let source = (host.api.H5Fopen)(from.as_ptr(), 0, access.id);
        if source < 0 {
            return Err(Failure::no_file(format!("{} cannot be opened to be published", path.display())));
        }
        let copied = drystone_hdf5_copy::copy(&hdf5, source, &to);
        quietly(host, || (host.api.H5Fclose)(source));
        let failed = |why: String| Failure::write(format!("{} was not published: {why}", path.display()));
        let copied = copied.map_err(|e| failed(e.to_string()))?;
        match copied.groups + copied.datasets + copied.types {
            found if found == objects => Ok(()),
            found => Err(failed(format!("HDF5 showed {found} of {objects} objects"))),
        }
    }
}
