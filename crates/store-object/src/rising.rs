//! An object that is uploaded in pieces while its writer makes them. The upload begins once there is more than one
//! request should carry.
//!
//! Invariants
//! - until then the pieces are held, and one request puts all of them at the end;
//! - each piece is put by a task of its own. The first task that runs begins the upload, and the others wait for that;
//! - a forked child neither completes nor aborts an upload that its parent has begun.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use drystone_store::{Completer, HELD, Pending, PutMode, Reply, Result, StoreError, Upload, process_id};
use object_store::multipart::PartId;
use object_store::path::Path;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use crate::attempt::Place;
use crate::create::{self, Proof};
use crate::process::Local;
use crate::provider::{Client, Provider};
use crate::random::write_id;
use crate::upload::{MOST_PARTS, Object};

/// The state that the tasks of one upload share.
pub(crate) struct Shared {
    pub(crate) client: Arc<Client>,
    pub(crate) described: String,
    pub(crate) key: String,
    pub(crate) path: Path,
    id: String,
    /// The id of the upload at the server.
    upload: OnceCell<String>,
    has_failed: AtomicBool,
    parts: Mutex<Vec<Option<PartId>>>,
}

impl Shared {
    pub(crate) fn new(client: Arc<Client>, described: String, key: String, path: Path) -> Self {
        let (upload, parts) = (OnceCell::new(), Mutex::default());
        Shared {
            client,
            described,
            key,
            path,
            id: write_id(),
            upload,
            has_failed: AtomicBool::new(false),
            parts,
        }
    }

    fn object(&self) -> Object<'_> {
        let place = Place { key: &self.key, store: &self.described, operation: "upload" };
        Object { client: &self.client, path: &self.path, place, id: &self.id }
    }

    fn ended(&self) -> StoreError {
        StoreError::Closed { store: self.described.clone(), reason: "an earlier piece of the upload failed" }
    }

    async fn put(&self, number: usize, piece: &Bytes) -> Result<()> {
        let object = self.object();
        if self.has_failed.load(Ordering::Relaxed) {
            return Err(self.ended());
        }
        let begin = || async {
            if self.has_failed.load(Ordering::Relaxed) { Err(self.ended()) } else { object.begin().await }
        };
        let begun = self.upload.get_or_try_init(begin).await.inspect_err(|_| self.fail())?;
        let part = object.part(begun, number, piece).await.inspect_err(|_| self.fail())?;
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let len = parts.len().max(number + 1);
        parts.resize_with(len, || None);
        parts[number] = Some(part);
        Ok(())
    }

    fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    async fn complete(&self, count: usize, len: u64) -> Result<()> {
        let parts = std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        let parts: Vec<PartId> = parts.into_iter().flatten().collect();
        let begun =
            self.upload.get().filter(|_| parts.len() == count && !self.has_failed.load(Ordering::Relaxed));
        let Some(begun) = begun else { return Err(self.ended()) };
        let mode = match self.client.provider {
            Provider::S3(_) => PutMode::IfAbsent,
            _ => PutMode::Replace,
        };
        self.object().complete(begun, parts, mode, Proof::Length(len)).await
    }

    async fn abort(&self) {
        if let Some(begun) = self.upload.get() {
            self.object().abort(begun).await;
        }
    }
}

/// An upload of this process.
pub(crate) struct Rising {
    local: Local,
    process: u32,
    shared: Arc<Shared>,
    held: Vec<(Bytes, Completer)>,
    tasks: Vec<JoinHandle<()>>,
    count: usize,
    len: u64,
}

impl std::fmt::Debug for Rising {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "upload of {}, {} bytes so far", self.shared.key, self.len)
    }
}

impl Rising {
    pub(crate) fn new(local: Local, shared: Shared) -> Self {
        let (shared, held, tasks) = (Arc::new(shared), Vec::new(), Vec::new());
        Rising { local, process: process_id(), shared, held, tasks, count: 0, len: 0 }
    }

    fn send(&mut self, number: usize, piece: Bytes, completer: Completer) {
        let shared = Arc::clone(&self.shared);
        self.tasks.push(self.local.handle().spawn(async move {
            let done = shared.put(number, &piece).await;
            // The memory is reused, unless an attempt that was given up still holds it.
            let data = if piece.is_unique() { Vec::from(piece) } else { Vec::new() };
            completer.complete(done.map(|()| Reply::Append { data }));
        }));
    }
}

impl Upload for Rising {
    fn add(&mut self, data: Vec<u8>) -> Pending {
        let (completer, pending) = Pending::waiting();
        if self.count >= MOST_PARTS {
            self.shared.fail();
            completer.complete(Err(StoreError::Unsupported {
                operation: format!("an object of more than {MOST_PARTS} pieces; write smaller blocks"),
                store: self.shared.described.clone(),
            }));
            return pending;
        }
        let number = self.count;
        self.count += 1;
        self.len += data.len() as u64;
        let piece = Bytes::from(data);
        if self.len <= HELD {
            self.held.push((piece, completer));
            return pending;
        }
        for (number, (held, completer)) in std::mem::take(&mut self.held).into_iter().enumerate() {
            self.send(number, held, completer);
        }
        self.send(number, piece, completer);
        pending
    }

    fn finish(mut self: Box<Self>) -> Pending {
        let (completer, pending) = Pending::waiting();
        let (held, tasks) = (std::mem::take(&mut self.held), std::mem::take(&mut self.tasks));
        let (shared, count, len) = (Arc::clone(&self.shared), self.count, self.len);
        self.local.handle().spawn(async move {
            let outcome = if tasks.is_empty() {
                let (data, completers): (Vec<Bytes>, Vec<Completer>) = held.into_iter().unzip();
                let object = shared.object();
                let done =
                    create::put(&shared.client, &shared.path, &object.place, &data, PutMode::IfAbsent).await;
                if done.is_ok() {
                    for completer in completers {
                        completer.complete(Ok(Reply::Append { data: Vec::new() }));
                    }
                }
                done
            } else {
                for task in tasks {
                    if task.await.is_err() {
                        shared.fail();
                    }
                }
                let done = shared.complete(count, len).await;
                if done.is_err() {
                    shared.abort().await;
                }
                done
            };
            completer.complete(outcome.map(|()| Reply::Put { data: Vec::new() }));
        });
        pending
    }
}

impl Drop for Rising {
    /// If the upload was not finished, its pieces are removed.
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut self.tasks);
        if self.process != process_id() {
            std::mem::forget(tasks);
            return;
        }
        if tasks.is_empty() {
            return;
        }
        self.shared.fail();
        let shared = Arc::clone(&self.shared);
        self.local.handle().spawn(async move {
            tasks.iter().for_each(JoinHandle::abort);
            for task in tasks {
                drop(task.await);
            }
            shared.abort().await;
        });
    }
}
