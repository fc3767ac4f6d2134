//! Which storage daemon serves an object: the monitors know, from the object's name and the map of the cluster.

use std::ffi::{CString, c_char};

use drystone_store::{Result, StoreError};
use serde_json::{Value as Json, json};

use super::RadosStore;
use crate::connection::Connection;

impl RadosStore {
    /// The storage daemon that serves each of the keys, as `osd.3`; `None` where none serves it now. The object need
    /// not exist.
    ///
    /// It is a request to a monitor for each key, one after the other: for pictures and tables, not for reads.
    pub fn holders(&self, keys: &[String]) -> Result<Vec<Option<String>>> {
        keys.iter().map(|key| self.holder(key)).collect()
    }

    fn holder(&self, key: &str) -> Result<Option<String>> {
        self.object(key)?;
        let (address, connection) = (&self.inner.address, self.connection(key)?);
        let asked = json!({
            "prefix": "osd map",
            "pool": address.pool(),
            "object": address.object(key),
            "nspace": address.namespace(),
            "format": "json",
        });
        let answer = self.mon_command(&connection, key, &asked.to_string())?;
        let primary =
            serde_json::from_slice::<Json>(&answer).ok().and_then(|map| map["acting_primary"].as_i64());
        match primary {
            Some(number) => Ok((number >= 0).then(|| format!("osd.{number}"))),
            None => {
                let what = std::io::Error::other("the monitor's answer to \"osd map\" names no daemon");
                Err(self.io(key, "look where the cluster keeps", what))
            }
        }
    }

    /// The output of a command to the monitors.
    fn mon_command(&self, connection: &Connection, key: &str, text: &str) -> Result<Vec<u8>> {
        let Connection { api, cluster, .. } = *connection;
        let no_text = |_| StoreError::InvalidKey { key: key.to_owned(), reason: "it has no name in a pool" };
        let text = CString::new(text).map_err(no_text)?;
        let mut command = [text.as_ptr()];
        let (mut out, mut out_len) = (std::ptr::null_mut::<c_char>(), 0);
        // SAFETY: the command is one text that ends with a zero; there is no input; the places for the output are ours,
        // and a null place means that the message is not wanted.
        let code = unsafe {
            (api.rados_mon_command)(
                cluster,
                command.as_mut_ptr(),
                command.len(),
                std::ptr::null(),
                0,
                &mut out,
                &mut out_len,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        let mut answer = Vec::new();
        if !out.is_null() {
            // SAFETY: librados gave a buffer of that length, which is freed once.
            unsafe {
                answer.extend_from_slice(std::slice::from_raw_parts(out.cast::<u8>(), out_len));
                (api.rados_buffer_free)(out);
            }
        }
        match code {
            0.. => Ok(answer),
            code => Err(self.failed(key, "look where the cluster keeps", code)),
        }
    }
}
