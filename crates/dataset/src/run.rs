//! Ranges of indices.

/// The indices `start..start + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first index.
    pub start: u64,
    /// Number of indices.
    pub count: u64,
}
