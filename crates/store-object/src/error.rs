//! Errors in an address or its options, before any request to a server.

/// An address, an option or a profile that cannot be used. The text names it and says how to correct it. It contains no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAddress(String);

impl InvalidAddress {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        InvalidAddress(text.into())
    }
}

impl std::fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidAddress {}
