//! An object that goes to the server in pieces, while its writer makes the next ones.
//!
//! Invariants
//! - pieces go one after the other, each a request that is repeated until it is answered: the server adds none twice;
//! - a server that takes no pieces gets the object as a whole at its end;
//! - without an end nothing remains, and a process that was forked neither ends nor abandons what its parent has begun.

use std::sync::Arc;

use bytes::Bytes;
use drystone_store::{Completer, Pending, PutMode, Reply, StoreError, Upload, process_id};
use drystone_wire::{LENGTH, OFFSET, Status, UPLOAD};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::endpoint::Endpoint;
use crate::exchange::Hands;
use crate::failure::Failure;
use crate::store::{Asking, Inner, random_name};

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
    /// Each by itself, after this many bytes.
    Pieces(u64),
    /// Together at the end: the server takes no pieces.
    Whole(Vec<Bytes>),
    /// Not any more.
    Failed,
}

impl std::fmt::Debug for Rising {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "upload of {}", self.key)
    }
}

impl Rising {
    /// Nothing is asked of the server before the first piece.
    pub(crate) fn begin(endpoint: Arc<Endpoint>, inner: Arc<Inner>, key: &str) -> Rising {
        let (steps, coming) = unbounded_channel();
        let (handle, of) = (endpoint.handle, key.to_owned());
        handle.spawn(async move {
            let asking = Asking { endpoint, inner: &inner, hands: Hands::Runtime };
            drive(&asking, &of, coming).await;
        });
        Rising { process: process_id(), steps: Some(steps), key: key.to_owned() }
    }

    fn tell(&self, step: impl FnOnce(Completer) -> Step) -> Pending {
        let (completer, pending) = Pending::waiting();
        if let Some(steps) = &self.steps {
            // Nobody takes it where the process is ending; then the completer says so.
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

/// Does the steps in their order.
async fn drive(asking: &Asking<'_>, key: &str, mut coming: UnboundedReceiver<Step>) {
    let (name, mut way) = (random_name(), Way::Pieces(0));
    let header = |name: &'static str, value: u64| (name, value.to_string());
    let error = |failure: &Failure| failure.error(key, &asking.inner.described, "upload");
    while let Some(step) = coming.recv().await {
        match (step, &mut way) {
            (Step::Piece(piece, completer), Way::Pieces(at)) => {
                let headers = vec![(UPLOAD, name.clone()), header(OFFSET, *at)];
                match asking.step(key, headers, piece.clone()).await {
                    Ok(()) => {
                        *at += piece.len() as u64;
                        completer.complete(Ok(Reply::Append { data: memory_of(piece) }));
                    }
                    // An earlier version has no such request, and some containers are not in a folder of the server.
                    Err(failure)
                        if *at == 0
                            && matches!(failure.status, Some(Status::Unsupported | Status::ReadOnly)) =>
                    {
                        way = Way::Whole(vec![piece]);
                        completer.complete(Ok(Reply::Append { data: Vec::new() }));
                    }
                    Err(failure) => {
                        completer.complete(Err(error(&failure)));
                        abandon(asking, key, name.clone()).await;
                        way = Way::Failed;
                    }
                }
            }
            (Step::Piece(piece, completer), Way::Whole(held)) => {
                held.push(piece);
                completer.complete(Ok(Reply::Append { data: Vec::new() }));
            }
            (Step::Piece(_, completer) | Step::End(completer), Way::Failed) => {
                let reason = "an earlier piece of the upload failed";
                let store = asking.inner.described.clone();
                completer.complete(Err(StoreError::Closed { store, reason }));
            }
            (Step::End(completer), Way::Pieces(len)) if *len > 0 => {
                let headers = vec![(UPLOAD, name.clone()), header(LENGTH, *len)];
                let done = asking.step(key, headers, Bytes::new()).await;
                if done.is_err() {
                    abandon(asking, key, name).await;
                }
                let done = done.map(|()| Reply::Put { data: Vec::new() });
                return completer.complete(done.map_err(|failure| error(&failure)));
            }
            (Step::End(completer), way) => {
                let held = if let Way::Whole(held) = way { held.concat() } else { Vec::new() };
                let done = asking.put(key, held.into(), PutMode::IfAbsent, false).await;
                return completer.complete(done.map(|()| Reply::Put { data: Vec::new() }));
            }
        }
    }
    if matches!(way, Way::Pieces(1..)) {
        abandon(asking, key, name).await;
    }
}

/// What remains is swept some day if this fails.
async fn abandon(asking: &Asking<'_>, key: &str, name: String) {
    let _ = asking.step(key, vec![(UPLOAD, name)], Bytes::new()).await;
}

/// Memory to use again, unless an attempt that was given up still holds it.
fn memory_of(piece: Bytes) -> Vec<u8> {
    if piece.is_unique() { piece.into() } else { Vec::new() }
}
