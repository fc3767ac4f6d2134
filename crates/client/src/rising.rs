//! An object that is uploaded in pieces while its writer makes the next ones.
//!
//! Invariants
//! - pieces are sent in order, each in a request that is repeated until it is answered. The server adds no piece twice;
//! - a server that does not support uploads in pieces gets the object as a whole at its end;
//! - an upload without an end leaves nothing, and a forked process neither ends nor abandons its parent's uploads.

use std::sync::Arc;

use bytes::Bytes;
use drystone_store::{Completer, Pending, PutMode, Reply, StoreError, Upload, process_id};
use drystone_wire::{LENGTH, OFFSET, Status, UPLOAD};
use hyper::Method;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::endpoint::Endpoint;
use crate::exchange::{Attempts, Hands, Message};
use crate::failure::Failure;
use crate::putting::{self, random_name};
use crate::reading::Object;

/// An upload of this process.
pub(crate) struct Rising {
    process: u32,
    steps: Option<UnboundedSender<Step>>,
    key: String,
}

enum Step {
    Piece(Bytes, Completer),
    End(Completer),
}

/// How the pieces are sent.
enum Way {
    /// Each in its own request, after this many bytes.
    Pieces(u64),
    /// Together at the end, since the server does not support pieces.
    Whole(Vec<Bytes>),
    /// Not any more, since the upload has failed.
    Failed,
}

impl std::fmt::Debug for Rising {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "upload of {}", self.key)
    }
}

impl Rising {
    /// An upload of the object at this path. No request is sent before the first piece.
    pub(crate) fn begin(endpoint: Arc<Endpoint>, path: String, key: &str, server: &str) -> Rising {
        let (steps, coming) = unbounded_channel();
        let (handle, of, server) = (endpoint.handle, key.to_owned(), server.to_owned());
        handle.spawn(async move {
            let object = Object { path, key: &of, store: &server, hands: Hands::Runtime };
            let name = random_name();
            drive(&Asking { endpoint, object, name }, coming).await;
        });
        Rising { process: process_id(), steps: Some(steps), key: key.to_owned() }
    }

    fn tell(&self, step: impl FnOnce(Completer) -> Step) -> Pending {
        let (completer, pending) = Pending::waiting();
        if let Some(steps) = &self.steps {
            // At the end of the process no task receives it; its completer then reports that.
            let _ = steps.send(step(completer));
        }
        pending
    }
}

impl Upload for Rising {
    fn add(&mut self, data: Vec<u8>) -> Pending {
        self.tell(|completer| Step::Piece(data.into(), completer))
    }

    fn finish(self: Box<Self>) -> Pending {
        self.tell(Step::End)
    }
}

impl Drop for Rising {
    fn drop(&mut self) {
        if self.process != process_id() {
            std::mem::forget(self.steps.take());
        }
    }
}

/// The destination and name of an upload, as its requests need them.
struct Asking<'a> {
    endpoint: Arc<Endpoint>,
    object: Object<'a>,
    name: String,
}

impl Asking<'_> {
    /// One step: a piece with an offset, the end with a length, or the removal with neither.
    async fn step(&self, more: Option<(&'static str, u64)>, body: Bytes) -> Result<(), Failure> {
        let mut headers = vec![(UPLOAD, self.name.clone())];
        headers.extend(more.map(|(name, value)| (name, value.to_string())));
        let message = Message { method: Method::PATCH, path: self.object.path.clone(), headers, body };
        Attempts::new(&self.endpoint, self.object.hands).done(&message, 4096).await.map(drop)
    }

    /// Removes the staged pieces. If this fails, a later `sweep` removes them.
    async fn abandon(&self) {
        let _ = self.step(None, Bytes::new()).await;
    }

    fn error(&self, failure: &Failure) -> StoreError {
        self.object.error(failure, "upload")
    }
}

/// Executes the steps in their order.
async fn drive(asking: &Asking<'_>, mut coming: UnboundedReceiver<Step>) {
    let mut way = Way::Pieces(0);
    while let Some(step) = coming.recv().await {
        match (step, &mut way) {
            (Step::Piece(piece, completer), Way::Pieces(at)) => {
                match asking.step(Some((OFFSET, *at)), piece.clone()).await {
                    Ok(()) => {
                        *at += piece.len() as u64;
                        completer.complete(Ok(Reply::Append { data: memory_of(piece) }));
                    }
                    // A server of an earlier version does not know this request, and it needs a container in a folder
                    // of the server.
                    Err(failure)
                        if *at == 0
                            && matches!(failure.status, Some(Status::Unsupported | Status::ReadOnly)) =>
                    {
                        way = Way::Whole(vec![piece]);
                        completer.complete(Ok(Reply::Append { data: Vec::new() }));
                    }
                    Err(failure) => {
                        completer.complete(Err(asking.error(&failure)));
                        asking.abandon().await;
                        way = Way::Failed;
                    }
                }
            }
            (Step::Piece(piece, completer), Way::Whole(held)) => {
                held.push(piece);
                completer.complete(Ok(Reply::Append { data: Vec::new() }));
            }
            (Step::Piece(_, completer) | Step::End(completer), Way::Failed) => {
                let (store, reason) =
                    (asking.object.store.to_owned(), "an earlier piece of the upload failed");
                completer.complete(Err(StoreError::Closed { store, reason }));
            }
            (Step::End(completer), Way::Pieces(len)) if *len > 0 => {
                let done = asking.step(Some((LENGTH, *len)), Bytes::new()).await;
                if done.is_err() {
                    asking.abandon().await;
                }
                let done = done.map(|()| Reply::Put { data: Vec::new() });
                return completer.complete(done.map_err(|failure| asking.error(&failure)));
            }
            (Step::End(completer), way) => {
                let held = if let Way::Whole(held) = way { joined(held) } else { Vec::new() };
                let put =
                    putting::put(&asking.endpoint, &asking.object, held.into(), PutMode::IfAbsent, false);
                return completer.complete(put.await.map(|()| Reply::Put { data: Vec::new() }));
            }
        }
    }
    if matches!(way, Way::Pieces(1..)) {
        asking.abandon().await;
    }
}

/// The pieces as one object. Each is freed once it is copied, so the memory used is little more than the object.
fn joined(pieces: &mut Vec<Bytes>) -> Vec<u8> {
    let mut object = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.drain(..).for_each(|piece| object.extend_from_slice(&piece));
    object
}

/// The memory for reuse, unless an abandoned attempt still holds it.
fn memory_of(piece: Bytes) -> Vec<u8> {
    if piece.is_unique() { piece.into() } else { Vec::new() }
}
