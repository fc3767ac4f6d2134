//! Credentials that a program supplies while it runs.

use std::time::SystemTime;

/// What says who asks, for a while.
#[derive(Clone, PartialEq, Eq)]
pub struct Supplied {
    /// Names and values, as the store's options name them.
    pub values: Vec<(String, String)>,
    /// From when on they are of no use; `None`: never.
    pub expires: Option<SystemTime>,
}

impl std::fmt::Debug for Supplied {
    /// No value: they are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Supplied credentials")
    }
}

/// A program's own way to credentials. It is asked at the first request and again before they expire, from threads of the store.
pub trait Credentials: Send + Sync {
    /// Fresh ones, or why there are none. The text is shown to people: it holds no secret.
    fn supply(&self) -> Result<Supplied, String>;

    /// Tells it from others while it lives: stores whose sources are the same share connections, and what was supplied.
    fn id(&self) -> usize;
}
