//! Takes append away from a store, to test code as it would run on an object store.

use crate::{
    Features, ListEntry, LocalFiles, Pending, PutMode, Request, Result, Store, StoreError, Upload,
    validate_key,
};

/// The inner store without `append`: objects are put whole and never grow.
#[derive(Clone, Debug)]
pub struct NoAppendStore<S>(S);

impl<S: Store> NoAppendStore<S> {
    /// Wraps `inner`.
    pub fn new(inner: S) -> Self {
        NoAppendStore(inner)
    }

    /// The store inside, which can append.
    pub fn inner(&self) -> &S {
        &self.0
    }

    fn refuse<T>(&self, key: &str) -> Result<T> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("append (to '{key}')"), store: self.describe() })
    }
}

impl<S: Store> Store for NoAppendStore<S> {
    fn features(&self) -> Features {
        Features { append: false, write_at: false, ..self.0.features() }
    }

    fn describe(&self) -> String {
        format!("{} without append", self.0.describe())
    }

    fn device(&self) -> Option<String> {
        self.0.device()
    }

    /// None: an object store has no files, and code is tested as it runs there.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn watch(&self, key: &str) -> Result<bool> {
        self.0.watch(key)
    }

    fn unchanged(&self) -> Result<()> {
        self.0.unchanged()
    }

    fn len(&self, key: &str) -> Result<u64> {
        self.0.len(key)
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read(key, offset, out)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.0.read_whole(key, limit)
    }

    fn append(&self, key: &str, _at: u64, _parts: &[&[u8]]) -> Result<()> {
        self.refuse(key)
    }

    fn write_at(&self, key: &str, _parts: &[(u64, &[u8])], _len: u64) -> Result<()> {
        self.refuse(key)
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        self.0.put(key, parts, mode, sync)
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        self.0.upload(key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        self.0.list(prefix)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.0.delete(key)
    }

    fn sweep(&self, prefix: &str, older: std::time::Duration) -> Result<u64> {
        self.0.sweep(prefix, older)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        self.0.sync(keys)
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        self.0.exec(key, method, input)
    }

    fn submit(&self, request: Request) -> Pending {
        match request {
            Request::Append { key, .. } => Pending::completed(self.refuse(&key)),
            other => self.0.submit(other),
        }
    }
}
