//! The message of a thread's last failure, read and set by the caller.

use std::ffi::c_char;
use std::panic::catch_unwind;

use crate::argument::{give_text, optional_text};
use crate::failure::{Failure, INTERNAL, OK, Status, last_message, remember};

/// The message of this thread's last failure, copied into the caller's buffer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_error_message(
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    let message = last_message();
    // SAFETY: the caller gives a buffer of `capacity` and a place for the length, or NULL, as the header says.
    match catch_unwind(|| unsafe { give_text(&message.to_string_lossy(), text, capacity, length) }) {
        Ok(Ok(())) => OK,
        Ok(Err(failure)) => failure.status, // the message stays: it is what is being asked for
        Err(_) => INTERNAL,
    }
}

/// Sets the thread's last message, for a failure of the caller's own.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_set_error(status: Status, message: *const c_char) -> Status {
    if status == OK {
        return OK;
    }
    // SAFETY: a text that ends with NUL, or NULL, as the header says.
    let message = match unsafe { optional_text(message, "the message") } {
        Ok(message) => message.unwrap_or_default().to_string(),
        Err(wrong) => wrong.message,
    };
    remember(Failure { status, message })
}
