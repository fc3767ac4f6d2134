//! The one error of this crate.

/// Bytes that do not conform to their format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at byte {at})")]
pub struct Corrupt {
    /// What was expected and what was found.
    pub what: String,
    /// Offset from the beginning of the bytes given to the decoder.
    pub at: u64,
}

impl Corrupt {
    /// Names a violation at an offset.
    pub fn new(what: impl Into<String>, at: usize) -> Self {
        Corrupt { what: what.into(), at: at as u64 }
    }
}
