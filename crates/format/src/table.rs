//! Subchunk tables (docs/format/index.md).

use crate::cursor::Reader;
use crate::entry::{Piece, Stats};
use crate::{Corrupt, piece};

/// One subchunk of a cut block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Subchunk {
    pub piece: Piece,
    pub stats: Stats,
}

/// The bytes of a subchunk table; at least one byte per eight subchunks.
pub fn encode(subchunks: &[Subchunk]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&(subchunks.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    piece::write_columns(&mut out, subchunks, |s| (&s.piece, &s.stats));
    out.resize(out.len().max(subchunks.len().div_ceil(8)), 0);
    out
}

/// Reads a table that must have `expected_n` subchunks, the number its entry states.
pub fn decode(bytes: &[u8], expected_n: u64) -> Result<Vec<Subchunk>, Corrupt> {
    let r = &mut Reader::new(bytes);
    let (n, reserved) = (r.u32()?, r.u32()?);
    let n = n as usize;
    if n as u64 != expected_n || n.div_ceil(8) > bytes.len() {
        let len = bytes.len();
        return Err(Corrupt::new(
            format!("{n} subchunks in a table of {len} bytes, {expected_n} expected"),
            0,
        ));
    }
    if reserved != 0 {
        return Err(Corrupt::new("reserved field of a subchunk table is not 0", 4));
    }
    let mut subchunks = vec![Subchunk::default(); n];
    piece::read_columns(r, &mut subchunks, |s| (&mut s.piece, &mut s.stats))?;
    r.zeros_to_end()?;
    for (i, s) in subchunks.iter().enumerate() {
        s.piece.validate().map_err(|e| r.corrupt(format!("subchunk {i}: {e}")))?;
    }
    Ok(subchunks)
}
