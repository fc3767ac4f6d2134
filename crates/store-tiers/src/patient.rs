//! A store that may hang, called from threads that can be abandoned.
//!
//! Why threads: nothing can end a system call that waits for a dead disk or server. A caller that must continue
//! abandons the waiting thread together with the memory passed to it, so bytes are copied. A store in memory does not
//! hang, and is called directly.
//!
//! Invariants
//! - while one request hangs, new requests are refused at once. The number of abandoned threads is therefore at most
//!   the number of concurrent calls;
//! - an abandoned request may still change the store later, so no caller relies on its effect.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drystone_store::{
    Features, ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store, StoreError, Upload,
};

use crate::registry::guard;

/// How long a caller waits for a tier to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes per second that every tier reaches. A request gets one more second for each such number of bytes.
const BYTES_A_SECOND: u64 = 16 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Threads for requests that may hang.
#[derive(Default)]
pub(crate) struct Threads {
    idle: Mutex<Vec<Sender<Job>>>,
    /// Number of requests that were abandoned and have not ended.
    hanging: Arc<AtomicUsize>,
    /// The process to which the threads belong.
    process: AtomicU32,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("hanging", &self.hanging).finish_non_exhaustive()
    }
}

impl Threads {
    /// Runs `act` on a thread and returns its result. Returns `None` if it takes longer than `most`, if a request
    /// already hangs, or if no thread can be started.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        most: Duration,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let here = drystone_store::process_id();
        if self.process.swap(here, Ordering::SeqCst) != here {
            // A forked child has none of its parent's threads.
            guard(&self.idle).clear();
            self.hanging.store(0, Ordering::SeqCst);
        }
        if self.hanging.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let (answer, answered) = mpsc::channel();
        let hanging = self.hanging.clone();
        // 0: under way; 1: ended; 2: abandoned.
        let state = Arc::new(AtomicU32::new(0));
        let ends = state.clone();
        let job: Job = Box::new(move || {
            let _ = answer.send(act());
            if ends.swap(1, Ordering::SeqCst) == 2 {
                hanging.fetch_sub(1, Ordering::SeqCst);
            }
        });
        let worker = self.hand_over(job)?;
        match answered.recv_timeout(most) {
            Ok(done) => {
                guard(&self.idle).push(worker);
                Some(done)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.hanging.fetch_add(1, Ordering::SeqCst);
                if state.swap(2, Ordering::SeqCst) == 1 {
                    self.hanging.fetch_sub(1, Ordering::SeqCst);
                }
                None
            }
        }
    }

    /// Passes a job to an idle thread, or to a new one.
    fn hand_over(&self, mut job: Job) -> Option<Sender<Job>> {
        loop {
            let Some(worker) = guard(&self.idle).pop() else { break };
            match worker.send(job) {
                Ok(()) => return Some(worker),
                Err(mpsc::SendError(back)) => job = back,
            }
        }
        let (worker, jobs) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("drystone-tier".into());
        // The thread ends with its store, or with the request that was abandoned.
        thread.spawn(move || jobs.iter().for_each(|job| job())).ok()?;
        worker.send(job).ok()?;
        Some(worker)
    }
}

/// Whether a folder is in a file system in memory, which does not hang.
#[cfg(target_os = "linux")]
pub(crate) fn is_memory(folder: &Path) -> bool {
    // TMPFS_MAGIC and RAMFS_MAGIC.
    rustix::fs::statfs(folder).is_ok_and(|found| [0x0102_1994, 0x8584_58f6].contains(&found.f_type))
}

/// Returns `false`: on this system it is unknown whether a folder is in memory.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_memory(_folder: &Path) -> bool {
    false
}

/// A store that abandons requests after a time limit.
#[derive(Debug)]
pub(crate) struct Patient {
    inner: Arc<dyn Store>,
    threads: Arc<Threads>,
    patience: Duration,
}

impl Patient {
    pub(crate) fn new(inner: Arc<dyn Store>, threads: Arc<Threads>, patience: Duration) -> Self {
        Patient { inner, threads, patience }
    }

    fn run(&self, key: &str, operation: &'static str, bytes: u64, request: Request) -> Result<Reply> {
        let inner = self.inner.clone();
        let most = self.patience + Duration::from_secs(bytes / BYTES_A_SECOND);
        let done = self.threads.ask(most, move || request.execute_on(inner.as_ref()));
        done.unwrap_or_else(|| Err(self.hangs(key, operation)))
    }

    fn hangs(&self, key: &str, operation: &'static str) -> StoreError {
        StoreError::Deadline {
            key: key.to_owned(),
            store: self.inner.describe(),
            operation,
            reason: format!("it does not answer within {:?}; is its device or server alive?", self.patience),
        }
    }

    fn strange(&self, operation: &str) -> StoreError {
        StoreError::Unsupported { operation: operation.to_owned(), store: self.inner.describe() }
    }
}

impl Store for Patient {
    drystone_store::forward!(inner => describe, device);

    fn features(&self) -> Features {
        Features { write_at: false, uploads: false, ..self.inner.features() }
    }

    /// Returns `None`, because a memory map or a direct read could hang.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn watch(&self, _key: &str) -> Result<bool> {
        Ok(false)
    }

    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self, key: &str) -> Result<u64> {
        match self.run(key, "find", 0, Request::Len { key: key.to_owned() })? {
            Reply::Len { len } => Ok(len),
            _ => Err(self.strange("len")),
        }
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let (ranges, buffers) = (vec![(offset, out.len())], Vec::new());
        let request = Request::ReadMany { key: key.to_owned(), ranges, buffers };
        match self.run(key, "read", out.len() as u64, request)? {
            Reply::Read { buffers } => match buffers.first().filter(|bytes| bytes.len() == out.len()) {
                Some(bytes) => {
                    out.copy_from_slice(bytes);
                    Ok(())
                }
                None => Err(self.strange("read")),
            },
            _ => Err(self.strange("read")),
        }
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        // The time limit depends on the size of the object, not on the caller's limit.
        let bytes = self.len(key)?.min(limit);
        match self.run(key, "read", bytes, Request::ReadWhole { key: key.to_owned(), limit })? {
            Reply::Whole { bytes } => Ok(bytes),
            _ => Err(self.strange("read")),
        }
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        let data = parts.concat();
        let bytes = data.len() as u64;
        self.run(key, "append to", bytes, Request::Append { key: key.to_owned(), at, data }).map(drop)
    }

    fn write_at(&self, _key: &str, _parts: &[(u64, &[u8])], _len: u64) -> Result<()> {
        Err(self.strange("write_at"))
    }

    fn upload(&self, _key: &str) -> Result<Box<dyn Upload>> {
        Err(self.strange("upload in pieces"))
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        let data = parts.concat();
        let bytes = data.len() as u64;
        self.run(key, "put", bytes, Request::Put { key: key.to_owned(), data, mode, sync }).map(drop)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        match self.run(prefix, "list", 0, Request::List { prefix: prefix.to_owned() })? {
            Reply::Listed { entries } => Ok(entries),
            _ => Err(self.strange("list")),
        }
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.run(key, "delete", 0, Request::Delete { key: key.to_owned() }).map(drop)
    }

    fn sweep(&self, _prefix: &str, _older: Duration) -> Result<u64> {
        Ok(0)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        let owned = keys.iter().map(|key| (*key).to_owned()).collect();
        self.run(keys.first().unwrap_or(&""), "sync", 0, Request::Sync { keys: owned }).map(drop)
    }

    fn exec(&self, _key: &str, method: &str, _input: &[u8]) -> Result<Vec<u8>> {
        Err(self.strange(method))
    }

    fn submit(&self, request: Request) -> Pending {
        Pending::completed(request.execute_on(self))
    }
}
