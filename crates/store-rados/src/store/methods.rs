//! Methods of object classes, which run where the object lies.

use std::ffi::{CString, c_int};
use std::io;

use drystone_store::{Result, Store, StoreError};

use super::RadosStore;
use super::failure::{NOT_PERMITTED, NOT_SUPPORTED};

impl RadosStore {
    pub(super) fn executed(&self, key: &str, method: &str, mut out: Vec<u8>, code: c_int) -> Result<Vec<u8>> {
        match code {
            0.. => {
                out.truncate(code as usize);
                Ok(out)
            }
            // The class is not listed, or not installed, or the pool does not run classes.
            NOT_PERMITTED | NOT_SUPPORTED => Err(StoreError::Unsupported {
                operation: format!("running {method} ({})", io::Error::from_raw_os_error(-code)),
                store: self.describe(),
            }),
            code => Err(self.failed(key, "run a method on", code)),
        }
    }

    /// Class and method of `class.method`.
    pub(super) fn method(&self, method: &str) -> Result<(CString, CString)> {
        let (class, name) = method.split_once('.').unwrap_or((method, ""));
        match (CString::new(class), CString::new(name)) {
            (Ok(class), Ok(name)) => Ok((class, name)),
            _ => Err(StoreError::Unsupported {
                operation: format!("exec of {method:?}"),
                store: self.describe(),
            }),
        }
    }
}
