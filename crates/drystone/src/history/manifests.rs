//! Manifest files: reads them, one or several at a time, and handles the tombstones and voids that replace them.

use std::collections::BTreeMap;

use drystone_format::frame::{self, FrameKind, Next};
use drystone_format::keys;
use drystone_format::manifest::Manifest;
use drystone_store::{PutMode, Reply, Request, Store, StoreError, StoreExt};

use super::packs::GONE;
use super::probing::MANIFEST_LIMIT;
use crate::base::error::must_exist;
use crate::{Error, ErrorKind, Result};

/// The content of a void, which replaces a manifest that a power cut destroyed.
const VOID: &[u8] = b"void";

/// The number of manifests that are fetched together.
const TOGETHER: u64 = 32;

/// Reads one manifest.
pub(crate) fn read_manifest(store: &dyn Store, version: u64, uuid: &[u8; 16]) -> Result<Manifest> {
    Ok(manifest_file(store, version, uuid, None)?.0)
}

/// Reads manifests in order, the newest first. From a far store several are read at a time.
pub(crate) struct Manifests<'a> {
    store: &'a dyn Store,
    uuid: &'a [u8; 16],
    fetched: BTreeMap<u64, Vec<u8>>,
}

impl<'a> Manifests<'a> {
    pub(crate) fn new(store: &'a dyn Store, uuid: &'a [u8; 16]) -> Self {
        Manifests { store, uuid, fetched: BTreeMap::new() }
    }

    /// Reads the manifest of a version, as [`read_manifest`] does.
    pub(crate) fn read(&mut self, version: u64) -> Result<Manifest> {
        if self.store.features().far.is_none() {
            return read_manifest(self.store, version, self.uuid);
        }
        if !self.fetched.contains_key(&version) {
            let numbers = (version.saturating_sub(TOGETHER - 1).max(1)..=version).rev();
            let whole = |version| Request::ReadWhole { key: keys::manifest(version), limit: MANIFEST_LIMIT };
            let replies = self.store.together(numbers.clone().map(whole).collect());
            self.fetched.clear();
            for (number, reply) in numbers.zip(replies) {
                if let Ok(Reply::Whole { bytes: Ok(bytes) }) = reply {
                    self.fetched.insert(number, bytes);
                }
            }
        }
        Ok(manifest_file(self.store, version, self.uuid, self.fetched.remove(&version))?.0)
    }
}

/// The number of times that a damaged manifest is requested again from a far store, whose reply may have been damaged
/// on the way.
const AGAIN: usize = 2;

/// One manifest, and the file that ends with it. `file` holds its bytes, if they were read already.
pub(super) fn manifest_file(
    store: &dyn Store,
    version: u64,
    uuid: &[u8; 16],
    file: Option<Vec<u8>>,
) -> Result<(Manifest, Vec<u8>)> {
    let key = keys::manifest(version);
    let read = || match store.read_all(&key, MANIFEST_LIMIT) {
        Ok(bytes) => Ok(bytes),
        Err(StoreError::NotFound { .. }) => {
            Err(Error::not_found(format!("there is no snapshot {version}: {key} does not exist")))
        }
        Err(e) => Err(e.into()),
    };
    let mut found = manifest_of(file.map_or_else(read, Ok)?, version, uuid);
    for _ in 0..AGAIN {
        match &found {
            Err(e) if e.kind() == ErrorKind::Corrupt && store.features().far.is_some() => {
                found = manifest_of(read()?, version, uuid);
            }
            _ => break,
        }
    }
    found
}

/// The manifest at the end of a file, and the file.
fn manifest_of(bytes: Vec<u8>, version: u64, uuid: &[u8; 16]) -> Result<(Manifest, Vec<u8>)> {
    let key = keys::manifest(version);
    if bytes == VOID {
        return Err(Error::not_found(format!(
            "snapshot {version} was lost in a power cut before it was flushed ({key} says so)"
        )));
    }
    if ends_gone(&bytes) {
        return Err(Error::not_found(format!(
            "snapshot {version} has expired: garbage collection removed it"
        )));
    }
    let manifest = Manifest::decode(&bytes).map_err(|c| Error::damaged(&key, 0, &c))?;
    if manifest.version != version || manifest.uuid != *uuid {
        return Err(Error::corrupt(format!(
            "{key} is damaged: it is manifest {} of another name or container",
            manifest.version
        )));
    }
    Ok((manifest, bytes))
}

/// Whether these bytes are a tombstone: whole frames, each a multiple of 8 bytes long, followed by the mark.
fn ends_gone(bytes: &[u8]) -> bool {
    bytes.len() % 8 == GONE.len() && bytes.ends_with(GONE)
}

/// Whether this version has a tombstone.
pub(crate) fn is_gone(store: &dyn Store, version: u64) -> bool {
    store.read_all(&keys::manifest(version), MANIFEST_LIMIT).is_ok_and(|bytes| ends_gone(&bytes))
}

/// The pages that precede a manifest, or that precede the tombstone in its place.
pub(crate) fn pages_of(store: &dyn Store, version: u64) -> Result<Vec<u8>> {
    let key = keys::manifest(version);
    let mut bytes = store.read_all(&key, MANIFEST_LIMIT).map_err(must_exist)?;
    let (mut at, mut ordinal) = (0u64, 0u64);
    loop {
        match frame::next(&bytes, at, ordinal) {
            Next::Frame { header, end, .. } if header.kind != FrameKind::Manifest => {
                (at, ordinal) = (end, ordinal + 1)
            }
            Next::Frame { .. } => break,
            _ if bytes.get(at as usize..) == Some(GONE.as_slice()) => break,
            Next::Torn(c) => return Err(Error::damaged(&key, at, &c)),
            Next::End => return Err(Error::corrupt(format!("{key} is damaged: it ends without a manifest"))),
        }
    }
    bytes.truncate(at as usize);
    Ok(bytes)
}

/// Whether this version has a void.
pub(crate) fn is_void(store: &dyn Store, version: u64) -> bool {
    store.read_all(&keys::manifest(version), VOID.len() as u64).is_ok_and(|bytes| bytes == VOID)
}

/// Puts a void for a version whose manifest is missing or, with `replace`, unreadable and abandoned.
pub(crate) fn put_void(store: &dyn Store, version: u64, replace: bool) -> Result<()> {
    let mode = if replace { PutMode::Replace } else { PutMode::IfAbsent };
    match store.put(&keys::manifest(version), &[VOID], mode, false) {
        Ok(()) | Err(StoreError::AlreadyExists { .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The highest manifest number in a list; 0 if the store cannot list. A store behind a web server cannot; there,
/// every closed writer has left a hint, and probing from it finds the newest manifest.
pub(super) fn listed(store: &dyn Store, parse: impl Fn(&str) -> Option<u64>) -> Result<u64> {
    let entries = match store.list("manifest/") {
        Err(StoreError::Unsupported { .. }) => return Ok(0),
        entries => entries?,
    };
    Ok(entries.iter().filter_map(|e| parse(&e.key)).max().unwrap_or(0))
}

/// The greatest listed manifest number below `version`; 0 if there is none.
pub(crate) fn below(store: &dyn Store, version: u64) -> Result<u64> {
    listed(store, |key| keys::parse_manifest(key).filter(|v| *v < version))
}

/// Whether there is a manifest above `version`.
pub(crate) fn has_newer(store: &dyn Store, version: u64) -> Result<bool> {
    Ok(store.exists(&keys::manifest(version + 1))?)
}
