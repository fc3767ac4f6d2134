//! A write operation: changes of one object that are done together or not at all.

use std::ffi::{CStr, c_int};

use crate::completion::{Outcome, wait};
use crate::connection::Connection;
use crate::library::Handle;

/// `LIBRADOS_CREATE_EXCLUSIVE`.
const EXCLUSIVE: c_int = 1;

/// A write operation under construction.
pub(super) struct WriteOp<'a> {
    connection: &'a Connection,
    op: Handle,
}

impl<'a> WriteOp<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        // SAFETY: takes nothing, gives a new handle.
        let op = unsafe { (connection.api.rados_create_write_op)() };
        WriteOp { connection, op }
    }

    /// The object must not be there.
    pub(super) fn create(&self) {
        // SAFETY: the operation is ours; a null category is allowed.
        unsafe { (self.connection.api.rados_write_op_create)(self.op, EXCLUSIVE, std::ptr::null()) };
    }

    pub(super) fn assert_version(&self, version: u64) {
        // SAFETY: the operation is ours.
        unsafe { (self.connection.api.rados_write_op_assert_version)(self.op, version) };
    }

    /// Writes `parts` one behind the other from `at` on. librados copies them.
    pub(super) fn write(&self, at: u64, parts: &[&[u8]]) {
        let mut at = at;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            // SAFETY: the operation is ours; the bytes are as long as is said.
            unsafe {
                (self.connection.api.rados_write_op_write)(self.op, part.as_ptr().cast(), part.len(), at)
            };
            at += part.len() as u64;
        }
    }

    /// Makes `parts` the whole content.
    pub(super) fn write_full(&self, parts: &[&[u8]]) {
        let (first, rest) = parts.split_first().map_or((&[][..], parts), |(first, rest)| (*first, rest));
        // SAFETY: the operation is ours; the bytes are as long as is said.
        unsafe {
            (self.connection.api.rados_write_op_write_full)(self.op, first.as_ptr().cast(), first.len())
        };
        self.write(first.len() as u64, rest);
    }

    pub(super) fn truncate(&self, len: u64) {
        // SAFETY: the operation is ours.
        unsafe { (self.connection.api.rados_write_op_truncate)(self.op, len) };
    }

    /// Does all of it, or nothing.
    pub(super) fn execute(self, object: &CStr) -> Outcome {
        let Connection { api, io, .. } = *self.connection;
        wait(api, |completion| {
            // SAFETY: all handles are live until the operation is complete, which is waited for; no time is given.
            unsafe {
                (api.rados_aio_write_op_operate)(
                    self.op,
                    io,
                    completion,
                    object.as_ptr(),
                    std::ptr::null_mut(),
                    0,
                )
            }
        })
    }
}

impl Drop for WriteOp<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, released once.
        unsafe { (self.connection.api.rados_release_write_op)(self.op) };
    }
}
