//! The callbacks, one module per class. Each is a thin entry from C that passes its arguments to a function
//! with a `Result`.
//!
//! Invariants
//! - no panic leaves a callback; every failure is pushed on the library's error stack;
//! - the file's lock is not held while the library or the program is called.

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::library::abi::{Herr, Hid, OptionalArgs, Req, Void};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, MAX_HOSTS};
use crate::object::handle::Handle;
use crate::object::place::ObjectRef;

pub(crate) mod attribute;
pub(crate) mod blob;
mod creation;
pub(crate) mod dataset;
pub(crate) mod datatype;
pub(crate) mod file;
pub(crate) mod group;
pub(crate) mod introspect;
pub(crate) mod link;
pub(crate) mod object;
mod stored;
pub(crate) mod token;

/// Runs a callback's body; an error is pushed on the library's stack.
pub(crate) fn guard<T>(host: Option<&Host>, failed: T, body: impl FnOnce() -> Result<T>) -> T {
    let result = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Failure::library("a bug in the drystone connector: it panicked")));
    match result {
        Ok(value) => value,
        Err(failure) => {
            if let Some(host) = host {
                failure.push(host);
            }
            failed
        }
    }
}

/// Runs a callback's body on a handle.
pub(crate) fn with<T>(at: Void, failed: T, body: impl FnOnce(&Handle) -> Result<T>) -> T {
    match Handle::from_void(at) {
        Ok(handle) => guard(Some(handle.context.host), failed, || body(handle)),
        Err(failure) => {
            // The owner of the handle is unknown, so every library gets the error.
            (0..MAX_HOSTS).filter_map(Host::of).for_each(|host| failure.push(host));
            failed
        }
    }
}

/// The same for callbacks that only report success.
pub(crate) fn done(at: Void, body: impl FnOnce(&Handle) -> Result<()>) -> Herr {
    with(at, -1, |handle| body(handle).map(|()| 0))
}

/// The same for callbacks that return an object.
pub(crate) fn made(at: Void, body: impl FnOnce(&Handle) -> Result<Void>) -> Void {
    with(at, std::ptr::null_mut(), body)
}

/// Refuses an operation that only native files have.
pub(crate) unsafe extern "C" fn refuse(at: Void, args: *mut OptionalArgs, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |_| {
        // SAFETY: the library gives its arguments.
        let op = unsafe { args.as_ref() }.map_or(-1, |a| a.op_type);
        Err(Failure::unsupported(format!("operation {op} is not supported by the drystone connector")))
    })
}

/// Copies a string for the program: as much as fits, with NUL; returns its length.
///
/// # Safety
/// `buf` has room for `size` bytes, or is null.
pub(crate) unsafe fn give_text(text: &[u8], buf: *mut c_char, size: usize, len: *mut usize) {
    // SAFETY: the caller's promise; `len` is the library's.
    unsafe {
        if !len.is_null() {
            *len = text.len();
        }
        if !buf.is_null() && size > 0 {
            let n = text.len().min(size - 1);
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buf, n);
            *buf.add(n) = 0;
        }
    }
}

/// Registers an object with the library and calls back with its id, which is closed afterwards.
pub(crate) fn with_id(place: ObjectRef, body: impl FnOnce(Hid) -> Herr) -> Result<Herr> {
    let host = place.context.host;
    let (handle, kind) = Handle::object(place)?;
    // SAFETY: a handle of ours and its kind.
    let id = unsafe { (host.api.H5VLwrap_register)(handle, kind.id_type()) };
    if id < 0 {
        let _ = Handle::close(handle);
        return Err(Failure::library("cannot register an object"));
    }
    let result = body(id);
    // SAFETY: the id that was registered.
    unsafe { (host.api.H5Idec_ref)(id) };
    Ok(result)
}

/// A reference to a callback's argument struct.
///
/// # Safety
/// The library's pointer is valid for the length of the callback.
pub(crate) unsafe fn args<'a, T>(at: *mut T) -> Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { at.as_mut() }.ok_or_else(|| Failure::invalid("no arguments"))
}

/// A reference to a location.
///
/// # Safety
/// As for [`args`].
pub(crate) unsafe fn loc<'a>(at: *const crate::library::abi::Loc) -> Result<&'a crate::library::abi::Loc> {
    // SAFETY: the caller's promise.
    unsafe { at.as_ref() }.ok_or_else(|| Failure::invalid("no location"))
}

/// Bytes of the caller.
///
/// # Safety
/// `n` bytes at `at` are readable for `'a`.
pub(crate) unsafe fn bytes<'a>(at: *const c_void, n: usize) -> &'a [u8] {
    if at.is_null() || n == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), n) }
}
