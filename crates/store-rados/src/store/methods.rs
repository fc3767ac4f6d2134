//! Methods of object classes, which run where the object lies.

use std::ffi::{CString, c_int};
use std::io;

use drystone_store::{Result, Store, StoreError};

use super::RadosStore;
use super::failure::{NOT_PERMITTED, NOT_SUPPORTED};
use crate::completion::wait;
use crate::connection::Connection;

impl RadosStore {
    pub(super) fn exec_within(&self, key: &str, method: &str, input: &[u8], limit: usize) -> Result<Vec<u8>> {
        let (object, connection) = (self.object(key)?, self.connection(key)?);
        let (class, name) = self.method(method)?;
        let mut out = vec![0u8; limit];
        let Connection { api, io, .. } = *connection;
        let outcome = wait(api, |completion| {
            // SAFETY: names, input and output live until the operation is complete, which is waited for.
            unsafe {
                (api.rados_aio_exec)(
                    io,
                    object.as_ptr(),
                    completion,
                    class.as_ptr(),
                    name.as_ptr(),
                    input.as_ptr().cast(),
                    input.len(),
                    out.as_mut_ptr().cast(),
                    out.len(),
                )
            }
        });
        self.executed(key, method, out, outcome.code)
    }

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
