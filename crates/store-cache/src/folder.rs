//! The cache folder: files of units and pins, and how they are named, loaded, added and evicted.
//!
//! `UUID/KEY/START-END` is a unit, `UUID/KEY/START-END.pin` an empty file that pins these bytes. KEY is the object's
//! key with `.` for each slash; the head of a unit has the original key.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use drystone_format::cache_unit::{BLOCK_LOG2, MAX_UNIT, UnitHead, head_len};
use drystone_plan::tier::cover::{self, Units};
use drystone_plan::tier::evict::{self, Copy};
use drystone_plan::tier::place::reserve;
use drystone_store::{Health, LocalStore, PerProcess, PutMode, Result, Store, StoreError, StoreExt};

use crate::open_units::{Loaded, OpenUnit, OpenUnits};

/// The default budget is the number of free bytes of the device, divided by this.
const FREE_PART: u64 = 10;
/// After this process has added the budget divided by this, it measures again what all processes have added.
const LOOK_AFTER: u64 = 16;
/// When the budget is used up, units are evicted down to this percentage of it.
const DOWN_TO: u64 = 90;
/// A unit that is loaded repeatedly is marked as used once in this time.
const TOUCH: Duration = Duration::from_secs(60);
/// Longer names of objects are cut to this length and get a checksum.
const NAME: usize = 180;

/// A cache folder and its budget.
#[derive(Debug)]
pub struct Folder {
    store: Arc<dyn Store>,
    root: PathBuf,
    budget: u64,
    reserve: u64,
    pub(crate) health: Health,
    /// Locked while the folder is listed. A forked child looks for itself.
    usage: PerProcess<Mutex<Usage>>,
    open: OpenUnits,
    evicted: AtomicU64,
    lost: Mutex<Lost>,
}

/// What is known about a folder that was removed and cannot be made again.
#[derive(Debug, Default)]
struct Lost {
    is_lost: bool,
    /// A warning that was not taken yet.
    warning: Option<String>,
}

/// Bytes in the folder when it was last checked, and bytes that this process has added since.
#[derive(Debug, Default)]
struct Usage {
    seen: Option<u64>,
    added: u64,
}

/// The state of a cache folder, as a row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheState {
    /// Its path.
    pub place: String,
    /// Bytes that it holds of all containers, as far as this process knows.
    pub bytes: u64,
    /// Bytes that it may hold.
    pub budget: u64,
    /// Why it is not in use; `None` if it is.
    pub aside: Option<String>,
}

/// Why a unit was not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// Another process evicted it.
    Gone,
    /// Its bytes fail their checksums.
    Damaged,
    /// The folder failed.
    Failed,
}

fn name_of(range: &Range<u64>) -> String {
    format!("{:016x}-{:016x}", range.start, range.end)
}

fn range_of(name: &str) -> Option<Range<u64>> {
    let (start, end) = name.split_once('-')?;
    let number = |text: &str| (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten();
    Some(number(start)?..number(end)?).filter(|range| range.start < range.end)
}

/// Parses the name of a file: the range, and whether it is a pin.
fn parse(name: &str) -> Option<(Range<u64>, bool)> {
    match name.strip_suffix(".pin") {
        Some(name) => range_of(name).map(|range| (range, true)),
        None => range_of(name).map(|range| (range, false)),
    }
}

/// Decodes the head of a unit, and checks that it belongs to the wanted unit.
fn checked(bytes: &[u8], of: (&[u8; 16], &str), unit: &Range<u64>) -> std::result::Result<UnitHead, Missed> {
    let head = UnitHead::decode(bytes).map_err(|_| Missed::Damaged)?;
    let same = (&head.uuid, head.key.as_str()) == of && (head.offset..head.offset + head.length) == *unit;
    if same { Ok(head) } else { Err(Missed::Damaged) }
}

impl Folder {
    /// Opens a folder; creates it if it does not exist. Without `budget`, the limit is a tenth of the free space of the
    /// device.
    pub fn open(root: &Path, budget: Option<u64>) -> Result<Self> {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_path_buf());
        let store: Arc<dyn Store> = Arc::new(LocalStore::create(&root)?);
        Ok(Self::over(store, &root, budget))
    }

    /// Like [`open`](Self::open), through a store whose objects are the files below `root`.
    pub fn over(store: Arc<dyn Store>, root: &Path, budget: Option<u64>) -> Self {
        let device = rustix::fs::statvfs(root).ok();
        let size = device.as_ref().map_or(0, |s| s.f_blocks.saturating_mul(s.f_frsize));
        let free = device.as_ref().map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize));
        Folder {
            store,
            root: root.to_path_buf(),
            budget: budget.unwrap_or(free / FREE_PART),
            reserve: reserve(size),
            health: Health::default(),
            usage: PerProcess::new(),
            open: OpenUnits::default(),
            evicted: AtomicU64::new(0),
            lost: Mutex::default(),
        }
    }

    /// Makes the folder again if it was removed; returns whether it did. Its parent must exist: without that, a device
    /// may be missing on which the folder was.
    fn restore(&self) -> bool {
        if self.root.symlink_metadata().is_ok() {
            return false;
        }
        let made = std::fs::create_dir(&self.root);
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        match made {
            Ok(()) => {
                *lost = Lost::default();
                *self.lock_usage() = Usage::default();
                true
            }
            // Another thread or process was faster.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => true,
            Err(error) => {
                if !std::mem::replace(&mut lost.is_lost, true) {
                    lost.warning = Some(format!(
                        "the cache {} was removed and cannot be made again: {error}; values come from the store \
                         without a cache",
                        self.root.display()
                    ));
                }
                false
            }
        }
    }

    /// The warning that the folder was removed and cannot be made again; once.
    pub(crate) fn take_warning(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).warning.take()
    }

    /// Bytes that it may hold.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn state(&self) -> CacheState {
        let usage = self.usage.get().lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match usage.seen {
            Some(seen) => seen + usage.added,
            None => {
                drop(usage);
                self.scan().iter().map(|file| file.bytes).sum()
            }
        };
        let (place, budget) = (self.root.display().to_string(), self.budget);
        CacheState { place, bytes, budget, aside: self.health.aside() }
    }

    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// The folder of an object.
    pub(crate) fn dir(uuid: &[u8; 16], key: &str) -> String {
        let mut name = key.replace('/', ".");
        if name.len() > NAME {
            name =
                format!("{}-{:08x}", name.get(..NAME).unwrap_or(""), drystone_format::crc32c(key.as_bytes()));
        }
        format!("{:032x}/{name}", u128::from_be_bytes(*uuid))
    }

    /// The units and pins of an object that exist now; `None` if the folder fails.
    pub(crate) fn look(&self, dir: &str) -> Option<(Units, Vec<Range<u64>>)> {
        let listed = self.doing(|store| store.list(&format!("{dir}/")))?;
        let (mut units, mut pins) = (Units::default(), Vec::new());
        for entry in listed {
            match entry.key.rsplit('/').next().and_then(parse) {
                Some((range, true)) => pins.push(range),
                Some((range, false)) => units.insert(range),
                None => {}
            }
        }
        Some((units, pins))
    }

    /// Executes an operation in the folder. If it fails, the folder is not used for a while.
    fn doing<T>(&self, act: impl Fn(&dyn Store) -> Result<T>) -> Option<T> {
        if self.health.aside().is_some() {
            return None;
        }
        let done = match act(self.store.as_ref()) {
            Err(_) if self.restore() => act(self.store.as_ref()),
            done => done,
        };
        match done {
            Ok(done) => {
                self.health.worked();
                Some(done)
            }
            Err(error) => {
                self.failed(&error);
                None
            }
        }
    }

    fn failed(&self, error: &StoreError) {
        if !matches!(error, StoreError::NotFound { .. } | StoreError::AlreadyExists { .. }) {
            self.health.failed(error.to_string());
        }
    }

    /// Reads and verifies the head of a unit.
    fn head(
        &self,
        dir: &str,
        of: (&[u8; 16], &str),
        unit: &Range<u64>,
    ) -> std::result::Result<UnitHead, Missed> {
        let len = head_len(of.1.len(), unit.end - unit.start);
        let bytes =
            self.store.read_vec(&format!("{dir}/{}", name_of(unit)), 0, len).map_err(|e| self.missed(&e))?;
        checked(&bytes, of, unit)
    }

    fn missed(&self, error: &StoreError) -> Missed {
        match error {
            StoreError::NotFound { .. } => Missed::Gone,
            StoreError::ShortRead { .. } => Missed::Damaged,
            _ if self.restore() => Missed::Gone,
            other => {
                self.failed(other);
                Missed::Failed
            }
        }
    }

    /// Opens a unit's file, and verifies its head. `None` if it cannot be opened by its path: then [`load`](Self::load)
    /// reads it through the folder's store, whose error says why.
    pub(crate) fn open_unit(
        &self,
        (uuid, key): (&[u8; 16], &str),
        unit: &Range<u64>,
    ) -> std::result::Result<Option<Arc<OpenUnit>>, Missed> {
        let path = self.root.join(Self::dir(uuid, key)).join(name_of(unit));
        let Ok(file) = std::fs::File::open(path) else { return Ok(None) };
        let mut bytes = vec![0; head_len(key.len(), unit.end - unit.start)];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(Missed::Damaged),
            Err(error) => return Err(self.failed_with(&error)),
        }
        let head = checked(&bytes, (uuid, key), unit)?;
        let opened = Arc::new(OpenUnit::new(file, head, bytes.len() as u64));
        self.open.keep(&opened);
        Ok(Some(opened))
    }

    /// Fills `out` from an open unit, with the object's bytes from offset `from` on.
    pub(crate) fn load_open(
        &self,
        open: &Arc<OpenUnit>,
        unit: &Range<u64>,
        from: u64,
        out: &mut [u8],
    ) -> std::result::Result<(), Missed> {
        let missed = match open.load(from - unit.start, out) {
            Loaded::Sound => {
                self.open.used(open);
                return Ok(());
            }
            Loaded::Gone => Missed::Gone,
            Loaded::Damaged => Missed::Damaged,
            Loaded::Failed(error) => self.failed_with(&error),
        };
        self.open.close(open);
        Err(missed)
    }

    fn failed_with(&self, error: &std::io::Error) -> Missed {
        self.health.failed(format!("{}: {error}", self.root.display()));
        Missed::Failed
    }

    /// Fills `out` from a unit through the folder's store, with the object's bytes from offset `from` on. Returns the
    /// unit's head, which the caller passes to the next call.
    pub(crate) fn load(
        &self,
        (uuid, key): (&[u8; 16], &str),
        unit: &Range<u64>,
        head: Option<Arc<UnitHead>>,
        from: u64,
        out: &mut [u8],
    ) -> std::result::Result<Arc<UnitHead>, Missed> {
        if self.health.aside().is_some() {
            return Err(Missed::Failed);
        }
        let dir = Self::dir(uuid, key);
        let head = match head {
            Some(head) => head,
            None => Arc::new(self.head(&dir, (uuid, key), unit)?),
        };
        let name = format!("{dir}/{}", name_of(unit));
        let before = head_len(key.len(), unit.end - unit.start) as u64;
        // Whole blocks that contain the wanted bytes are read, so that they can be verified.
        let (start, end) = (from - unit.start, from - unit.start + out.len() as u64);
        let first = start >> BLOCK_LOG2;
        let begin = first << BLOCK_LOG2;
        let finish = (end.div_ceil(1 << BLOCK_LOG2) << BLOCK_LOG2).min(unit.end - unit.start);
        let mut sound = true;
        let mut block = first as usize;
        let mut check = |bytes: &[u8]| {
            sound &= head.is_sound(block, bytes);
            block += bytes.len() >> BLOCK_LOG2;
        };
        let done = if (begin, finish) == (start, end) {
            self.store.read_seen(&name, before + begin, out, &mut check)
        } else {
            let mut bytes = vec![0; (finish - begin) as usize];
            let done = self.store.read_seen(&name, before + begin, &mut bytes, &mut check);
            let skip = (start - begin) as usize;
            if let Some(wanted) = bytes.get(skip..skip + out.len()) {
                out.copy_from_slice(wanted);
            }
            done
        };
        done.map_err(|e| self.missed(&e))?;
        if sound { Ok(head) } else { Err(Missed::Damaged) }
    }

    /// Marks a unit as used, for evictions.
    pub(crate) fn touch(&self, uuid: &[u8; 16], key: &str, unit: &Range<u64>) {
        let path = self.root.join(Self::dir(uuid, key)).join(name_of(unit));
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
        let _ = rustix::fs::utimensat(rustix::fs::CWD, &path, &times, rustix::fs::AtFlags::empty());
    }

    /// The time after which a loaded unit is marked as used again.
    pub(crate) const fn touch_interval() -> Duration {
        TOUCH
    }

    /// Keeps bytes of an object as a unit of at most [`MAX_UNIT`] bytes. Returns `false` if there is no space, or the
    /// folder fails.
    pub(crate) fn keep(&self, (uuid, key): (&[u8; 16], &str), offset: u64, bytes: &[u8]) -> bool {
        let len = bytes.len() as u64;
        if len == 0 || len > MAX_UNIT || self.health.aside().is_some() || !self.has_room(len) {
            return false;
        }
        let head = UnitHead::of(*uuid, key, offset, bytes).encode();
        let name = format!("{}/{}", Self::dir(uuid, key), name_of(&(offset..offset + len)));
        match self.put(&name, &[&head, bytes]) {
            Ok(()) => {
                self.health.worked();
                self.lock_usage().added += len + head.len() as u64;
                true
            }
            Err(StoreError::AlreadyExists { .. }) => true, // another process was faster
            Err(error) => {
                self.failed(&error);
                if matches!(error, StoreError::NoSpace { .. }) {
                    self.lock_usage().seen = None;
                }
                false
            }
        }
    }

    /// Puts a file, in a folder that is made again if it was removed.
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        match self.store.put(name, parts, PutMode::IfAbsent, false) {
            Err(_) if self.restore() => self.store.put(name, parts, PutMode::IfAbsent, false),
            done => done,
        }
    }

    fn lock_usage(&self) -> std::sync::MutexGuard<'_, Usage> {
        self.usage.get().lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a unit.
    pub(crate) fn remove(&self, uuid: &[u8; 16], key: &str, unit: &Range<u64>) {
        let _ = self.store.delete(&format!("{}/{}", Self::dir(uuid, key), name_of(unit)));
    }

    /// Whether this many bytes may be added; evicts the least recently used units if necessary.
    fn has_room(&self, len: u64) -> bool {
        let free =
            rustix::fs::statvfs(&self.root).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize));
        if len > self.budget || free < self.reserve.saturating_add(len) {
            return false;
        }
        let mut usage = self.lock_usage();
        let known = usage.seen.map(|seen| seen + usage.added);
        let outdated = usage.added > self.budget / LOOK_AFTER;
        if known.is_some_and(|known| known + len <= self.budget) && !outdated {
            return true;
        }
        self.open.close_nameless();
        let files = self.scan();
        let held: u64 = files.iter().map(|file| file.bytes).sum();
        (usage.seen, usage.added) = (Some(held), 0);
        if held + len <= self.budget {
            return true;
        }
        let need = (held + len).saturating_sub(self.budget * DOWN_TO / 100);
        let freed = self.evict_units(&files, need);
        usage.seen = Some(held - freed);
        held - freed + len <= self.budget
    }

    /// Evicts unpinned units, the least recently used first; returns how many bytes became free.
    fn evict_units(&self, files: &[File], need: u64) -> u64 {
        let mut pins: HashMap<&str, Vec<Range<u64>>> = HashMap::new();
        for file in files.iter().filter(|file| file.pin) {
            pins.entry(&file.dir).or_default().push(file.range.clone());
        }
        let copies: Vec<Copy> = files
            .iter()
            .filter(|file| !file.pin)
            .map(|file| Copy {
                key: format!("{}/{}", file.dir, name_of(&file.range)),
                bytes: file.bytes,
                drained: true,
                pinned: pins.get(file.dir.as_str()).is_some_and(|pins| cover::is_pinned(pins, &file.range)),
                uses: 0,
                used: file.used,
            })
            .collect();
        let mut freed = 0;
        for copy in evict::evict(&copies, need) {
            if self.store.delete(&copy.key).is_ok() {
                freed += copy.bytes;
            }
        }
        self.evicted.fetch_add(freed, Ordering::Relaxed);
        freed
    }

    /// All files of units and pins, of all containers.
    fn scan(&self) -> Vec<File> {
        let mut found = Vec::new();
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        for container in entries(&self.root) {
            for object in entries(&container.path()) {
                let dir = format!(
                    "{}/{}",
                    container.file_name().to_string_lossy(),
                    object.file_name().to_string_lossy()
                );
                for file in entries(&object.path()) {
                    let Some((range, pin)) = file.file_name().to_str().and_then(parse) else { continue };
                    let Ok(meta) = file.metadata() else { continue };
                    let used =
                        meta.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
                    let used = used.map_or(0, |at| at.as_nanos() as u64);
                    found.push(File { dir: dir.clone(), range, pin, bytes: meta.len(), used });
                }
            }
        }
        found
    }

    /// Pins these bytes of an object, so that their units are not evicted. Fails if the file of the pin cannot be
    /// created.
    pub(crate) fn pin(&self, uuid: &[u8; 16], key: &str, range: &Range<u64>) -> Result<()> {
        let name = format!("{}/{}.pin", Self::dir(uuid, key), name_of(range));
        match self.put(&name, &[]) {
            Err(StoreError::AlreadyExists { .. }) => Ok(()),
            // The folder was removed meanwhile.
            Err(StoreError::NotFound { .. }) => self.put(&name, &[]),
            other => other,
        }
    }

    /// Unpins these bytes; other bytes stay pinned.
    pub(crate) fn unpin(&self, uuid: &[u8; 16], key: &str, range: &Range<u64>) -> Result<()> {
        let dir = Self::dir(uuid, key);
        let listed = match self.store.list(&format!("{dir}/")) {
            // The folder was removed, and the pins with it.
            Err(StoreError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        for entry in listed {
            let Some((pin, true)) = entry.key.rsplit('/').next().and_then(parse) else { continue };
            if pin.start >= range.end || range.start >= pin.end {
                continue;
            }
            for left in cover::without(std::slice::from_ref(&pin), range) {
                self.pin(uuid, key, &left)?;
            }
            self.store.delete(&entry.key)?;
        }
        Ok(())
    }
}

/// A file of the folder.
#[derive(Debug)]
struct File {
    dir: String,
    range: Range<u64>,
    pin: bool,
    bytes: u64,
    /// Time of its last use, in nanoseconds since 1970.
    used: u64,
}
