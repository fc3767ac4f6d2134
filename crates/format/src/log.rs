//! File headers and groups of the log (docs/format/log.md).

/// What a framed file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FileKind {
    Segment,
    Idx,
    Pages,
}

/// Rank and number of ranks of a ranked writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Rank {
    pub rank: u32,
    pub nranks: u32,
}

/// First frame of a framed file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FileHeader {
    pub kind: FileKind,
    pub uuid: [u8; 16],
    /// Writer id, or page file id.
    pub id: u64,
    pub part: u32,
    pub run: u64,
    pub rank: Option<Rank>,
    pub fence: u64,
    pub time: u64,
    pub origin: String,
}

/// Head of a GROUP frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct GroupHead {
    pub step: Option<u64>,
    pub last: bool,
    pub replace: bool,
    /// Number of the group in its writer.
    pub group: u64,
    /// Number of the frame in its group.
    pub part: u64,
    /// On the last frame: entries in the whole group.
    pub entries: u64,
}
