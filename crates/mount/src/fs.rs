//! Views as the kernel asks for them: inodes, open files, answers.
//!
//! Invariants
//! - an inode number means one node for the life of the mount;
//! - what depends on `latest` is not cached by the kernel, the rest for as long as it likes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use drystone::{Container, Error, ErrorKind, Result};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyXattr, Request,
};

use crate::ahead;
use crate::shown::{Shown, Snapshots};
use crate::tree::{Entry, Form, below};

/// How long the kernel keeps what cannot change.
const FOREVER: Duration = Duration::from_secs(3600);
/// The kernel reads ahead by this much.
const READ_AHEAD: u32 = 1 << 20;

/// What an inode is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Node {
    Root,
    /// `/view`
    Views,
    /// `/fragments`
    Fragments,
    /// A folder of a snapshot; none: of the newest.
    Folder(Option<u64>, String),
    /// A file of a snapshot: number of the array.
    Array(u64, usize, Form),
    /// A fragment of a snapshot.
    Fragment(u64, String),
    /// A folder of the Zarr hierarchy of a snapshot; whether that was found as the newest. A folder has one place, a file may
    /// have several.
    ZarrFolder(u64, bool, String),
    /// A document or a chunk of that.
    ZarrFile(u64, String),
}

impl Node {
    fn is_file(&self) -> bool {
        matches!(self, Node::Array(..) | Node::Fragment(..) | Node::ZarrFile(..))
    }
}

/// The Zarr hierarchy, in the folder of a snapshot that has no group of that name.
const ZARR: &str = "zarr";

/// The file system.
pub(crate) struct Views {
    snapshots: Snapshots,
    inodes: Mutex<Inodes>,
    open: Mutex<HashMap<u64, Arc<Open>>>,
    next: AtomicU64,
    user: (u32, u32),
    /// There are files beside the views.
    files: bool,
}

#[derive(Default)]
struct Inodes {
    nodes: Vec<Node>,
    numbers: HashMap<Node, u64>,
}

/// An open file.
struct Open {
    shown: Arc<Shown>,
    node: Node,
    size: u64,
    state: Mutex<Made>,
}

/// What was read and made last.
#[derive(Default)]
struct Made {
    /// The end of the read before.
    before: Option<u64>,
    range: Range<u64>,
    bytes: Vec<u8>,
}

impl Inodes {
    /// The number of a node; the root is 1.
    fn number(&mut self, node: &Node) -> u64 {
        if let Some(number) = self.numbers.get(node) {
            return *number;
        }
        self.nodes.push(node.clone());
        let number = self.nodes.len() as u64;
        self.numbers.insert(node.clone(), number);
        number
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The errno of an error, which is also said on standard error unless it only means that a name is not there.
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
    pub(crate) fn new(container: Container, files: bool) -> Self {
        let mut inodes = Inodes::default();
        inodes.number(&Node::Root);
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Views {
            snapshots: Snapshots::new(container),
            inodes: Mutex::new(inodes),
            open: Mutex::new(HashMap::new()),
            next: AtomicU64::new(1),
            user,
            files,
        }
    }

    fn node(&self, inode: INodeNo) -> Result<Node> {
        let number = u64::from(inode).checked_sub(1).ok_or_else(missing)?;
        locked(&self.inodes).nodes.get(number as usize).cloned().ok_or_else(missing)
    }

    fn shown(&self, version: Option<u64>) -> Result<Arc<Shown>> {
        version.map_or_else(|| self.snapshots.latest(), |version| self.snapshots.at(version))
    }

    /// An entry of a folder.
    fn child(&self, parent: &Node, name: &str) -> Result<Node> {
        Ok(match (parent, name) {
            (Node::Root, "view") => Node::Views,
            (Node::Root, "fragments") => Node::Fragments,
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
                    Entry::File(array, form) => Node::Array(number, array, form),
                }
            }
            (Node::ZarrFolder(version, latest, folder), name) => {
                let path = below(folder, name);
                match self.snapshots.at(*version)?.zarr()?.is_folder(&path)? {
                    true => Node::ZarrFolder(*version, *latest, path),
                    false => Node::ZarrFile(*version, path),
                }
            }
            _ => return Err(missing()),
        })
    }

    /// The entries of a folder, and whether each is one.
    fn children(&self, node: &Node) -> Result<Vec<(String, bool)>> {
        Ok(match node {
            Node::Root => {
                let files = self.files.then(|| ("files".into(), true));
                files.into_iter().chain([("fragments".into(), true), ("view".into(), true)]).collect()
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
            Node::Array(..) | Node::Fragment(..) | Node::ZarrFile(..) => {
                return Err(Error::new(ErrorKind::InvalidArgument, "not a folder"));
            }
        })
    }

    /// Bytes of a file, 0 for a folder, and when its snapshot was committed.
    fn measures(&self, node: &Node) -> Result<(u64, u64)> {
        Ok(match node {
            Node::Array(version, number, form) => {
                let shown = self.snapshots.at(*version)?;
                (shown.size(*number, *form)?, shown.time)
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
            Node::Root | Node::Views | Node::Fragments => (0, self.snapshots.latest()?.time),
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

    fn opened(&self, node: Node) -> Result<u64> {
        let version = match &node {
            Node::Array(version, ..) | Node::Fragment(version, _) | Node::ZarrFile(version, _) => *version,
            _ => return Err(Error::new(ErrorKind::InvalidArgument, "not a file")),
        };
        let (size, _) = self.measures(&node)?;
        let open = Open { shown: self.snapshots.at(version)?, node, size, state: Mutex::default() };
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        locked(&self.open).insert(handle, Arc::new(open));
        Ok(handle)
    }

    fn extended(&self, node: &Node, name: &OsStr) -> Result<Option<String>> {
        let Node::Array(version, number, _) = node else { return Ok(None) };
        let shown = self.snapshots.at(*version)?;
        let array = shown.array(*number)?;
        let axes = || array.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        Ok(match name.to_str() {
            Some("user.drystone.snapshot") => Some(version.to_string()),
            Some("user.drystone.shape") => Some(axes()),
            Some("user.drystone.dtype") => Some(array.descr().trim_matches('\'').to_owned()),
            _ => None,
        })
    }
}

impl Open {
    fn make(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match &self.node {
            Node::Array(_, number, form) => self.shown.read(*number, *form, offset, out),
            Node::Fragment(_, name) => self.shown.fragments.get(name).ok_or_else(missing)?.read(offset, out),
            Node::ZarrFile(_, path) => {
                let bytes = self.shown.zarr()?.bytes(path)?;
                let from = offset as usize;
                out.copy_from_slice(bytes.get(from..from + out.len()).ok_or_else(missing)?);
                Ok(())
            }
            _ => Err(missing()),
        }
    }

    /// The bytes of a range, fewer at the end of the file.
    fn read(&self, offset: u64, len: u32, give: impl FnOnce(&[u8])) -> Result<()> {
        let asked = offset.min(self.size)..offset.saturating_add(len.into()).min(self.size);
        let mut made = locked(&self.state);
        if !(made.range.start <= asked.start && asked.end <= made.range.end) {
            let range = match &self.node {
                // A chunk is decoded whole.
                Node::ZarrFile(..) => 0..self.size,
                _ => ahead::made(asked.clone(), made.before, self.size),
            };
            let mut bytes = std::mem::take(&mut made.bytes);
            made.range = 0..0;
            bytes.clear();
            bytes.resize((range.end - range.start) as usize, 0);
            self.make(range.start, &mut bytes)?;
            (made.range, made.bytes) = (range, bytes);
        }
        made.before = Some(asked.end);
        let from = (asked.start - made.range.start) as usize;
        give(made.bytes.get(from..from + (asked.end - asked.start) as usize).unwrap_or_default());
        Ok(())
    }
}

impl Filesystem for Views {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // The kernel may allow less, and says how much.
        if let Err(most) = config.set_max_readahead(READ_AHEAD) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = || {
            let parent = self.node(parent)?;
            let node = self.child(&parent, name.to_str().ok_or_else(missing)?)?;
            // A name below `latest` may mean another file with the next commit.
            let lasts = match (&parent, &node) {
                (Node::Folder(None, _) | Node::Fragments, Node::Array(..) | Node::Fragment(..)) => {
                    Duration::ZERO
                }
                (Node::Folder(None, _), Node::ZarrFolder(..)) | (_, Node::Folder(None, _)) => Duration::ZERO,
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
                reply.attr(if fixed { &FOREVER } else { &Duration::ZERO }, &attributes);
            }
            Err(error) => reply.error(refused(&error)),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        match self.node(ino).and_then(|node| self.opened(node)) {
            Ok(handle) => {
                reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH)
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
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(open) = locked(&self.open).get(&fh.0).cloned() else { return reply.error(Errno::EBADF) };
        let mut reply = Some(reply);
        let done = open.read(offset, size, |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        if let (Err(error), Some(reply)) = (done, reply) {
            reply.error(refused(&error));
        }
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        locked(&self.open).remove(&fh.0);
        reply.ok();
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = match self.node(ino).and_then(|node| self.children(&node)) {
            Ok(entries) => entries,
            Err(error) => return reply.error(refused(&error)),
        };
        let here = [(".".to_owned(), true), ("..".to_owned(), true)];
        for (place, (name, folder)) in here.into_iter().chain(entries).enumerate().skip(offset as usize) {
            let kind = if folder { FileType::Directory } else { FileType::RegularFile };
            // The number is only a hint here: a lookup tells the true one.
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
            Ok(Node::Array(..)) => b"user.drystone.snapshot\0user.drystone.shape\0user.drystone.dtype\0",
            _ => b"",
        };
        match size {
            0 => reply.size(names.len() as u32),
            n if names.len() > n as usize => reply.error(Errno::ERANGE),
            _ => reply.data(names),
        }
    }
}
