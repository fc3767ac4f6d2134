//! Bytes that are not what they should be.

/// What is wrong, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong.
    pub what: &'static str,
    /// Byte in the bytes that were decoded.
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
