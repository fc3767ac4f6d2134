//! Raw pieces that follow one another in an extent. They are made part by part, so that bytes are checksummed,
//! measured and handed over while they are in the processor's cache. The source is read from memory once.
//!
//! Invariants
//! - positions are relative to the extent; every piece begins at a multiple of 8, payload before trailer;
//! - a part is handed over only after its checksums were made, and ends where [`part_at`] says.

use std::sync::Mutex;

use drystone_format::entry::StoredPiece;
use drystone_transform::checks::crc_units;

use super::segment::{PART, UNIT_LOG2, le_bytes, part_at};
use crate::Result;
use crate::base::buffer_pool::{Kept, Lent};
use crate::base::checksum::crc32;

const UNIT: usize = 1 << UNIT_LOG2;

/// Bytes of an extent that are not handed over yet. The buffer is reused.
#[derive(Default)]
pub(crate) struct Part {
    bytes: Vec<u8>,
    used: usize,
}

impl Part {
    /// The bytes of the part.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    /// Empties the part.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    /// Appends `len` bytes of any content.
    fn more(&mut self, len: usize) -> &mut [u8] {
        let from = self.used;
        self.used += len;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used.max(ROOM), 0);
        }
        &mut self.bytes[from..self.used]
    }
}

/// Capacity of the buffer: the longest part, and the bytes that are made before it is handed over.
const ROOM: usize = PART + PART / 2;

impl Kept for Part {
    const MOST: (usize, usize) = (4, 2 * ROOM);

    fn held(&self) -> usize {
        self.bytes.capacity()
    }

    fn forget(&mut self) {
        self.clear();
    }

    fn spare() -> &'static Mutex<Vec<Self>> {
        static SPARE: Mutex<Vec<Part>> = Mutex::new(Vec::new());
        &SPARE
    }
}

/// The bytes that a raw piece of `len` bytes occupies in an extent, trailer included.
pub(crate) fn room_for(len: usize) -> usize {
    (len.next_multiple_of(4) + 4 * units(len)).next_multiple_of(8)
}

/// The number of checksums in the trailer of a raw piece. A piece that fits one unit has no trailer.
fn units(len: usize) -> usize {
    if len > UNIT { len.div_ceil(UNIT) } else { 0 }
}

/// Takes a full part and leaves an empty one in its place.
pub(crate) type Give<'g> = dyn FnMut(&mut Lent<Part>) -> Result<()> + 'g;

/// Makes pieces. `give` takes full parts and leaves empty ones in their place.
pub(crate) struct Pieces<'g> {
    part: Lent<Part>,
    /// The position of the extent in the file.
    base: u64,
    /// The number of bytes of the extent that were handed over.
    given: u64,
    sums: Vec<u32>,
    give: &'g mut Give<'g>,
    /// Bytes of a part that remain when it is handed over.
    rest: Vec<u8>,
}

impl<'g> Pieces<'g> {
    pub(crate) fn new(base: u64, give: &'g mut Give<'g>) -> Self {
        Pieces { part: Lent::take(), base, given: 0, sums: Vec::new(), give, rest: Vec::new() }
    }

    /// Adds a piece of `len` bytes in slabs whose lengths add up to it. `fill` writes each slab, whose bytes are
    /// unspecified before. Returns the piece's position in the file.
    pub(crate) fn add(
        &mut self,
        len: usize,
        slabs: impl Iterator<Item = usize>,
        mut fill: impl FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<StoredPiece> {
        let position = self.base + self.given + self.part.used as u64;
        let count = units(len);
        let mut checked = self.part.used;
        self.sums.clear();
        for (n, slab) in slabs.enumerate() {
            fill(n, self.part.more(slab))?;
            if count > 0 {
                let whole = checked + (self.part.used - checked) / UNIT * UNIT;
                crc_units(&self.part.bytes[checked..whole], UNIT, &mut self.sums);
                checked = whole;
            }
            if count > 0 {
                checked = self.give_full(checked)?;
            }
        }
        let (length, payload) = (len as u64, &self.part.bytes[checked..self.part.used]);
        let (trailer, unit_log2, check) = if count == 0 {
            (Vec::new(), 0, crc32(payload))
        } else {
            crc_units(payload, UNIT, &mut self.sums);
            let trailer = le_bytes(&self.sums);
            let check = crc32(&trailer);
            (trailer, UNIT_LOG2, check)
        };
        self.part.more(len.next_multiple_of(4) - len).fill(0);
        self.part.more(trailer.len()).copy_from_slice(&trailer);
        self.part.more(room_for(len) - len.next_multiple_of(4) - trailer.len()).fill(0);
        self.give_full(self.part.used)?;
        Ok(StoredPiece { position, length, trailer: trailer.len() as u64, unit_log2, check })
    }

    /// Hands over the full parts of the first `ready` bytes. Returns how many bytes are left.
    fn give_full(&mut self, mut ready: usize) -> Result<usize> {
        loop {
            let full = part_at(self.base + self.given);
            if ready < full {
                return Ok(ready);
            }
            self.give(full)?;
            ready -= full;
        }
    }

    /// Hands over the first `ready` bytes of the part.
    fn give(&mut self, ready: usize) -> Result<()> {
        self.rest.clear();
        self.rest.extend_from_slice(&self.part.bytes[ready..self.part.used]);
        self.part.used = ready;
        self.given += ready as u64;
        (self.give)(&mut self.part)?;
        self.part.more(self.rest.len()).copy_from_slice(&self.rest);
        Ok(())
    }

    /// Hands over the remaining bytes.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.part.used > 0 { self.give(self.part.used) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_equal_their_slabs_wherever_parts_and_units_end() {
        let mut state = 7u64;
        let mut dice = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for most in [1, 100, UNIT, 5 * UNIT, 3 * PART] {
            let mut extent = Vec::new();
            let base = 8 * dice(PART) as u64;
            let mut ends = Vec::new();
            let mut give = |part: &mut Lent<Part>| {
                extent.extend_from_slice(part.bytes());
                ends.push(base + extent.len() as u64);
                part.clear();
                Ok(())
            };
            let mut pieces = Pieces::new(base, &mut give);
            let mut made: Vec<(StoredPiece, Vec<u8>)> = Vec::new();
            for _ in 0..40 {
                let payload: Vec<u8> = (0..1 + dice(most)).map(|_| dice(256) as u8).collect();
                let mut cuts = vec![0, payload.len()];
                cuts.extend((0..dice(4)).map(|_| dice(payload.len())));
                cuts.sort_unstable();
                let slabs: Vec<&[u8]> = cuts.windows(2).map(|w| &payload[w[0]..w[1]]).collect();
                let lens = slabs.iter().map(|slab| slab.len());
                let fill = |n: usize, out: &mut [u8]| {
                    out.copy_from_slice(slabs[n]);
                    Ok(())
                };
                made.push((pieces.add(payload.len(), lens, fill).unwrap(), payload));
            }
            pieces.finish().unwrap();
            let total: usize = made.iter().map(|(_, payload)| room_for(payload.len())).sum();
            assert_eq!(extent.len(), total);
            ends.pop();
            assert!(ends.iter().all(|end| end % PART as u64 == 0), "{ends:?}");
            for (piece, payload) in made {
                let at = (piece.position - base) as usize;
                assert_eq!((at % 8, piece.length), (0, payload.len() as u64));
                assert_eq!(extent[at..at + payload.len()], payload);
                let mut sums = Vec::new();
                crc_units(&payload, UNIT, &mut sums);
                if payload.len() <= UNIT {
                    assert_eq!((piece.trailer, piece.unit_log2, piece.check), (0, 0, crc32(&payload)));
                } else {
                    let from = at + payload.len().next_multiple_of(4);
                    let trailer = &extent[from..from + piece.trailer as usize];
                    assert_eq!((trailer, piece.check), (&le_bytes(&sums)[..], crc32(trailer)));
                    assert_eq!(piece.unit_log2, UNIT_LOG2);
                }
            }
        }
    }
}
