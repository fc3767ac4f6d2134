//! What must hold of an entry and its stored pieces before their numbers are used. All of it comes from disk.

use std::ops::Range;

use drystone_format::entry::{Entry, Piece};

use super::PlanError;
use crate::parts::Part;
use crate::selection::Selection;

/// A block's own way of being stored, found sound.
pub(super) struct Stored {
    raw: bool,
    pub(super) item: u64,
}

/// A finding, not yet tied to a place.
pub(super) enum Unfit {
    Corrupt(String),
    Unsupported(String),
}

impl Unfit {
    pub(super) fn at(self, slot: usize, candidate: usize) -> PlanError {
        match self {
            Unfit::Corrupt(what) => PlanError::Corrupt { slot, candidate, what },
            Unfit::Unsupported(what) => PlanError::Unsupported { slot, candidate, what },
        }
    }
}

impl Stored {
    /// Checks that an entry that shows can be what it says.
    pub(super) fn check(entry: &Entry, selection: &Selection, item: u64) -> Result<Stored, Unfit> {
        let corrupt = |what: String| Err(Unfit::Corrupt(what));
        let ndim = usize::from(entry.ndim);
        if ndim != selection.axes.len() {
            return corrupt(format!("it has {ndim} dimensions where {} are selected", selection.axes.len()));
        }
        if entry.encoding.layout != 0 {
            return Err(Unfit::Unsupported(format!("layout {}", entry.encoding.layout)));
        }
        if u64::from(entry.encoding.item) != item {
            return corrupt(format!(
                "its elements have {} bytes where {item} are wanted",
                entry.encoding.item
            ));
        }
        let mut subchunks = Some(1u64);
        for d in 0..ndim {
            let (offset, count, cut) = (entry.offset[d], entry.count[d], entry.cut[d]);
            if offset.checked_add(count).is_none() || count == 0 || cut == 0 {
                return corrupt(format!("dimension {d} has offset {offset}, count {count}, cut {cut}"));
            }
            subchunks = subchunks.and_then(|n| n.checked_mul(count.div_ceil(cut)));
        }
        if subchunks != Some(entry.subchunks) {
            return corrupt(format!(
                "it announces {} subchunks, its grid has {subchunks:?}",
                entry.subchunks
            ));
        }
        Ok(Stored { raw: entry.encoding.chain.is_empty(), item })
    }

    /// Checks a piece against the subchunk it is said to hold.
    pub(super) fn check_piece(&self, piece: &Piece, part: &Part) -> Result<(), Unfit> {
        let corrupt = |what: &str| {
            let Piece { position, length, trailer, unit_log2, .. } = piece;
            Err(Unfit::Corrupt(format!(
                "subchunk {}: {what} (position {position}, length {length}, trailer {trailer}, unit 2^{unit_log2})",
                part.subchunk
            )))
        };
        if piece.length == 0 {
            return corrupt("the stored piece is empty");
        }
        if stored_range(piece).is_none() || piece.unit_log2 > 63 {
            return corrupt("the stored piece is at no possible place");
        }
        let cells = part.chunk_shape.iter().try_fold(1u64, |cells, &edge| cells.checked_mul(edge));
        if self.raw && cells.and_then(|cells| cells.checked_mul(self.item)) != Some(piece.length) {
            return corrupt("the stored piece has not the length of its cells");
        }
        let units = if piece.unit_log2 == 0 { 1 } else { piece.length.div_ceil(1 << piece.unit_log2) };
        if piece.trailer > 0 && units.checked_mul(4).is_none_or(|checks| checks > piece.trailer) {
            return corrupt("the trailer is too short for its checks");
        }
        Ok(())
    }

    /// Bytes that can be read and verified alone; 0 if the piece has to be read whole.
    pub(super) fn unit(&self, piece: &Piece) -> u64 {
        if self.raw && piece.trailer > 0 && piece.unit_log2 > 0 { 1 << piece.unit_log2 } else { 0 }
    }
}

/// The bytes of the source that a piece takes: payload, padding and trailer, or the payload alone if there is no trailer. `None`
/// if its numbers overflow.
pub fn stored_range(piece: &Piece) -> Option<Range<u64>> {
    let payload = if piece.trailer > 0 { piece.length.checked_next_multiple_of(4)? } else { piece.length };
    let end = piece.position.checked_add(payload)?.checked_add(piece.trailer)?;
    Some(piece.position..end)
}
