//! Ranges of indices.

/// The indices `start..start + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub start: u64,
    /// How many.
    pub count: u64,
}
