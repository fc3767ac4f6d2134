//! One request, again and again: what an answer means, whether it is worth another attempt, and until when.
//!
//! A deadline, 30 s unless said otherwise, counts from the last sign of progress and does not include waiting for a turn. A server that
//! never answered in this process is given up after a third of it: most often its address is wrong.

use std::error::Error;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use drystone_store::StoreError;

use crate::flow::Outcome;
use crate::gate::Turn;
use crate::provider::Client;
use crate::wire::{Answer, NOTES, Notes};

/// What an attempt that failed means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// There is no such object.
    NotFound,
    /// The condition of a request was not met: an object is there, or another one.
    Condition,
    /// The range lies behind the end.
    OutOfRange,
    /// The server sends whole objects only.
    RangesIgnored,
    /// The upload in parts is gone: completed, aborted, or never there.
    NoUpload,
    /// Another attempt may succeed. Of a change it is not known whether it was done.
    Again,
    /// Another attempt would fail as well.
    Permanent,
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) what: What,
    pub(crate) answer: Answer,
    /// The innermost reason, where there was no answer.
    pub(crate) reason: String,
    /// Time ran out: perhaps too much is asked of the server at once.
    pub(crate) late: bool,
}

impl Failure {
    pub(crate) fn new(what: What, reason: impl Into<String>) -> Self {
        Failure { what, answer: Answer::default(), reason: reason.into(), late: false }
    }

    /// Whether the condition of a put was not met, or another change was under way and decided it.
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
            _ if answer.for_credentials => What::Permanent,
            _ => match error {
                object_store::Error::NotSupported { .. } => What::RangesIgnored,
                object_store::Error::NotFound { .. } => What::NotFound,
                object_store::Error::Unauthenticated { .. } | object_store::Error::InvalidPath { .. } => {
                    What::Permanent
                }
                _ => What::Again,
            },
        };
        // A reply that was understood needs no reason; that of another may quote the request.
        let reason = if answer.status >= 300 { String::new() } else { innermost.to_string() };
        Failure { what, answer, reason, late: false }
    }

    fn outcome(&self) -> Outcome {
        match self.answer.status {
            429 | 503 => Outcome::Throttled,
            _ if self.late => Outcome::Lost,
            _ => Outcome::Answered,
        }
    }
}

/// One attempt, when its turn has come. The turn is given back with what came of it, and ends when it is dropped.
pub(crate) async fn attempt<T>(
    attempts: &Attempts<'_>,
    limit: Duration,
    notes: Notes,
    request: impl Future<Output = object_store::Result<T>>,
) -> (Turn, Result<T, Failure>) {
    let client = attempts.client;
    let asked = Instant::now();
    let mut turn = client.gate.enter().await;
    attempts.queued.fetch_add(asked.elapsed().as_micros() as u64, Ordering::Relaxed);
    let outcome = tokio::time::timeout(limit, NOTES.scope(notes.clone(), request)).await;
    let outcome = match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let mut failure = Failure::of(&error, notes.answer());
            // Where there were credentials before, there will be some again.
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

/// Attempts at one operation.
pub(crate) struct Attempts<'a> {
    client: &'a Client,
    begun: Instant,
    progress: Instant,
    count: u32,
    // Attempts since the last progress, which decide how long to wait.
    in_vain: u32,
    // Microseconds spent waiting for a turn since the last progress.
    queued: AtomicU64,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        let now = Instant::now();
        Attempts { client, begun: now, progress: now, count: 0, in_vain: 0, queued: AtomicU64::new(0) }
    }

    /// How long one attempt that moves so many bytes may take.
    pub(crate) fn limit(&self, bytes: usize) -> Duration {
        // A slow link brings half a megabyte per second.
        self.client.deadline / 3 + Duration::from_secs_f64(bytes as f64 / 524_288.0)
    }

    /// Something arrived: the deadline is counted from now.
    pub(crate) fn progressed(&mut self) {
        self.progress = Instant::now();
        self.in_vain = 0;
        *self.queued.get_mut() = 0;
    }

    /// How many attempts failed so far.
    pub(crate) fn failed(&self) -> u32 {
        self.count
    }

    /// After a failed attempt: waits, and says whether there is to be another.
    pub(crate) async fn again(&mut self, failure: &Failure) -> bool {
        self.count += 1;
        self.in_vain += 1;
        if failure.what != What::Again {
            return false;
        }
        let known = self.client.has_answered.load(Ordering::Relaxed);
        let deadline = if known { self.client.deadline } else { self.client.deadline / 3 };
        // 25 ms, doubled with each attempt up to 3.2 s, and of that a random part.
        let longest = Duration::from_millis(25) * 2_u32.pow(self.in_vain.min(7));
        let mut pause = longest.mul_f64(crate::provider::chance());
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

    /// The last failure as an error for the person who must act.
    pub(crate) fn error(&self, failure: &Failure, place: &Place<'_>) -> StoreError {
        let (key, store) = (place.key.to_owned(), place.store.to_owned());
        if failure.what == What::NotFound {
            return StoreError::NotFound { key, store };
        }
        let answer = &failure.answer;
        let kind = match answer.status {
            401 | 403 => std::io::ErrorKind::PermissionDenied,
            404 => std::io::ErrorKind::NotFound,
            0 if !answer.for_credentials => std::io::ErrorKind::TimedOut,
            _ => std::io::ErrorKind::Other,
        };
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
        StoreError::Io { key, store, operation: place.operation, source: std::io::Error::new(kind, text) }
    }

    fn advice(&self, failure: &Failure) -> String {
        let answer = &failure.answer;
        let anonymous = "for public data set the storage option skip_signature to \"true\"";
        if answer.for_credentials || (answer.status < 300 && failure.what == What::Permanent) {
            return format!(
                "no credentials were found: set storage_options, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_PROFILE; {anonymous}"
            );
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
            (401 | 403, _) => format!("the credentials do not allow it, or there are none; {anonymous}"),
            (301 | 307 | 400, _) => format!(
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

/// What an operation is about, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) key: &'a str,
    pub(crate) store: &'a str,
    pub(crate) operation: &'static str,
}
