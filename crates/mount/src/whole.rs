//! The adapter to FUSE: each request goes to the views or to the files, by the number of its inode.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drystone_file_store::files::Body;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::Access;
use crate::files::{Answer, FileTree};
use crate::fs::Views;

/// The most bytes that the kernel passes in one write.
const MOST_WRITTEN: u32 = 1 << 20;
/// Zero: other mounts may change names and attributes, so the kernel must not cache them.
const NEVER: Duration = Duration::ZERO;
/// How long the kernel may cache names and attributes of files that only this mount changes: it knows every change,
/// except of the number of stored bytes.
const ALONE: Duration = Duration::from_secs(1);
/// The folder of the files, in the root.
const FILES: &str = "files";
/// The bits of a mode that hold the kind of an inode.
const KIND: u32 = 0o170_000;
/// The kind of a regular file.
const REGULAR: u32 = 0o100_000;
const O_EXCL: i32 = 0o200;
const O_APPEND: i32 = 0o2000;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// The views, and the files if there are any.
pub(crate) struct Whole {
    views: Views,
    files: Option<FileTree>,
    /// The container's folder, for its free space.
    folder: Option<PathBuf>,
    access: Access,
}

impl Whole {
    pub(crate) fn new(
        views: Views,
        files: Option<FileTree>,
        folder: Option<PathBuf>,
        access: Access,
    ) -> Self {
        Whole { views, files, folder, access }
    }

    fn writes(&self) -> bool {
        self.access != Access::Read
    }

    /// Whether the kernel collects writes in its cache.
    fn collects(&self) -> bool {
        self.access == Access::WriteBack
    }

    /// The files, if the number is that of one of their inodes or handles.
    fn files(&self, number: impl Into<u64>) -> Option<&FileTree> {
        self.files.as_ref().filter(|_| FileTree::has(number.into()))
    }

    /// The files, for a request that changes an inode; views cannot be changed.
    fn changed(&self, number: impl Into<u64>) -> Answer<&FileTree> {
        match self.files(number) {
            Some(files) if self.writes() => Ok(files),
            _ => Err(Errno::EROFS),
        }
    }

    /// Without write-back, programs read and write past the kernel's cache, so that those on all mounts see the same
    /// bytes.
    fn flags(&self) -> FopenFlags {
        match self.collects() {
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        }
    }

    /// How long the kernel may cache names and attributes of files.
    fn lasts(&self) -> &'static Duration {
        if self.collects() { &ALONE } else { &NEVER }
    }

    fn entry(&self, answer: Answer<FileAttr>, reply: ReplyEntry) {
        match answer {
            Ok(attributes) => reply.entry(self.lasts(), &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }
}

fn empty(answer: Answer<()>, reply: ReplyEmpty) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn value(answer: Answer<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match answer {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Whole {
    fn init(&mut self, request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.views.init(request, config)?;
        if let Err(most) = config.set_max_write(MOST_WRITTEN) {
            let _ = config.set_max_write(most);
        }
        // Without this flag, the kernel refuses shared mappings of files, and programs report that.
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        if self.collects() {
            // With the second flag the kernel does not request the attribute `security.capability` before each write.
            let flags = InitFlags::FUSE_WRITEBACK_CACHE | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
            config.add_capabilities(flags).map_err(|_| std::io::ErrorKind::Unsupported)?;
        }
        if self.files.as_ref().is_some_and(|files| self.writes() && !files.grants_locks()) {
            // With these flags, requests for locks reach this process, which refuses them. Otherwise the kernel would
            // grant locks among the programs of this mount only.
            let locks = InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
            config.add_capabilities(locks).map_err(|_| std::io::ErrorKind::Unsupported)?;
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match (&self.files, self.files(parent)) {
            (_, Some(files)) => self.entry(files.entry(parent, name), reply),
            (Some(files), None) if parent == INodeNo::ROOT && name == FILES => {
                self.entry(files.root(), reply)
            }
            _ => self.views.lookup(request, parent, name, reply),
        }
    }

    fn forget(&self, _request: &Request, ino: INodeNo, lookups: u64) {
        if let Some(files) = self.files(ino) {
            files.forget(ino, lookups);
        }
    }

    fn getattr(&self, request: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        let Some(files) = self.files(ino) else { return self.views.getattr(request, ino, fh, reply) };
        match files.attributes(ino) {
            Ok(attributes) => reply.attr(self.lasts(), &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<std::time::SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.changed(ino).and_then(|files| files.set(ino, mode, uid, gid, size, atime, mtime, ctime)) {
            Ok(attributes) => reply.attr(self.lasts(), &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.files(ino).ok_or(Errno::EINVAL).and_then(|files| files.target(ino)) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let make = |files: &FileTree| match mode & KIND {
            REGULAR => files.make(request, parent, name, mode, Body::File),
            _ => Err(Errno::EPERM),
        };
        self.entry(self.changed(parent).and_then(make), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let make = |files: &FileTree| files.make(request, parent, name, mode, Body::Folder);
        self.entry(self.changed(parent).and_then(make), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.changed(parent).and_then(|files| files.remove(parent, name, false)), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.changed(parent).and_then(|files| files.remove(parent, name, true)), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        use std::os::unix::ffi::OsStrExt;
        let body = Body::Link(target.as_os_str().as_bytes().to_vec());
        let made = self.changed(parent).and_then(|files| files.make(request, parent, name, 0o777, body));
        self.entry(made, reply);
    }

    fn link(&self, _request: &Request, _ino: INodeNo, parent: INodeNo, _name: &OsStr, reply: ReplyEntry) {
        reply.error(self.changed(parent).err().unwrap_or(Errno::EPERM));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            return reply.error(Errno::EINVAL);
        }
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        let keep = flags.contains(RenameFlags::RENAME_NOREPLACE);
        let done = self
            .changed(new_parent)
            .and_then(|_| self.changed(parent))
            .and_then(|files| files.rename((parent, name), (new_parent, new_name), exchange, keep));
        empty(done, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let Some(files) = self.files(ino) else { return self.views.open(request, ino, flags, reply) };
        if !self.writes() && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        match files.open(ino, flags.0 & O_APPEND != 0) {
            Ok(handle) => reply.opened(FileHandle(handle), self.flags()),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let create = |files: &FileTree| {
            let made = match files.make(request, parent, name, mode, Body::File) {
                // Another mount was faster.
                Err(Errno::EEXIST) if flags & O_EXCL == 0 => files.entry(parent, name),
                made => made,
            }?;
            let opened = files.open(made.ino, flags & O_APPEND != 0);
            if opened.is_err() {
                files.forget(made.ino, 1);
            }
            Ok((made, opened?))
        };
        match self.changed(parent).and_then(create) {
            Ok((made, handle)) => {
                reply.created(self.lasts(), &made, Generation(0), FileHandle(handle), self.flags());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.files(ino) {
            None => self.views.read(request, ino, fh, offset, size, flags, owner, reply),
            Some(files) => {
                let mut reply = Some(reply);
                let done = files.read(fh.0, offset, size, |bytes| {
                    if let Some(reply) = reply.take() {
                        reply.data(bytes);
                    }
                });
                if let (Err(errno), Some(reply)) = (done, reply) {
                    reply.error(errno);
                }
            }
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages of the kernel's cache are written to their offsets, whatever the flags of the handle. A kernel that
        // collects writes knows the end of the file.
        let cached = self.collects() || write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let at = (cached || flags.0 & O_APPEND == 0).then_some(offset);
        let write = |files: &FileTree| {
            if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                files.drop_ids(ino)?;
            }
            files.write(fh.0, at, data)
        };
        match self.changed(ino).and_then(write) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _request: &Request, ino: INodeNo, fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        match self.files(ino) {
            Some(files) if self.writes() => empty(files.flush(fh.0), reply),
            _ => reply.ok(),
        }
    }

    fn release(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        flush: bool,
        reply: ReplyEmpty,
    ) {
        match self.files(ino) {
            Some(files) => empty(files.close(fh.0), reply),
            None => self.views.release(request, ino, fh, flags, owner, flush, reply),
        }
    }

    fn fsync(&self, _request: &Request, ino: INodeNo, fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        match self.files(ino) {
            Some(files) => empty(files.sync(Some(fh.0)), reply),
            None => reply.ok(),
        }
    }

    fn opendir(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.files(ino).map(|files| files.open_folder(ino)) {
            None => self.views.opendir(request, ino, flags, reply),
            Some(Ok(handle)) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Some(Err(errno)) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some(files) = self.files(ino) else { return self.views.readdir(request, ino, fh, offset, reply) };
        match files.listed(ino, fh.0, offset) {
            Ok(listing) => {
                for (place, (number, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
                    use std::os::unix::ffi::OsStrExt;
                    if reply.add(INodeNo(*number), place as u64 + 1, *kind, OsStr::from_bytes(name)) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        if let Some(files) = self.files(ino) {
            files.close_folder(fh.0);
        }
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        match self.files(ino) {
            Some(files) => empty(files.sync(None), reply),
            None => reply.ok(),
        }
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.folder.as_ref().map(rustix::fs::statvfs) {
            Some(Ok(room)) => reply.statfs(
                room.f_blocks,
                room.f_bfree,
                room.f_bavail,
                room.f_files,
                room.f_ffree,
                room.f_bsize as u32,
                255,
                room.f_frsize as u32,
            ),
            _ => reply.statfs(0, 0, 0, 0, 0, 512, 255, 512),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let only = (flags & XATTR_CREATE != 0, flags & XATTR_REPLACE != 0);
        empty(self.changed(ino).and_then(|files| files.set_attribute(ino, name, Some(value), only)), reply);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = |files: &FileTree| files.set_attribute(ino, name, None, (false, false));
        empty(self.changed(ino).and_then(remove), reply);
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.files(ino) {
            Some(files) => value(files.attribute(ino, name), size, reply),
            None => self.views.getxattr(request, ino, name, size, reply),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.files(ino) {
            Some(files) => value(files.attribute_names(ino), size, reply),
            None => self.views.listxattr(request, ino, size, reply),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(self.changed(ino).and_then(|files| files.allocate(fh.0, offset, length, mode)), reply);
    }

    fn lseek(
        &self,
        _request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // The kernel asks without writing the pages that it collects. After this errno it takes all bytes of a file as
        // data itself.
        let Some(files) = self.files(ino).filter(|_| !self.collects()) else {
            return reply.error(Errno::ENOSYS);
        };
        let found = match whence {
            SEEK_DATA => files.seek(fh.0, offset, true),
            SEEK_HOLE => files.seek(fh.0, offset, false),
            _ => Err(Errno::EINVAL),
        };
        match found {
            Ok(offset) => reply.offset(offset),
            Err(errno) => reply.error(errno),
        }
    }

    fn getlk(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _owner: LockOwner,
        _start: u64,
        _end: u64,
        _kind: i32,
        _pid: u32,
        reply: ReplyLock,
    ) {
        reply.error(Errno::ENOLCK);
    }

    /// Called only if locks are not granted. Views never change, so locks on them have no meaning.
    fn setlk(
        &self,
        _request: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _owner: LockOwner,
        _start: u64,
        _end: u64,
        kind: i32,
        _pid: u32,
        _sleep: bool,
        reply: ReplyEmpty,
    ) {
        const UNLOCK: i32 = 2;
        match self.files(ino) {
            Some(_) if kind != UNLOCK => reply.error(Errno::ENOLCK),
            _ => reply.ok(),
        }
    }
}
