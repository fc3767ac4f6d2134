//! Memory that clients of this machine share with the server: its total, and the connections that have it.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use drystone_arena::Arena;
use drystone_region::Lent;
use drystone_wire::Status;

use crate::Limits;
use crate::reply::Refusal;

/// The length of an arena is a multiple of this.
const UNIT: u64 = 1 << 20;

/// The arenas of all clients.
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

    /// Number of clients that have an arena.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Makes an arena of `wanted` bytes, or of fewer if the limits allow fewer.
    pub(crate) fn make(self: &Arc<Self>, wanted: u64, limits: &Limits) -> Result<Held, Refusal> {
        let no_room = || {
            Refusal::new(Status::NoSpace, "there is no room for another arena (limits.arena, limits.arenas)")
        };
        let len = self.granted(wanted, limits.arena, limits.arenas).ok_or_else(no_room)?;
        let granted = Granted { of: Arc::clone(self), len };
        let arena = usize::try_from(len).map_err(io::Error::other).and_then(Arena::create);
        let arena = arena.map_err(|error| {
            Refusal::new(Status::NoSpace, format!("no memory to share: {}", error.kind()))
        })?;
        Ok(Held { arena, _granted: granted })
    }

    /// Records a new connection and returns its number.
    pub(crate) fn begin(&self, stream: UnixStream) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, stream);
        number
    }

    /// Records that a connection has ended.
    pub(crate) fn end(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    /// Grants up to `wanted` bytes to a client: at most `one`, and at most `all` for all clients together. `None` if
    /// nothing is left.
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

/// Granted bytes, which count until this value is dropped.
struct Granted {
    of: Arc<Arenas>,
    len: u64,
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.len, Ordering::Relaxed);
    }
}

/// An arena, with its granted bytes.
pub(crate) struct Held {
    pub(crate) arena: Arena,
    _granted: Granted,
}

/// Values of a release in an arena.
pub(crate) struct Part {
    pub(crate) held: Arc<Held>,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Lent for Part {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_out(&self, at: usize, out: &mut [u8]) {
        self.held.arena.copy_out(self.at.saturating_add(at), out);
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
