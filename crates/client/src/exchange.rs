//! Executes a request in one or more attempts: interprets the replies, and decides whether to try again, and for how
//! long.
//!
//! The timeout, 30 s by default, counts from the last bytes or busy reply of the server. If the server has never
//! answered this process, the client gives up after a third of the timeout, since the address is probably wrong. A
//! request to a busy server is repeated for up to ten minutes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use drystone_wire::Status;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_RANGE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use crate::endpoint::{Endpoint, Lease};
use crate::failure::Failure;
use crate::line::Line;

/// An HTTP request.
pub(crate) struct Message {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// A reply whose body has not been read.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Arriving,
    stall: Duration,
}

/// The source of a body.
enum Arriving {
    /// A connection of the runtime.
    Driven(Incoming, Lease),
    /// A connection that this thread reads. It is returned to the endpoint after the body.
    Here { line: Line, endpoint: Arc<Endpoint>, _turn: OwnedSemaphorePermit },
}

/// The thread that writes requests and reads replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hands {
    /// The threads of the runtime. The caller's thread is free meanwhile.
    Runtime,
    /// The caller's thread, which only waits for this request, if the server is on this machine.
    Own,
}

/// The attempts of one request.
pub(crate) struct Attempts {
    endpoint: Arc<Endpoint>,
    begun: Instant,
    alive: Instant,
    pause: Duration,
    is_own: bool,
    /// Whether an earlier attempt may have been executed.
    pub(crate) in_doubt: bool,
    has_renewed: bool,
}

/// Longer request bodies use connections of the runtime, which notice an early refusal.
const OWN: usize = 256 << 10;
/// Half of the memory, in bytes, that is allocated for a reply before any of it has arrived.
const EARNED: usize = 1 << 20;
/// The most bytes of a body that a thread reads at a time.
const PIECE: usize = 256 << 10;

/// How long a request to a busy server is repeated.
const BUSY: Duration = Duration::from_secs(600);

impl Attempts {
    pub(crate) fn new(endpoint: &Arc<Endpoint>, hands: Hands) -> Self {
        let now = Instant::now();
        Attempts {
            endpoint: Arc::clone(endpoint),
            begun: now,
            alive: now,
            pause: Duration::from_millis(10),
            is_own: hands == Hands::Own && endpoint.is_here(),
            in_doubt: false,
            has_renewed: false,
        }
    }

    /// Records that bytes have arrived.
    pub(crate) fn progressed(&mut self) {
        self.alive = Instant::now();
        self.pause = Duration::from_millis(10);
    }

    /// Whether to try again after this failure; waits before it returns true.
    pub(crate) async fn again(&mut self, failure: &Failure) -> bool {
        if failure.needs_token && !self.has_renewed {
            self.has_renewed = true;
            return self.endpoint.renew_token();
        }
        if !failure.may_pass() {
            return false;
        }
        if failure.status == Some(Status::Busy) {
            self.alive = Instant::now();
        } else {
            self.in_doubt = true;
        }
        let deadline = self.endpoint.options.deadline;
        let has_answered = self.endpoint.has_answered.load(Ordering::Relaxed);
        let limit = if has_answered { deadline } else { deadline / 3 };
        let pause = failure.pause.map_or(self.pause, |pause| pause.mul_f64(0.2 + 0.8 * chance()));
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        let pause = pause.mul_f64(0.5 + 0.5 * chance());
        if self.alive.elapsed() + pause > limit || self.begun.elapsed() > BUSY {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// Makes one attempt. Returns the head of a successful reply.
    pub(crate) async fn once(&mut self, message: &Message) -> Result<Reply, Failure> {
        let mut fresh = false;
        loop {
            let (is_used, sent) = match self.is_own && message.body.len() <= OWN {
                true => self.sent_here(message, fresh).await?,
                false => self.sent(message, fresh).await?,
            };
            match sent {
                Ok(reply) => return self.judged(reply).await,
                // The server may close an idle connection at any time; this is not a failure.
                Err(failure) if is_used && !fresh && !failure.is_late => {
                    self.in_doubt = true;
                    fresh = true;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// The time limit of an answer: a body of many megabytes takes a while on a slow link.
    fn limit(&self, message: &Message) -> Duration {
        self.endpoint.options.deadline + Duration::from_millis(message.body.len() as u64 / 1000)
    }

    /// The value of the authorization header, if there is a token.
    fn right(&self) -> Result<Option<HeaderValue>, Failure> {
        let Some(word) = self.endpoint.token() else { return Ok(None) };
        let mut value = HeaderValue::from_str(&format!("Bearer {word}"))
            .map_err(|_| Failure::of(Status::Invalid, "the token is not one word of printable characters"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Sends a request on a connection of the runtime. Returns whether it was used before, and the head of the reply.
    async fn sent(&self, message: &Message, fresh: bool) -> Result<(bool, Result<Reply, Failure>), Failure> {
        let mut lease = self.endpoint.lease(fresh).await.map_err(unreached)?;
        let is_used = lease.is_used;
        let mut request = Request::builder()
            .method(message.method.clone())
            .uri(&message.path)
            .header(HOST, &self.endpoint.host);
        for (name, value) in &message.headers {
            request = request.header(*name, value);
        }
        if let Some(value) = self.right()? {
            request = request.header(AUTHORIZATION, value);
        }
        let deadline = self.endpoint.options.deadline;
        request = request.header("drystone-deadline", deadline.as_millis().to_string());
        let request = request.body(Full::new(message.body.clone())).map_err(unmade)?;
        let limit = self.limit(message);
        let sent = match tokio::time::timeout(limit, lease.sender.send_request(request)).await {
            Ok(Ok(response)) => {
                let (head, body) = response.into_parts();
                Ok(Reply {
                    status: head.status,
                    headers: head.headers,
                    body: Arriving::Driven(body, lease),
                    stall: deadline / 3,
                })
            }
            Ok(Err(error)) => Err(Failure::lost(format!("the connection broke: {error}"))),
            Err(_) => Err(late(limit)),
        };
        Ok((is_used, sent))
    }

    /// Like [`sent`](Self::sent), on a connection of this thread.
    async fn sent_here(
        &self,
        message: &Message,
        fresh: bool,
    ) -> Result<(bool, Result<Reply, Failure>), Failure> {
        let (mut line, turn) = self.endpoint.line(fresh).await.map_err(unreached)?;
        let is_used = line.is_used;
        let head = self.head(message)?;
        let (limit, begun) = (self.limit(message), Instant::now());
        let answered = line
            .wait_for(limit)
            .and_then(|()| line.send(head, &message.body))
            .and_then(|()| line.head(&message.method));
        let sent = match answered {
            Ok((status, headers)) => {
                self.endpoint.answered_in(begun.elapsed());
                let endpoint = Arc::clone(&self.endpoint);
                let body = Arriving::Here { line, endpoint, _turn: turn };
                Ok(Reply { status, headers, body, stall: self.endpoint.options.deadline / 3 })
            }
            Err(error) if is_late(&error) => Err(late(limit)),
            Err(error) => Err(Failure::lost(format!("the connection broke: {error}"))),
        };
        Ok((is_used, sent))
    }

    /// The head of a request.
    fn head(&self, message: &Message) -> Result<Vec<u8>, Failure> {
        let mut head = Vec::with_capacity(512);
        head.extend_from_slice(message.method.as_str().as_bytes());
        head.push(b' ');
        if !message.path.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(unmade("the path has invalid characters"));
        }
        head.extend_from_slice(message.path.as_bytes());
        head.extend_from_slice(b" HTTP/1.1\r\n");
        let mut add = |name: &str, value: &[u8]| {
            [name.as_bytes(), b": ", value, b"\r\n"].iter().for_each(|part| head.extend_from_slice(part));
        };
        add("host", self.endpoint.host.as_bytes());
        for (name, value) in &message.headers {
            let value = HeaderValue::from_str(value).map_err(unmade)?;
            add(name, value.as_bytes());
        }
        if let Some(value) = self.right()? {
            add("authorization", value.as_bytes());
        }
        add("drystone-deadline", self.endpoint.options.deadline.as_millis().to_string().as_bytes());
        if !matches!(message.method, Method::GET | Method::HEAD) {
            add("content-length", message.body.len().to_string().as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        Ok(head)
    }

    async fn judged(&mut self, reply: Reply) -> Result<Reply, Failure> {
        self.endpoint.has_answered.store(true, Ordering::Relaxed);
        if reply.status.is_success() {
            return Ok(reply);
        }
        let headers = reply.headers.clone();
        let code = reply.status.as_u16();
        let text = reply.whole(64 << 10).await.unwrap_or_default();
        let message = String::from_utf8_lossy(&text)
            .trim()
            .chars()
            .filter(|c| !c.is_control())
            .take(400)
            .collect::<String>();
        let status = header(&headers, "drystone-status").and_then(Status::named).unwrap_or(match code {
            404 => Status::NotFound,
            401 | 403 => Status::Denied,
            412 => Status::AlreadyExists,
            416 => Status::ShortRead,
            429 | 502 | 503 | 504 => Status::Busy,
            400..=499 => Status::Invalid,
            _ => Status::Io,
        });
        let found = header(&headers, CONTENT_RANGE.as_str())
            .and_then(|range| range.strip_prefix("bytes */")?.parse().ok());
        let pause = header(&headers, RETRY_AFTER.as_str())
            .and_then(|text| text.parse().ok())
            .map(Duration::from_secs);
        Err(Failure { status: Some(status), message, found, pause, needs_token: code == 401, is_late: false })
    }

    /// Repeats attempts until one is answered; returns the whole body of the reply, and its headers.
    pub(crate) async fn done(
        &mut self,
        message: &Message,
        limit: usize,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        loop {
            let failure = match self.once(message).await {
                Ok(reply) => {
                    let headers = reply.headers.clone();
                    match reply.whole(limit).await {
                        Ok(body) => return Ok((headers, body)),
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            if !self.again(&failure).await {
                return Err(failure);
            }
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A number between 0 and 1, so that clients that failed together do not retry together.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

impl Reply {
    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        let stall = self.stall;
        let body = match &mut self.body {
            Arriving::Driven(body, _) => body,
            Arriving::Here { line, .. } => {
                let left = line.left().and_then(|left| usize::try_from(left).ok()).unwrap_or(PIECE);
                let mut piece = vec![0; left.min(PIECE)];
                let len = filled(line, stall, &mut piece)?;
                piece.truncate(len);
                return Ok((len > 0).then(|| piece.into()));
            }
        };
        loop {
            match tokio::time::timeout(stall, body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Ok(Some(Err(error))) => return Err(Failure::lost(format!("the reply broke off: {error}"))),
                Err(_) => return Err(stalled(stall)),
            }
        }
    }

    /// Reads bytes of the body into the caller's memory, if this thread reads the connection; 0 at the end.
    /// `None` if the runtime reads it.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> Option<Result<usize, Failure>> {
        match &mut self.body {
            Arriving::Here { line, .. } => Some(filled(line, self.stall, out)),
            Arriving::Driven(..) => None,
        }
    }

    /// The whole body, of at most `limit` bytes.
    pub(crate) async fn whole(mut self, limit: usize) -> Result<Vec<u8>, Failure> {
        let long = || Failure::of(Status::Io, "the reply is longer than requested");
        let mut body = Vec::new();
        if let Arriving::Here { line, .. } = &mut self.body
            && let Some(left) = line.left()
        {
            let left = usize::try_from(left).ok().filter(|left| *left <= limit).ok_or_else(long)?;
            // Memory grows with the bytes that arrive, whatever length the server announces.
            while body.len() < left {
                let at = body.len();
                body.resize(left.min(at.max(EARNED) * 2), 0);
                let mut rest = body.get_mut(at..).unwrap_or_default();
                while !rest.is_empty() {
                    let len = filled(line, self.stall, rest)?;
                    if len == 0 {
                        return Err(Failure::lost("the reply was shorter than announced"));
                    }
                    rest = rest.get_mut(len..).unwrap_or_default();
                }
            }
            self.finished();
            return Ok(body);
        }
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > limit {
                return Err(long());
            }
            body.extend_from_slice(&piece);
        }
        self.finished();
        Ok(body)
    }

    /// The body was read completely: the connection may be used again.
    pub(crate) fn finished(self) {
        match self.body {
            Arriving::Driven(_, lease) => lease.done(),
            Arriving::Here { line, endpoint, _turn } => endpoint.keep(line),
        }
    }
}

fn filled(line: &mut Line, stall: Duration, out: &mut [u8]) -> Result<usize, Failure> {
    line.wait_for(stall).and_then(|()| line.fill(out)).map_err(|error| match is_late(&error) {
        true => stalled(stall),
        false => Failure::lost(format!("the reply broke off: {error}")),
    })
}

fn unreached(error: std::io::Error) -> Failure {
    Failure::lost(format!("no connection: {error}"))
}

fn unmade(error: impl std::fmt::Display) -> Failure {
    Failure::of(Status::Invalid, format!("the request cannot be made: {error}"))
}

fn late(limit: Duration) -> Failure {
    Failure::late(format!("no answer within {:.1} s", limit.as_secs_f64()))
}

fn stalled(stall: Duration) -> Failure {
    Failure::lost(format!("nothing more within {:.1} s", stall.as_secs_f64()))
}

/// Whether an error of a read or write is its timeout.
fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
