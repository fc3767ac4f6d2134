//! One request with its attempts: the meaning of an answer, whether another attempt is worthwhile, and until when.
//!
//! The deadline, 30 s by default, counts from the last progress and does not include waiting for a turn. A server that
//! has never answered in this process is given up after a third of it, since most often its address is wrong.

use std::error::Error;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use drystone_store::StoreError;

use crate::flow::Outcome;
use crate::gate::Turn;
use crate::provider::Client;
use crate::wire::{Answer, NOTES, Notes};

/// The meaning of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// There is no such object.
    NotFound,
    /// The condition of a request was not met: an object exists, or another one.
    Condition,
    /// The range is beyond the end.
    OutOfRange,
    /// The server sends whole objects only.
    RangesIgnored,
    /// The upload in parts does not exist: it was completed or aborted, or never begun.
    NoUpload,
    /// Another attempt may succeed. Whether a change was done is unknown.
    Again,
    /// Another attempt would fail as well.
    Permanent,
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) what: What,
    pub(crate) answer: Answer,
    /// The innermost reason, if there was no answer.
    pub(crate) reason: String,
    /// Whether time ran out: perhaps too much is requested from the server at once.
    pub(crate) late: bool,
    /// What prevented an answer.
    pub(crate) bar: Bar,
}

/// What prevents a request permanently, so that another attempt is useless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bar {
    /// Nothing known.
    None,
    /// There is no encrypted connection: the certificate is not trusted, or the server does not use TLS.
    Tls,
    /// There are no credentials to sign the request with.
    Credentials,
}

impl Failure {
    pub(crate) fn new(what: What, reason: impl Into<String>) -> Self {
        Failure { what, answer: Answer::default(), reason: reason.into(), late: false, bar: Bar::None }
    }

    /// Whether the condition of a put was not met, or a concurrent change decided it.
    pub(crate) fn is_unmet(&self) -> bool {
        self.what == What::Condition || self.answer.status == 409
    }

    fn of(error: &object_store::Error, answer: Answer) -> Self {
        let mut innermost: &dyn Error = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        let what = match (answer.status, answer.code.as_str()) {
            (404, "NoSuchBucket" | "ContainerNotFound") => What::Permanent,
            (404, "NoSuchUpload") => What::NoUpload,
            (404 | 410, _) => What::NotFound,
            (304 | 412, _) => What::Condition,
            (416, _) => What::OutOfRange,
            (400, "RequestTimeout" | "BadDigest" | "XAmzContentSHA256Mismatch")
            | (408 | 409 | 429 | 500 | 502 | 503 | 504, _) => What::Again,
            (300..=599, _) => What::Permanent,
            _ if answer.for_credentials || mistrust(error).is_some() => What::Permanent,
            _ => match error {
                object_store::Error::NotSupported { .. } => What::RangesIgnored,
                object_store::Error::NotFound { .. } => What::NotFound,
                object_store::Error::Unauthenticated { .. } | object_store::Error::InvalidPath { .. } => {
                    What::Permanent
                }
                _ => What::Again,
            },
        };
        // An understood answer needs no reason; the text of another may quote the request.
        let reason = if answer.status >= 300 { String::new() } else { innermost.to_string() };
        let bar = match error {
            _ if answer.for_credentials => Bar::Credentials,
            _ if answer.status != 0 => Bar::None,
            object_store::Error::Unauthenticated { .. } => Bar::Credentials,
            _ if mistrust(error).is_some() => Bar::Tls,
            _ => Bar::None,
        };
        Failure { what, answer, reason, late: false, bar }
    }

    /// Whether this caller lacks the right, either by the server's answer or because there are no credentials.
    fn lacks_rights(&self) -> bool {
        let ended =
            matches!(self.answer.code.as_str(), "ExpiredToken" | "TokenRefreshRequired" | "InvalidToken");
        matches!(self.answer.status, 401 | 403) || ended || self.bar == Bar::Credentials
    }

    fn outcome(&self) -> Outcome {
        match self.answer.status {
            429 | 503 => Outcome::Throttled,
            _ if self.late => Outcome::Lost,
            _ => Outcome::Answered,
        }
    }
}

/// The TLS error in an error, if that is its cause.
fn mistrust<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref::<rustls::Error>() {
        return Some(found);
    }
    // `std::io::Error` does not list the error that it wraps among its sources.
    let within = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    within.and_then(|error| mistrust(error)).or_else(|| error.source().and_then(mistrust))
}

/// Makes one attempt when its turn has come. The turn is returned with the outcome, and ends when it is dropped.
pub(crate) async fn attempt<T>(
    attempts: &Attempts<'_>,
    limit: Duration,
    notes: Notes,
    request: impl Future<Output = object_store::Result<T>>,
) -> (Turn, Result<T, Failure>) {
    let turn = attempts.turn().await;
    attempt_in(turn, attempts, limit, notes, request).await
}

/// Makes one attempt of a request whose turn has come.
pub(crate) async fn attempt_in<T>(
    mut turn: Turn,
    attempts: &Attempts<'_>,
    limit: Duration,
    notes: Notes,
    request: impl Future<Output = object_store::Result<T>>,
) -> (Turn, Result<T, Failure>) {
    let client = attempts.client;
    let outcome = tokio::time::timeout(limit, NOTES.scope(notes.clone(), request)).await;
    let outcome = match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let mut failure = Failure::of(&error, notes.answer());
            // If there were credentials before, there will be some again.
            let is_passing = failure.answer.for_credentials && failure.answer.status == 0;
            if is_passing && client.has_answered.load(Ordering::Relaxed) {
                failure.what = What::Again;
            }
            Err(failure)
        }
        Err(_) => {
            let reason = format!("no answer within {:.1} s", limit.as_secs_f64());
            Err(Failure { late: true, ..Failure::new(What::Again, reason) })
        }
    };
    let answered = outcome.as_ref().err().is_none_or(|failure| failure.answer.status != 0);
    if answered {
        client.has_answered.store(true, Ordering::Relaxed);
    }
    turn.ended(outcome.as_ref().err().map_or(Outcome::Answered, Failure::outcome), 0);
    (turn, outcome)
}

/// The attempts of one operation.
pub(crate) struct Attempts<'a> {
    client: &'a Client,
    begun: Instant,
    progress: Instant,
    count: u32,
    // Attempts since the last progress; they determine how long to wait.
    in_vain: u32,
    // Microseconds since the last progress that do not count: waiting for a turn, and for requests that have deadlines
    // of their own.
    queued: AtomicU64,
    // Bytes that have arrived since the last progress.
    arrived: u64,
}

/// Bytes per second. A slower reply makes no progress, so it ends at the deadline.
const SLOWEST: f64 = 1024.0;

impl<'a> Attempts<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        let now = Instant::now();
        Attempts {
            client,
            begun: now,
            progress: now,
            count: 0,
            in_vain: 0,
            queued: AtomicU64::new(0),
            arrived: 0,
        }
    }

    /// Waits for the turn of one request.
    pub(crate) async fn turn(&self) -> Turn {
        let asked = Instant::now();
        let turn = self.client.gate.enter().await;
        self.queued.fetch_add(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
        turn
    }

    /// Waits for a request that has a deadline of its own, turns included; its time does not count here.
    pub(crate) async fn beside<T>(&self, question: impl Future<Output = T>) -> T {
        let asked = Instant::now();
        let answer = question.await;
        self.queued.fetch_add(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
        answer
    }

    /// How long one attempt for this many bytes may take.
    pub(crate) fn limit(&self, bytes: usize) -> Duration {
        // The assumed rate of a slow link is half a megabyte per second.
        self.client.deadline / 3 + Duration::from_secs_f64(bytes as f64 / 524_288.0)
    }

    /// Records bytes that arrived. The deadline then counts from now, unless they arrive so slowly that they are no
    /// progress. Returns whether the deadline has passed.
    pub(crate) fn arrived(&mut self, bytes: u64) -> bool {
        self.arrived += bytes;
        if self.arrived as f64 >= SLOWEST * self.progress.elapsed().as_secs_f64() {
            self.progress = Instant::now();
            self.in_vain = 0;
            self.arrived = 0;
            *self.queued.get_mut() = 0;
        }
        let queued = Duration::from_micros(*self.queued.get_mut());
        self.progress.elapsed().saturating_sub(queued) >= self.client.deadline
    }

    /// The number of failed attempts.
    pub(crate) fn failed(&self) -> u32 {
        self.count
    }

    /// After a failed attempt: waits, and returns whether there is time for another.
    pub(crate) async fn again(&mut self, failure: &Failure) -> bool {
        self.count += 1;
        self.in_vain += 1;
        if failure.what != What::Again {
            return false;
        }
        let known = self.client.has_answered.load(Ordering::Relaxed);
        let deadline = if known { self.client.deadline } else { self.client.deadline / 3 };
        // 25 ms, doubled with each attempt up to 3.2 s, and a random part of that.
        let longest = Duration::from_millis(25) * 2_u32.pow(self.in_vain.min(7));
        let mut pause = longest.mul_f64(crate::random::chance());
        if let Some(asked) = failure.answer.pause {
            pause = pause.max(asked);
        }
        let queued = Duration::from_micros(self.queued.load(Ordering::Relaxed));
        if self.progress.elapsed().saturating_sub(queued) + pause >= deadline {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// The last failure as an error for the user.
    pub(crate) fn error(&self, failure: &Failure, place: &Place<'_>) -> StoreError {
        let (key, store) = (place.key.to_owned(), place.store.to_owned());
        if failure.what == What::NotFound {
            return StoreError::NotFound { key, store };
        }
        let answer = &failure.answer;
        let mut text = match answer.for_credentials {
            true => "the service that gives credentials to this machine".to_owned(),
            false => self.client.name().to_owned(),
        };
        if answer.status >= 300 {
            text += &format!(" answered {}", answer.status);
            for part in [&answer.code, &answer.message] {
                if !part.is_empty() {
                    text += &format!(" {part}");
                }
            }
            if !answer.request.is_empty() {
                text += &format!(" (request {})", answer.request);
            }
        } else {
            text += &format!(" gave no valid answer ({})", failure.reason);
        }
        let attempts = self.count.max(1);
        let plural = if attempts == 1 { "" } else { "s" };
        text += &format!(", {attempts} attempt{plural} in {:.1} s; ", self.begun.elapsed().as_secs_f64());
        text += &self.advice(failure);
        let operation = place.operation;
        match failure.what {
            // Further attempts might have succeeded; the deadline ended them.
            What::Again => StoreError::Deadline { key, store, operation, reason: text },
            _ if failure.lacks_rights() => {
                StoreError::PermissionDenied { key, store, operation, reason: text }
            }
            _ => StoreError::Io { key, store, operation, source: std::io::Error::other(text) },
        }
    }

    fn advice(&self, failure: &Failure) -> String {
        let answer = &failure.answer;
        let anonymous = "for public data set the storage option skip_signature to \"true\"";
        if failure.bar == Bar::Credentials {
            return format!(
                "no credentials were found: set storage_options, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_PROFILE; {anonymous}"
            );
        }
        if failure.bar == Bar::Tls {
            return "check that the endpoint speaks TLS under this name, and that its certificate is signed by an \
                    authority that this system trusts (SSL_CERT_FILE names a file of further ones)"
                .into();
        }
        match (answer.status, answer.code.as_str()) {
            (404, _) => format!(
                "there is no bucket {:?}: check its name, the endpoint and the region",
                self.client.bucket
            ),
            (401 | 403, "InvalidAccessKeyId" | "SignatureDoesNotMatch") => {
                "check the access key and the secret key (storage_options, AWS_ACCESS_KEY_ID, AWS_PROFILE)"
                    .into()
            }
            (401 | 403, "RequestTimeTooSkewed" | "RequestExpired") => {
                "the clock of this machine differs from the server's: set it, for example by NTP".into()
            }
            (400 | 401 | 403, "ExpiredToken" | "TokenRefreshRequired" | "InvalidToken") => {
                "the session has ended: get new credentials (AWS_SESSION_TOKEN belongs to the keys beside it)"
                    .into()
            }
            (401 | 403, _) => format!(
                "the credentials do not allow it, or there are none; S3 also answers so for objects that are absent \
                 where the bucket may not be listed; {anonymous}"
            ),
            (300..=400, _) if !answer.region.is_empty() => format!(
                "bucket {:?} is in the region {:?}, and aws_region is {:?}: set the storage option aws_region",
                self.client.bucket, answer.region, self.client.region
            ),
            (301 | 302 | 307 | 308 | 400, _) => format!(
                "check the region (aws_region is {:?}) and the endpoint of bucket {:?}",
                self.client.region, self.client.bucket
            ),
            (429 | 503, _) => {
                "the server limits the rate of requests: lower the storage option max_requests, or wait"
                    .into()
            }
            (0, _) => {
                "check the endpoint and the network; the storage option timeout says how long is tried".into()
            }
            _ => "if it happens again, ask the owner of the server, with the request's number".into(),
        }
    }
}

/// The subject of an operation, for error messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) key: &'a str,
    pub(crate) store: &'a str,
    pub(crate) operation: &'static str,
}
