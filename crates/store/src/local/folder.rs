//! The folder itself: every operation of the store, executed in the calling thread.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::ahead::Ahead;
use super::atomic_file::{self, Placed};
use super::durability::Durability;
use super::handles::{self, Handle, Handles, PathAt};
use super::mapping::{self, MapPolicy};
use super::targets::Targets;
use super::unnamed_files::UnnamedFiles;
use super::watched::{Comparison, Watched};
use super::{device, early_writeback, forget, preallocate, readahead, transfer, tree};
use crate::key::invalid;
use crate::request::end_within;
use crate::{
    Features, ListEntry, LocalFiles, Mapped, Pending, PerProcess, PutMode, Reply, Request, Result, SEEN_LOG2,
    Store, StoreError, Upload, validate_key, validate_prefix,
};

/// The state that the pool's threads share with the store.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) root: PathBuf,
    /// The root of a read-only store, held open. Names are looked up in this folder, even if another folder
    /// gets its path later.
    open_root: Option<OwnedFd>,
    read_only: bool,
    pub(super) early_writeback: AtomicBool,
    pub(super) handles: PerProcess<Handles>,
    durability: PerProcess<Durability>,
    pub(super) unnamed: PerProcess<UnnamedFiles>,
    pub(super) targets: Targets,
    pub(super) map_policy: MapPolicy,
    watched: Watched,
}

/// In /proc and the like, creating a file fails as if the folder above it were missing.
const MAKES_NOTHING: &str = "its file system has no place for new names there; choose another place";

pub(super) fn folder_error(root: &Path, operation: &'static str, source: io::Error) -> StoreError {
    let (key, store) = (String::new(), description(root));
    let refused = |reason| StoreError::ReadOnly { key: ".".into(), store: store.clone(), operation, reason };
    match source.kind() {
        io::ErrorKind::NotFound if operation.starts_with("create") => refused(MAKES_NOTHING.into()),
        io::ErrorKind::NotFound => StoreError::NotFound { key, store },
        io::ErrorKind::ReadOnlyFilesystem => refused(
            "it lies on a file system that is mounted for reading; remount it or choose another place".into(),
        ),
        io::ErrorKind::PermissionDenied => {
            let reason = format!(
                "{source}; check who owns the folders above it and whether this user may enter and change them"
            );
            StoreError::PermissionDenied { key: ".".into(), store, operation, reason }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::NoSpace { key: ".".into(), store, operation }
        }
        _ => StoreError::Io { key, store, operation, source },
    }
}

fn description(root: &Path) -> String {
    format!("local store {}", root.display())
}

/// The unit of `read_seen`: it fits in the second-level cache of every processor of the last ten years, and half of it
/// in most.
const SEEN: usize = 4 << SEEN_LOG2;

impl Folder {
    /// The existing folder at an absolute path.
    pub(super) fn open(root: PathBuf, read_only: bool) -> Result<Folder> {
        let open_root = if read_only { tree::open_folder(&root).ok() } else { None };
        // Returns the opened folder, or an error that says what is at the path.
        if open_root.is_none() {
            let metadata = root.metadata().map_err(|source| folder_error(&root, "open", source))?;
            if !metadata.is_dir() {
                return Err(folder_error(&root, "open", io::ErrorKind::NotADirectory.into()));
            }
        }
        Ok(Folder {
            root,
            open_root,
            read_only,
            early_writeback: AtomicBool::new(false),
            handles: PerProcess::new(),
            durability: PerProcess::new(),
            unnamed: PerProcess::new(),
            targets: Targets::default(),
            map_policy: MapPolicy::default(),
            watched: Watched::default(),
        })
    }

    pub(super) fn path(&self, key: &str) -> Result<PathBuf> {
        validate_key(key)?;
        Ok(self.root.join(key))
    }

    pub(super) fn handle(
        &self,
        key: &str,
        operation: &'static str,
        writable: bool,
    ) -> Result<(Arc<Handle>, u64)> {
        match &self.open_root {
            Some(root) if !writable => {
                validate_key(key)?;
                self.handle_at(&PathAt::below(root.as_fd(), Path::new(key)), key, operation, writable)
            }
            _ => self.handle_at(&PathAt::at(&self.path(key)?), key, operation, writable),
        }
    }

    fn handle_at(
        &self,
        place: &PathAt<'_>,
        key: &str,
        operation: &'static str,
        writable: bool,
    ) -> Result<(Arc<Handle>, u64)> {
        let handles = self.handles.get();
        let mut found = handles.get(key, place, writable);
        // The link may have been replaced between the lookup and the open.
        let mut looks = 0;
        while looks < 2
            && found.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
            && place.is_symlink()
        {
            found = handles.get(key, place, writable);
            looks += 1;
        }
        match found {
            Ok(found) => Ok(found),
            Err(error) if writable => Err(self.write_error(key, operation, error)),
            Err(error) => Err(self.read_error(key, operation, error)),
        }
    }

    /// The open file of an object whose name was looked up before. A lookup takes as long as copying 16 KiB in the
    /// kernel.
    fn known(&self, key: &str) -> Option<Arc<Handle>> {
        self.open_root.as_ref().and_then(|_| self.handles.get().known(key))
    }

    /// Reads an object whose bytes never change: from the file that is open, or else from the one that has the name
    /// now.
    fn read_unchanging(&self, key: &str, read: &mut dyn FnMut(&Handle) -> Result<()>) -> Result<()> {
        match self.known(key).map(|handle| read(&handle)) {
            Some(Ok(())) => Ok(()),
            _ => read(&self.handle(key, "read", false)?.0),
        }
    }

    /// Which upcoming ranges are worth a read-ahead hint to the kernel.
    pub(super) fn ahead(&self, key: &str, ranges: &[(u64, u64)]) -> Option<Ahead> {
        let handle = self.known(key).or_else(|| Some(self.handle(key, "read ahead", false).ok()?.0));
        Ahead::of(handle?, ranges)
    }

    fn may_write(&self, key: &str, operation: &'static str) -> Result<PathBuf> {
        let path = self.path(key)?;
        if self.read_only {
            let reason = "the store was opened for reading; open it for writing to change it".into();
            return Err(StoreError::ReadOnly {
                key: key.to_owned(),
                store: description(&self.root),
                operation,
                reason,
            });
        }
        self.unchanged()?;
        Ok(path)
    }

    fn read_part(&self, handle: &Handle, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let got = transfer::read_full(handle.to_read(offset, out.len()), offset, out)
            .map_err(|e| self.read_error(key, "read", e))?;
        if got == out.len() {
            Ok(())
        } else {
            Err(self.short_read(key, offset, out.len() as u64, got as u64))
        }
    }

    fn short_read(&self, key: &str, offset: u64, wanted: u64, got: u64) -> StoreError {
        StoreError::ShortRead { key: key.to_owned(), store: self.describe(), offset, wanted, got }
    }

    pub(super) fn read_error(&self, key: &str, operation: &'static str, source: io::Error) -> StoreError {
        let (path, store) = (self.root.join(key), description(&self.root));
        let key = key.to_owned();
        if source.kind() == io::ErrorKind::NotFound
            && let Some((file, _)) = self.targets.linked(&path).filter(|(file, _)| !file.exists())
        {
            let what = format!("it lies in {}, which is not there; is that disk mounted?", file.display());
            let source = io::Error::other(what);
            return StoreError::Io { key, store, operation, source };
        }
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                StoreError::NotFound { key, store }
            }
            io::ErrorKind::PermissionDenied => {
                let reason =
                    format!("{source}; check who owns {} and whether this user may read it", path.display());
                StoreError::PermissionDenied { key, store, operation, reason }
            }
            _ => StoreError::Io { key, store, operation, source },
        }
    }

    pub(super) fn write_error(&self, key: &str, operation: &'static str, source: io::Error) -> StoreError {
        let place = self.root.join(key);
        let (key, store) = (key.to_owned(), description(&self.root));
        let read_only =
            |reason| StoreError::ReadOnly { key: key.clone(), store: store.clone(), operation, reason };
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::NoSpace { key, store, operation }
            }
            io::ErrorKind::PermissionDenied => {
                let reason = format!(
                    "{source}; check who owns {} and its folder and whether this user may write there",
                    place.display()
                );
                StoreError::PermissionDenied { key, store, operation, reason }
            }
            io::ErrorKind::ReadOnlyFilesystem => read_only(format!(
                "{} lies on a file system that is mounted for reading; remount it or choose another place",
                place.display()
            )),
            io::ErrorKind::IsADirectory => invalid(&key, "it is the folder of other objects"),
            io::ErrorKind::AlreadyExists if place.is_dir() => {
                invalid(&key, "it is the folder of other objects")
            }
            io::ErrorKind::AlreadyExists => StoreError::AlreadyExists { key, store },
            io::ErrorKind::NotADirectory => invalid(&key, "a part of its path is itself an object"),
            io::ErrorKind::NotFound if operation == "put" && !key.contains('/') && self.root.is_dir() => {
                read_only(MAKES_NOTHING.into())
            }
            io::ErrorKind::NotFound if self.root.is_dir() => StoreError::NotFound { key, store },
            io::ErrorKind::NotFound => {
                let source =
                    io::Error::new(source.kind(), "the folder of the store has been removed or renamed");
                StoreError::Io { key, store, operation, source }
            }
            _ => StoreError::Io { key, store, operation, source },
        }
    }

    fn begin(&self, key: &str, path: &Path, parts: &[&[u8]]) -> Result<()> {
        let fail = |error| self.write_error(key, "create", error);
        let handles = self.handles.get();
        let place = self.targets.take(key);
        let create = || match place {
            None => tree::create_new(path),
            Some(folder) => Targets::create(folder, key, path),
        };
        let file =
            self.durability.get().with_folders(&self.root, path, || handles.opening(create)).map_err(fail)?;
        let handle = handles.keep_created(key, file).map_err(fail)?;
        transfer::write_all(&handle.file, 0, parts).map_err(|error| {
            // The bytes are removed so that the caller can retry. If that fails too, the object keeps a prefix of them.
            let _ = self.remove(path);
            handles.forget(key);
            self.write_error(key, "append to", error)
        })?;
        self.start_writeback(&handle, 0, parts);
        Ok(())
    }

    fn extend(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        let (handle, found) = self.handle(key, "append to", true)?;
        if found != at {
            let (key, store) = (key.to_owned(), description(&self.root));
            return Err(StoreError::Conflict { key, store, expected: at, found });
        }
        transfer::write_all(&handle.file, at, parts).map_err(|error| {
            // As above. The object has one writer, so no bytes of other writers are lost.
            let _ = handle.file.set_len(at);
            self.write_error(key, "append to", error)
        })?;
        self.start_writeback(&handle, at, parts);
        Ok(())
    }

    /// Puts the bytes into a file on a target, then gives it the object's name.
    fn put_elsewhere(
        &self,
        key: &str,
        path: &Path,
        folder: &Path,
        parts: &[&[u8]],
        mode: PutMode,
        sync: bool,
    ) -> io::Result<Placed> {
        let durability = self.durability.get();
        let file = Targets::fresh(folder, key)?;
        let written = self.handles.get().opening(|| tree::create_new(&file)).and_then(|open| {
            transfer::write_all(&open, 0, parts)?;
            if sync { open.sync_data() } else { Ok(()) }
        });
        let written = written.and_then(|()| match sync {
            true => durability.sync_names(folder, [file.as_path()]),
            false => Ok(()),
        });
        let replace = mode == PutMode::Replace;
        let named = written
            .and_then(|()| durability.with_folders(&self.root, path, || Targets::name(&file, path, replace)));
        match named {
            Ok(()) => Ok(Placed::Yes),
            Err(error) => {
                let _ = std::fs::remove_file(&file);
                match error.kind() {
                    io::ErrorKind::AlreadyExists => Ok(Placed::NameTaken),
                    _ => Err(error),
                }
            }
        }
    }

    /// Removes a name, and the file on a target that it leads to.
    fn remove(&self, path: &Path) -> io::Result<()> {
        let linked = self.targets.linked(path);
        std::fs::remove_file(path)?;
        if let Some((file, _)) = linked {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn sync_some(&self, keys: &[&str]) -> Result<()> {
        let durability = self.durability.get();
        let mut newly_named = Vec::new();
        for &key in keys {
            let (handle, _) = self.handle(key, "sync", false)?;
            durability.sync_bytes(key, &handle.file).map_err(|error| self.read_error(key, "sync", error))?;
            if !handle.name_is_durable.load(Ordering::Acquire) {
                if let Some((file, folder)) = self.targets.linked(&self.root.join(key)) {
                    let named = durability.sync_names(folder, [file.as_path()]);
                    named.map_err(|error| self.read_error(key, "sync the folder of", error))?;
                }
                newly_named.push((self.root.join(key), handle));
            }
        }
        durability
            .sync_names(&self.root, newly_named.iter().map(|(path, _)| path.as_path()))
            .map_err(|error| self.read_error(keys.first().unwrap_or(&""), "sync the folder of", error))?;
        for (_, handle) in newly_named {
            handle.name_is_durable.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Puts an object, which gets its name only if `before` succeeds.
    pub(super) fn put_when(
        &self,
        key: &str,
        parts: &[&[u8]],
        mode: PutMode,
        sync: bool,
        before: atomic_file::Before<'_>,
    ) -> Result<()> {
        let path = self.may_write(key, "put")?;
        let fail = |error| self.write_error(key, "put", error);
        let handles = self.handles.get();
        let durability = self.durability.get();
        let linked = self.targets.linked(&path);
        let placed = match self.targets.take(key) {
            None => {
                let waiting = self.unnamed.get();
                let opening: atomic_file::Opening<'_> = &|open| handles.opening(open);
                let write = || atomic_file::write(&path, parts, mode, sync, before, opening, waiting);
                durability.with_folders(&self.root, &path, write).map_err(fail)?
            }
            Some(folder) => before()
                .and_then(|()| self.put_elsewhere(key, &path, folder, parts, mode, sync))
                .map_err(fail)?,
        };
        handles.forget(key);
        if let (Placed::Yes, Some((file, _))) = (placed, linked) {
            // The link no longer leads to the file; `sweep` removes what remains.
            let _ = std::fs::remove_file(file);
        }
        if placed == Placed::NameTaken {
            return Err(fail(io::ErrorKind::AlreadyExists.into()));
        }
        durability.bytes_renewed(key);
        if sync { durability.sync_names(&self.root, [path.as_path()]).map_err(fail) } else { Ok(()) }
    }

    fn start_writeback(&self, handle: &Handle, at: u64, parts: &[&[u8]]) {
        if !self.early_writeback.load(Ordering::Relaxed) {
            return;
        }
        let end = at.saturating_add(parts.iter().map(|part| part.len() as u64).sum());
        let from = handle.started.load(Ordering::Relaxed);
        if end.saturating_sub(from) >= early_writeback::WORTH_STARTING {
            early_writeback::start(&handle.file, from, end - from);
            handle.started.store(end, Ordering::Relaxed);
        }
    }
}

impl Store for Folder {
    fn features(&self) -> Features {
        Features {
            append: true,
            write_at: true,
            exec: false,
            sync: true,
            put_is_durable: false,
            uploads: false,
            far: None,
            targets: self.targets.count(),
        }
    }

    fn describe(&self) -> String {
        description(&self.root)
    }

    fn device(&self) -> Option<String> {
        device::identity(&self.root)
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        Some(self)
    }

    fn watch(&self, key: &str) -> Result<bool> {
        let path = self.path(key)?;
        self.watched.begin(path).map_err(|error| self.read_error(key, "watch", error))?;
        Ok(true)
    }

    fn unchanged(&self) -> Result<()> {
        let key = || self.watched.key();
        match self.watched.find() {
            Ok(Comparison::Same) => Ok(()),
            Ok(Comparison::Nothing) => Err(StoreError::Removed { key: key(), store: self.describe() }),
            Ok(Comparison::Another) => Err(StoreError::Replaced { key: key(), store: self.describe() }),
            Err(error) => Err(self.read_error(&key(), "look at", error)),
        }
    }

    fn len(&self, key: &str) -> Result<u64> {
        Ok(self.handle(key, "find the length of", false)?.1)
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let (handle, _) = self.handle(key, "read", false)?;
        self.read_part(&handle, key, offset, out)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        if let Some(bytes) = self.watched.first_read(|| self.path(key).ok()) {
            return Ok(if bytes.len() as u64 <= limit { Ok(bytes) } else { Err(bytes.len() as u64) });
        }
        let (handle, len) = self.handle(key, "read", false)?;
        let Some(fits) = usize::try_from(len).ok().filter(|_| len <= limit) else { return Ok(Err(len)) };
        let mut out = vec![0; fits];
        self.read_part(&handle, key, 0, &mut out)?;
        Ok(Ok(out))
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        let path = self.may_write(key, "append to")?;
        if at == 0 { self.begin(key, &path, parts) } else { self.extend(key, at, parts) }
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        self.may_write(key, "write to")?;
        let (handle, found) = self.handle(key, "write to", true)?;
        if len < found || !end_within(parts, len) {
            let (key, store) = (key.to_owned(), description(&self.root));
            return Err(StoreError::Conflict { key, store, expected: len, found });
        }
        let lengthened = if len > found { handle.file.set_len(len) } else { Ok(()) };
        lengthened
            .and_then(|()| {
                parts.iter().try_for_each(|(at, data)| transfer::write_all(&handle.file, *at, &[data]))
            })
            .map_err(|error| self.write_error(key, "write to", error))
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        self.put_when(key, parts, mode, sync, &|| Ok(()))
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        validate_key(key)?;
        Err(StoreError::Unsupported {
            operation: format!("upload in pieces (of '{key}')"),
            store: self.describe(),
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        validate_prefix(prefix)?;
        tree::list(&self.root, prefix).map_err(|error| self.read_error(prefix, "list", error))
    }

    fn delete(&self, key: &str) -> Result<()> {
        let path = self.may_write(key, "delete")?;
        self.handles.get().forget(key);
        // Removing a folder fails with EISDIR, or with EPERM according to POSIX. A folder is no object, so there is
        // nothing to remove.
        if path.is_dir() {
            return Ok(());
        }
        match self.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.root.is_dir() => {}
            other => other.map_err(|error| self.write_error(key, "delete", error))?,
        }
        self.durability.get().bytes_renewed(key);
        Ok(())
    }

    fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
        validate_prefix(prefix)?;
        self.may_write(&format!("{prefix}x"), "sweep")?;
        let swept = tree::sweep(&self.root, prefix, older);
        let elsewhere = swept.and_then(|n| Ok(n + self.targets.sweep(&self.root, prefix, older)?));
        elsewhere.map_err(|error| self.write_error(prefix, "sweep", error))
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        // All files of a batch stay open until their names are synced. They are few enough for any limit of open files.
        keys.chunks(handles::CAPACITY / 2).try_for_each(|keys| self.sync_some(keys))
    }

    fn exec(&self, key: &str, method: &str, _input: &[u8]) -> Result<Vec<u8>> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("exec of '{method}'"), store: self.describe() })
    }

    /// Executes every request at once in the calling thread, hints and placements included.
    fn submit(&self, request: Request) -> Pending {
        let outcome = match request {
            Request::Expect { key, ranges } => {
                let ahead = self.ahead(&key, &ranges);
                ahead.iter().for_each(Ahead::advise);
                Ok(Reply::Expected { needless: ahead.is_none() })
            }
            Request::Place { key, target } => {
                self.targets.place(&key, target);
                Ok(Reply::Placed)
            }
            other => other.execute_on(self),
        };
        Pending::completed(outcome)
    }
}

impl LocalFiles for Folder {
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (handle, _) = self.handle(key, "read", false)?;
        let mut at = offset;
        for part in out.chunks_mut(SEEN) {
            self.read_part(&handle, key, at, part)?;
            seen(part);
            at += part.len() as u64;
        }
        Ok(())
    }

    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        let (handle, _) = self.handle(key, "read", false)?;
        let mut rest = out;
        for &(offset, len) in ranges {
            let (part, behind) = rest.split_at_mut(len.min(rest.len()));
            self.read_part(&handle, key, offset, part)?;
            rest = behind;
        }
        Ok(())
    }

    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()> {
        if let [part] = parts {
            return self.read_unchanging(key, &mut |handle| self.read_part(handle, key, offset, part));
        }
        let wanted = parts.iter().map(|part| part.len()).sum();
        self.read_unchanging(key, &mut |handle| {
            let got = transfer::read_parts(handle.to_read(offset, wanted), offset, parts)
                .map_err(|e| self.read_error(key, "read", e))?;
            let wanted = wanted as u64;
            if got == wanted { Ok(()) } else { Err(self.short_read(key, offset, wanted, got)) }
        })
    }

    fn prefetch(&self, key: &str, range: Range<u64>) {
        if let Ok((handle, end)) = self.handle(key, "read ahead", false)
            && handle.lies_here()
        {
            readahead::prefetch(&handle, range.start..range.end.min(end));
        }
    }

    fn prefetch_shared(&self, key: &str, range: Range<u64>) {
        let Ok((handle, end)) = self.handle(key, "read ahead", false) else { return };
        let range = range.start..range.end.min(end);
        if handle.has_concurrent_readers(&range) {
            readahead::prefetch(&handle, range);
        }
    }

    fn maps_from(&self) -> Option<u64> {
        match self.map_policy {
            MapPolicy::Never => None,
            MapPolicy::Long => Some(mapping::LONG),
            MapPolicy::Always => Some(0),
        }
    }

    fn map(&self, key: &str, ranges: &[Range<u64>]) -> Option<Mapped> {
        if self.map_policy == MapPolicy::Never {
            return None;
        }
        let (handle, end) = self.handle(key, "read", false).ok()?;
        if self.map_policy == MapPolicy::Long
            && !(handle.lies_here() && mapping::seem_in_memory(&handle.file, ranges))
        {
            return None;
        }
        mapping::map(&handle.file, end, ranges)
    }

    fn preallocate(&self, key: &str, at: u64, end: u64) {
        // The append reports errors.
        let there = self.may_write(key, "append to").and_then(|_| self.handle(key, "append to", true));
        if let Ok((handle, _)) = there {
            preallocate::reserve(&handle.file, at, end);
        }
    }

    /// One after the other; the store has threads and does both at once.
    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        self.sync(first)?;
        self.put(key, parts, mode, true)
    }

    fn evict(&self, key: &str) -> Result<Option<bool>> {
        let (handle, len) = self.handle(key, "evict", false)?;
        Ok(forget::forget(&handle.file, len))
    }
}
