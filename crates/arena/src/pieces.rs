//! The pieces of an arena that a client has handed out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Arena;
use crate::room::Room;

/// An arena that is divided into pieces.
#[derive(Debug)]
pub struct Pieces {
    arena: Arena,
    room: Mutex<Room>,
    /// Number of bytes, from the beginning, that have been part of some piece.
    used: AtomicUsize,
    /// The process that owns it. In a forked child the memory is not the child's to release.
    process: u32,
}

/// Bytes of an arena that belong to one holder in this process; they are free again when this is dropped.
#[derive(Debug)]
pub struct Piece {
    of: Arc<Pieces>,
    at: usize,
    len: usize,
    is_fresh: bool,
}

impl Pieces {
    /// An arena whose bytes are all free.
    pub fn new(arena: Arena) -> Arc<Pieces> {
        let room = Mutex::new(Room::new(arena.len()));
        Arc::new(Pieces { arena, room, used: AtomicUsize::new(0), process: std::process::id() })
    }

    /// A piece of this many bytes; `None` if no free range is long enough, or the length is 0. It may still contain
    /// bytes of an earlier piece.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<Piece> {
        if len == 0 || self.process != std::process::id() {
            return None;
        }
        let at = self.room.lock().unwrap_or_else(PoisonError::into_inner).take(len)?;
        let used = self.used.fetch_max(at + len, Ordering::Relaxed);
        Some(Piece { of: Arc::clone(self), at, len, is_fresh: at >= used })
    }
}

impl Piece {
    /// The address of its first byte in this process, at the beginning of a page.
    pub fn pointer(&self) -> *mut u8 {
        self.of.arena.pointer(self.at).unwrap_or(std::ptr::null_mut())
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: a piece has bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether none of its bytes belonged to a piece before, so that they are zero.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Its offset in the arena.
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// Whether it belongs to this arena and this process.
    pub fn is_of(&self, pieces: &Arc<Pieces>) -> bool {
        Arc::ptr_eq(&self.of, pieces) && pieces.process == std::process::id()
    }

    /// A copy of its bytes.
    pub fn copied(&self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        self.of.arena.copy_out(self.at, &mut out);
        out
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.of.room.lock().unwrap_or_else(PoisonError::into_inner).give(self.at, self.len);
    }
}
