//! Subchunk tables (docs/format/index.md).

use crate::entry::{Piece, Stats};

/// One subchunk of a cut block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Subchunk {
    pub piece: Piece,
    pub stats: Stats,
}
