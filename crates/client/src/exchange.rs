//! One request, again and again: what an answer means, whether it is worth another attempt, and until when.
//!
//! A deadline, 30 s unless said otherwise, counts from the last sign of life. A server that never answered this process is given up after
//! a third of it: most often its address is wrong. One that says it is busy is alive, and asked again for ten minutes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use drystone_wire::Status;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_RANGE, HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response};

use crate::endpoint::{Endpoint, Lease};
use crate::failure::Failure;

/// A request in words.
pub(crate) struct Message {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// A reply whose body is still to come.
pub(crate) struct Reply {
    pub(crate) response: Response<Incoming>,
    lease: Lease,
    stall: Duration,
}

/// Attempts at one thing.
pub(crate) struct Attempts {
    endpoint: Arc<Endpoint>,
    begun: Instant,
    alive: Instant,
    pause: Duration,
    /// An earlier attempt may have been done.
    pub(crate) in_doubt: bool,
    has_renewed: bool,
}

/// As long a busy server is asked again.
const BUSY: Duration = Duration::from_secs(600);

impl Attempts {
    pub(crate) fn new(endpoint: &Arc<Endpoint>) -> Self {
        let now = Instant::now();
        Attempts {
            endpoint: Arc::clone(endpoint),
            begun: now,
            alive: now,
            pause: Duration::from_millis(10),
            in_doubt: false,
            has_renewed: false,
        }
    }

    /// Bytes have arrived.
    pub(crate) fn progressed(&mut self) {
        self.alive = Instant::now();
        self.pause = Duration::from_millis(10);
    }

    /// Whether to try again after this failure; waits before it says yes.
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

    /// One attempt: the head of a reply that says it was done.
    pub(crate) async fn once(&mut self, message: &Message) -> Result<Reply, Failure> {
        let mut fresh = false;
        loop {
            let lease = self.endpoint.lease(fresh).await;
            let mut lease = lease.map_err(|error| Failure::lost(format!("no connection: {error}")))?;
            let is_used = lease.is_used;
            match self.sent(&mut lease, message).await {
                Ok(response) => return self.judged(response, lease).await,
                // The server may close an idle connection at any time; that says nothing.
                Err(_) if is_used && !fresh => {
                    self.in_doubt = true;
                    fresh = true;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn sent(&self, lease: &mut Lease, message: &Message) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder()
            .method(message.method.clone())
            .uri(&message.path)
            .header(HOST, &self.endpoint.host);
        for (name, value) in &message.headers {
            request = request.header(*name, value);
        }
        if let Some(word) = self.endpoint.token() {
            let mut value = HeaderValue::from_str(&format!("Bearer {word}"))
                .map_err(|_| Failure::of(Status::Invalid, "the token is no word of printable characters"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let deadline = self.endpoint.options.deadline;
        request = request.header("drystone-deadline", deadline.as_millis().to_string());
        let request = request
            .body(Full::new(message.body.clone()))
            .map_err(|error| Failure::of(Status::Invalid, format!("the request cannot be made: {error}")))?;
        // A body of many megabytes takes a while on a slow link.
        let limit = deadline + Duration::from_millis(message.body.len() as u64 / 1000);
        match tokio::time::timeout(limit, lease.sender.send_request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Failure::lost(format!("the connection broke: {error}"))),
            Err(_) => Err(Failure::late(format!("no answer within {:.1} s", limit.as_secs_f64()))),
        }
    }

    async fn judged(&mut self, response: Response<Incoming>, lease: Lease) -> Result<Reply, Failure> {
        self.endpoint.has_answered.store(true, Ordering::Relaxed);
        let stall = self.endpoint.options.deadline / 3;
        let reply = Reply { response, lease, stall };
        if reply.response.status().is_success() {
            return Ok(reply);
        }
        let headers = reply.response.headers().clone();
        let code = reply.response.status().as_u16();
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

    /// Attempts until one is answered: the whole body of the reply, and its headers.
    pub(crate) async fn done(
        &mut self,
        message: &Message,
        limit: usize,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        loop {
            let failure = match self.once(message).await {
                Ok(reply) => {
                    let headers = reply.response.headers().clone();
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

/// Between 0 and 1, so that clients that failed together do not come again together.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

impl Reply {
    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match tokio::time::timeout(self.stall, self.response.body_mut().frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Ok(Some(Err(error))) => return Err(Failure::lost(format!("the reply broke off: {error}"))),
                Err(_) => {
                    return Err(Failure::lost(format!(
                        "nothing more within {:.1} s",
                        self.stall.as_secs_f64()
                    )));
                }
            }
        }
    }

    /// The whole body, of at most `limit` bytes.
    pub(crate) async fn whole(mut self, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            if body.len() + piece.len() > limit {
                return Err(Failure::of(Status::Io, "the reply is longer than what was asked for"));
            }
            body.extend_from_slice(&piece);
        }
        self.lease.done();
        Ok(body)
    }

    /// The body was read to its end: the connection may be used again.
    pub(crate) fn finished(self) {
        self.lease.done();
    }
}
