//! Byte files for the kernel: numbers of inodes and handles, attributes, errnos.
//!
//! Invariants
//! - an inode's number is [`BASE`] plus its number in the container; lower numbers belong to views;
//! - a listing is made when its folder is opened, so that concurrent removals do not shift its entries.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drystone_file_store::files::{Body, Owner, ROOT, Refused, SetAttrs, TimeChange};
use drystone_file_store::{Failure, Files, Handle, Stat};
use drystone_store::StoreError;
use fuser::{Errno, FileAttr, FileType, INodeNo, Request, TimeOrNow};

use crate::locks::locked;
use crate::room::with_room;

/// Inodes and handles of files are numbered from here on.
pub(crate) const BASE: u64 = 1 << 62;
/// The recommended size of reads and writes.
const BLOCK: u32 = 1 << 20;
/// Bits of a mode: the program runs as the owner, or as the group, of its file.
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_RUNS: u32 = 0o010;
/// Flag of `fallocate`: the file keeps its length.
const KEEP_SIZE: i32 = 1;
/// Flag of `fallocate`: the range becomes a hole.
const PUNCH_HOLE: i32 = 2;
/// Flag of `fallocate`: the range becomes zeros.
const ZERO_RANGE: i32 = 16;

/// How long an answer holds that no other mount writes.
const LOOK: Duration = Duration::from_millis(100);

/// The answer to a request.
pub(crate) type Answer<T> = std::result::Result<T, Errno>;

/// An entry of a listing: number, kind, name.
pub(crate) type Entry = (u64, FileType, Vec<u8>);

/// The files of a mount.
pub(crate) struct FileTree {
    files: Arc<Files>,
    open: Mutex<HashMap<u64, Arc<Handle>>>,
    listings: Mutex<HashMap<u64, Arc<Vec<Entry>>>>,
    next: AtomicU64,
    /// When it was looked for other mounts that write, and whether there were any.
    looked: Mutex<Option<(Instant, bool)>>,
}

/// The errno of a failure. Damage and failures of the store are also printed to standard error.
pub(crate) fn errno(failure: &Failure) -> Errno {
    let errno = match failure {
        Failure::Refused(refused) => {
            return match refused {
                Refused::Missing => Errno::ENOENT,
                Refused::Exists => Errno::EEXIST,
                Refused::NotFolder => Errno::ENOTDIR,
                Refused::IsFolder => Errno::EISDIR,
                Refused::NotEmpty => Errno::ENOTEMPTY,
                Refused::Invalid => Errno::EINVAL,
                Refused::NameTooLong => Errno::ENAMETOOLONG,
                Refused::TooLarge => Errno::EFBIG,
                Refused::NoAttribute => Errno::NO_XATTR,
                Refused::AttributeTooLarge => Errno::E2BIG,
            };
        }
        Failure::Stale => return Errno::ESTALE,
        Failure::ReadOnly => return Errno::EROFS,
        Failure::Store(StoreError::NoSpace { .. }) => Errno::ENOSPC,
        Failure::Store(StoreError::PermissionDenied { .. }) => Errno::EACCES,
        Failure::Store(_) | Failure::Damaged { .. } => Errno::EIO,
        Failure::NoAppend(_) => Errno::EOPNOTSUPP,
        Failure::Taken { .. } | Failure::Fenced => Errno::EIO,
    };
    eprintln!("drystone: {failure}");
    errno
}

fn answer<T>(result: drystone_file_store::Result<T>) -> Answer<T> {
    result.map_err(|failure| errno(&failure))
}

/// Nanoseconds since 1970 as a time.
fn time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time =
        if nanoseconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

fn set_time(time: TimeOrNow) -> TimeChange {
    match time {
        TimeOrNow::Now => TimeChange::Now,
        TimeOrNow::SpecificTime(time) => TimeChange::To(nanoseconds_of(time)),
    }
}

/// A time that the kernel sent, in nanoseconds since 1970.
fn nanoseconds_of(time: SystemTime) -> i64 {
    let nanoseconds = |distance: Duration| i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(behind) => nanoseconds(behind),
        // Whole seconds count backwards from 1970, and the nanoseconds forwards from there (as fuser 0.18 passes them).
        Err(before) => {
            let rest = Duration::from_nanos(before.duration().subsec_nanos().into());
            nanoseconds(rest) - nanoseconds(before.duration() - rest)
        }
    }
}

fn kind(body: &Body) -> FileType {
    match body {
        Body::File => FileType::RegularFile,
        Body::Folder => FileType::Directory,
        Body::Link(_) => FileType::Symlink,
    }
}

fn attributes(stat: &Stat) -> FileAttr {
    let attrs = stat.attrs;
    FileAttr {
        ino: INodeNo(BASE + stat.ino),
        size: stat.size,
        blocks: stat.stored.div_ceil(512),
        atime: time(attrs.atime),
        mtime: time(attrs.mtime),
        ctime: time(attrs.ctime),
        crtime: time(attrs.ctime),
        kind: kind(&stat.kind),
        perm: (attrs.mode & 0o7777) as u16,
        nlink: stat.links,
        uid: attrs.uid,
        gid: attrs.gid,
        rdev: 0,
        flags: 0,
        blksize: BLOCK,
    }
}

fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

/// The number of an inode in the container.
fn number(inode: INodeNo) -> u64 {
    u64::from(inode) - BASE
}

impl FileTree {
    pub(crate) fn new(files: Arc<Files>) -> Self {
        FileTree {
            files,
            open: Mutex::default(),
            listings: Mutex::default(),
            next: AtomicU64::new(BASE),
            looked: Mutex::default(),
        }
    }

    /// Whether an inode, or a handle, is one of these files.
    pub(crate) fn has(number: u64) -> bool {
        number >= BASE
    }

    /// Whether locks may be granted.
    pub(crate) fn grants_locks(&self) -> bool {
        self.files.grants_locks()
    }

    /// The folder of all files.
    pub(crate) fn root(&self) -> Answer<FileAttr> {
        answer(self.files.stat(ROOT)).map(|stat| self.shown(&stat))
    }

    pub(crate) fn entry(&self, folder: INodeNo, name: &OsStr) -> Answer<FileAttr> {
        answer(self.files.entry(number(folder), name.as_bytes())).map(|stat| self.shown(&stat))
    }

    /// Ends `times` uses of an inode, which the kernel no longer knows.
    pub(crate) fn forget(&self, inode: INodeNo, times: u64) {
        self.files.forget(number(inode), times);
    }

    pub(crate) fn attributes(&self, inode: INodeNo) -> Answer<FileAttr> {
        answer(self.files.stat(number(inode))).map(|stat| self.shown(&stat))
    }

    pub(crate) fn target(&self, inode: INodeNo) -> Answer<Vec<u8>> {
        match answer(self.files.stat(number(inode)))?.kind {
            Body::Link(target) => Ok(target),
            _ => Err(Errno::EINVAL),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the kernel changes all of these by one request")]
    pub(crate) fn set(
        &self,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
    ) -> Answer<FileAttr> {
        let ctime = ctime.map(nanoseconds_of);
        let (atime, mtime) = (atime.map(set_time), mtime.map(set_time));
        let mut set = SetAttrs { mode, uid, gid, atime, mtime, ctime };
        if mode.is_none() && self.files.is_alone() && (size.is_some() || uid.is_some() || gid.is_some()) {
            set.mode = self.without_ids(number(inode))?;
        }
        answer(self.files.set(number(inode), set, size)).map(|stat| self.shown(&stat))
    }

    /// The mode of a file without the bits that run it as its owner or group; `None` if it has none of them. The kernel
    /// leaves it to a file system with [`InitFlags::FUSE_HANDLE_KILLPRIV_V2`](fuser::InitFlags) to remove them when a
    /// file changes.
    fn without_ids(&self, ino: u64) -> Answer<Option<u32>> {
        let stat = answer(self.files.stat(ino))?;
        let mode = stat.attrs.mode;
        let group = if mode & GROUP_RUNS != 0 { SET_GID } else { 0 };
        let drop = mode & (SET_UID | group);
        Ok((stat.kind == Body::File && drop != 0).then_some(mode & !drop))
    }

    /// Removes the bits that run a file as its owner or group.
    pub(crate) fn drop_ids(&self, inode: INodeNo) -> Answer<()> {
        match self.without_ids(number(inode))? {
            Some(mode) => {
                let set = SetAttrs { mode: Some(mode), ..SetAttrs::default() };
                answer(self.files.set(number(inode), set, None)).map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// The attributes of an inode. If the kernel collects writes, it knows more of a file than is stored: a file must
    /// not seem to be one hole, since programs that copy it would skip its bytes.
    fn shown(&self, stat: &Stat) -> FileAttr {
        let mut shown = attributes(stat);
        if self.files.is_alone() && stat.kind == Body::File {
            shown.blocks = shown.blocks.max(1);
        }
        shown
    }

    pub(crate) fn make(
        &self,
        request: &Request,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        body: Body,
    ) -> Answer<FileAttr> {
        let made = self.files.make(number(folder), name.as_bytes(), body, mode, owner(request));
        answer(made).map(|stat| self.shown(&stat))
    }

    pub(crate) fn remove(&self, folder: INodeNo, name: &OsStr, is_folder: bool) -> Answer<()> {
        answer(self.files.remove(number(folder), name.as_bytes(), is_folder))
    }

    pub(crate) fn rename(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        exchange: bool,
        keep: bool,
    ) -> Answer<()> {
        let place = |(folder, name): (INodeNo, &'_ OsStr)| (number(folder), name.as_bytes().to_vec());
        let (from, to) = (place(from), place(to));
        answer(self.files.rename((from.0, &from.1), (to.0, &to.1), exchange, keep))
    }

    /// Opens a file. Appending is refused if other mounts write, since the end of the file is then unknown.
    pub(crate) fn open(&self, inode: INodeNo, appends: bool) -> Answer<u64> {
        if appends && answer(self.files.is_shared())? {
            return Err(Errno::EOPNOTSUPP);
        }
        let handle = answer(self.files.open_file(number(inode)))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.open).insert(number, Arc::new(handle));
        Ok(number)
    }

    fn handle(&self, number: u64) -> Answer<Arc<Handle>> {
        locked(&self.open).get(&number).cloned().ok_or(Errno::EBADF)
    }

    /// Reads `len` bytes from `offset` on, fewer at the end of the file, and passes them to `give`.
    pub(crate) fn read(&self, handle: u64, offset: u64, len: u32, give: impl FnOnce(&[u8])) -> Answer<()> {
        let ino = self.handle(handle)?.ino();
        with_room(len as usize, |room| {
            let got = answer(self.files.read(ino, offset, room))?;
            give(room.get(..got).unwrap_or_default());
            Ok(())
        })
    }

    /// Writes at an offset, or at the end of the file.
    pub(crate) fn write(&self, handle: u64, at: Option<u64>, bytes: &[u8]) -> Answer<()> {
        // Another mount may have begun to write after the file was opened.
        if at.is_none() && self.is_shared_by_now()? {
            return Err(Errno::EOPNOTSUPP);
        }
        answer(self.files.write(&*self.handle(handle)?, at, bytes))
    }

    /// Whether other mounts write. Looks again if the last look is older than [`LOOK`].
    fn is_shared_by_now(&self) -> Answer<bool> {
        let mut looked = locked(&self.looked);
        match *looked {
            Some((at, shared)) if at.elapsed() < LOOK => Ok(shared),
            _ => {
                let shared = answer(self.files.is_shared())?;
                *looked = Some((Instant::now(), shared));
                Ok(shared)
            }
        }
    }

    /// Makes writes visible to other mounts.
    pub(crate) fn flush(&self, handle: u64) -> Answer<()> {
        answer(self.files.commit(self.handle(handle)?.ino()))
    }

    pub(crate) fn sync(&self, handle: Option<u64>) -> Answer<()> {
        let ino = handle.map(|handle| self.handle(handle)).transpose()?.map(|handle| handle.ino());
        answer(self.files.sync(ino))
    }

    pub(crate) fn close(&self, handle: u64) -> Answer<()> {
        match locked(&self.open).remove(&handle) {
            Some(handle) => answer(self.files.close(&handle)),
            None => Err(Errno::EBADF),
        }
    }

    pub(crate) fn allocate(&self, handle: u64, offset: u64, len: u64, mode: i32) -> Answer<()> {
        let ino = self.handle(handle)?.ino();
        let end = offset.checked_add(len).ok_or(Errno::EFBIG)?;
        answer(match mode {
            0 => self.files.extend(ino, end),
            KEEP_SIZE => Ok(()),
            ZERO_RANGE => self.files.zero(ino, offset, len, true),
            _ if mode == PUNCH_HOLE | KEEP_SIZE || mode == ZERO_RANGE | KEEP_SIZE => {
                self.files.zero(ino, offset, len, false)
            }
            _ => return Err(Errno::EOPNOTSUPP),
        })
    }

    pub(crate) fn seek(&self, handle: u64, offset: i64, data: bool) -> Answer<i64> {
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let found = answer(self.files.seek(self.handle(handle)?.ino(), offset, data))?;
        found.and_then(|found| i64::try_from(found).ok()).ok_or(Errno::ENXIO)
    }

    /// Lists a folder; returns the handle of the listing.
    pub(crate) fn open_folder(&self, inode: INodeNo) -> Answer<u64> {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let listing = self.listing(inode)?;
        locked(&self.listings).insert(handle, listing);
        Ok(handle)
    }

    fn listing(&self, inode: INodeNo) -> Answer<Arc<Vec<Entry>>> {
        let entries = answer(self.files.entries(number(inode)))?;
        let above = if number(inode) == ROOT { 1 } else { BASE + self.files.parent(number(inode)) };
        let mut out = vec![
            (u64::from(inode), FileType::Directory, b".".to_vec()),
            (above, FileType::Directory, b"..".to_vec()),
        ];
        out.extend(entries.into_iter().map(|(name, stat)| (BASE + stat.ino, kind(&stat.kind), name)));
        Ok(Arc::new(out))
    }

    /// A listing. It is renewed when it is read from the beginning.
    pub(crate) fn listed(&self, inode: INodeNo, handle: u64, offset: u64) -> Answer<Arc<Vec<Entry>>> {
        if offset == 0 {
            let listing = self.listing(inode)?;
            locked(&self.listings).insert(handle, listing);
        }
        locked(&self.listings).get(&handle).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) fn close_folder(&self, handle: u64) {
        locked(&self.listings).remove(&handle);
    }

    pub(crate) fn attribute(&self, inode: INodeNo, name: &OsStr) -> Answer<Vec<u8>> {
        let all = answer(self.files.attributes(number(inode)))?;
        all.into_iter()
            .find(|(known, _)| known == name.as_bytes())
            .map(|(_, value)| value)
            .ok_or(Errno::NO_XATTR)
    }

    /// Names of extended attributes, each followed by a NUL byte.
    pub(crate) fn attribute_names(&self, inode: INodeNo) -> Answer<Vec<u8>> {
        let all = answer(self.files.attributes(number(inode)))?;
        Ok(all.into_iter().flat_map(|(name, _)| name.into_iter().chain([0])).collect())
    }

    /// Sets or removes an extended attribute. Access lists and labels are refused, since nothing would enforce them.
    pub(crate) fn set_attribute(
        &self,
        inode: INodeNo,
        name: &OsStr,
        value: Option<&[u8]>,
        only: (bool, bool),
    ) -> Answer<()> {
        if !name.as_bytes().starts_with(b"user.") && !name.as_bytes().starts_with(b"trusted.") {
            return Err(Errno::EOPNOTSUPP);
        }
        answer(self.files.set_attribute(number(inode), name.as_bytes(), value, only))
    }
}
