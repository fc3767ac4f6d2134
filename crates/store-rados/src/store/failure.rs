//! Error numbers of librados as errors of the store.

use std::ffi::c_int;
use std::io;

use drystone_store::{Result, Store, StoreError, validate_key};

use super::RadosStore;

pub(super) const NOT_PERMITTED: c_int = -1;
pub(super) const NO_ENTRY: c_int = -2;
pub(super) const EXISTS: c_int = -17;
pub(super) const RANGE: c_int = -34;
pub(super) const OVERFLOW: c_int = -75;
pub(super) const NO_ACCESS: c_int = -13;
pub(super) const NOT_SUPPORTED: c_int = -95;
pub(super) const TIMED_OUT: c_int = -110;
pub(super) const NO_SPACE: [c_int; 2] = [-28, -122];
pub(super) const TOO_LARGE: [c_int; 2] = [-27, -90];

impl RadosStore {
    pub(super) fn io(&self, key: &str, operation: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { key: key.to_owned(), store: self.describe(), operation, source }
    }

    /// The error for an error number of an operation.
    pub(super) fn failed(&self, key: &str, operation: &'static str, code: c_int) -> StoreError {
        let (owned, store) = (key.to_owned(), self.describe());
        match code {
            NO_ENTRY => StoreError::NotFound { key: owned, store },
            EXISTS => StoreError::AlreadyExists { key: owned, store },
            _ if NO_SPACE.contains(&code) => StoreError::NoSpace { key: owned, store, operation },
            _ if TOO_LARGE.contains(&code) => {
                let what = "it is larger than the cluster takes at once (osd_max_write_size, osd_max_object_size); \
                            publish in smaller shards";
                self.io(key, operation, io::Error::new(io::ErrorKind::FileTooLarge, what))
            }
            TIMED_OUT => {
                let reason = format!(
                    "no answer within {} s; whether it was done is unknown (are the storage daemons up?)",
                    self.inner.options.timeout
                );
                StoreError::Deadline { key: owned, store, operation, reason }
            }
            NOT_PERMITTED | NO_ACCESS => {
                let user = self.inner.options.user.as_deref().unwrap_or("admin");
                let reason =
                    format!("client.{user} may not do that; its capabilities are given by `ceph auth caps`");
                StoreError::PermissionDenied { key: owned, store, operation, reason }
            }
            code => self.io(key, operation, io::Error::from_raw_os_error(-code)),
        }
    }

    pub(super) fn short(&self, key: &str, offset: u64, wanted: usize, got: u64) -> StoreError {
        StoreError::ShortRead {
            key: key.to_owned(),
            store: self.describe(),
            offset,
            wanted: wanted as u64,
            got: got.min(wanted as u64),
        }
    }

    pub(super) fn conflict(&self, key: &str, expected: u64, found: u64) -> StoreError {
        StoreError::Conflict { key: key.to_owned(), store: self.describe(), expected, found }
    }

    /// Objects that are put whole never change.
    pub(super) fn must_append(&self, key: &str, what: &str) -> Result<()> {
        validate_key(key)?;
        if self.inner.options.append {
            return Ok(());
        }
        let operation = format!("{what} (to '{key}') without the option \"append\"");
        Err(StoreError::Unsupported { operation, store: self.describe() })
    }
}
