//! Views for the kernel: names, attributes, open files, answers.
//!
//! Invariants
//! - the kernel caches a name that may mean another file later, such as one below `latest`, for at most [`SOON`]. It
//!   caches other names for [`FOREVER`];
//! - a handle of a name below `latest` shows the newest snapshot. Opening an older one is refused as stale; then the
//!   kernel looks the name up again and opens the file that it finds.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use drystone::{Container, Error, ErrorKind, Result};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyXattr, Request,
};

use crate::ahead::{Seen, Way};
use crate::inodes::{Identity, Inodes, Node};
use crate::locks::locked;
use crate::open::Open;
use crate::pieces::Pieces;
use crate::room::with_room;
use crate::shown::{Shown, Snapshots};
use crate::stored::{self, OpenStored, StoredFiles};
use crate::tree::{Entry, below};

/// How long the kernel may cache names and attributes that cannot change.
const FOREVER: Duration = Duration::from_secs(3600);
/// How long it may cache names and attributes of the newest snapshot. An open always checks for the newest one.
const SOON: Duration = Duration::from_secs(1);
/// Within this time the kernel repeats the lookup of a file that was refused as stale. It does so only once, so the
/// second open of the same thread is granted; otherwise continuous commits would keep programs from opening files.
const AGAIN: Duration = Duration::from_millis(100);
/// Number of bytes that the kernel reads ahead.
const READ_AHEAD: u32 = 1 << 20;
/// Maximum depth of stacked file systems whose files the kernel reads itself.
const STACKED: u32 = 2;

/// The folder of the Zarr hierarchy in the folder of a snapshot, unless a group has this name.
const ZARR: &str = "zarr";

/// The folder of published replicas, in the root.
const PUBLISHED: &str = "published";

/// The views as a file system.
pub(crate) struct Views {
    snapshots: Snapshots,
    inodes: Mutex<Inodes>,
    open: Mutex<HashMap<u64, Handle>>,
    /// Observed reads of files, by inode.
    seen: Mutex<HashMap<u64, Seen>>,
    pieces: Arc<Pieces>,
    stored: StoredFiles,
    /// Whether the kernel supports mappings of files that programs read directly (Linux 6.6 or newer). If not, no file
    /// is read directly.
    direct: AtomicBool,
    /// Whether the kernel reads stored files itself.
    passes: AtomicBool,
    /// Threads whose last open was refused as stale, and when.
    stale: Mutex<HashMap<u32, Instant>>,
    next: AtomicU64,
    user: (u32, u32),
    /// Whether there are files beside the views.
    files: bool,
}

/// An open file.
#[derive(Clone)]
enum Handle {
    View(Arc<Open>),
    Stored(Arc<OpenStored>),
}

/// The errno of an error. The error is also printed to standard error, unless it only means that a name does not exist.
fn refused(error: &Error) -> Errno {
    let errno = match error.kind() {
        ErrorKind::NotFound => return Errno::ENOENT,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        _ => Errno::EIO,
    };
    eprintln!("drystone: {error}");
    errno
}

fn missing() -> Error {
    Error::new(ErrorKind::NotFound, "no such file")
}

impl Views {
    pub(crate) fn new(container: Container, folder: Option<&Path>, files: bool) -> Self {
        let stored = StoredFiles::new(folder);
        let mut inodes = Inodes::default();
        inodes.number(&Node::Root);
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Views {
            snapshots: Snapshots::new(container),
            inodes: Mutex::new(inodes),
            open: Mutex::default(),
            seen: Mutex::default(),
            pieces: Arc::default(),
            stored,
            direct: AtomicBool::new(false),
            passes: AtomicBool::new(false),
            stale: Mutex::default(),
            next: AtomicU64::new(1),
            user,
            files,
        }
    }

    fn node(&self, inode: INodeNo) -> Result<Node> {
        locked(&self.inodes).node(inode.into()).cloned().ok_or_else(missing)
    }

    fn shown(&self, version: Option<u64>) -> Result<Arc<Shown>> {
        version.map_or_else(|| self.snapshots.latest(), |version| self.snapshots.at(version))
    }

    /// An entry of a folder.
    fn child(&self, parent: &Node, name: &str) -> Result<Node> {
        Ok(match (parent, name) {
            (Node::Root, "view") => Node::Views,
            (Node::Root, "fragments") => Node::Fragments,
            (Node::Root, PUBLISHED) if self.stored.is_there() => Node::StoredFolder(String::new()),
            (Node::Views, "latest") => Node::Folder(None, String::new()),
            (Node::Views, number) => {
                let version =
                    number.parse().ok().filter(|v: &u64| v.to_string() == number).ok_or_else(missing)?;
                if !self.snapshots.numbers()?.contains(&version) {
                    return Err(missing());
                }
                Node::Folder(Some(version), String::new())
            }
            (Node::Fragments, name) => {
                let shown = self.snapshots.latest()?;
                shown.fragments.get(name).ok_or_else(missing)?;
                Node::Fragment(shown.container.snapshot().version(), name.to_owned())
            }
            (Node::Folder(version, folder), name) => {
                let shown = self.shown(*version)?;
                let number = shown.container.snapshot().version();
                if folder.is_empty() && name == ZARR && shown.tree.entry(folder, name).is_none() {
                    return Ok(Node::ZarrFolder(number, version.is_none(), String::new()));
                }
                match shown.tree.entry(folder, name).ok_or_else(missing)? {
                    Entry::Folder => Node::Folder(*version, below(folder, name)),
                    Entry::File(array, form) => {
                        Node::Array { version: number, latest: version.is_none(), array, form }
                    }
                }
            }
            (Node::ZarrFolder(version, latest, folder), name) => {
                let path = below(folder, name);
                match self.snapshots.at(*version)?.zarr()?.is_folder(&path)? {
                    true => Node::ZarrFolder(*version, *latest, path),
                    false => Node::ZarrFile(*version, path),
                }
            }
            (Node::StoredFolder(folder), name) => {
                let path = below(folder, name);
                match self.stored.entry(&path)? {
                    stored::Entry::Folder => Node::StoredFolder(path),
                    stored::Entry::File(identity) => Node::Stored(path, identity),
                }
            }
            _ => return Err(missing()),
        })
    }

    /// The entries of a folder, and whether each is a folder.
    fn children(&self, node: &Node) -> Result<Vec<(String, bool)>> {
        Ok(match node {
            Node::Root => {
                let files = self.files.then_some("files");
                let published = self.stored.is_there().then_some(PUBLISHED);
                let names = [files, Some("fragments"), published, Some("view")];
                names.into_iter().flatten().map(|name| (name.to_owned(), true)).collect()
            }
            Node::Views => {
                let numbers = self.snapshots.numbers()?;
                std::iter::once(("latest".into(), true))
                    .chain(numbers.iter().map(|n| (n.to_string(), true)))
                    .collect()
            }
            Node::Fragments => {
                let shown = self.snapshots.latest()?;
                shown.fragments.keys().map(|name| (name.clone(), false)).collect()
            }
            Node::Folder(version, folder) => {
                let shown = self.shown(*version)?;
                let entries = shown.tree.entries(folder).ok_or_else(missing)?;
                let zarr = (folder.is_empty() && !entries.contains_key(ZARR)).then(|| (ZARR.into(), true));
                let named = entries.iter().map(|(name, entry)| (name.clone(), *entry == Entry::Folder));
                named.chain(zarr).collect()
            }
            Node::ZarrFolder(version, _, folder) => self.snapshots.at(*version)?.zarr()?.entries(folder)?,
            Node::StoredFolder(folder) => self.stored.entries(folder)?,
            Node::Array { .. } | Node::Fragment(..) | Node::ZarrFile(..) | Node::Stored(..) => {
                return Err(Error::new(ErrorKind::InvalidArgument, "not a folder"));
            }
        })
    }

    /// The size of a file (0 for a folder), and when its snapshot was committed.
    fn measures(&self, node: &Node) -> Result<(u64, u64)> {
        Ok(match node {
            Node::Array { version, array, form, .. } => {
                let shown = self.snapshots.at(*version)?;
                (shown.size(*array, *form)?, shown.time)
            }
            Node::Fragment(version, name) => {
                let shown = self.snapshots.at(*version)?;
                (shown.fragments.get(name).ok_or_else(missing)?.size(), shown.time)
            }
            Node::Folder(version, _) => (0, self.shown(*version)?.time),
            Node::ZarrFolder(version, ..) => (0, self.snapshots.at(*version)?.time),
            Node::ZarrFile(version, path) => {
                let shown = self.snapshots.at(*version)?;
                (shown.zarr()?.size(path)?, shown.time)
            }
            Node::Stored(_, identity) => (identity.size, u64::try_from(identity.changed).unwrap_or(0)),
            Node::Root | Node::Views | Node::Fragments | Node::StoredFolder(_) => {
                (0, self.snapshots.latest()?.time)
            }
        })
    }

    fn attributes(&self, node: &Node) -> Result<FileAttr> {
        let (size, time) = self.measures(node)?;
        let file = node.is_file();
        let time = UNIX_EPOCH + Duration::from_nanos(time);
        Ok(FileAttr {
            ino: INodeNo(locked(&self.inodes).number(node)),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o444 } else { 0o555 },
            nlink: if file { 1 } else { 2 },
            uid: self.user.0,
            gid: self.user.1,
            rdev: 0,
            flags: 0,
            blksize: READ_AHEAD,
        })
    }

    /// Whether an open is refused: the name of the file means the newest snapshot, and the file belongs to an older
    /// one.
    fn is_stale(&self, thread: u32, node: &Node) -> Result<bool> {
        let Some(version) = node.as_newest() else { return Ok(false) };
        let again = locked(&self.stale).remove(&thread).is_some_and(|refused| refused.elapsed() < AGAIN);
        if again || self.snapshots.newest()? == version {
            return Ok(false);
        }
        let mut stale = locked(&self.stale);
        stale.retain(|_, refused| refused.elapsed() < AGAIN);
        stale.insert(thread, Instant::now());
        Ok(true)
    }

    fn opened(&self, number: u64, node: Node) -> Result<(u64, Way)> {
        let version = match &node {
            Node::Array { version, .. } | Node::Fragment(version, _) | Node::ZarrFile(version, _) => *version,
            _ => return Err(Error::new(ErrorKind::InvalidArgument, "not a file")),
        };
        let (size, _) = self.measures(&node)?;
        let way = match node.has_ranges() && self.direct.load(Ordering::Relaxed) {
            true => locked(&self.seen).get(&number).copied().unwrap_or_default().way(size),
            false => Way::Kept,
        };
        let shown = self.snapshots.at(version)?;
        let open = Open::new(shown, node, (number, size), way, self.pieces.clone());
        Ok((self.handle(Handle::View(Arc::new(open))), way))
    }

    fn handle(&self, open: Handle) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.open).insert(handle, open);
        handle
    }

    /// Opens a stored file. The kernel reads it itself where that is allowed.
    fn open_stored(&self, number: u64, path: &str, identity: Identity, reply: ReplyOpen) {
        let file = match self.stored.open(path, identity) {
            Ok(Some(file)) => file,
            // The file was published again, so its name means another file now.
            Ok(None) => return reply.error(Errno::ESTALE),
            Err(error) => return reply.error(refused(&error)),
        };
        let mut passed = None;
        if self.passes.load(Ordering::Relaxed) {
            match self.stored.pass(number, &file, &reply) {
                Ok(registered) => passed = Some(registered),
                Err(error) => {
                    eprintln!("drystone: the kernel does not read stored files itself: {error}");
                    self.passes.store(false, Ordering::Relaxed);
                }
            }
        }
        let handle = self.handle(Handle::Stored(Arc::new(OpenStored::new(file, passed.clone()))));
        match passed {
            Some(passed) => reply.opened_passthrough(FileHandle(handle), FopenFlags::FOPEN_NOFLUSH, &passed),
            None => reply.opened(FileHandle(handle), kept()),
        }
    }

    /// Adds the observed reads of an open file.
    fn learn(&self, open: &Open) {
        if open.way == Way::Direct {
            locked(&self.seen).entry(open.file).or_default().add(&open.seen());
        }
    }

    fn extended(&self, node: &Node, name: &OsStr) -> Result<Option<String>> {
        let Node::Array { version, array, .. } = node else { return Ok(None) };
        let shown = self.snapshots.at(*version)?;
        let array = shown.array(*array)?;
        let axes = || array.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        Ok(match name.to_str() {
            Some("user.drystone.snapshot") => Some(version.to_string()),
            Some("user.drystone.shape") => Some(axes()),
            Some("user.drystone.dtype") => Some(array.descr().trim_matches('\'').to_owned()),
            _ => None,
        })
    }
}

/// The flags of a file that the kernel may cache, since its bytes never change.
fn kept() -> FopenFlags {
    FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH
}

impl Filesystem for Views {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // The kernel may allow less, and returns how much.
        if let Err(most) = config.set_max_readahead(READ_AHEAD) {
            let _ = config.set_max_readahead(most);
        }
        let direct = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP).is_ok();
        self.direct.store(direct, Ordering::Relaxed);
        // Only root may let the kernel read stored files, on Linux 6.9 or newer.
        let asked = rustix::process::geteuid().is_root()
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(STACKED).is_ok();
        self.passes.store(asked, Ordering::Relaxed);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = || {
            let parent = self.node(parent)?;
            let node = self.child(&parent, name.to_str().ok_or_else(missing)?)?;
            // A name may mean another file after the next commit or publication.
            let lasts = match (&parent, &node) {
                (_, Node::Array { latest: true, .. } | Node::Fragment(..)) => SOON,
                (_, Node::Folder(None, _) | Node::Stored(..) | Node::StoredFolder(_)) => SOON,
                (Node::Folder(None, _), Node::ZarrFolder(..)) => Duration::ZERO,
                _ => FOREVER,
            };
            let attributes = self.attributes(&node)?;
            let attributes_last = if node.is_file() { FOREVER } else { lasts };
            Ok((attributes, lasts, attributes_last))
        };
        match found() {
            Ok((attributes, entry, attribute)) => {
                reply.entry_with_ttls(&attribute, &entry, &attributes, Generation(0))
            }
            Err(error) => reply.error(refused(&error)),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(ino).and_then(|node| Ok((self.attributes(&node)?, node))) {
            Ok((attributes, node)) => {
                let fixed = node.is_file() || matches!(node, Node::ZarrFolder(..) | Node::Folder(Some(_), _));
                reply.attr(if fixed { &FOREVER } else { &SOON }, &attributes);
            }
            Err(error) => reply.error(refused(&error)),
        }
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let number = u64::from(ino);
        let node = match self.node(ino) {
            Ok(node) => node,
            Err(error) => return reply.error(refused(&error)),
        };
        if let Node::Stored(path, identity) = &node {
            return self.open_stored(number, path, *identity, reply);
        }
        match self.is_stale(req.pid(), &node) {
            Ok(true) => return reply.error(Errno::ESTALE),
            Ok(false) => {}
            Err(error) => return reply.error(refused(&error)),
        }
        match self.opened(number, node) {
            Ok((handle, Way::Kept)) => reply.opened(FileHandle(handle), kept()),
            Ok((handle, Way::Direct)) => {
                let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH;
                reply.opened(FileHandle(handle), direct);
            }
            Err(error) => reply.error(refused(&error)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let handle = locked(&self.open).get(&fh.0).cloned();
        let open = match handle {
            None => return reply.error(Errno::EBADF),
            Some(Handle::Stored(stored)) => {
                return with_room(size as usize, |room| match stored.read(offset, room) {
                    Ok(got) => reply.data(room.get(..got).unwrap_or_default()),
                    Err(error) => {
                        eprintln!("drystone: {error}");
                        reply.error(Errno::EIO);
                    }
                });
            }
            Some(Handle::View(open)) => open,
        };
        // The kernel passes a lock owner with a program's read, and none when it fills pages of a mapping.
        let for_mapping = open.way == Way::Direct && lock_owner.is_none();
        let mut reply = Some(reply);
        let done = open.read(offset, size, for_mapping, |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        if let (Err(error), Some(reply)) = (done, reply) {
            reply.error(refused(&error));
        }
        if for_mapping && !locked(&self.seen).get(&open.file).is_some_and(Seen::is_mapped) {
            self.learn(&open);
        }
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let (closed, others) = {
            let mut open = locked(&self.open);
            let closed = open.remove(&fh.0);
            let file = u64::from(ino);
            let same = |other: &Handle| matches!(other, Handle::View(view) if view.file == file);
            (closed, self.pieces.has(file) && open.values().any(same))
        };
        reply.ok();
        if let Some(Handle::View(open)) = closed {
            self.learn(&open);
            if !others {
                self.pieces.forget(open.file);
            }
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = match self.node(ino).and_then(|node| self.children(&node)) {
            Ok(entries) => entries,
            Err(error) => return reply.error(refused(&error)),
        };
        let here = [(".".to_owned(), true), ("..".to_owned(), true)];
        for (place, (name, folder)) in here.into_iter().chain(entries).enumerate().skip(offset as usize) {
            let kind = if folder { FileType::Directory } else { FileType::RegularFile };
            // The number is only a hint here; a lookup returns the real one.
            if reply.add(INodeNo(u64::MAX - place as u64), place as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.node(ino).and_then(|node| self.extended(&node, name)) {
            Ok(Some(value)) if size == 0 => reply.size(value.len() as u32),
            Ok(Some(value)) if value.len() > size as usize => reply.error(Errno::ERANGE),
            Ok(Some(value)) => reply.data(value.as_bytes()),
            Ok(None) => reply.error(Errno::NO_XATTR),
            Err(error) => reply.error(refused(&error)),
        }
    }

    fn listxattr(&self, _req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names: &[u8] = match self.node(ino) {
            Ok(Node::Array { .. }) => b"user.drystone.snapshot\0user.drystone.shape\0user.drystone.dtype\0",
            _ => b"",
        };
        match size {
            0 => reply.size(names.len() as u32),
            n if names.len() > n as usize => reply.error(Errno::ERANGE),
            _ => reply.data(names),
        }
    }
}
