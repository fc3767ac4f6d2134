//! What lies at a URL, as a file: the container lies there itself, and no stub leads to it.
//!
//! Invariant: a container without the catalogue of HDF5's names is changed, replaced or removed by nothing here.

use std::path::Path;

use drystone::store::Store;
use drystone::{Container, Error, ErrorKind, Mode, StoreOptions};

use crate::file::config::Config;
use crate::file::heap::CATALOGUE;
use crate::library::failure::{Failure, Result, system};

pub(super) const CREATE: &str = "unable to create file";
pub(super) const OPEN: &str = "unable to open file";

/// The name of a file, if it is a URL of a far store.
pub(crate) fn url(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok().filter(|name| drystone::is_url(name))
}

/// An error of a far store as one of a file. Programs act on "there is none" and "there is one".
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

/// What a file at a URL cannot be.
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

/// Whether programs wrote the container through HDF5, or nothing at all yet.
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

/// A program wants to change what others wrote.
pub(super) fn read_only(url: &str) -> Failure {
    let told = system(Path::new(url), OPEN, &rustix::io::Errno::ACCESS.into());
    let why = "it was not written through HDF5, so HDF5 programs may read it, not change it";
    Failure { message: format!("{}: {why}", told.message), ..told }
}

/// Whether a program that uses HDF5 can open what lies at a URL: any container. An error if there is nothing.
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

/// Bytes that lie at a URL.
pub(crate) fn size(url: &str) -> drystone::Result<u64> {
    let store = drystone::open_store(url, &[])?;
    Ok(store.list("")?.iter().map(|entry| entry.len).sum())
}
