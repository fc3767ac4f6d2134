//! Manifests (docs/format/manifest.md).

use crate::branch::PageRef;

/// Bytes kept inline or in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Section {
    Inline(Vec<u8>),
    Page(PageRef),
}

/// Root of the index tree; `height` 0 means the root is a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Root {
    pub page: PageRef,
    pub height: u8,
    pub entries: u64,
}

/// What one commit made visible.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Manifest {
    pub version: u64,
    pub parent: u64,
    pub write_id: [u8; 16],
    pub uuid: [u8; 16],
    pub time: u64,
    pub marked: bool,
    pub last_marked: u64,
    pub fence: u64,
    pub schema: Section,
    pub steps: Section,
    pub source_pages: Vec<PageRef>,
    pub source_count: u32,
    pub root: Option<Root>,
    /// (source number, group number), ascending.
    pub ahead: Vec<(u32, u64)>,
}
