//! Connections with an arena, on which clients lock regions and release them without copying the values.
//!
//! Each such connection has its own thread, so a release takes only two switches between processes.
//!
//! Invariants
//! - an arena belongs to one connection, and the kernel states that its peer is the server's own user;
//! - when the connection ends, the locks that were granted on it end, and values that were not released are dropped;
//! - a release holds the mapping until its values are in the log, so released values survive their client.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use drystone_region::{Cells, Regions, Release, Values};
use drystone_wire::{
    Answer, Ask, Builder, Frames, Greeting, MESSAGE_HEAD_LEN, Malformed, MessageHead, Status, UPGRADE,
};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;

use crate::arenas::{Held, Part};
use crate::asked::Who;
use crate::regions::{cells, refused, work};
use crate::reply::{Refusal, Reply, text};
use crate::state::State;
use crate::token::Right;

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
            "memory is shared only with processes of the server's own user, on its Unix socket",
        ));
    }
    let headers = request.headers();
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let wanted = said(UPGRADE).and_then(|text| text.parse::<u64>().ok());
    let (Some(UPGRADE), Some(wanted)) = (said("upgrade"), wanted) else {
        return Err(Refusal::new(
            Status::Invalid,
            format!(
                "this path turns a connection into one with an arena: Upgrade: {UPGRADE}, {UPGRADE}: BYTES"
            ),
        ));
    };
    let held = Arc::new(state.arenas.make(wanted, &state.config.limits)?);
    let connection = Connection {
        state: Arc::clone(state),
        client: client.to_owned(),
        held,
        leases: Vec::new(),
        accepted: None,
    };
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<tokio::net::UnixStream>>() else { return };
        let stream = parts.io.into_inner().into_std();
        let Ok(stream) = stream.and_then(|stream| stream.set_nonblocking(false).map(|()| stream)) else {
            return;
        };
        // The client sends nothing before the greeting, so no byte of it was read here.
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
    /// Locks that were granted on this connection and are still held.
    leases: Vec<(Arc<Regions>, u64)>,
    /// Regions with values that were accepted with the current message. They are written after the message is answered.
    accepted: Option<Arc<Regions>>,
}

impl Connection {
    fn serve(mut self, stream: UnixStream) {
        let Ok(other) = stream.try_clone() else { return };
        let number = self.state.arenas.begin(other);
        // Released values stay valid however the connection ends, so its error is ignored.
        let _ = self.messages(&stream);
        for (regions, fence) in std::mem::take(&mut self.leases) {
            regions.unlock(fence);
        }
        self.state.arenas.end(number);
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
            let answered = stream.write_all(&[head.as_slice(), &reply].concat());
            if let Some(regions) = self.accepted.take() {
                regions.begin();
            }
            answered?;
        }
    }

    /// Answers the body of a message.
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
        let lease = state.config.limits.lease;
        match ask {
            Ask::Lock { .. } => {
                let numbers = work(&regions, lease, ask, payload, Duration::ZERO)?;
                self.leases.extend(numbers.first().map(|fence| (regions, *fence)));
                Ok(numbers)
            }
            Ask::Unlock { fence } => {
                let numbers = work(&regions, lease, ask, payload, Duration::ZERO)?;
                self.leases.retain(|(_, held)| held != fence);
                Ok(numbers)
            }
            Ask::Release { region, once, fence, stable, kind } => {
                let values = Values::Owned(payload.to_vec());
                self.accept(regions, cells(region), values, (*once, *fence, *stable, *kind))
            }
            Ask::Renew { .. } | Ask::Wait { .. } => work(&regions, lease, ask, payload, Duration::ZERO),
            Ask::ReleaseShared { region, once, fence, stable, at, kind } => {
                let cells = cells(region);
                let item = regions.element_size(&cells).map_err(|error| refused(&error.into()))?;
                let len = cells.count.iter().try_fold(item as u64, |all, n| all.checked_mul(*n));
                let beyond = || Refusal::new(Status::Invalid, "the region does not lie in the arena");
                let len = len.filter(|len| self.held.arena.holds(*at, *len)).ok_or_else(beyond)?;
                let (at, len) = (usize::try_from(*at), usize::try_from(len));
                let (Ok(at), Ok(len)) = (at, len) else { return Err(beyond()) };
                let values = Values::Lent(Arc::new(Part { held: Arc::clone(&self.held), at, len }));
                self.accept(regions, cells, values, (*once, *fence, *stable, *kind))
            }
            _ => Err(Refusal::new(
                Status::Unsupported,
                "this request is not supported on a connection with an arena",
            )),
        }
    }

    /// Accepts values, which are written after the message is answered.
    fn accept(
        &mut self,
        regions: Arc<Regions>,
        cells: Cells,
        values: Values,
        (once, fence, stable, kind): (u64, u64, bool, Option<u32>),
    ) -> Result<Vec<u64>, Refusal> {
        let held = (fence != 0).then_some(fence);
        let release = Release { cells, values, fence: held, stable, once, kind };
        let transfer = regions.accept(release).map_err(|error| refused(&error))?;
        self.leases.retain(|(_, held)| *held != fence);
        if let Some(before) = self.accepted.replace(regions) {
            before.begin();
        }
        Ok(vec![transfer])
    }
}
