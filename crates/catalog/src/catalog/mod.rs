//! A catalogue in a folder or at a URL: opening, finding, adding, checking.
//!
//! ```text
//! catalog.json          identity, put once
//! pages/ID.dcp          columns; never changed, removed when merged into another
//! manifest/N.dcm        which pages; put if absent, never removed
//! hint                  the number of a recent manifest
//! ```
//!
//! Invariants
//! - a page is put before the manifest that names it;
//! - a manifest builds on the one before it, so concurrent additions of two processes are both kept;
//! - only containers that can be read now are returned, each with a flag whether it has changed.

mod add;
mod check;
mod find;
mod pages;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drystone::{Error, ErrorKind, Result, is_url, open_store};
use drystone_format::Corrupt;
use drystone_store::{LocalStore, PutMode, Store, StoreError, StoreExt};

pub use add::AddReport;
pub use check::CheckReport;
pub use find::{FoundContainer, FoundReport};

use crate::expand::normal;
use crate::manifest::Manifest;
use pages::Cache;

const IDENTITY: &str = "catalog.json";
const HINT: &str = "hint";
/// Most bytes of a manifest.
const MAX_MANIFEST: u64 = 1 << 28;
/// Most attempts to put a manifest while other processes put theirs.
const TRIES: usize = 1000;

/// An open catalogue. It may be used from several threads.
#[derive(Debug)]
pub struct Catalog {
    store: Arc<dyn Store>,
    location: String,
    options: Vec<(String, String)>,
    uuid: [u8; 16],
    newest: Mutex<Arc<Manifest>>,
    cache: Mutex<Cache>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn damaged(key: &str, found: &Corrupt) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{key} of the catalogue is damaged at byte {}: {}; rebuild it", found.at, found.what),
    )
}

/// 128 unpredictable bits: from the system, the time and a counter.
fn random() -> [u8; 16] {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut out = [0; 16];
    for half in out.chunks_exact_mut(8) {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(drystone_store::process_id());
        hasher.write_u128(std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()));
        half.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    out
}

fn identity(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    format!("{{\"format\": \"drystone-catalog\", \"version\": 1, \"uuid\": \"{hex}\"}}\n")
}

/// Parses the identity, which has only one valid spelling.
fn parse_identity(bytes: &[u8]) -> Option<[u8; 16]> {
    let text = std::str::from_utf8(bytes).ok()?;
    let hex = text.split('"').nth_back(1)?;
    let uuid = u128::from_str_radix(hex, 16).ok()?.to_be_bytes();
    (identity(&uuid) == text).then_some(uuid)
}

impl Catalog {
    /// Opens the catalogue at a path or a URL; with `make`, creates it if there is none.
    ///
    /// Errors: `NotFound` if there is none, `Conflict` if something else is there, `Corrupt` if it is damaged.
    pub fn open(location: &str, options: &[(String, String)], make: bool) -> Result<Catalog> {
        let location = normal(location)?;
        let local = !is_url(&location);
        let path = std::path::Path::new(&location);
        if local && !make && !path.is_dir() {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no catalogue at {location}")));
        }
        if local && path.is_file() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("a catalogue is a folder, and {location} is a file: choose another path"),
            ));
        }
        let store = match local {
            true => Arc::new(LocalStore::create(path)?),
            false => open_store(&location, options)?,
        };
        let uuid = match store.read_whole(IDENTITY, 4096) {
            Ok(Ok(bytes)) => parse_identity(&bytes),
            Ok(Err(_)) => None,
            Err(StoreError::NotFound { .. }) if !make => {
                return Err(Error::new(ErrorKind::NotFound, format!("there is no catalogue at {location}")));
            }
            Err(StoreError::NotFound { .. }) => Some(Self::made(store.as_ref(), &location, local)?),
            Err(e) => return Err(e.into()),
        };
        let Some(uuid) = uuid else {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{IDENTITY} in {location} is damaged, or of a newer version: rebuild the catalogue in an empty \
                     folder"
                ),
            ));
        };
        let newest = Mutex::new(Arc::new(Manifest { uuid, ..Manifest::default() }));
        let options = options.to_vec();
        let catalog = Catalog { store, location, options, uuid, newest, cache: Mutex::default() };
        catalog.refresh()?;
        Ok(catalog)
    }

    fn made(store: &dyn Store, location: &str, local: bool) -> Result<[u8; 16]> {
        let others = if local {
            let entries = std::fs::read_dir(location).into_iter().flatten().flatten();
            let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.find(|name| !name.contains('~') && name != IDENTITY)
        } else {
            let entries = store.list("")?;
            entries.into_iter().map(|entry| entry.key).find(|key| key != IDENTITY)
        };
        if let Some(other) = others {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "cannot make a catalogue at {location}: something else is there (such as {other:?}); \
                     choose a new or empty folder"
                ),
            ));
        }
        let uuid = random();
        match store.put(IDENTITY, &[identity(&uuid).as_bytes()], PutMode::IfAbsent, true) {
            Ok(()) => Ok(uuid),
            Err(StoreError::AlreadyExists { .. }) => parse_identity(&store.read_all(IDENTITY, 4096)?)
                .ok_or_else(|| {
                    Error::new(ErrorKind::Corrupt, format!("{IDENTITY} in {location} is damaged"))
                }),
            Err(e) => Err(e.into()),
        }
    }

    /// Its path or URL.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Number of containers.
    pub fn len(&self) -> u64 {
        self.manifest().pages.iter().map(|page| u64::from(page.live())).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of changes so far.
    pub fn version(&self) -> u64 {
        self.manifest().number
    }

    fn manifest(&self) -> Arc<Manifest> {
        lock(&self.newest).clone()
    }

    /// Makes additions of other processes visible.
    pub fn refresh(&self) -> Result<()> {
        let known = self.manifest().number;
        let mut number = known.max(self.hint());
        if number > known && !self.store.exists(&Manifest::key(number))? {
            number = known;
        }
        if number == 0 {
            let listed = self.store.list("manifest/")?;
            number = listed.iter().filter_map(|entry| Manifest::parse_key(&entry.key)).max().unwrap_or(0);
        }
        while self.store.exists(&Manifest::key(number + 1))? {
            number += 1;
        }
        if number > known {
            let manifest = self.load(number)?;
            let mut newest = lock(&self.newest);
            if newest.number < number {
                *newest = Arc::new(manifest);
            }
        }
        Ok(())
    }

    fn hint(&self) -> u64 {
        let found = self.store.read_whole(HINT, 32).ok().and_then(|found| found.ok());
        found.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.trim().parse().ok()).unwrap_or(0)
    }

    fn load(&self, number: u64) -> Result<Manifest> {
        let key = Manifest::key(number);
        let bytes = self.store.read_all(&key, MAX_MANIFEST)?;
        let manifest = Manifest::decode(&bytes).map_err(|found| damaged(&key, &found))?;
        if manifest.number != number || manifest.uuid != self.uuid {
            return Err(damaged(&key, &Corrupt::new("it belongs to another catalogue or number", 8)));
        }
        Ok(manifest)
    }

    /// Puts the next manifest, which `next` makes from the newest one; repeats if another process was faster.
    fn commit(&self, next: impl Fn(&Manifest) -> Result<Manifest>) -> Result<()> {
        for _ in 0..TRIES {
            let manifest = self.of_newest(&next)?;
            if self.put(manifest)? {
                return Ok(());
            }
            self.refresh()?;
        }
        Err(Error::new(ErrorKind::Conflict, format!("{TRIES} others changed {} meanwhile", self.location)))
    }

    /// Reads pages of the newest manifest; again, if another process has merged one of them, so that there is a newer
    /// manifest.
    fn of_newest<T>(&self, read: impl Fn(&Manifest) -> Result<T>) -> Result<T> {
        loop {
            let newest = self.manifest();
            match read(&newest) {
                Err(e) if pages::is_missing(&e) => {
                    self.refresh()?;
                    if self.manifest().number == newest.number {
                        return Err(e);
                    }
                }
                done => return done,
            }
        }
    }

    /// Puts a manifest; returns false if its number is taken.
    fn put(&self, manifest: Manifest) -> Result<bool> {
        let number = manifest.number;
        let bytes = manifest.encode();
        match self.store.put(&Manifest::key(number), &[&bytes], PutMode::IfAbsent, true) {
            Ok(()) => {}
            Err(StoreError::AlreadyExists { .. }) => return Ok(false),
            // The reply may have been lost: the manifest is ours if it exists with our bytes.
            Err(e) => match self.store.read_whole(&Manifest::key(number), MAX_MANIFEST) {
                Ok(Ok(found)) if found == bytes => {}
                _ => return Err(e.into()),
            },
        }
        let mut newest = lock(&self.newest);
        if newest.number < number {
            *newest = Arc::new(manifest);
        }
        drop(newest);
        // Only the speed depends on the hint.
        let _ = self.store.put(HINT, &[number.to_string().as_bytes()], PutMode::Replace, false);
        Ok(true)
    }

    /// Number of containers that are examined at the same time.
    fn threads(&self, location: &str) -> usize {
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        if is_url(location) { 32 } else { cores.clamp(2, 16) }
    }
}
