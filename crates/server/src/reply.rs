//! Replies: a status, headers, and a body that is complete or is sent in pieces.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use drystone_wire::Status;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use tokio::sync::mpsc;

use crate::metrics::Metrics;

/// The name of the header with the outcome of a request.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("drystone-status");

/// The rest of a body cannot be sent.
#[derive(Debug)]
pub(crate) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reply cannot be completed")
    }
}

impl std::error::Error for Broken {}

/// The sender of the pieces of a body.
pub(crate) type Pieces = mpsc::Sender<Result<Bytes, Broken>>;

/// The body of a reply.
pub(crate) struct Sent {
    content: Content,
    /// Values that are dropped after the body has been sent: a turn, memory, the entry of a request under way.
    held: Vec<Box<dyn std::any::Any + Send>>,
    metrics: Option<Arc<Metrics>>,
}

enum Content {
    Whole(Bytes),
    /// Parts that are all available, and their total length.
    Parts(std::vec::IntoIter<Bytes>, u64),
    /// Pieces, and their total length, if known.
    Pieces(mpsc::Receiver<Result<Bytes, Broken>>, Option<u64>),
}

impl Sent {
    /// A complete body.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Sent {
        Sent { content: Content::Whole(bytes.into()), held: Vec::new(), metrics: None }
    }

    /// A complete body in several parts.
    pub(crate) fn parts(mut parts: Vec<Bytes>) -> Sent {
        parts.retain(|part| !part.is_empty());
        let len = parts.iter().map(|part| part.len() as u64).sum();
        Sent { content: Content::Parts(parts.into_iter(), len), held: Vec::new(), metrics: None }
    }

    /// A body in pieces, and the sender for its pieces.
    pub(crate) fn pieces(len: Option<u64>) -> (Pieces, Sent) {
        let (sender, receiver) = mpsc::channel(2);
        (sender, Sent { content: Content::Pieces(receiver, len), held: Vec::new(), metrics: None })
    }

    /// Keeps a value until the body has been sent.
    pub(crate) fn hold(&mut self, value: impl Send + 'static) {
        self.held.push(Box::new(value));
    }

    /// Counts the bytes that are sent.
    pub(crate) fn count_in(&mut self, metrics: &Arc<Metrics>) {
        self.metrics = Some(Arc::clone(metrics));
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        let piece = match &mut this.content {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Content::Parts(parts, left) => parts.next().map(|part| {
                *left = left.saturating_sub(part.len() as u64);
                Ok(part)
            }),
            Content::Pieces(receiver, left) => match receiver.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(piece) => {
                    if let (Some(left), Some(Ok(piece))) = (left, &piece) {
                        *left = left.saturating_sub(piece.len() as u64);
                    }
                    piece
                }
            },
        };
        if let (Some(metrics), Some(Ok(piece))) = (&this.metrics, &piece) {
            metrics.bytes_out.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Parts(_, left) => *left == 0,
            Content::Pieces(_, left) => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Parts(_, left) | Content::Pieces(_, Some(left)) => SizeHint::with_exact(*left),
            Content::Pieces(_, None) => SizeHint::default(),
        }
    }
}

/// A reply.
pub(crate) type Reply = Response<Sent>;

/// A reply with this status and body.
pub(crate) fn reply(status: u16, kind: &'static str, body: Sent) -> Reply {
    let mut reply = Response::new(body);
    if let Ok(status) = hyper::StatusCode::from_u16(status) {
        *reply.status_mut() = status;
    }
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// A reply with a text for humans.
pub(crate) fn text(status: u16, body: impl Into<String>) -> Reply {
    reply(status, "text/plain; charset=utf-8", Sent::whole(body.into()))
}

/// A request that was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) message: String,
    /// Whether the client presented no token, rather than one without the right.
    pub(crate) needs_token: bool,
    /// Length of the object, if it does not contain a requested range. In an answer to a sync: the position of the
    /// missing object.
    pub(crate) found: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Refusal { status, message: message.into(), needs_token: false, found: None }
    }

    /// The refusal after work that panicked.
    pub(crate) fn unfinished() -> Self {
        Refusal::new(Status::Io, "the work was interrupted; it is not known whether it was done")
    }

    /// Its status in HTTP.
    pub(crate) fn http(&self) -> u16 {
        if self.needs_token { 401 } else { self.status.http() }
    }

    pub(crate) fn reply(&self) -> Reply {
        let mut reply = text(self.http(), format!("{}\n", self.message));
        let headers = reply.headers_mut();
        headers.insert(STATUS, HeaderValue::from_static(self.status.name()));
        if self.needs_token {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == Status::Busy {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(value) = self.found.and_then(|len| HeaderValue::from_str(&format!("bytes */{len}")).ok())
        {
            headers.insert(hyper::header::CONTENT_RANGE, value);
        }
        reply
    }
}

impl From<drystone_store::StoreError> for Refusal {
    fn from(error: drystone_store::StoreError) -> Self {
        use drystone_store::StoreError as E;
        let mut found = None;
        let status = match &error {
            E::NotFound { .. } | E::Removed { .. } => Status::NotFound,
            E::AlreadyExists { .. } => Status::AlreadyExists,
            E::ShortRead { offset, got, .. } => {
                found = offset.checked_add(*got);
                Status::ShortRead
            }
            E::Conflict { .. } | E::Replaced { .. } => Status::Conflict,
            E::ReadOnly { .. } => Status::ReadOnly,
            // The server itself lacks the right, which no token of a client gives.
            E::PermissionDenied { .. } => Status::ReadOnly,
            E::Deadline { .. } => Status::Deadline,
            E::NoSpace { .. } => Status::NoSpace,
            E::Unsupported { .. } => Status::Unsupported,
            E::InvalidKey { .. } => Status::Invalid,
            _ => Status::Io,
        };
        // The message does not reveal paths of the server.
        let message = match &error {
            E::Io { operation, source, .. } => format!("cannot {operation}: {}", source.kind()),
            E::InvalidKey { .. } => error.to_string(),
            _ => status.name().to_owned(),
        };
        Refusal { found, ..Refusal::new(status, message) }
    }
}
