//! Credentials that a program supplies at run time.

use std::time::SystemTime;

/// Credentials that are valid for some time.
#[derive(Clone, PartialEq, Eq)]
pub struct Supplied {
    /// Names and values of store options.
    pub values: Vec<(String, String)>,
    /// When they expire; `None` if never.
    pub expires: Option<SystemTime>,
}

impl std::fmt::Debug for Supplied {
    /// Prints no value, since values are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Supplied credentials")
    }
}

/// A program's own source of credentials. The store's threads call it before the first request, and again before the
/// credentials expire.
pub trait Credentials: Send + Sync {
    /// Fresh credentials, or why there are none. The text is shown to users, so it must contain no secret.
    fn supply(&self) -> Result<Supplied, String>;

    /// A number that distinguishes this source from others as long as it lives. Stores with the same source share
    /// connections and credentials.
    fn id(&self) -> usize;
}
