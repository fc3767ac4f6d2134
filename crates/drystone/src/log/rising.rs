//! A segment that goes up in pieces while it is filled, to a store that is far: a block may be larger than what the
//! writer may hold.
//!
//! The bytes are copied once, into pieces of [`PIECE`]. With the one that is being filled, those under way have 27.5 MiB,
//! which leaves room for what gathers and encodes them below 32 MiB.
//!
//! Invariant: pieces are handed over in order, and all but the last have `PIECE` bytes.

use drystone_store::{BoundedUpload, Pending, Store, Waits};

use crate::Result;

/// Length of a piece in bytes.
pub(crate) const PIECE: usize = 11 << 19;
/// Room of a buffer that holds a piece, and headers and padding behind it.
pub(crate) const BUFFER: usize = PIECE + (4 << 10);
/// Pieces under way at once.
const UNDER_WAY: usize = 4;
// Fewer would not reach the bytes that a store may hold back, and more would be under way than the memory above.
const _: () = assert!(PIECE >= drystone_store::PIECE && (UNDER_WAY * PIECE) as u64 > drystone_store::HELD);

/// The object, and its pieces that are not known to have arrived.
#[derive(Debug)]
pub(crate) struct Rising {
    upload: BoundedUpload,
    spare: Option<Vec<u8>>,
}

impl Rising {
    pub(crate) fn begin(store: &dyn Store, key: &str) -> Result<Rising> {
        Ok(Rising { upload: BoundedUpload::begin(store, key, UNDER_WAY)?, spare: None })
    }

    /// Hands a piece over, once there is room for it.
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

    /// Ends the object; the outcome for all of it, the bytes that are under way, and how long pieces waited for room.
    pub(crate) fn finish(self) -> (Pending, u64, Waits) {
        let waits = self.upload.waits();
        let (pending, bytes) = self.upload.finish();
        (pending, bytes, waits)
    }
}
