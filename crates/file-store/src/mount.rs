//! The handle on the files of a container: folders, open files, reads, writes, commits.
//!
//! A write appends to a log of its handle and notes an extent; a commit puts what was noted into the journal. Reads of this mount see
//! all writes that have returned.
//!
//! Invariants
//! - an extent is noted after its bytes are in the log, and committed together with the checksums of its log;
//! - a file that has no name any more stays for those that have it open;
//! - locks are taken in this order: `core`, `logs`, one log.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drystone_files::{
    Attrs, Body, Content, Extent, Extents, Inode, Owner, ROOT, Record, Refused, SetAttrs, State, fits,
};
use drystone_format::files::MOST_EXTENTS;
use drystone_format::keys::{self, FilesKey};
use drystone_store::{PutMode, Store, StoreError, StoreExt};

use crate::data::{DataLog, ROLL, Reader, Wanted};
use crate::journal::Journal;
use crate::{Failure, Result, locked};

/// What was written is in the journal after so long at the latest.
const SOON: Duration = Duration::from_secs(5);
/// How often the mount looks after that.
const TICK: Duration = Duration::from_secs(1);
/// So many extents of a file are noted at most before they are committed.
const NOTED: usize = 1 << 16;
/// A read is tried so often where the log that it needs was taken away meanwhile.
const ATTEMPTS: usize = 3;
/// What is dropped apart, so that whoever removes a file need not wait.
const LARGE: usize = 10_000;
/// Permissions of the root of a container whose files nobody has changed yet.
const ROOT_MODE: u32 = 0o755;

/// How the files are opened.
pub enum Access {
    /// For reading.
    Read,
    /// For writing, too.
    Write {
        /// This process, as [`Access::Write::dead`] will know it.
        process: String,
        /// Whether the process of such a text has surely ended.
        dead: fn(&str) -> bool,
        /// Whose the root is where nobody has changed it yet.
        owner: Owner,
    },
}

/// What `stat` tells of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub ino: u64,
    pub attrs: Attrs,
    pub size: u64,
    pub links: u32,
    pub kind: Body,
    /// Bytes that lie in logs.
    pub stored: u64,
}

/// The files of a container.
pub struct Files {
    pub(crate) store: Arc<dyn Store>,
    durable: bool,
    me: Option<Me>,
    pub(crate) core: Mutex<Core>,
    pub(crate) logs: Mutex<HashMap<u64, Arc<Mutex<DataLog>>>>,
    free: Mutex<Vec<Arc<Mutex<DataLog>>>>,
    next_log: AtomicU32,
    pub(crate) reader: Reader,
    append: Mutex<()>,
    pub(crate) rolled: AtomicBool,
}

/// This mount as one that writes.
struct Me {
    id: u32,
    dead: fn(&str) -> bool,
    /// No other one was there when it began.
    first: bool,
}

/// What the mount knows.
pub(crate) struct Core {
    pub(crate) journal: Journal,
    pub(crate) noted: HashMap<u64, Noted>,
    open: HashMap<u64, u32>,
    /// Files without a name that are open.
    pub(crate) orphans: HashMap<u64, Inode>,
}

/// Writes to a file that the journal does not have yet.
pub(crate) struct Noted {
    pub(crate) extents: Extents,
    mtime: i64,
    since: Instant,
}

/// An open file.
pub struct Handle {
    ino: u64,
    log: Mutex<Option<Arc<Mutex<DataLog>>>>,
}

impl Handle {
    /// The inode.
    pub fn ino(&self) -> u64 {
        self.ino
    }
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// A number that no other mount picks; where one does, its registration says so.
fn number() -> u32 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_i64(now());
    hasher.write_u32(std::process::id());
    (hasher.finish() >> 16) as u32
}

impl Files {
    /// The files of the container in a store. `durable`: what a close commits survives a power cut.
    pub fn open(store: Arc<dyn Store>, uuid: [u8; 16], durable: bool, access: Access) -> Result<Arc<Files>> {
        let me = match access {
            Access::Read => None,
            Access::Write { process, dead, owner } => {
                if !store.features().append {
                    return Err(Failure::NoAppend(store.describe()));
                }
                let id = loop {
                    let id = number();
                    match store.put(&keys::mount(id), &[process.as_bytes()], PutMode::IfAbsent, false) {
                        Ok(()) => break id,
                        Err(StoreError::AlreadyExists { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                };
                // In this order: a mount that is not among the others registers later, and adds behind all these claims.
                let claims = claims(store.as_ref())?;
                let first = others(store.as_ref(), id, dead)?.is_empty();
                if first {
                    claims.iter().try_for_each(|key| store.delete(key))?;
                }
                Some((Me { id, dead, first }, owner))
            }
        };
        let id = me.as_ref().map(|(me, _)| me.id);
        let journal = match Journal::open(store.as_ref(), uuid, id) {
            Ok(journal) => journal,
            Err(error) => {
                if let Some(id) = id {
                    let _ = store.delete(&keys::mount(id));
                }
                return Err(error);
            }
        };
        let (me, owner) = me.map_or((None, None), |(me, owner)| (Some(me), Some(owner)));
        let core = Core { journal, noted: HashMap::new(), open: HashMap::new(), orphans: HashMap::new() };
        let files = Arc::new(Files {
            store,
            durable,
            me,
            core: Mutex::new(core),
            logs: Mutex::default(),
            free: Mutex::default(),
            next_log: AtomicU32::new(0),
            reader: Reader::default(),
            append: Mutex::new(()),
            rolled: AtomicBool::new(false),
        });
        if let Some(owner) = owner {
            files.begin(owner)?;
            let weak = Arc::downgrade(&files);
            std::thread::spawn(move || look_after(&weak));
        }
        Ok(files)
    }

    fn begin(&self, owner: Owner) -> Result<()> {
        let time = now();
        let attrs =
            Attrs { mode: ROOT_MODE, uid: owner.uid, gid: owner.gid, atime: time, mtime: time, ctime: time };
        drop(self.change(|state| {
            let fresh = state.get(ROOT).is_some_and(|root| root.attrs.mode == 0);
            Ok(if fresh { vec![Record::Attrs { ino: ROOT, attrs }] } else { Vec::new() })
        })?);
        Ok(())
    }

    /// Whether locks of files may be granted: no other mount writes, or those that do grant none.
    pub fn grants_locks(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.first)
    }

    /// Whether another mount writes files of this container.
    pub fn is_shared(&self) -> Result<bool> {
        let Some(me) = &self.me else { return Ok(false) };
        Ok(!others(self.store.as_ref(), me.id, me.dead)?.is_empty())
    }

    /// The state with all that others have committed.
    fn newest(&self) -> Result<MutexGuard<'_, Core>> {
        let mut core = locked(&self.core);
        core.journal.catch_up(self.store.as_ref())?;
        core.sort_out();
        Ok(core)
    }

    /// The state as a caller may look at it, without copying.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> Result<T> {
        Ok(look(&self.newest()?.journal.state))
    }

    /// An inode.
    pub fn stat(&self, ino: u64) -> Result<Stat> {
        self.newest()?.stat(ino)
    }

    /// An entry of a folder.
    pub fn entry(&self, folder: u64, name: &[u8]) -> Result<Stat> {
        let core = self.newest()?;
        let state = &core.journal.state;
        if state.get(folder).is_some() && state.entries(folder).is_none() {
            return Err(Refused::NotFolder.into());
        }
        let ino = state.entry(folder, name).ok_or(Refused::Missing)?;
        core.stat(ino)
    }

    /// The entries of a folder, with what each is.
    pub fn entries(&self, folder: u64) -> Result<Vec<(Vec<u8>, Stat)>> {
        let core = self.newest()?;
        let entries = core.journal.state.entries(folder).ok_or(Refused::NotFolder)?;
        entries.iter().map(|(name, ino)| Ok((name.clone(), core.stat(*ino)?))).collect()
    }

    /// The folder that a folder is in.
    pub fn parent(&self, folder: u64) -> u64 {
        locked(&self.core).journal.state.parent(folder).unwrap_or(ROOT)
    }

    /// Makes an entry of a folder.
    pub fn make(&self, folder: u64, name: &[u8], body: Body, mode: u32, owner: Owner) -> Result<Stat> {
        let time = now();
        let mut made = 0;
        let core = self.change(|state| {
            made = state.next();
            Ok(vec![state.make(folder, name, body.clone(), mode, owner, time)?])
        })?;
        core.stat(made)
    }

    /// Removes an entry of a folder.
    pub fn remove(&self, parent: u64, name: &[u8], folder: bool) -> Result<()> {
        let time = now();
        self.change(|state| Ok(vec![state.remove(parent, name, folder, time)?])).map(|_| ())
    }

    /// Gives an entry another place; `exchange`: the two change places; `keep`: what is there stays.
    pub fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), exchange: bool, keep: bool) -> Result<()> {
        let time = now();
        self.change(|state| Ok(state.moved(from, to, (exchange, keep), time)?.into_iter().collect()))
            .map(|_| ())
    }

    /// Sets attributes and the length.
    pub fn set(&self, ino: u64, set: SetAttrs, size: Option<u64>) -> Result<Stat> {
        let time = now();
        let size = size.map(|size| fits(Some(size))).transpose()?;
        let any = set != SetAttrs::default();
        let core = self.change_file(ino, |inode| {
            let mut records = Vec::new();
            if let Some(size) = size {
                if !matches!(inode.content, Content::File { .. }) {
                    return Err(Refused::IsFolder.into());
                }
                records.push(Record::Size { ino, size, time });
            }
            if any {
                let mut attrs = inode.attrs;
                if size.is_some() {
                    attrs.mtime = time;
                }
                records.push(Record::Attrs { ino, attrs: set.on(attrs, time) });
            }
            Ok(records)
        })?;
        core.stat(ino)
    }

    /// Makes a file at least so long.
    pub fn extend(&self, ino: u64, end: u64) -> Result<()> {
        let (time, end) = (now(), fits(Some(end))?);
        let grow = |inode: &Inode| {
            Ok(if inode.size() < end { vec![Record::Size { ino, size: end, time }] } else { Vec::new() })
        };
        self.change_file(ino, grow).map(|_| ())
    }

    /// Makes a range zeros; `extend`: the file reaches to its end then.
    pub fn zero(&self, ino: u64, offset: u64, len: u64, extend: bool) -> Result<()> {
        let time = now();
        let end = fits(offset.checked_add(len))?;
        let core = self.change_file(ino, |inode| {
            let mut records = Vec::new();
            if len > 0 {
                records.push(Record::Hole { ino, offset, len, time });
            }
            if extend && inode.size() < end {
                records.push(Record::Size { ino, size: end, time });
            }
            Ok(records)
        })?;
        drop(core);
        Ok(())
    }

    /// The next data (or hole) at or behind an offset; `None`: there is none before the end.
    pub fn seek(&self, ino: u64, offset: u64, data: bool) -> Result<Option<u64>> {
        let core = self.change_file(ino, |_| Ok(Vec::new()))?;
        let Content::File { size, extents } = &core.inode(ino)?.content else {
            return Err(Refused::Invalid.into());
        };
        if offset >= *size {
            return Ok(None);
        }
        Ok(match data {
            true => extents.next_data(offset),
            false => Some(extents.next_hole(offset).min(*size)),
        })
    }

    /// Sets or removes an extended attribute.
    pub fn set_attribute(
        &self,
        ino: u64,
        name: &[u8],
        value: Option<&[u8]>,
        only: (bool, bool),
    ) -> Result<()> {
        self.change(|state| Ok(vec![state.attribute(ino, name, value, only)?])).map(|_| ())
    }

    /// The extended attributes.
    pub fn attributes(&self, ino: u64) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let core = self.newest()?;
        Ok(core.inode(ino)?.xattrs.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Opens a file.
    pub fn open_file(&self, ino: u64) -> Result<Handle> {
        let mut core = self.newest()?;
        match core.inode(ino)?.content {
            Content::File { .. } => {}
            _ => return Err(Refused::IsFolder.into()),
        }
        *core.open.entry(ino).or_default() += 1;
        Ok(Handle { ino, log: Mutex::new(None) })
    }

    /// Closes a file: what was written is committed. After an error it is closed, too.
    pub fn close(&self, handle: &Handle) -> Result<()> {
        let done = self.commit(handle.ino);
        if let Some(log) = locked(&handle.log).take() {
            locked(&self.free).push(log);
        }
        let mut core = locked(&self.core);
        if let Some(count) = core.open.get_mut(&handle.ino) {
            *count -= 1;
            if *count == 0 {
                core.open.remove(&handle.ino);
                if let Some(orphan) = core.orphans.remove(&handle.ino) {
                    drop_apart(orphan);
                    self.rolled.store(true, Ordering::Relaxed);
                }
            }
        }
        done
    }

    /// Bytes of a file from `offset` on; how many there are.
    pub fn read(&self, ino: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // Another mount may have committed since this file was opened: a program that is told so reads what it is told of.
            let (len, wanted) = self.newest()?.wanted(ino, offset, out.len())?;
            match self.fill(&wanted, &mut out[..len]) {
                Ok(()) => return Ok(len),
                // The log was taken away: what it held lies elsewhere by now.
                Err(Failure::Store(StoreError::NotFound { .. })) if attempt < ATTEMPTS => {}
                Err(Failure::Store(StoreError::NotFound { .. })) if locked(&self.core).is_orphan(ino) => {
                    return Err(Failure::Stale);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&self, wanted: &[(usize, usize, Option<Wanted>)], out: &mut [u8]) -> Result<()> {
        for (from, to, place) in wanted {
            match place {
                Some(wanted) => self.reader.read(self.store.as_ref(), wanted, &mut out[*from..*to])?,
                None => out[*from..*to].fill(0),
            }
        }
        Ok(())
    }

    /// Writes bytes at an offset, or behind the end of the file.
    pub fn write(&self, handle: &Handle, at: Option<u64>, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = at.is_none().then(|| locked(&self.append));
        let ino = handle.ino;
        let offset = match at {
            Some(offset) => offset,
            None => locked(&self.core).stat(ino)?.size,
        };
        fits(offset.checked_add(bytes.len() as u64))?;
        let (log, position) = self.append(handle, bytes)?;
        let id = locked(&log).id;
        let extent = Extent { offset, len: bytes.len() as u64, log: id, position };
        let full = {
            let mut core = locked(&self.core);
            let noted = core.note(ino, extent);
            locked(&log).coming -= 1;
            noted?
        };
        if full { self.commit(ino) } else { Ok(()) }
    }

    /// Appends to the log of a handle.
    fn append(&self, handle: &Handle, bytes: &[u8]) -> Result<(Arc<Mutex<DataLog>>, u64)> {
        let mut mine = locked(&handle.log);
        loop {
            let log = match &*mine {
                Some(log) => log.clone(),
                None => mine.insert(self.free_log()?).clone(),
            };
            let mut open = locked(&log);
            if open.closed || open.end >= ROLL {
                open.closed = true;
                self.rolled.store(true, Ordering::Relaxed);
                *mine = None;
                continue;
            }
            // Other threads with this handle append behind.
            let position = open.append(self.store.as_ref(), bytes)?;
            open.coming += 1;
            drop(open);
            return Ok((log, position));
        }
    }

    fn free_log(&self) -> Result<Arc<Mutex<DataLog>>> {
        if let Some(log) = locked(&self.free).pop() {
            return Ok(log);
        }
        let me = self.me.as_ref().ok_or(Failure::ReadOnly)?;
        let id = u64::from(me.id) << 32 | u64::from(self.next_log.fetch_add(1, Ordering::Relaxed));
        let log = Arc::new(Mutex::new(DataLog::new(id)));
        locked(&self.logs).insert(id, log.clone());
        Ok(log)
    }

    /// Commits what was written to a file: other mounts see it, and it survives the end of this process.
    pub fn commit(&self, ino: u64) -> Result<()> {
        if !locked(&self.core).noted.contains_key(&ino) {
            return Ok(());
        }
        if self.durable {
            self.sync_data()?;
        }
        self.change_file(ino, |_| Ok(Vec::new())).map(drop)?;
        if self.durable { self.sync_journal() } else { Ok(()) }
    }

    /// Commits what was written to a file, and all that was committed survives a power cut.
    pub fn sync(&self, ino: Option<u64>) -> Result<()> {
        if self.me.is_none() {
            return Ok(());
        }
        self.sync_data()?;
        if let Some(ino) = ino
            && locked(&self.core).noted.contains_key(&ino)
        {
            self.change_file(ino, |_| Ok(Vec::new())).map(drop)?;
        }
        self.sync_journal()
    }

    pub(crate) fn sync_data(&self) -> Result<()> {
        let logs: Vec<_> = locked(&self.logs).values().cloned().collect();
        let mut ends = Vec::new();
        for log in logs {
            let open = locked(&log);
            if open.end > open.synced {
                ends.push((keys::data_log(open.id), open.end, log.clone()));
            }
        }
        let names: Vec<&str> = ends.iter().map(|(key, ..)| key.as_str()).collect();
        if !names.is_empty() {
            self.store.sync(&names)?;
        }
        for (_, end, log) in &ends {
            let mut open = locked(log);
            open.synced = open.synced.max(*end);
        }
        Ok(())
    }

    pub(crate) fn sync_journal(&self) -> Result<()> {
        let key = {
            let core = locked(&self.core);
            (core.journal.generation > 0).then(|| core.journal.key())
        };
        match key.map(|key| self.store.sync(&[&key])) {
            // A whole state has taken its place, and was synced before.
            None | Some(Ok(()) | Err(StoreError::NotFound { .. })) => Ok(()),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Changes the state by records that are made for the newest one.
    fn change(&self, mut make: impl FnMut(&State) -> Result<Vec<Record>>) -> Result<MutexGuard<'_, Core>> {
        if self.me.is_none() {
            return Err(Failure::ReadOnly);
        }
        let mut core = locked(&self.core);
        core.journal.commit(self.store.as_ref(), &mut |journal| make(&journal.state))?;
        core.sort_out();
        Ok(core)
    }

    /// Changes a file by records that are made for its newest state, behind what was written to it.
    fn change_file(
        &self,
        ino: u64,
        mut make: impl FnMut(&Inode) -> Result<Vec<Record>>,
    ) -> Result<MutexGuard<'_, Core>> {
        if self.me.is_none() {
            let core = self.newest()?;
            return if make(core.inode(ino)?)?.is_empty() { Ok(core) } else { Err(Failure::ReadOnly) };
        }
        let mut guard = locked(&self.core);
        let core = &mut *guard;
        let mut told = Vec::new();
        if !core.orphans.contains_key(&ino) {
            let Core { journal, noted, .. } = core;
            let written = noted.get(&ino);
            journal.commit(self.store.as_ref(), &mut |journal| {
                told.clear();
                let Some(inode) = journal.state.get(ino) else { return Ok(Vec::new()) };
                let mut records = Vec::new();
                let Some(written) = written else { return make(inode) };
                self.flushed(ino, written, &mut records, &mut told);
                let behind = inode.behind(&records);
                records.extend(make(&behind)?);
                Ok(records)
            })?;
            if journal.state.get(ino).is_some() {
                noted.remove(&ino);
            }
            for (log, end) in told {
                locked(&log).tell(end);
            }
        }
        core.sort_out();
        if let Some(orphan) = core.orphans.get_mut(&ino) {
            let records = make(orphan)?;
            records.iter().for_each(|record| orphan.change(record));
        }
        Ok(guard)
    }

    /// Records of what was written to a file, behind the checksums of the logs that hold it.
    fn flushed(
        &self,
        ino: u64,
        written: &Noted,
        records: &mut Vec<Record>,
        told: &mut Vec<(Arc<Mutex<DataLog>>, u64)>,
    ) {
        let extents: Vec<Extent> = written.extents.iter().collect();
        let names: HashSet<u64> = extents.iter().map(|extent| extent.log).collect();
        let logs = locked(&self.logs);
        for log in names.iter().filter_map(|name| logs.get(name)) {
            let open = locked(log);
            if let Some(record) = open.untold() {
                told.push((log.clone(), open.end));
                records.push(record);
            }
        }
        for part in extents.chunks(MOST_EXTENTS) {
            records.push(Record::Extents { ino, mtime: written.mtime, extents: part.to_vec() });
        }
    }

    /// Commits everything, and takes the registration away.
    pub fn shut(&self) -> Result<()> {
        let Some(me) = &self.me else { return Ok(()) };
        let inodes: Vec<u64> = locked(&self.core).noted.keys().copied().collect();
        let done = inodes.into_iter().try_for_each(|ino| self.commit(ino)).and_then(|()| self.sync(None));
        self.store.delete(&keys::mount(me.id))?;
        done
    }

    /// Number of this mount.
    pub(crate) fn number(&self) -> Option<u32> {
        self.me.as_ref().map(|me| me.id)
    }

    /// Numbers of the mounts that write, but for this one.
    pub(crate) fn others(&self) -> Result<HashSet<u32>> {
        match &self.me {
            Some(me) => others(self.store.as_ref(), me.id, me.dead),
            None => Ok(HashSet::new()),
        }
    }

    fn look_after_once(&self) {
        let old: Vec<u64> = {
            let core = locked(&self.core);
            core.noted.iter().filter(|(_, noted)| noted.since.elapsed() > SOON).map(|(ino, _)| *ino).collect()
        };
        let done = old
            .into_iter()
            .try_for_each(|ino| self.commit(ino))
            .and_then(|()| if self.rolled.swap(false, Ordering::Relaxed) { self.reclaim() } else { Ok(()) });
        if let Err(error) = done {
            eprintln!("drystone: {error}");
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            eprintln!("drystone: {error}");
        }
    }
}

/// Commits what is old, and takes away logs that nothing needs, for as long as there is a mount.
fn look_after(files: &Weak<Files>) {
    loop {
        std::thread::sleep(TICK);
        match files.upgrade() {
            Some(files) => files.look_after_once(),
            None => return,
        }
    }
}

/// Numbers of the other mounts that write; what dead ones have registered is taken away.
fn others(store: &dyn Store, me: u32, dead: fn(&str) -> bool) -> Result<HashSet<u32>> {
    let mut out = HashSet::new();
    for item in store.list(keys::FILES)? {
        let Some(FilesKey::Mount(number)) = keys::parse_files(&item.key) else { continue };
        if number == me {
            continue;
        }
        match store.read_all(&item.key, 4096) {
            Ok(text) if dead(&String::from_utf8_lossy(&text)) => store.delete(&item.key)?,
            Ok(_) => _ = out.insert(number),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(out)
}

/// Claims on generations, which matter to nobody who registers later.
fn claims(store: &dyn Store) -> Result<Vec<String>> {
    let objects = store.list(keys::FILES)?.into_iter().map(|item| item.key);
    Ok(objects.filter(|key| matches!(keys::parse_files(key), Some(FilesKey::Claim(_)))).collect())
}

fn drop_apart(inode: Inode) {
    if let Content::File { extents, .. } = &inode.content
        && extents.len() > LARGE
    {
        std::thread::spawn(move || drop(inode));
    }
}

impl Core {
    /// What records took away stays for those that have it open.
    fn sort_out(&mut self) {
        for (ino, mut inode) in std::mem::take(&mut self.journal.gone) {
            let noted = self.noted.remove(&ino);
            if self.open.contains_key(&ino) {
                if let Some(noted) = noted {
                    let extents = noted.extents.iter().collect();
                    inode.change(&Record::Extents { ino, mtime: noted.mtime, extents });
                }
                self.orphans.insert(ino, inode);
            } else {
                drop_apart(inode);
            }
        }
    }

    fn is_orphan(&self, ino: u64) -> bool {
        self.orphans.contains_key(&ino)
    }

    fn inode(&self, ino: u64) -> Result<&Inode> {
        let found = self.journal.state.get(ino).or_else(|| self.orphans.get(&ino));
        found.ok_or(Failure::Refused(Refused::Missing))
    }

    fn stat(&self, ino: u64) -> Result<Stat> {
        let inode = self.inode(ino)?;
        let (mut attrs, mut size) = (inode.attrs, inode.size());
        let mut stored = 0;
        let kind = match &inode.content {
            Content::File { extents, .. } => {
                stored = extents.bytes();
                Body::File
            }
            Content::Folder { .. } => Body::Folder,
            Content::Link(target) => Body::Link(target.clone()),
        };
        if let Some(noted) = self.noted.get(&ino) {
            size = size.max(noted.extents.end());
            (attrs.mtime, attrs.ctime) = (noted.mtime, noted.mtime);
            // What is hidden by a write that is noted counts until that is committed.
            stored += noted.extents.bytes();
        }
        let links = if self.is_orphan(ino) { 0 } else { inode.links() };
        Ok(Stat { ino, attrs, size, links, kind, stored: stored.min(size) })
    }

    /// Notes a write; whether there are many now.
    fn note(&mut self, ino: u64, extent: Extent) -> Result<bool> {
        let mtime = now();
        if let Some(orphan) = self.orphans.get_mut(&ino) {
            orphan.change(&Record::Extents { ino, mtime, extents: vec![extent] });
            return Ok(false);
        }
        if self.journal.state.get(ino).is_none() {
            return Err(Failure::Stale);
        }
        let fresh = || Noted { extents: Extents::default(), mtime, since: Instant::now() };
        let noted = self.noted.entry(ino).or_insert_with(fresh);
        noted.extents.insert(extent);
        noted.mtime = mtime;
        Ok(noted.extents.len() >= NOTED)
    }

    /// The pieces of a read: their places in the buffer, and what to read.
    #[allow(clippy::type_complexity)]
    fn wanted(
        &self,
        ino: u64,
        offset: u64,
        len: usize,
    ) -> Result<(usize, Vec<(usize, usize, Option<Wanted>)>)> {
        let inode = self.inode(ino)?;
        let Content::File { size, extents } = &inode.content else { return Err(Refused::IsFolder.into()) };
        let noted = self.noted.get(&ino).map(|noted| &noted.extents);
        let size = noted.map_or(*size, |noted| noted.end().max(*size));
        let end = offset.saturating_add(len as u64).min(size).max(offset);
        let mut out = Vec::new();
        let logs = self.journal.state.logs();
        let mut add = |piece: drystone_files::Piece| {
            let (from, to) = ((piece.range.start - offset) as usize, (piece.range.end - offset) as usize);
            let wanted =
                piece.place.map(|(log, position)| Wanted::new(log, position, to - from, logs.get(&log)));
            out.push((from, to, wanted));
        };
        for piece in noted.map_or_else(|| extents.pieces(offset..end), |noted| noted.pieces(offset..end)) {
            match (piece.place, noted) {
                (None, Some(_)) => extents.pieces(piece.range).into_iter().for_each(&mut add),
                _ => add(piece),
            }
        }
        Ok(((end - offset) as usize, out))
    }
}
