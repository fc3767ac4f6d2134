//! The program's file driver: where the program wants the bytes stored, as far as the connector can honour that.
//!
//! For drivers that write the file by its name (sec2, stdio, log, mpio, core with a backing store) the
//! container takes the file's place. The core driver without backing store promises that nothing is left: its
//! container lies in a folder of its own, in memory where the system has one there, and is removed with the
//! last closing. Drivers that keep the bytes elsewhere (h5py's file objects, split, family, images) are
//! refused: they would find nothing.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::library::abi::Hid;
use crate::library::failure::{Failure, Result, system};
use crate::library::host::{Host, quietly};

/// `H5FD_FEAT_DEFAULT_VFD_COMPATIBLE`: the driver's files have the format of the default driver's.
const LIKE_THE_DEFAULT: std::ffi::c_ulong = 0x8000;

/// The location of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMedium {
    /// At its name.
    Disk,
    /// Nowhere that outlives it.
    Memory,
}

/// The request of the access list.
pub fn of(host: &Host, fapl: Hid) -> Result<FileMedium> {
    let (mut increment, mut backed) = (0, true);
    // SAFETY: writes two numbers if the driver is the core one.
    let core = host
        .api
        .H5Pget_fapl_core
        .is_some_and(|ask| quietly(host, || unsafe { ask(fapl, &mut increment, &mut backed) }) >= 0);
    if core {
        return Ok(if backed { FileMedium::Disk } else { FileMedium::Memory });
    }
    let (Some(driver), Some(query)) = (host.api.H5Pget_driver, host.api.H5FDdriver_query) else {
        return Ok(FileMedium::Disk);
    };
    let mut features = 0;
    // SAFETY: the id is the list's own, which it keeps; writes one number.
    let known = quietly(host, || unsafe {
        let id = driver(fapl);
        id >= 0 && query(id, &mut features) >= 0
    });
    match known && features & LIKE_THE_DEFAULT == 0 {
        true => Err(Failure::unsupported(
            "this file driver keeps the bytes of a file in a place of its own, which the drystone connector cannot fill: use the \
             default driver, or core",
        )),
        false => Ok(FileMedium::Disk),
    }
}

/// A new folder for a file that must leave nothing behind, and the file's path in it.
pub fn memory(name: &Path) -> Result<(PathBuf, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let shared = Path::new("/dev/shm");
    let memory = rustix::fs::access(shared, rustix::fs::Access::WRITE_OK).is_ok();
    let parent = if memory { shared.to_path_buf() } else { std::env::temp_dir() };
    let file = name.file_name().map_or_else(|| "memory.h5".into(), std::ffi::OsStr::to_os_string);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("drystone-hdf5-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok((folder.clone(), folder.join(file))),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && number < 1 << 20 => {}
            Err(e) => return Err(system(&folder, "unable to create file", &e)),
        }
    }
}
