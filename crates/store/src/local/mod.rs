//! Objects as files below a folder, on any POSIX file system that processes of one or many nodes share.
//!
//! Reads and writes are positioned, on descriptors that all threads share; submitted requests run on a small
//! pool of threads (docs/decisions/010-local-io.md says why). Files whose names are not keys are ignored and
//! never listed.
//!
//! Invariants
//! - a transfer ends when every byte is transferred; short transfers and interruptions continue where they stopped;
//! - a put object gets its name only when its bytes are complete;
//! - folders are created when an object needs them, but only `create` creates the root, so that a container that was
//!   removed is not silently created anew.

mod ahead;
mod atomic_file;
mod concurrent_readers;
mod device;
mod durability;
mod early_writeback;
mod folder;
mod forget;
mod handles;
mod mapping;
mod page;
mod pool;
mod preallocate;
mod readahead;
mod staging;
mod targets;
mod transfer;
mod tree;
mod unnamed_files;
mod watched;
mod whole_file;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::{LocalFiles, Pending, PerProcess, PutMode, Reply, Request, Result, Store};
use ahead::Ahead;
use folder::{Folder, folder_error};
pub use mapping::MapPolicy;
use pool::Pool;
pub use preallocate::preallocate;
pub use staging::{Staged, Staging};
use targets::Targets;
pub use whole_file::WholeFile;

/// A store in a folder of the local (or a mounted) file system.
///
/// It may be used in a process forked from the one that opened it; requests under way stay with the parent. Dropping it
/// finishes all submitted requests.
#[derive(Debug)]
pub struct LocalStore {
    // Declared before the folder, so that its threads are joined first.
    pool: PerProcess<Pool>,
    folder: Arc<Folder>,
}

impl LocalStore {
    /// Opens the folder at `path` for writing; creates it and its parents if they do not exist.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let root = absolute(path.as_ref())?;
        std::fs::create_dir_all(&root)
            .map_err(|source| folder_error(&root, "create the folder of", source))?;
        Self::open(root, false)
    }

    /// Opens the existing folder at `path`. With `read_only`, every change fails before it reaches the file system.
    pub fn open(path: impl AsRef<Path>, read_only: bool) -> Result<Self> {
        let root = absolute(path.as_ref())?;
        let folder = Folder::open(root, read_only)?;
        Ok(LocalStore { pool: PerProcess::new(), folder: Arc::new(folder) })
    }

    /// Whether the kernel is asked to start writing long appends to the device at once, instead of when it chooses or a
    /// sync demands it. Off by default. It pays where appends are followed by a sync.
    #[must_use]
    pub fn with_early_writeback(self, on: bool) -> Self {
        self.folder.early_writeback.store(on, Ordering::Relaxed);
        self
    }

    /// Sets the policy for [`map`](LocalFiles::map). Call it before the store is used.
    #[must_use]
    pub fn with_map_policy(mut self, policy: MapPolicy) -> Self {
        if let Some(folder) = Arc::get_mut(&mut self.folder) {
            folder.map_policy = policy;
        }
        self
    }

    /// Adds folders, on other disks or in other pools, among which [`Request::Place`] chooses where objects are
    /// created; their names are then links. Older objects may lie in `former` folders. Neither are created here: a
    /// missing one is a disk that is not mounted. Call it before the store is used.
    pub fn with_targets(mut self, folders: &[PathBuf], former: &[PathBuf]) -> Result<Self> {
        let all = |paths: &[PathBuf]| paths.iter().map(|path| absolute(path)).collect::<Result<Vec<_>>>();
        let (folders, former) = (all(folders)?, all(former)?);
        if let Some(folder) = Arc::get_mut(&mut self.folder) {
            folder.targets = Targets::new(folders, former);
        }
        Ok(self)
    }

    /// Creates the folder of a new target, and those above it.
    pub fn create_target(path: &Path) -> Result<()> {
        std::fs::create_dir_all(path)
            .map_err(|source| folder_error(path, "create the storage target", source))
    }

    /// Lets a thread create spare files for a caller that puts one object after another in this folder.
    fn make_ahead(&self, key: &str) {
        let Some(path) = self.folder.path(key).ok() else { return };
        if path.parent().is_some_and(|parent| self.folder.unnamed.get().was_put(parent)) {
            let folder = Arc::clone(&self.folder);
            self.pool.get().aside(move || folder.unnamed.get().make());
        }
    }

    /// The root folder, absolute.
    pub fn path(&self) -> &Path {
        &self.folder.root
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    // A later change of the working directory must not move the store.
    std::path::absolute(path).map_err(|source| folder_error(path, "find", source))
}

impl Store for LocalStore {
    crate::forward! {
        folder =>
        features, describe, device, watch, unchanged, len, read, read_whole, append, write_at,
        upload, list, delete, sweep, sync, exec
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        Some(self)
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        self.folder.put(key, parts, mode, sync)?;
        if mode == PutMode::IfAbsent && !sync {
            self.make_ahead(key);
        }
        Ok(())
    }

    fn submit(&self, request: Request) -> Pending {
        let mut hint = None;
        if let Request::Expect { key, ranges } = &request {
            // Executed at once in the calling thread, since the reads follow.
            hint = self.folder.ahead(key, ranges);
            if hint.as_mut().is_none_or(Ahead::advise_first) {
                return Pending::completed(Ok(Reply::Expected { needless: hint.is_none() }));
            }
        }
        let folder = Arc::clone(&self.folder);
        self.pool.get().submit(
            request,
            Arc::new(move |request: Request| -> Result<Reply> {
                if let Request::Expect { .. } = &request {
                    hint.iter().for_each(Ahead::advise);
                    return Ok(Reply::Expected { needless: false });
                }
                folder.submit(request).wait()
            }),
        )
    }
}

impl LocalFiles for LocalStore {
    crate::forward! {
        folder =>
        read_seen, read_ranges, read_parts, prefetch, prefetch_shared, maps_from, map, preallocate,
        evict
    }

    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        if first.is_empty() {
            return self.put(key, parts, mode, true);
        }
        // The device gets both syncs at once.
        let keys = first.iter().map(|key| (*key).to_owned()).collect();
        let synced = RefCell::new(Some(self.submit(Request::Sync { keys })));
        let failed = RefCell::new(None);
        let before = || match synced.take().map(Pending::wait) {
            Some(Err(error)) => {
                failed.replace(Some(error));
                Err(io::Error::other("the objects that it names could not be synced"))
            }
            _ if failed.borrow().is_some() => {
                Err(io::Error::other("the objects that it names could not be synced"))
            }
            _ => Ok(()),
        };
        let put = self.folder.put_when(key, parts, mode, true, &before);
        match failed.take() {
            Some(error) => Err(error),
            None => put,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{StoreError, StoreExt};

    #[test]
    fn few_files_stay_open_however_many_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::create(dir.path()).unwrap();
        for i in 0..handles::CAPACITY + 40 {
            store.append(&format!("f{i}"), 0, &[&i.to_le_bytes()]).unwrap();
        }
        assert_eq!(store.folder.handles.get().open_count(), handles::CAPACITY);
        let mut out = [0; 8];
        for i in 0..handles::CAPACITY + 40 {
            store.read(&format!("f{i}"), 0, &mut out).unwrap();
            assert_eq!(usize::from_le_bytes(out), i);
        }
    }

    #[test]
    fn a_sweep_clears_what_killed_puts_left_below_its_prefix_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::create(dir.path()).unwrap();
        for key in ["zarr/a/c/0", "zarr/b", "log/w"] {
            store.put(key, &[b"1"], PutMode::IfAbsent, false).unwrap();
        }
        for left in ["zarr/~1-0-a", "zarr/a/c/~1-1-a", "log/~1-2-a", "zarr/a/mine.txt~"] {
            std::fs::write(dir.path().join(left), "half").unwrap();
        }
        for folder in ["zarr/old/c/0", "log/empty"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        assert_eq!(store.sweep("zarr/", Duration::from_secs(60)).unwrap(), 0, "a put may be under way");
        assert_eq!(store.sweep("zarr/", Duration::ZERO).unwrap(), 2 + 3);
        assert!(!dir.path().join("zarr/old").exists() && dir.path().join("log/empty").exists());
        assert!(dir.path().join("log/~1-2-a").exists() && dir.path().join("zarr/a/mine.txt~").exists());
        assert_eq!(store.list("").unwrap().len(), 3);
        let reader = LocalStore::open(dir.path(), true).unwrap();
        assert!(matches!(reader.sweep("log/", Duration::ZERO), Err(StoreError::ReadOnly { .. })));
    }

    #[test]
    fn evicted_bytes_are_not_in_memory_until_they_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::create(dir.path()).unwrap();
        store.append("k", 0, &[&[7; 1 << 20]]).unwrap();
        store.sync(&["k"]).unwrap();
        let forget = || store.evict("k").unwrap();
        let in_memory = rustix::fs::statfs(dir.path()).unwrap().f_type == 0x0102_1994; // tmpfs has no medium
        // The kernel may refuse, for instance if it keeps a page that is in use at that moment.
        let forgotten = || {
            std::thread::sleep(Duration::from_millis(5));
            forget() != Some(false)
        };
        assert!(in_memory || (0..20).any(|_| forgotten()), "a synced file can be forgotten");
        assert_eq!(store.read_vec("k", 9, 3).unwrap(), [7; 3]);
        let expect = |key: &str| {
            let request = Request::Expect { key: key.into(), ranges: vec![(9, 3)] };
            store.submit(request).wait().unwrap()
        };
        assert_eq!(expect("absent"), Reply::Expected { needless: true });
        if store.folder.ahead("k", &[(9, 3)]).is_none() {
            assert_eq!(expect("k"), Reply::Expected { needless: true }, "it was read");
        }
        assert!(store.evict("absent").is_err());
    }

    /// A reader of separate pieces prefetches the whole next range if, and only if, another reader read what this one
    /// skipped.
    #[test]
    fn a_range_is_prefetched_if_others_read_the_skipped_bytes() {
        const PIECE: u64 = 100 << 10;
        for others in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let store = LocalStore::create(dir.path()).unwrap();
            store.put("k", &[&vec![1; 8 << 20]], PutMode::Replace, true).unwrap();
            let Ok(Some(true)) = store.evict("k") else { return };
            let (handle, _) = store.folder.handle("k", "read", false).unwrap();
            if !handle.lies_here() {
                return;
            }
            let ranges = (0..5).map(|n| (n * 4 * PIECE, PIECE)).collect();
            store.submit(Request::Expect { key: "k".into(), ranges }).wait().unwrap();
            // By descriptors for random reads, so that nothing is read ahead.
            let other = std::fs::File::open(dir.path().join("k")).unwrap();
            rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::Random).unwrap();
            if others {
                std::os::unix::fs::FileExt::read_exact_at(&other, &mut vec![0; 2 << 20], 0).unwrap();
            }
            store.prefetch_shared("k", 4 << 20..8 << 20);
            let came = |turn: u64| {
                std::thread::sleep(Duration::from_millis(20 << turn));
                let mut places = ((4 << 20) + turn * 4096..8 << 20).step_by(256 << 10);
                places.all(|at| forget::is_in_memory(&other, at) == Some(true))
            };
            let rounds = if others { 10 } else { 3 };
            assert_eq!((0..rounds).any(came), others);
        }
    }

    /// A reader that reads parts of an object a second time uses the open file again, as long as that has the wanted
    /// bytes.
    #[test]
    fn parts_of_an_object_that_never_changes_are_read_without_looking_at_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        std::fs::write(&path, "first").unwrap();
        let parts = |store: &LocalStore, len: usize| {
            let mut out = vec![0; len];
            let (a, b) = out.split_at_mut(2);
            LocalFiles::read_parts(store, "k", 0, &mut [a, b])?;
            let mut alone = vec![0; len];
            LocalFiles::read_parts(store, "k", 0, &mut [&mut alone])?;
            assert_eq!(alone, out, "one part as well as two");
            Ok(String::from_utf8(out).unwrap())
        };
        let (reader, writer) =
            (LocalStore::open(dir.path(), true).unwrap(), LocalStore::create(dir.path()).unwrap());
        assert_eq!(
            (parts(&reader, 5).unwrap(), parts(&writer, 5).unwrap()),
            ("first".into(), "first".into())
        );
        let replace = |text: &str| {
            std::fs::write(dir.path().join("new"), text).unwrap();
            std::fs::rename(dir.path().join("new"), &path).unwrap();
        };
        replace("second");
        assert_eq!(
            (parts(&reader, 5).unwrap(), parts(&writer, 5).unwrap()),
            ("first".into(), "secon".into())
        );
        assert_eq!(parts(&reader, 6).unwrap(), "second", "what is not in the file is looked for by its name");
        replace("third");
        assert_eq!(reader.read_vec("k", 0, 5).unwrap(), b"third", "other reads look every time");
        assert_eq!(parts(&reader, 5).unwrap(), "third");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(parts(&reader, 5).unwrap(), "third");
        assert!(matches!(parts(&reader, 6), Err(StoreError::NotFound { .. })));
    }

    #[test]
    fn a_device_is_the_same_for_all_folders_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let one = LocalStore::create(dir.path().join("a")).unwrap().device();
        let other = LocalStore::create(dir.path().join("b/c")).unwrap().device();
        assert!(one.as_ref().is_some_and(|text| text.len() > 3), "{one:?}");
        assert_eq!(one, other);
    }

    #[test]
    fn errors_of_the_system_become_the_kind_that_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::create(dir.path()).unwrap();
        let told = |kind: io::ErrorKind| store.folder.write_error("log/a", "append to", kind.into());
        assert!(matches!(told(io::ErrorKind::StorageFull), StoreError::NoSpace { .. }));
        assert!(matches!(told(io::ErrorKind::QuotaExceeded), StoreError::NoSpace { .. }));
        let refused = [told(io::ErrorKind::PermissionDenied), told(io::ErrorKind::ReadOnlyFilesystem)];
        assert!(matches!(refused, [StoreError::PermissionDenied { .. }, StoreError::ReadOnly { .. }]));
        let path = dir.path().join("log/a");
        for error in refused {
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        let unread = store.folder.read_error("log/a", "read", io::Error::from_raw_os_error(1));
        assert!(matches!(unread, StoreError::PermissionDenied { .. }), "EPERM: {unread:?}");
        let shut = folder_error(dir.path(), "open", io::Error::from_raw_os_error(13));
        assert!(matches!(shut, StoreError::PermissionDenied { .. }), "EACCES: {shut:?}");
    }

    #[test]
    fn a_file_system_without_room_for_names_is_no_missing_object() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::create(dir.path()).unwrap();
        let told = |key| store.folder.write_error(key, "put", io::ErrorKind::NotFound.into());
        assert!(matches!(told("drystone.json"), StoreError::ReadOnly { .. }));
        assert!(matches!(told("log/a"), StoreError::NotFound { .. }));
        let told = |operation| folder_error(dir.path(), operation, io::ErrorKind::NotFound.into());
        assert!(matches!(told("create the folder of"), StoreError::ReadOnly { .. }));
        assert!(matches!(told("open"), StoreError::NotFound { .. }));
    }
}
