//! What a client has handed out of its arena.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Arena;
use crate::room::Room;

/// An arena that is divided into pieces.
#[derive(Debug)]
pub struct Pieces {
    arena: Arena,
    room: Mutex<Room>,
    /// Bytes from the beginning that some piece had.
    used: AtomicUsize,
    /// The process that has it: memory that a fork has copied is not the child's to release.
    process: u32,
}

/// Bytes of an arena that nobody else in this process has; they are free again when this is dropped.
#[derive(Debug)]
pub struct Piece {
    of: Arc<Pieces>,
    at: usize,
    len: usize,
    is_fresh: bool,
}

impl Pieces {
    /// All of it is free.
    pub fn new(arena: Arena) -> Arc<Pieces> {
        let room = Mutex::new(Room::new(arena.len()));
        Arc::new(Pieces { arena, room, used: AtomicUsize::new(0), process: std::process::id() })
    }

    /// A piece of this many bytes; `None`: there is no room, or no such length. What another piece has left in it is
    /// there still.
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
    /// Its first byte in this process; at a page's beginning.
    pub fn pointer(&self) -> *mut u8 {
        self.of.arena.pointer(self.at).unwrap_or(std::ptr::null_mut())
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a piece has bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no piece had its bytes before: they are zero.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Its place in the arena.
    pub fn at(&self) -> u64 {
        self.at as u64
    }

    /// Whether it is of this arena, and of this process.
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
