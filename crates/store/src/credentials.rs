//! Credentials that a program supplies at run time.

use std::time::SystemTime;

/// Credentials that are valid for some time.
#[derive(Clone, PartialEq, Eq)]
pub struct Supplied {
    /// Names and values, as the store's options name them.
    pub values: Vec<(String, String)>,
    /// When they expire; `None`: never.
    pub expires: Option<SystemTime>,
}

impl std::fmt::Debug for Supplied {
    /// Prints no value, since values are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Supplied credentials")
    }
}

/// A program's own source of credentials. The store calls it at the first request and again before the
/// credentials expire, from the store's threads.
pub trait Credentials: Send + Sync {
    /// Fresh credentials, or why there are none. People see the text, so it must hold no secret.
    fn supply(&self) -> Result<Supplied, String>;

    /// Distinguishes this source from others for as long as it lives. Stores with the same source share
    /// connections and credentials.
    fn id(&self) -> usize;
}
