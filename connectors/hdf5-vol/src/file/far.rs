//! Files at URLs: the container itself is at the URL, without a stub.
//!
//! Invariant: this module never changes, replaces or removes a container without the catalogue of HDF5 names.

use std::path::Path;

use drystone::store::Store;
use drystone::{Container, Error, ErrorKind, Mode, StoreOptions};

use crate::file::config::Config;
use crate::file::heap::CATALOGUE;
use crate::library::failure::{Failure, Result, system};

pub(super) const CREATE: &str = "unable to create file";
pub(super) const OPEN: &str = "unable to open file";

/// The URL, if the name of a file is one of a far store.
pub(crate) fn url(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok().filter(|name| drystone::is_url(name))
}

/// An error of a far store as an error of a file. Programs react to "not found" and "exists".
pub(super) fn failed(url: &str, what: &str, e: Error) -> Failure {
    let number = match e.kind() {
        ErrorKind::NotFound => rustix::io::Errno::NOENT,
        ErrorKind::Conflict if what == CREATE => rustix::io::Errno::EXIST,
        ErrorKind::Permission => rustix::io::Errno::ACCESS,
        _ => return Failure::no_file(format!("{what}: name = '{url}': {e}")),
    };
    let told = system(Path::new(url), what, &number.into());
    Failure { message: format!("{}: {e}", told.message), ..told }
}

/// Refuses options that files at a URL cannot have.
pub(super) fn check(url: &str, config: &Config, userblock: u64) -> Result<()> {
    if config.publish {
        return Err(Failure::unsupported(format!(
            "publish=1 makes a genuine HDF5 file in place of the stub, and at {url} there is none: leave publish=1 out, or write to a local \
             file, which drystone publish --hdf5 converts"
        )));
    }
    if userblock != 0 {
        return Err(Failure::unsupported(format!(
            "a user block lies in the file before its content, and {url} is a container of many objects: leave the user block out"
        )));
    }
    Ok(())
}

/// Whether programs wrote the container through HDF5, or nothing was written yet.
pub(super) fn is_ours(container: &Container) -> bool {
    container.schema().resolve(CATALOGUE).is_some()
}

pub(super) fn not_ours(url: &str) -> Failure {
    Failure {
        minor: "H5E_NOTHDF5_g\0",
        ..Failure::damaged(format!(
            "the container {url} was not written through HDF5, so HDF5 programs may read it, not replace or remove it"
        ))
    }
}

/// Refuses to change a container that was not written through HDF5.
pub(super) fn read_only(url: &str) -> Failure {
    let told = system(Path::new(url), OPEN, &rustix::io::Errno::ACCESS.into());
    let why = "it was not written through HDF5, so HDF5 programs may read it, not change it";
    Failure { message: format!("{}: {why}", told.message), ..told }
}

/// Whether an HDF5 program can open the URL: any container. An error if there is nothing.
pub(super) fn accessible(url: &str) -> Result<bool> {
    Container::open(url, Mode::Read).map(|_| true).map_err(|e| failed(url, OPEN, e))
}

/// Removes the file at a URL.
pub(super) fn remove(url: &str) -> Result<()> {
    let what = "unable to delete file";
    let container = Container::open(url, Mode::Read).map_err(|e| failed(url, what, e))?;
    if !is_ours(&container) {
        return Err(not_ours(url));
    }
    drop(container);
    Container::remove_url(url, &StoreOptions::default()).map_err(|e| failed(url, what, e))
}

/// Bytes stored at a URL.
pub(crate) fn size(url: &str) -> drystone::Result<u64> {
    let store = drystone::open_store(url, &[])?;
    Ok(store.list("")?.iter().map(|entry| entry.len).sum())
}
