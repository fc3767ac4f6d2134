//! A request whose client is known: who sent it, its rights, and its time limit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use drystone_wire::Status;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use tokio::sync::OwnedSemaphorePermit;

use crate::buffers::Gathered;
use crate::reply::Refusal;
use crate::state::State;
use crate::token::{Known, Right};

/// After this pause in a body, the server stops waiting for the rest.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// A process on this machine that belongs to the server's user.
    SameUser(u32),
    /// Any other client.
    Far,
}

/// The client that sent a request.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    SameUser(u32),
    Token(Known),
    Nobody,
}

impl Who {
    /// Its name in metrics and logs.
    pub(crate) fn label(&self) -> String {
        match self {
            Who::SameUser(uid) => format!("uid:{uid}"),
            Who::Token(known) => format!("token:{}", known.id),
            Who::Nobody => "nobody".into(),
        }
    }

    pub(crate) fn has(&self, right: Right, name: &str) -> bool {
        match self {
            Who::SameUser(_) => true,
            Who::Token(known) => known.allows(right, name),
            Who::Nobody => false,
        }
    }

    /// Refuses the request unless its client has one of these rights.
    pub(crate) fn needs(&self, rights: &[Right], name: &str) -> Result<(), Refusal> {
        if rights.iter().any(|right| self.has(*right, name)) {
            return Ok(());
        }
        let names: Vec<&str> = rights.iter().map(|right| right.name()).collect();
        let names = names.join(" or ");
        Err(match self {
            Who::Nobody => Refusal {
                needs_token: true,
                ..Refusal::new(
                    Status::Denied,
                    format!("this needs a token with {names}:/{name} that has not expired"),
                )
            },
            _ => Refusal::new(Status::Denied, format!("the token has no {names} on /{name}")),
        })
    }
}

/// A request whose client is known.
pub(crate) struct Asked {
    pub(crate) state: Arc<State>,
    pub(crate) who: Who,
    pub(crate) headers: HeaderMap,
    pub(crate) until: Instant,
}

impl Asked {
    /// The time that is left; refuses the request if there is none.
    pub(crate) fn left(&self) -> Result<Duration, Refusal> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::new(
                Status::Deadline,
                "the time limit of the client has passed; nothing was done",
            ));
        }
        Ok(left)
    }

    /// The longest time for which the request waits for a turn.
    pub(crate) fn patience(&self) -> Result<Duration, Refusal> {
        Ok(self.left()?.min(self.state.patience()))
    }

    /// Reads a body whose length was announced, and returns its parts. The permit counts its memory until it is
    /// dropped.
    pub(crate) async fn body(
        &self,
        mut body: Incoming,
    ) -> Result<(Vec<Bytes>, OwnedSemaphorePermit), Refusal> {
        let Some(len) = body.size_hint().exact() else {
            return Err(Refusal::new(
                Status::Invalid,
                "the request must say how long its body is (Content-Length)",
            ));
        };
        let room = self.state.admission.room(len, self.patience()?).await?;
        let mut parts = Vec::new();
        // A long body is copied to memory that is reused, so that the buffers in which it arrived are free for its next
        // bytes.
        let mut gathered = self.state.buffers.gather(usize::try_from(len).unwrap_or(0));
        loop {
            let cut = || Refusal::new(Status::Io, "the body broke off; nothing was done");
            let frame = match tokio::time::timeout(STALL, body.frame()).await {
                Err(_) | Ok(Some(Err(_))) => return Err(cut()),
                Ok(None) => break,
                Ok(Some(Ok(frame))) => frame,
            };
            if let Ok(data) = frame.into_data() {
                self.state.metrics.bytes_in.fetch_add(data.len() as u64, Ordering::Relaxed);
                match &mut gathered {
                    Some(gathered) => gathered.push(&data),
                    None => parts.push(data),
                }
            }
        }
        parts.extend(gathered.map(Gathered::done));
        Ok((parts, room))
    }
}

/// Runs `work`, which may block, on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Refusal::unfinished()),
    }
}
