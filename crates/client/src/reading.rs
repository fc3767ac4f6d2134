//! Reads ranges of objects from the connection into their destinations.

use std::sync::Arc;

use drystone_store::{Result, StoreError};
use drystone_wire::Status;
use hyper::Method;
use hyper::header::{CONTENT_RANGE, ETAG};

use crate::endpoint::Endpoint;
use crate::exchange::{Attempts, Hands, Message, Reply};
use crate::failure::Failure;

/// An object to read, and its description in messages.
pub(crate) struct Object<'a> {
    pub(crate) path: String,
    pub(crate) key: &'a str,
    pub(crate) store: &'a str,
    pub(crate) hands: Hands,
}

impl Object<'_> {
    pub(crate) fn error(&self, failure: &Failure, operation: &'static str) -> StoreError {
        failure.error(self.key, self.store, operation)
    }

    fn short(&self, offset: u64, wanted: u64, there: u64) -> StoreError {
        StoreError::ShortRead {
            key: self.key.to_owned(),
            store: self.store.to_owned(),
            offset,
            wanted,
            got: there.saturating_sub(offset).min(wanted),
        }
    }
}

/// How often an object may be replaced while it is read.
const REPLACED: usize = 20;

/// The destination of bytes.
pub(crate) trait Sink {
    /// Starts again from the beginning. `len` is the number of bytes to expect.
    fn begin(&mut self, len: usize);
    /// Adds bytes after the earlier ones.
    fn put(&mut self, bytes: &[u8]);
    /// Memory for the next bytes, if there is any. The caller fills it and calls [`took`](Sink::took) instead of `put`.
    fn space(&mut self) -> Option<&mut [u8]>;
    /// Records that this many bytes of the memory were filled.
    fn took(&mut self, len: usize);
}

/// The caller's own memory.
pub(crate) struct Place<'a> {
    pub(crate) out: &'a mut [u8],
    pub(crate) at: usize,
}

impl Sink for Place<'_> {
    fn begin(&mut self, _len: usize) {
        self.at = 0;
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    fn space(&mut self) -> Option<&mut [u8]> {
        self.out.get_mut(self.at..).filter(|space| !space.is_empty())
    }

    fn took(&mut self, len: usize) {
        self.at += len;
    }
}

impl Sink for Vec<u8> {
    fn begin(&mut self, len: usize) {
        self.clear();
        self.reserve(len);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn space(&mut self) -> Option<&mut [u8]> {
        None
    }

    fn took(&mut self, _len: usize) {}
}

/// Reads `len` bytes, not 0, from `offset`. Never mixes bytes of different versions.
pub(crate) async fn range(
    endpoint: &Arc<Endpoint>,
    object: &Object<'_>,
    offset: u64,
    len: usize,
    sink: &mut impl Sink,
) -> Result<()> {
    let wanted = len as u64;
    let Some(end) = offset.checked_add(wanted) else {
        return Err(object.short(offset, wanted, length(endpoint, object).await?));
    };
    let mut attempts = Attempts::new(endpoint, object.hands);
    let (mut at, mut version, mut replaced) = (0_u64, None::<String>, 0);
    loop {
        let mut headers = vec![("range", format!("bytes={}-{}", offset + at, end - 1))];
        headers.extend(version.clone().filter(|_| at > 0).map(|tag| ("if-match", tag)));
        let message =
            Message { method: Method::GET, path: object.path.clone(), headers, body: bytes::Bytes::new() };
        let failure = match attempts.once(&message).await {
            Ok(reply) => {
                let headers = &reply.headers;
                let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
                let there = text(CONTENT_RANGE.as_str())
                    .and_then(|range| range.rsplit_once('/')?.1.parse::<u64>().ok());
                let Some(there) = there else {
                    return Err(object.error(&Failure::of(Status::Io, "the server sent no range"), "read"));
                };
                if there < end {
                    return Err(object.short(offset, wanted, there));
                }
                version = text(ETAG.as_str()).map(str::to_owned);
                if at == 0 {
                    sink.begin(len);
                }
                match arriving(reply, wanted, &mut at, sink, &mut attempts).await {
                    Ok(()) => return Ok(()),
                    Err(failure) => {
                        // Without a version, the rest might belong to another object.
                        if version.is_none() {
                            at = 0;
                        }
                        failure
                    }
                }
            }
            Err(failure)
                if failure.status == Some(Status::AlreadyExists) && at > 0 && replaced < REPLACED =>
            {
                (at, replaced) = (0, replaced + 1);
                continue;
            }
            Err(failure) => failure,
        };
        if failure.status == Some(Status::ShortRead) {
            let there = match failure.found {
                Some(there) => there,
                None => length(endpoint, object).await?,
            };
            return Err(object.short(offset, wanted, there));
        }
        if !attempts.again(&failure).await {
            return Err(object.error(&failure, "read"));
        }
    }
}

async fn arriving(
    mut reply: Reply,
    wanted: u64,
    at: &mut u64,
    sink: &mut impl Sink,
    attempts: &mut Attempts,
) -> std::result::Result<(), Failure> {
    loop {
        let left = usize::try_from(wanted - *at).unwrap_or(usize::MAX);
        let Some(space) = sink.space().filter(|_| left > 0) else { break };
        let most = space.len().min(left);
        let Some(filled) = space.get_mut(..most).and_then(|space| reply.fill(space)) else { break };
        let len = filled?;
        if len == 0 {
            break;
        }
        sink.took(len);
        *at += len as u64;
        attempts.progressed();
    }
    while let Some(piece) = reply.piece().await? {
        if piece.len() as u64 > wanted - *at {
            return Err(Failure::of(Status::Io, "the reply is longer than requested"));
        }
        sink.put(&piece);
        *at += piece.len() as u64;
        attempts.progressed();
    }
    if *at < wanted {
        return Err(Failure::lost("the reply was shorter than announced"));
    }
    reply.finished();
    Ok(())
}

/// The length of the object.
pub(crate) async fn length(endpoint: &Arc<Endpoint>, object: &Object<'_>) -> Result<u64> {
    let message = Message {
        method: Method::HEAD,
        path: object.path.clone(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
    };
    let done = Attempts::new(endpoint, object.hands).done(&message, 0).await;
    let (headers, _) = done.map_err(|failure| object.error(&failure, "ask for the length of"))?;
    let len = headers.get(hyper::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    len.ok_or_else(|| {
        object.error(&Failure::of(Status::Io, "the server sent no length"), "ask for the length of")
    })
}

/// The object as a whole, if it is at most `limit` bytes long; else its length.
pub(crate) async fn whole(
    endpoint: &Arc<Endpoint>,
    object: &Object<'_>,
    limit: u64,
) -> Result<std::result::Result<Vec<u8>, u64>> {
    let message = Message {
        method: Method::GET,
        path: object.path.clone(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
    };
    let mut attempts = Attempts::new(endpoint, object.hands);
    loop {
        let failure = match attempts.once(&message).await {
            Ok(reply) => {
                let len = reply.headers.get(hyper::header::CONTENT_LENGTH);
                let len = len.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
                match len {
                    Some(len) if len > limit => return Ok(Err(len)),
                    Some(len) => {
                        let (mut bytes, mut at) = (Vec::new(), 0);
                        bytes.begin(usize::try_from(len).unwrap_or(0).min(1 << 20));
                        match arriving(reply, len, &mut at, &mut bytes, &mut attempts).await {
                            Ok(()) => return Ok(Ok(bytes)),
                            Err(failure) => failure,
                        }
                    }
                    None => Failure::of(Status::Io, "the server sent no length"),
                }
            }
            Err(failure) => failure,
        };
        if !attempts.again(&failure).await {
            return Err(object.error(&failure, "read"));
        }
    }
}
