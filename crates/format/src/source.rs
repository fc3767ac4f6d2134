//! The source table (docs/format/manifest.md).

/// What a log part's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceState {
    /// More frames may come.
    Open,
    /// Every frame is settled and no more will come.
    Closed,
    /// Nothing more is taken from it.
    Fenced,
}

/// One source. `kind` 0 is a segment part; others fail only the reads that need them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Source {
    pub kind: u32,
    pub writer: u64,
    pub part: u32,
    /// Offset in the idx of the first frame that is not settled.
    pub watermark: u64,
    /// Number of the next group to settle.
    pub groups: u64,
    pub state: SourceState,
    /// Bytes of idx read so far.
    pub idx_length: u64,
    /// Bytes of the segment that adopted entries need.
    pub seg_length: u64,
}
