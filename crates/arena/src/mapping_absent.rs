//! For systems without sealed memory: there are no arenas, and clients use memory of their own.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// No value of this type exists.
#[derive(Debug)]
pub enum Arena {}

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no sealed memory to share"))
}

impl Arena {
    /// `Unsupported`.
    pub fn create(_len: usize) -> io::Result<Arena> {
        unsupported()
    }
    /// `Unsupported`.
    pub fn received(_fd: OwnedFd, _len: usize) -> io::Result<Arena> {
        unsupported()
    }
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match *self {}
    }
    /// Whether its length is 0.
    pub fn is_empty(&self) -> bool {
        match *self {}
    }
    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
    /// Whether these bytes lie within it.
    pub fn holds(&self, _at: u64, _len: u64) -> bool {
        match *self {}
    }
    /// Copies bytes.
    pub fn copy_out(&self, _at: usize, _out: &mut [u8]) -> bool {
        match *self {}
    }
    /// The address of a byte.
    pub fn pointer(&self, _at: usize) -> Option<*mut u8> {
        match *self {}
    }
}
