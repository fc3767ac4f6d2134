//! Warnings and notes: passed to the program's callback, or to standard error.

use std::ffi::{CString, c_char, c_void};
use std::sync::{PoisonError, RwLock};

use drystone::Container;

use crate::failure::{Status, guard};

/// `dry_log_callback` of the header.
pub(crate) type dry_log_callback = Option<unsafe extern "C" fn(*mut c_void, i32, *const c_char)>;

/// `DRY_LOG_NOTE`
pub(crate) const NOTE: i32 = 1;
/// `DRY_LOG_WARNING`
pub(crate) const WARNING: i32 = 2;

#[derive(Clone, Copy)]
struct Listener {
    callback: unsafe extern "C" fn(*mut c_void, i32, *const c_char),
    context: *mut c_void,
}

// SAFETY: the header requires a callback and a context that any thread may use.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

static LISTENER: RwLock<Option<Listener>> = RwLock::new(None);

/// Sets the callback; NULL: standard error, warnings only.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_set_log(callback: dry_log_callback, context: *mut c_void) -> Status {
    guard(|| {
        let listener = callback.map(|callback| Listener { callback, context });
        *LISTENER.write().unwrap_or_else(PoisonError::into_inner) = listener;
        Ok(())
    })
}

/// Passes on one message.
pub(crate) fn tell(level: i32, message: &str) {
    // Copied first, so that a callback may set another callback.
    let listener = *LISTENER.read().unwrap_or_else(PoisonError::into_inner);
    let Some(Listener { callback, context }) = listener else {
        if level >= WARNING {
            eprintln!("drystone: warning: {message}");
        }
        return;
    };
    let Ok(message) = CString::new(message.replace('\0', "\\0")) else { return };
    // SAFETY: the header specifies the callback; the message is valid until it returns.
    unsafe { callback(context, level, message.as_ptr()) }
}

/// Passes on the container's messages since the last call.
pub(crate) fn tell_warnings(container: &Container) {
    for warning in container.take_warnings() {
        tell(WARNING, &warning);
    }
}
