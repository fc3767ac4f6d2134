//! The store that the engine sees.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use drystone_runtime::block_on;
use drystone_store::{
    Far, Features, ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store, StoreError,
    Upload, process_id, validate_key, validate_prefix,
};
use object_store::ObjectStoreExt;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use tokio::sync::mpsc;

use crate::attempt::{Attempts, Place, What, attempt};
use crate::options::Resolved;
use crate::process::Local;
use crate::provider::Client;
use crate::read::Sink;
use crate::rising::{Rising, Shared};
use crate::wire::Notes;
use crate::{Address, InvalidAddress, Options, Scheme, create, read, stale, upload};

/// A container's folder in a bucket, or behind a web address.
///
/// Clones share everything. All stores of a process share the threads for requests; stores of one bucket with the same
/// options also share connections and limits.
#[derive(Clone)]
pub struct FarStore {
    inner: Arc<Inner>,
}

struct Inner {
    address: Address,
    resolved: Resolved,
    described: String,
    // The client of the process that opened the store. A child process neither uses nor drops it.
    process: u32,
    client: Option<Arc<Client>>,
}

impl Inner {
    /// The usual time until a reply to this process begins.
    fn seen_latency(&self) -> Option<Duration> {
        let client = self.client.as_ref().filter(|_| self.process == process_id())?;
        client.hedge.lock().unwrap_or_else(PoisonError::into_inner).usual()
    }

    /// How long a removal may still be executed late: up to the deadline after its last attempt without an answer.
    fn unsettled(&self) -> Option<Duration> {
        let client = self.client.as_ref().filter(|_| self.process == process_id())?;
        let last = *client.doubtful_removal.lock().unwrap_or_else(PoisonError::into_inner);
        client.deadline.checked_sub(last?.elapsed()).filter(|left| !left.is_zero())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.process != process_id() {
            std::mem::forget(self.client.take());
        }
    }
}

impl FarStore {
    /// Makes a client. No request is sent yet.
    pub fn open(url: &str, options: &Options) -> std::result::Result<FarStore, InvalidAddress> {
        let address = Address::parse(url)?;
        let resolved = options.resolve(address.scheme())?;
        let client = Local::get()?.client(&resolved, address.bucket())?;
        let described = match resolved.endpoint() {
            Some(endpoint) => format!("{address} at {}", endpoint.trim_end_matches('/')),
            None => address.to_string(),
        };
        let inner = Inner { address, resolved, described, process: process_id(), client: Some(client) };
        Ok(FarStore { inner: Arc::new(inner) })
    }

    /// The address of the container.
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// Runs a task on the threads of this process and waits for it.
    fn run<T: Send + 'static, F>(&self, task: impl FnOnce(Asking) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (local, asking) = self.asking()?;
        let task = local.handle().spawn(task(asking));
        block_on(task).unwrap_or_else(|_| Err(self.closed()))
    }

    fn asking(&self) -> Result<(Local, Asking)> {
        let failed = |error: InvalidAddress| StoreError::Io {
            key: String::new(),
            store: self.inner.described.clone(),
            operation: "reach",
            source: std::io::Error::other(error),
        };
        let local = Local::get().map_err(failed)?;
        let client = match &self.inner.client {
            Some(client) if self.inner.process == process_id() => Arc::clone(client),
            _ => local.client(&self.inner.resolved, self.inner.address.bucket()).map_err(failed)?,
        };
        Ok((local, Asking { client, store: self.clone() }))
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed {
            store: self.inner.described.clone(),
            reason: "the threads that do its requests have ended; whether it was done is unknown",
        }
    }

    /// The object's name in the bucket.
    fn path(&self, key: &str) -> Result<Path> {
        validate_key(key)?;
        let prefix = self.inner.address.prefix();
        let whole = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}/{key}") };
        Path::parse(whole).map_err(|_| StoreError::InvalidKey {
            key: key.to_owned(),
            reason: "it has no valid name in an object store",
        })
    }

    fn refuse_writes(&self, key: &str, operation: &'static str) -> Result<()> {
        if self.inner.address.scheme() != Scheme::Http {
            return Ok(());
        }
        Err(StoreError::ReadOnly {
            key: key.to_owned(),
            store: self.inner.described.clone(),
            operation,
            reason: "a web server is read only; write through s3://, gs:// or az://".into(),
        })
    }

    fn unsupported<T>(&self, operation: impl Into<String>) -> Result<T> {
        Err(StoreError::Unsupported { operation: operation.into(), store: self.inner.described.clone() })
    }
}

impl std::fmt::Debug for FarStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FarStore({})", self.inner.described)
    }
}

/// The arguments that every task needs.
struct Asking {
    client: Arc<Client>,
    store: FarStore,
}

impl Asking {
    fn place<'a>(&'a self, key: &'a str, operation: &'static str) -> Place<'a> {
        Place { key, store: &self.store.inner.described, operation }
    }

    async fn len(&self, key: &str) -> Result<u64> {
        let path = self.store.path(key)?;
        Ok(read::head(&self.client, &path, &self.place(key, "ask for the length of")).await?.meta.size)
    }

    async fn whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let path = self.store.path(key)?;
        read::whole(&self.client, &path, &self.place(key, "read"), limit).await
    }

    async fn range(&self, key: &str, offset: u64, len: usize, sink: &Sink) -> Result<()> {
        let path = self.store.path(key)?;
        if len == 0 {
            return self.len(key).await.map(drop);
        }
        if offset.checked_add(len as u64).is_none() {
            let there = self.len(key).await?;
            return Err(StoreError::ShortRead {
                key: key.to_owned(),
                store: self.store.inner.described.clone(),
                offset,
                wanted: len as u64,
                got: there.saturating_sub(offset),
            });
        }
        read::range(&self.client, &path, &self.place(key, "read"), offset, len, sink).await
    }

    /// Reads each range into its buffer.
    async fn ranges(
        &self,
        key: &str,
        ranges: &[(u64, usize)],
        buffers: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        if ranges.is_empty() {
            self.len(key).await?;
        }
        let mut spare = buffers.into_iter();
        let reads = ranges.iter().map(|&(offset, len)| {
            let sink = Sink::buffer(spare.next().unwrap_or_default(), Some(len));
            async move {
                self.range(key, offset, len, &sink).await?;
                let mut buffer = sink.into_buffer();
                buffer.truncate(len);
                Ok(buffer)
            }
        });
        let mut filled: Vec<Vec<u8>> = futures_util::future::try_join_all(reads.collect::<Vec<_>>()).await?;
        filled.extend(spare.map(|mut buffer| {
            buffer.clear();
            buffer
        }));
        Ok(filled)
    }

    async fn put(&self, key: &str, data: Bytes, mode: PutMode) -> Result<()> {
        let path = self.store.path(key)?;
        self.store.refuse_writes(key, "put")?;
        let operation = if mode == PutMode::IfAbsent { "create" } else { "put" };
        let place = self.place(key, operation);
        if upload::in_parts(&self.client, data.len(), mode) {
            upload::put(&self.client, &path, &place, data, mode).await
        } else {
            create::put(&self.client, &path, &place, &[data], mode).await
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        validate_prefix(prefix)?;
        let place = self.place(prefix, "list");
        let Some(lists) = self.client.lists() else {
            return self.store.unsupported(format!(
                "listing (of '{prefix}'): a web server is asked for files by their names"
            ));
        };
        let root = self.store.inner.address.prefix();
        let whole = if root.is_empty() { prefix.to_owned() } else { format!("{root}/{prefix}") };
        let mut entries = Vec::new();
        let mut token = None;
        loop {
            let mut attempts = Attempts::new(&self.client);
            let page = loop {
                let options =
                    PaginatedListOptions { page_token: token.clone(), ..PaginatedListOptions::default() };
                let request = lists.list_paginated(Some(&whole), options);
                let (turn, outcome) = attempt(&attempts, attempts.limit(0), Notes::default(), request).await;
                drop(turn);
                match outcome {
                    Ok(page) => break page,
                    Err(failure) if attempts.again(&failure).await => {}
                    Err(failure) => return Err(attempts.error(&failure, &place)),
                }
            };
            for object in page.result.objects {
                let name = object.location.as_ref();
                let key = if root.is_empty() {
                    Some(name)
                } else {
                    name.strip_prefix(root).and_then(|name| name.strip_prefix('/'))
                };
                // Other users' objects below the same prefix may have any name; they are ignored.
                if let Some(key) = key.filter(|key| validate_key(key).is_ok() && key.starts_with(prefix)) {
                    entries.push(ListEntry { key: key.to_owned(), len: object.size });
                }
            }
            token = page.page_token;
            if token.is_none() {
                break;
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Ok(entries)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let path = self.store.path(key)?;
        self.store.refuse_writes(key, "delete")?;
        let place = self.place(key, "delete");
        let mut attempts = Attempts::new(&self.client);
        loop {
            let request = self.client.objects().delete(&path);
            let (turn, outcome) = attempt(&attempts, attempts.limit(0), Notes::default(), request).await;
            drop(turn);
            match outcome {
                Ok(()) => return Ok(()),
                // If the object is missing it is deleted, perhaps by an attempt whose reply was lost.
                Err(failure) if failure.what == What::NotFound => return Ok(()),
                Err(failure) => {
                    if failure.what == What::Again && failure.answer.status == 0 {
                        let mut last =
                            self.client.doubtful_removal.lock().unwrap_or_else(PoisonError::into_inner);
                        *last = Some(Instant::now());
                    }
                    if !attempts.again(&failure).await {
                        return Err(attempts.error(&failure, &place));
                    }
                }
            }
        }
    }

    async fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
        validate_prefix(prefix)?;
        let root = self.store.inner.address.prefix();
        let whole = if root.is_empty() { prefix.to_owned() } else { format!("{root}/{prefix}") };
        stale::abort(&self.client, &whole, &self.place(prefix, "sweep"), older).await
    }

    async fn execute(&self, request: Request) -> Result<Reply> {
        match request {
            Request::ReadMany { key, ranges, buffers } => {
                validate_key(&key)?;
                Ok(Reply::Read { buffers: self.ranges(&key, &ranges, buffers).await? })
            }
            Request::Expect { .. } => Ok(Reply::Expected { needless: true }),
            Request::Place { .. } => Ok(Reply::Placed),
            Request::Len { key } => Ok(Reply::Len { len: self.len(&key).await? }),
            Request::ReadWhole { key, limit } => Ok(Reply::Whole { bytes: self.whole(&key, limit).await? }),
            Request::List { prefix } => Ok(Reply::Listed { entries: self.list(&prefix).await? }),
            Request::Delete { key } => self.delete(&key).await.map(|()| Reply::Deleted),
            Request::Append { key, .. } => {
                validate_key(&key)?;
                self.store.unsupported(format!("append (to '{key}')"))
            }
            Request::Put { key, data, mode, .. } => {
                let data = Bytes::from(data);
                self.put(&key, data.clone(), mode).await?;
                // The buffer is returned without a copy, unless an attempt that was given up still holds it.
                Ok(Reply::Put { data: data.into() })
            }
            Request::Exec { key, method, .. } => {
                validate_key(&key)?;
                self.store.unsupported(format!("exec of {method:?} (on '{key}')"))
            }
            Request::Sync { keys } => {
                keys.iter().try_for_each(|key| validate_key(key))?;
                Ok(Reply::Sync { keys })
            }
        }
    }
}

impl Store for FarStore {
    fn features(&self) -> Features {
        Features {
            append: false,
            write_at: false,
            exec: false,
            sync: true,
            put_is_durable: true,
            uploads: self.inner.address.scheme() != Scheme::Http,
            far: Some(Far {
                latency: Duration::from_millis(30),
                requests: u32::try_from(self.inner.resolved.max_requests).unwrap_or(u32::MAX),
                seen: self.inner.seen_latency(),
                unsettled: self.inner.unsettled(),
            }),
            targets: 0,
        }
    }

    fn describe(&self) -> String {
        self.inner.described.clone()
    }

    fn device(&self) -> Option<String> {
        let endpoint = self.inner.resolved.endpoint().unwrap_or_default();
        Some(format!("{:?} {endpoint} {}", self.inner.address.scheme(), self.inner.address.bucket()))
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    /// False: a check takes a round trip, so the engine compares the identity where it matters.
    fn watch(&self, _key: &str) -> Result<bool> {
        Ok(false)
    }

    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self, key: &str) -> Result<u64> {
        let key = key.to_owned();
        self.run(|asking| async move { asking.len(&key).await })
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let (local, asking) = self.asking()?;
        let (sender, mut receiver) = mpsc::channel(64);
        let (key, len) = (key.to_owned(), out.len());
        let sink = Sink::Thread(sender);
        let task = local.handle().spawn(async move { asking.range(&key, offset, len, &sink).await });
        // This thread copies the pieces, so that no other thread accesses the caller's memory. The channel ends with
        // the task.
        while let Some((at, piece)) = block_on(receiver.recv()) {
            if let Some(place) = out.get_mut(at..at + piece.len()) {
                place.copy_from_slice(&piece);
            }
        }
        block_on(task).unwrap_or_else(|_| Err(self.closed()))
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let key = key.to_owned();
        self.run(|asking| async move { asking.whole(&key, limit).await })
    }

    fn append(&self, key: &str, _at: u64, _parts: &[&[u8]]) -> Result<()> {
        validate_key(key)?;
        self.unsupported(format!("append (to '{key}')"))
    }

    fn write_at(&self, key: &str, _parts: &[(u64, &[u8])], _len: u64) -> Result<()> {
        validate_key(key)?;
        self.unsupported(format!("write inside of '{key}'"))
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, _sync: bool) -> Result<()> {
        let (key, data) = (key.to_owned(), Bytes::from(parts.concat()));
        self.run(|asking| async move { asking.put(&key, data, mode).await })
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        let path = self.path(key)?;
        self.refuse_writes(key, "upload")?;
        let (local, asking) = self.asking()?;
        let shared = Shared::new(asking.client, self.inner.described.clone(), key.to_owned(), path);
        Ok(Box::new(Rising::new(local, shared)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        let prefix = prefix.to_owned();
        self.run(|asking| async move { asking.list(&prefix).await })
    }

    fn delete(&self, key: &str) -> Result<()> {
        let key = key.to_owned();
        self.run(|asking| async move { asking.delete(&key).await })
    }

    fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
        let prefix = prefix.to_owned();
        self.run(move |asking| async move { asking.sweep(&prefix, older).await })
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        keys.iter().try_for_each(|key| validate_key(key))
    }

    fn exec(&self, key: &str, method: &str, _input: &[u8]) -> Result<Vec<u8>> {
        validate_key(key)?;
        self.unsupported(format!("exec of {method:?} (on '{key}')"))
    }

    fn submit(&self, request: Request) -> Pending {
        let (local, asking) = match self.asking() {
            Ok(found) => found,
            Err(error) => return Pending::completed(Err(error)),
        };
        // Names in the bucket are used, since stores of one bucket share the client. The client is this process's own,
        // and so is its lock.
        let prefix = self.inner.address.prefix();
        let names: Vec<String> = request.ordered_keys().iter().map(|key| format!("{prefix}/{key}")).collect();
        let mut place = asking.client.order.place(names);
        let (completer, pending) = Pending::waiting();
        local.handle().spawn(async move {
            place.reached().await;
            let outcome = asking.execute(request).await;
            drop(place);
            completer.complete(outcome);
        });
        pending
    }
}
