//! The home store under plain keys: replaces the names of generations by the keys of their objects.

use std::sync::Arc;

use drystone_store::{LocalFiles, Pending, Request, Result, Store};

use crate::generation::plain;

/// A store that accepts names of generations in reads.
#[derive(Debug)]
pub(crate) struct PlainNames {
    pub(crate) inner: Arc<dyn Store>,
}

impl Store for PlainNames {
    drystone_store::forward! {
        inner =>
        features, describe, device, watch, unchanged, append, write_at, put, upload, list, delete, sweep, sync, exec
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    fn len(&self, key: &str) -> Result<u64> {
        self.inner.len(plain(key))
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read(plain(key), offset, out)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.inner.read_whole(plain(key), limit)
    }

    fn submit(&self, mut request: Request) -> Pending {
        match &mut request {
            Request::Len { key }
            | Request::ReadMany { key, .. }
            | Request::ReadWhole { key, .. }
            | Request::Expect { key, .. } => {
                let len = plain(key).len();
                key.truncate(len);
            }
            _ => {}
        }
        self.inner.submit(request)
    }
}
