//! Branch pages of the index tree (docs/format/index.md).

use crate::MAX_NDIM;

/// Where a page is: page file, offset of its frame, payload length and payload CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub struct PageRef {
    pub file: u64,
    pub offset: u64,
    pub length: u32,
    pub crc: u32,
}

/// One child of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// (step, variable, member) of the first key in the child.
    pub first: (u64, u32, u32),
    /// Offset in the first key.
    pub first_offset: [u64; MAX_NDIM],
    /// (step, variable, member) of the last key in the child.
    pub last: (u64, u32, u32),
    /// Bounding box of all boxes in the child, `hi` exclusive.
    pub lo: [u64; MAX_NDIM],
    /// See `lo`.
    pub hi: [u64; MAX_NDIM],
    /// Entries below.
    pub entries: u64,
    /// Greatest commit below.
    pub commit: u64,
    /// The child's page.
    pub page: PageRef,
}

/// A branch page: `height` 1 means the children are leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Branch {
    pub height: u8,
    pub children: Vec<Child>,
}
