//! The error of the decoders.

/// Malformed bytes: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong.
    pub what: &'static str,
    /// Offset in the decoded bytes.
    pub at: u64,
}

impl Malformed {
    pub(crate) fn new(what: &'static str, at: usize) -> Self {
        Malformed { what, at: at as u64 }
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed at byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for Malformed {}
