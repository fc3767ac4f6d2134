//! Index entries and entry blocks (docs/format/index.md).

use crate::MAX_NDIM;

/// Where a stored piece lies and how it is verified (docs/format/log.md, Segment).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Piece {
    pub position: u64,
    pub length: u64,
    pub trailer: u64,
    pub unit_log2: u8,
    pub check: u32,
}

/// Minimum and maximum as 64-bit patterns, if there are any, and the number of NaNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Stats {
    pub min_max: Option<(u64, u64)>,
    pub nans: u64,
}

/// What an entry's bytes are: codec chain, element size, layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Encoding {
    /// Canonical text of the codec chain; empty is raw.
    pub chain: String,
    /// Bytes per element.
    pub item: u32,
    /// 0: dense row-major.
    pub layout: u32,
}

/// One leaf member of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// step + 1; 0 without step.
    pub step: u64,
    /// Permanent variable id.
    pub variable: u32,
    /// Leaf member number.
    pub member: u32,
    /// Manifest version that adopted it.
    pub commit: u64,
    /// Rank or writer id.
    pub order: u64,
    /// Number of the put call in its writer.
    pub put: u64,
    /// Number of dimensions.
    pub ndim: u8,
    /// First cell of the box.
    pub offset: [u64; MAX_NDIM],
    /// Extent of the box.
    pub count: [u64; MAX_NDIM],
    /// Edge of the subchunk grid.
    pub cut: [u64; MAX_NDIM],
    /// Shared between entries of one block when decoded.
    pub encoding: std::sync::Arc<Encoding>,
    /// Number of subchunks.
    pub subchunks: u64,
    /// Source number.
    pub source: u32,
    /// The subchunk, or the subchunk table.
    pub piece: Piece,
    /// Over all subchunks.
    pub stats: Stats,
}
