//! Introspection: the connector's configuration in the library, and the objects behind ids.

use std::ffi::{CString, c_char, c_int, c_void};

use crate::calls::guard;
use crate::file::config::{Config, Info};
use crate::library::abi::{Herr, Void};
use crate::object::handle::{Handle, shown};
use crate::object::walk;

/// Which optional operations the connector supports.
pub(crate) unsafe extern "C" fn opt_query(at: Void, class: c_int, op: c_int, flags: *mut u64) -> Herr {
    let mimic = Handle::from_void(at).is_ok_and(|h| h.context.mimic);
    let known = matches!((class, op), (6, 8 | 28)) || mimic && matches!((class, op), (7, 1) | (9, 0 | 1 | 5));
    // SAFETY: the library's argument. 1: supported.
    unsafe { *flags = u64::from(known) };
    0
}

pub(crate) unsafe extern "C" fn info_copy(info: *const c_void) -> Void {
    guard(None, std::ptr::null_mut(), || {
        // SAFETY: only `info_from_str` and this make such things.
        let info = unsafe { info.cast::<Info>().as_ref() }.cloned();
        Ok(info.map_or(std::ptr::null_mut(), |i| Box::into_raw(Box::new(i)).cast()))
    })
}

pub(crate) unsafe extern "C" fn info_cmp(out: *mut c_int, a: *const c_void, b: *const c_void) -> Herr {
    // SAFETY: as above; either may be null.
    unsafe {
        let text = |at: *const c_void| at.cast::<Info>().as_ref().map(|i| format!("{i:?}"));
        *out = text(a).cmp(&text(b)) as c_int;
    }
    0
}

pub(crate) unsafe extern "C" fn info_free(info: Void) -> Herr {
    if !info.is_null() {
        // SAFETY: as above; freed once.
        drop(unsafe { Box::from_raw(info.cast::<Info>()) });
    }
    0
}

pub(crate) unsafe extern "C" fn info_to_str(info: *const c_void, out: *mut *mut c_char) -> Herr {
    // SAFETY: the library frees the string with `free`.
    unsafe {
        let text = info.cast::<Info>().as_ref().map(|i| i.as_ref().map(Config::text).unwrap_or_default());
        let text = CString::new(text.unwrap_or_default()).unwrap_or_default();
        *out = libc::strdup(text.as_ptr());
    }
    0
}

/// An error in the string is kept, and reported when a file is opened: here the library would only report
/// that there is one.
pub(crate) unsafe extern "C" fn info_from_str(text: *const c_char, out: *mut Void) -> Herr {
    guard(None, -1, || {
        let text = String::from_utf8_lossy(walk::text(text)).into_owned();
        // SAFETY: the library's argument.
        unsafe { *out = Box::into_raw(Box::<Info>::new(Config::parse(&text))).cast() };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn get_object(at: *const c_void) -> Void {
    guard(None, at.cast_mut(), || Ok(shown(at.cast_mut())))
}

pub(crate) unsafe extern "C" fn get_wrap_ctx(_at: *const c_void, out: *mut Void) -> Herr {
    // SAFETY: the library's argument. There is nothing to remember.
    unsafe { *out = std::ptr::null_mut() };
    0
}

pub(crate) unsafe extern "C" fn wrap_object(at: Void, _kind: c_int, _ctx: Void) -> Void {
    at
}

pub(crate) unsafe extern "C" fn unwrap_object(at: Void) -> Void {
    at
}

pub(crate) unsafe extern "C" fn free_wrap_ctx(_ctx: Void) -> Herr {
    0
}

pub(crate) unsafe extern "C" fn initialize(_vipl: i64) -> Herr {
    0
}

pub(crate) unsafe extern "C" fn terminate() -> Herr {
    0
}
