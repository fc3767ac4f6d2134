//! A segment that is uploaded to a far store in pieces while it is filled. So a block may be larger than the memory
//! that the writer may use.
//!
//! The bytes are copied once, into pieces of [`PIECE`]. The piece being filled and those being uploaded take 27.5
//! MiB. Of 32 MiB, that leaves space for gathering and encoding.
//!
//! Invariant: pieces are handed over in order, and all but the last have `PIECE` bytes.

use drystone_store::{BoundedUpload, Pending, Store, Waits};

use crate::Result;

/// The length of a piece in bytes.
pub(crate) const PIECE: usize = 11 << 19;
/// The capacity of a buffer: a piece, with headers and padding after it.
pub(crate) const BUFFER: usize = PIECE + (4 << 10);
/// The most pieces in flight at once.
const UNDER_WAY: usize = 4;
// A smaller piece would not reach the number of bytes that a store may hold back; a larger one would exceed the
// memory above.
const _: () = assert!(PIECE >= drystone_store::PIECE && (UNDER_WAY * PIECE) as u64 > drystone_store::HELD);

/// The object, with its pieces that may not have arrived yet.
#[derive(Debug)]
pub(crate) struct Rising {
    upload: BoundedUpload,
    spare: Option<Vec<u8>>,
}

impl Rising {
    pub(crate) fn begin(store: &dyn Store, key: &str) -> Result<Rising> {
        Ok(Rising { upload: BoundedUpload::begin(store, key, UNDER_WAY)?, spare: None })
    }

    /// Hands a piece over, after waiting until enough earlier pieces have arrived.
    pub(crate) fn add(&mut self, piece: Vec<u8>) -> Result<()> {
        if let Some(spare) = self.upload.add(piece)? {
            self.spare = Some(spare);
        }
        Ok(())
    }

    /// An empty buffer that holds a piece.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| buffer.capacity() >= BUFFER;
        self.spare.take().filter(fits).unwrap_or_else(|| Vec::with_capacity(BUFFER))
    }

    /// Ends the object. Returns the outcome of the whole upload, the bytes in flight, and how long pieces waited.
    pub(crate) fn finish(self) -> (Pending, u64, Waits) {
        let waits = self.upload.waits();
        let (pending, bytes) = self.upload.finish();
        (pending, bytes, waits)
    }
}
