//! Tokens: an object's id in eight bytes.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int};

use crate::calls::{done, guard};
use crate::library::abi::{Herr, Token, Void};
use crate::library::failure::Failure;
use crate::object::handle::Handle;
use crate::object::walk::{id_of, text, token_of};

pub(crate) unsafe extern "C" fn cmp(_at: Void, a: *const Token, b: *const Token, result: *mut c_int) -> Herr {
    guard(None, -1, || {
        // SAFETY: the library's arguments; either token may be null.
        unsafe {
            let order = match (a.as_ref(), b.as_ref()) {
                (Some(a), Some(b)) => id_of(a).cmp(&id_of(b)).then(a.0.cmp(&b.0)),
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            };
            *result = order as c_int;
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn to_str(
    at: Void,
    _kind: c_int,
    token: *const Token,
    out: *mut *mut c_char,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments; it frees what its own function allocates.
        unsafe {
            let token = token.as_ref().ok_or_else(|| Failure::invalid("no token"))?;
            let words = id_of(token).to_string();
            let room = (h.context.host.api.H5allocate_memory)(words.len() + 1, true).cast::<c_char>();
            if room.is_null() {
                return Err(Failure::library("no memory"));
            }
            std::ptr::copy_nonoverlapping(words.as_ptr().cast(), room, words.len());
            *out = room;
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn from_str(
    at: Void,
    _kind: c_int,
    words: *const c_char,
    token: *mut Token,
) -> Herr {
    done(at, |_: &Handle| {
        let id = std::str::from_utf8(text(words)).ok().and_then(|t| t.trim().parse().ok());
        let id = id.ok_or_else(|| Failure::invalid("a token is a number"))?;
        // SAFETY: the library's argument.
        unsafe { *token = token_of(id) };
        Ok(())
    })
}
