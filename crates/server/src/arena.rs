//! Arenas: memory that the server shares with clients of this machine, and the connections that release it.
//!
//! A thread serves each such connection, so a release takes two switches between processes and no more.
//!
//! Invariants
//! - an arena belongs to one connection, which the kernel says is of the server's own user;
//! - when the connection ends, the locks that were granted on it end, and nothing that was not released is kept;
//! - a release holds the mapping until its values are in the log: they survive their client.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drystone::region::{Lent, Regions, Release, Values};
use drystone_arena::Arena;
use drystone_wire::{
    Answer, Ask, Builder, Frames, Greeting, MESSAGE_HEAD_LEN, Malformed, MessageHead, Status, UPGRADE,
};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;

use crate::asked::Who;
use crate::regions::{cells, refused, short};
use crate::reply::{Refusal, Reply, text};
use crate::state::State;
use crate::token::Right;

/// An arena is a multiple of this, and no shorter.
const UNIT: u64 = 1 << 20;

/// The arenas that clients have.
#[derive(Default)]
pub(crate) struct Arenas {
    bytes: AtomicU64,
    next: AtomicU64,
    open: Mutex<HashMap<u64, UnixStream>>,
}

impl Arenas {
    /// Bytes of all arenas.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Clients that have one.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// What a client gets that would like `wanted` bytes: at most `one`, and at most `all` together with the others. `None`: there is no room.
    fn granted(&self, wanted: u64, one: u64, all: u64) -> Option<u64> {
        let take = |taken: u64| {
            let len = wanted.min(one).min(all.saturating_sub(taken));
            Some(len - len % UNIT).filter(|len| *len > 0)
        };
        let next = |taken| take(taken).map(|len| taken + len);
        let before = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        take(before)
    }
}

/// Bytes that count until this is dropped.
struct Granted {
    state: Arc<State>,
    len: u64,
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.state.arenas.bytes.fetch_sub(self.len, Ordering::Relaxed);
    }
}

/// An arena, and its share of what all may have.
struct Held {
    arena: Arena,
    _granted: Granted,
}

/// Values of a release in an arena.
struct Part {
    held: Arc<Held>,
    at: usize,
    len: usize,
}

impl Lent for Part {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_out(&self, at: usize, out: &mut [u8]) {
        self.held.arena.copy_out(self.at.saturating_add(at), out);
    }
}

/// Turns the connection of a request into one with an arena.
pub(crate) fn answer(
    state: &Arc<State>,
    who: &Who,
    client: &str,
    request: Request<Incoming>,
) -> Result<Reply, Refusal> {
    if !matches!(who, Who::SameUser(_)) {
        who.needs(&[Right::Modify], "")?;
        return Err(Refusal::new(
            Status::Denied,
            "memory is shared with processes of the server's own user, on its Unix socket",
        ));
    }
    let headers = request.headers();
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let wanted = said(UPGRADE).and_then(|text| text.parse::<u64>().ok());
    let (Some(UPGRADE), Some(wanted)) = (said("upgrade"), wanted) else {
        return Err(Refusal::new(
            Status::Invalid,
            format!("this path turns a connection into one with an arena: Upgrade: {UPGRADE}, {UPGRADE}: BYTES"),
        ));
    };
    let limits = &state.config.limits;
    let no_room = || Refusal::new(Status::NoSpace, "there is no room for another arena (limits.arena, limits.arenas)");
    let len = state.arenas.granted(wanted, limits.arena, limits.arenas).ok_or_else(no_room)?;
    let granted = Granted { state: Arc::clone(state), len };
    let arena = usize::try_from(len).map_err(io::Error::other).and_then(Arena::create);
    let arena = arena.map_err(|error| Refusal::new(Status::NoSpace, format!("no memory to share: {}", error.kind())))?;
    let connection = Connection {
        state: Arc::clone(state),
        client: client.to_owned(),
        held: Arc::new(Held { arena, _granted: granted }),
        leases: Vec::new(),
    };
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<tokio::net::UnixStream>>() else { return };
        let stream = parts.io.into_inner().into_std();
        let Ok(stream) = stream.and_then(|stream| stream.set_nonblocking(false).map(|()| stream)) else { return };
        // The client speaks after the greeting, so nothing of it was read before.
        let thread = std::thread::Builder::new().name("drystone-arena".into());
        let _ = thread.spawn(move || connection.serve(stream));
    });
    let mut reply = text(101, "");
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    reply.headers_mut().insert("upgrade", HeaderValue::from_static(UPGRADE));
    Ok(reply)
}

/// A connection with an arena.
struct Connection {
    state: Arc<State>,
    client: String,
    held: Arc<Held>,
    /// Locks that were granted on it and neither released nor ended.
    leases: Vec<(Arc<Regions>, u64)>,
}

impl Connection {
    fn serve(mut self, stream: UnixStream) {
        let arenas = &self.state.arenas;
        let number = arenas.next.fetch_add(1, Ordering::Relaxed);
        let Ok(other) = stream.try_clone() else { return };
        arenas.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, other);
        // How the client goes says nothing of what it has released.
        let _ = self.messages(&stream);
        for (regions, fence) in std::mem::take(&mut self.leases) {
            regions.unlock(fence);
        }
        self.state.arenas.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    fn messages(&mut self, mut stream: &UnixStream) -> io::Result<()> {
        let arena = &self.held.arena;
        drystone_arena::send(stream, &Greeting { len: arena.len() as u64 }.encode(), arena.fd())?;
        let mut head = [0; MESSAGE_HEAD_LEN];
        loop {
            stream.read_exact(&mut head)?;
            let odd = |bad: Malformed| io::Error::new(io::ErrorKind::InvalidData, bad);
            let head = MessageHead::decode(&head).map_err(odd)?;
            let (mut name, mut body) = (vec![0; head.name_len as usize], vec![0; head.body_len as usize]);
            stream.read_exact(&mut name)?;
            stream.read_exact(&mut body)?;
            let name = String::from_utf8_lossy(&name).into_owned();
            let reply = self.answered(&name, &body);
            let len = u32::try_from(reply.len()).map_err(io::Error::other)?;
            let head = MessageHead { name_len: 0, body_len: len }.encode();
            stream.write_all(&[head.as_slice(), &reply].concat())?;
        }
    }

    /// The body that answers a body.
    fn answered(&mut self, name: &str, body: &[u8]) -> Vec<u8> {
        let mut started = self.state.metrics.start("arena", name, &self.client);
        let mut reply = Builder::new();
        let malformed = |bad: &Malformed| format!("the request is {bad}");
        let frames = match Frames::decode(body) {
            Ok(frames) => frames.into_frames(),
            Err(bad) => {
                started.status = Status::Invalid.http();
                return reply.end(Status::Invalid, &malformed(&bad));
            }
        };
        started.status = Status::Ok.http();
        for (number, (header, payload)) in frames.into_iter().enumerate() {
            let done = match Ask::of_header(header) {
                Ok(ask) => self.done(name, &ask, payload),
                Err(bad) => Err(Refusal::new(Status::Invalid, malformed(&bad))),
            };
            let (status, numbers, text) = match done {
                Ok(numbers) => (Status::Ok, numbers, String::new()),
                Err(refusal) => (refusal.status, Vec::new(), refusal.message),
            };
            if status != Status::Ok {
                started.status = status.http();
            }
            reply.frame(&Answer::To { ask: number as u64, status, numbers, text }.header(), &[]);
        }
        reply.end(Status::Ok, "")
    }

    fn done(&mut self, name: &str, ask: &Ask, payload: &[u8]) -> Result<Vec<u64>, Refusal> {
        let state = &self.state;
        let opened = state.stores.of(&state.config, name, false)?;
        let regions = state.regions.of(&state.config, name, &opened)?;
        match ask {
            Ask::Lock { region, once, life } => {
                let life = short(*life, state.config.limits.lease);
                let lease = regions.lock(&[cells(region)], Duration::ZERO, life, *once);
                let lease = lease.map_err(|error| refused(&error))?;
                self.leases.push((regions, lease.fence));
                Ok(vec![lease.fence, u64::try_from(lease.life.as_millis()).unwrap_or(u64::MAX)])
            }
            Ask::Renew { fence } => {
                regions.renew(*fence).map_err(|error| refused(&error))?;
                Ok(Vec::new())
            }
            Ask::Unlock { fence } => {
                regions.unlock(*fence);
                self.leases.retain(|(_, held)| held != fence);
                Ok(Vec::new())
            }
            Ask::Release { fence, .. } => {
                let done = state.regions.done(&state.config, name, &opened, ask, payload);
                let numbers = done.unwrap_or_else(|| Ok(Vec::new()))?;
                self.leases.retain(|(_, held)| held != fence);
                Ok(numbers)
            }
            Ask::ReleaseShared { region, once, fence, stable, at } => {
                let cells = cells(region);
                let item = regions.element_size(&cells).map_err(|error| refused(&error.into()))?;
                let len = cells.count.iter().try_fold(item as u64, |all, n| all.checked_mul(*n));
                let beyond = || Refusal::new(Status::Invalid, "the region does not lie in the arena");
                let len = len.filter(|len| self.held.arena.holds(*at, *len)).ok_or_else(beyond)?;
                let (at, len) = (usize::try_from(*at), usize::try_from(len));
                let (Ok(at), Ok(len)) = (at, len) else { return Err(beyond()) };
                let values = Values::Lent(Arc::new(Part { held: Arc::clone(&self.held), at, len }));
                let held = (*fence != 0).then_some(*fence);
                let release = Release { cells, values, fence: held, stable: *stable, once: *once };
                let transfer = regions.release(release).map_err(|error| refused(&error))?;
                self.leases.retain(|(_, held)| held != fence);
                Ok(vec![transfer])
            }
            _ => Err(Refusal::new(Status::Unsupported, "this is asked for on other connections")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_is_left_in_whole_units() {
        let arenas = Arenas::default();
        assert_eq!(arenas.granted(5 << 20, 4 << 20, 10 << 20), Some(4 << 20));
        assert_eq!(arenas.granted((3 << 20) + 5, 4 << 20, 10 << 20), Some(3 << 20));
        assert_eq!(arenas.granted(u64::MAX, 4 << 20, 10 << 20), Some(3 << 20), "what is left");
        assert_eq!(arenas.granted(1 << 20, 4 << 20, 10 << 20), None);
        assert_eq!(arenas.bytes(), 10 << 20);
        arenas.bytes.fetch_sub(4 << 20, Ordering::Relaxed);
        assert_eq!(arenas.granted(1 << 20, 0, 10 << 20), None, "an operator may allow none");
    }
}
