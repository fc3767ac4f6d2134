//! A store without append, to test code as it runs on an object store.

use crate::{Features, LocalFiles, Pending, Request, Result, Store, StoreError, validate_key};

/// The inner store without `append`: objects are put whole and never grow.
#[derive(Clone, Debug)]
pub struct NoAppendStore<S>(S);

impl<S: Store> NoAppendStore<S> {
    /// Wraps `inner`.
    pub fn new(inner: S) -> Self {
        NoAppendStore(inner)
    }

    /// The inner store, which can append.
    pub fn inner(&self) -> &S {
        &self.0
    }

    fn refuse<T>(&self, key: &str) -> Result<T> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("append (to '{key}')"), store: self.describe() })
    }
}

impl<S: Store> Store for NoAppendStore<S> {
    crate::forward! {
        0 =>
        device, watch, unchanged, len, read, read_whole, put, upload, list, delete, sweep, sync,
        exec
    }

    fn features(&self) -> Features {
        Features { append: false, write_at: false, ..self.0.features() }
    }

    fn describe(&self) -> String {
        format!("{} without append", self.0.describe())
    }

    /// None: an object store has no local files, and code is tested as it runs there.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn append(&self, key: &str, _at: u64, _parts: &[&[u8]]) -> Result<()> {
        self.refuse(key)
    }

    fn write_at(&self, key: &str, _parts: &[(u64, &[u8])], _len: u64) -> Result<()> {
        self.refuse(key)
    }

    fn submit(&self, request: Request) -> Pending {
        match request {
            Request::Append { key, .. } => Pending::completed(self.refuse(&key)),
            other => self.0.submit(other),
        }
    }
}
