//! Memory shared with a server on this machine, and the connection on which it is released.
//!
//! The connection has one request in flight, written and awaited by the calling thread: a release is one write
//! and one read. If the connection breaks, the caller repeats the request on an ordinary one, and the next
//! mapped region opens another.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use drystone_arena::{Arena, Piece, Pieces};
use drystone_wire::{
    Ask, Builder, GREETING_LEN, Greeting, MESSAGE_HEAD_LEN, Malformed, MessageHead, Status, UPGRADE,
};

use crate::failure::Failure;
use crate::replies::answers;

/// A server that gave no arena is asked again after this time.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest head of a reply to the request for an arena, in bytes.
const HEAD: usize = 8192;

/// The arena of an endpoint, opened when a region is first mapped.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unasked,
    Open(Arc<Link>),
    /// The server gave none at this time.
    Absent(Instant),
}

/// An arena, and its connection.
#[derive(Debug)]
pub(crate) struct Link {
    pieces: Arc<Pieces>,
    stream: Mutex<UnixStream>,
    is_broken: AtomicBool,
}

impl Shared {
    /// The link, if there is one.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open(link) if !link.is_broken.load(Ordering::Relaxed) => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// Drops the link. The memory is freed when the last piece of it is dropped too.
    pub(crate) fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State::Unasked;
    }

    /// A piece of the arena; `None` if the server shares no memory, or if all of it is in use.
    pub(crate) fn piece(&self, socket: &Path, wanted: u64, deadline: Duration, len: usize) -> Option<Piece> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let opens = match &*state {
            State::Unasked => true,
            State::Open(link) => link.is_broken.load(Ordering::Relaxed),
            State::Absent(since) => since.elapsed() > AGAIN,
        };
        if opens {
            *state = match Link::open(socket, wanted, deadline) {
                Ok(link) => State::Open(Arc::new(link)),
                Err(_) => State::Absent(Instant::now()),
            };
        }
        match &*state {
            State::Open(link) => link.pieces.take(len),
            _ => None,
        }
    }
}

impl Link {
    fn open(socket: &Path, wanted: u64, deadline: Duration) -> io::Result<Link> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(deadline))?;
        stream.set_write_timeout(Some(deadline))?;
        let request = format!(
            "GET /v1/arena HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {UPGRADE}\r\n\
             {UPGRADE}: {wanted}\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        // The head is read byte by byte, since the bytes after it come with a descriptor, which an ordinary read would
        // lose.
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            head.extend_from_slice(&byte);
            if head.len() > HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        if !head.starts_with(b"HTTP/1.1 101 ") {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the server shares no memory"));
        }
        let mut greeting = [0; GREETING_LEN];
        let fd = drystone_arena::receive(&stream, &mut greeting)?;
        let greeting = Greeting::decode(&greeting).map_err(odd)?;
        let arena = Arena::received(fd, usize::try_from(greeting.len).map_err(io::Error::other)?)?;
        Ok(Link { pieces: Pieces::new(arena), stream: Mutex::new(stream), is_broken: AtomicBool::new(false) })
    }

    /// Whether the piece belongs to this arena.
    pub(crate) fn has(&self, piece: &Piece) -> bool {
        piece.is_of(&self.pieces)
    }

    /// Sends one request; returns the numbers of its answer. A failure without a status means that the
    /// connection broke, and that it is unknown whether the request was executed.
    pub(crate) fn ask(&self, container: &str, ask: &Ask, payload: &[u8]) -> Result<Vec<u64>, Failure> {
        let mut body = Builder::new();
        body.frame(&ask.header(), &[payload]);
        let body = body.end(Status::Ok, "");
        let reply = self.exchanged(container, &body).map_err(|error| {
            self.is_broken.store(true, Ordering::Relaxed);
            Failure::lost(format!("the connection with shared memory broke: {error}"))
        })?;
        let answer = answers(reply, 1)?.into_iter().next().unwrap_or_else(|| Err(Failure::lost("no answer")));
        answer.map(|(numbers, _)| numbers)
    }

    fn exchanged(&self, container: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let len = |len: usize| u32::try_from(len).map_err(io::Error::other);
        let head = MessageHead { name_len: len(container.len())?, body_len: len(body.len())? };
        let mut stream = &*stream;
        stream.write_all(&[head.encode().as_slice(), container.as_bytes(), body].concat())?;
        let mut head = [0; MESSAGE_HEAD_LEN];
        stream.read_exact(&mut head)?;
        let head = MessageHead::decode(&head).map_err(odd)?;
        let mut reply = vec![0; head.name_len as usize + head.body_len as usize];
        stream.read_exact(&mut reply)?;
        Ok(reply)
    }
}

fn odd(bad: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, bad)
}
