//! Memory for the values of a region: this process's own, or shared with a server on this machine.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

#[cfg(feature = "object")]
use drystone_client::Piece;

use super::slab::Lent;
use drystone::Result;

use super::error::invalid;

/// The alignment of its first byte: a cache line.
const ALIGN: usize = 64;

/// Memory of a fixed length. It has no lock: its users agree which of them writes, and when.
#[derive(Debug)]
pub struct Memory {
    kind: Kind,
    len: usize,
}

#[derive(Debug)]
enum Kind {
    Own(NonNull<u8>),
    #[cfg(feature = "object")]
    Shared(Piece),
}

// SAFETY: the allocation belongs to this value until it is dropped, and is used only through raw pointers.
unsafe impl Send for Memory {}
// SAFETY: as above; `pointer` leaves the rules of its use to the caller.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of this process, all zero.
    pub(super) fn own(len: usize) -> Result<Memory> {
        let too_large = || invalid(format!("a region of {len} bytes does not fit into memory"));
        let layout = Layout::from_size_align(len.max(1), ALIGN).map_err(|_| too_large())?;
        // SAFETY: the layout has a size above 0.
        let first = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(too_large)?;
        Ok(Memory { kind: Kind::Own(first), len })
    }

    /// Memory shared with a server, all zero.
    #[cfg(feature = "object")]
    pub(super) fn shared(piece: Piece) -> Memory {
        let len = piece.len();
        if !piece.is_fresh() {
            // SAFETY: the piece has `len` bytes there. Nothing else in this process uses them, and the server only
            // reads.
            unsafe { piece.pointer().write_bytes(0, len) };
        }
        Memory { kind: Kind::Shared(piece), len }
    }

    /// The first byte. The pointer is valid as long as this value lives.
    pub fn pointer(&self) -> *mut u8 {
        match &self.kind {
            Kind::Own(first) => first.as_ptr(),
            #[cfg(feature = "object")]
            Kind::Shared(piece) => piece.pointer(),
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its piece of a shared arena, if it has one.
    #[cfg(feature = "object")]
    pub(super) fn piece(&self) -> Option<&Piece> {
        match &self.kind {
            Kind::Own(_) => None,
            Kind::Shared(piece) => Some(piece),
        }
    }

    /// Whether the memory is shared with a server.
    pub fn is_shared(&self) -> bool {
        !matches!(self.kind, Kind::Own(_))
    }

    /// A copy of the bytes, made while nothing writes to them.
    pub(super) fn copied(&self) -> Vec<u8> {
        let mut out = vec![0; self.len];
        self.copy_to(0, &mut out);
        out
    }

    fn copy_to(&self, at: usize, out: &mut [u8]) {
        assert!(at.checked_add(out.len()).is_some_and(|end| end <= self.len), "the range lies in the memory");
        // SAFETY: the range lies in the memory, as was checked, and `out` does not overlap it. Only raw pointers are
        // used, so nothing is assumed about bytes that their holder changes meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer().add(at), out.as_mut_ptr(), out.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let (Kind::Own(first), Ok(layout)) = (&self.kind, Layout::from_size_align(self.len.max(1), ALIGN))
        {
            // SAFETY: it was allocated by `own` with this layout.
            unsafe { dealloc(first.as_ptr(), layout) };
        }
    }
}

/// Memory that was released. Its holder does not write to it.
pub(super) struct Released(pub(super) Arc<Memory>);

impl Lent for Released {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy_out(&self, at: usize, out: &mut [u8]) {
        self.0.copy_to(at, out);
    }
}
