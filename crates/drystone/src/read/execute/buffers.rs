//! The buffers of one thread, reused from request to request and from read to read.

use std::sync::Mutex;

use drystone_format::entry::StoredPiece;
use drystone_transform::{Chain, Scratch};

use crate::base::buffer_pool::Kept;

/// Buffers of one thread, reused.
#[derive(Default)]
pub(in crate::read) struct Buffers {
    pub(super) read: Vec<u8>,
    pub(in crate::read) decoded: Vec<u8>,
    /// The piece whose whole decoded payload is in `decoded`.
    pub(in crate::read) holds: Option<(u32, StoredPiece)>,
    /// Row-major cells of a subchunk that is stored along a curve.
    pub(in crate::read) unrolled: Vec<u8>,
    /// A payload joined with its prefix, which was stored separately.
    pub(super) joined: Vec<u8>,
    /// The chain used last, by its text.
    pub(super) chain: Option<(String, Chain)>,
    pub(in crate::read) scratch: Scratch,
    pub(super) sums: Vec<u32>,
}

impl Kept for Buffers {
    const MOST: (usize, usize) = (3, 8 << 20);

    fn held(&self) -> usize {
        let cells = self.read.capacity() + self.decoded.capacity() + self.unrolled.capacity();
        cells + self.joined.capacity() + self.scratch.held()
    }

    fn forget(&mut self) {
        (self.holds, self.chain) = (None, None);
    }

    fn spare() -> &'static Mutex<Vec<Self>> {
        static SPARE: Mutex<Vec<Buffers>> = Mutex::new(Vec::new());
        &SPARE
    }
}

impl Buffers {
    /// Keeps a chain for the next work.
    pub(in crate::read) fn keep_chain(&mut self, text: &str, chain: Chain) {
        self.chain = Some((text.to_owned(), chain));
    }
}
