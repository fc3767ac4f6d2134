//! Failures in C's terms: a status, and for each thread the message of its last one.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use drystone::{Error, ErrorKind};

/// `dry_status` of the header; 0 is success.
pub(crate) type Status = i32;

/// Result of a function before it becomes a status.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

pub(crate) const OK: Status = 0;
const NOT_FOUND: Status = 1;
const CORRUPT: Status = 2;
const CONFLICT: Status = 3;
const UNSUPPORTED: Status = 4;
const INVALID_ARGUMENT: Status = 5;
const OUT_OF_RANGE: Status = 6;
const IO: Status = 7;
const CANCELLED: Status = 8;
const BUFFER_TOO_SMALL: Status = 9;
pub(crate) const INTERNAL: Status = 10;
const PERMISSION: Status = 11;
const DEADLINE: Status = 12;
const NOT_YET_HOME: Status = 13;

/// The names of the statuses, by their numbers.
const NAMES: [&str; 14] = [
    "DRY_OK\0",
    "DRY_NOT_FOUND\0",
    "DRY_CORRUPT\0",
    "DRY_CONFLICT\0",
    "DRY_UNSUPPORTED\0",
    "DRY_INVALID_ARGUMENT\0",
    "DRY_OUT_OF_RANGE\0",
    "DRY_IO\0",
    "DRY_CANCELLED\0",
    "DRY_BUFFER_TOO_SMALL\0",
    "DRY_INTERNAL\0",
    "DRY_PERMISSION\0",
    "DRY_DEADLINE\0",
    "DRY_NOT_YET_HOME\0",
];

/// A status other than success, and its message.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Failure { status: INVALID_ARGUMENT, message: message.into() }
    }
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Failure { status: UNSUPPORTED, message: message.into() }
    }
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Failure { status: NOT_FOUND, message: message.into() }
    }
    /// A status that a callback returned, with this thread's last message if that belongs to such a failure.
    pub(crate) fn last(status: Status) -> Error {
        let last = LAST.try_with(|last| {
            let last = last.borrow();
            (last.status == status).then(|| last.message.to_string_lossy().into_owned())
        });
        let name =
            usize::try_from(status).ok().and_then(|at| NAMES.get(at)).map(|name| name.trim_end_matches('\0'));
        let own = || format!("this rank gave up: {}", name.unwrap_or("an unknown status"));
        Failure { status, message: last.ok().flatten().unwrap_or_else(own) }.error()
    }
    /// The failure as an error of the engine, which other ranks receive.
    pub(crate) fn error(self) -> Error {
        let kind = match self.status {
            NOT_FOUND => ErrorKind::NotFound,
            CORRUPT => ErrorKind::Corrupt,
            CONFLICT => ErrorKind::Conflict,
            UNSUPPORTED => ErrorKind::Unsupported,
            OUT_OF_RANGE => ErrorKind::OutOfRange,
            IO | INTERNAL => ErrorKind::Io,
            CANCELLED => ErrorKind::Cancelled,
            PERMISSION => ErrorKind::Permission,
            DEADLINE => ErrorKind::Deadline,
            NOT_YET_HOME => ErrorKind::NotYetHome,
            _ => ErrorKind::InvalidArgument,
        };
        Error::new(kind, self.message)
    }
    pub(crate) fn too_small(what: &str, given: usize, needed: usize) -> Self {
        let message = format!("the buffer for {what} takes {given}, {needed} are needed");
        Failure { status: BUFFER_TOO_SMALL, message }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            ErrorKind::Corrupt => CORRUPT,
            ErrorKind::Conflict => CONFLICT,
            ErrorKind::Unsupported => UNSUPPORTED,
            ErrorKind::InvalidArgument => INVALID_ARGUMENT,
            ErrorKind::OutOfRange => OUT_OF_RANGE,
            ErrorKind::Io => IO,
            ErrorKind::Cancelled => CANCELLED,
            ErrorKind::Permission => PERMISSION,
            ErrorKind::Deadline => DEADLINE,
            ErrorKind::NotYetHome => NOT_YET_HOME,
        };
        Failure { status, message: error.to_string() }
    }
}

#[derive(Default)]
struct Last {
    status: Status,
    message: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Runs the body of a function; a failure or panic becomes its status, and the thread's last message.
pub(crate) fn guard(act: impl FnOnce() -> Result<()>) -> Status {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => OK,
        Ok(Err(failure)) => remember(failure),
        Err(panic) => remember(Failure {
            status: INTERNAL,
            message: format!("internal error in drystone, please report it: {}", said(panic.as_ref())),
        }),
    }
}

/// Makes a failure the thread's last one.
pub(crate) fn remember(failure: Failure) -> Status {
    // Messages quote names from containers, which may hold NUL; C's texts end there.
    let message = CString::new(failure.message.replace('\0', "\\0")).unwrap_or_default();
    let _ = LAST.try_with(|last| *last.borrow_mut() = Last { status: failure.status, message });
    failure.status
}

/// The message of this thread's last failure.
pub(crate) fn last_message() -> CString {
    LAST.try_with(|last| last.borrow().message.clone()).unwrap_or_default()
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

/// The message of this thread's last failure; empty before the first. It stays valid until the next failure
/// in this thread.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The name of a status, as in the header.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_status_name(status: Status) -> *const c_char {
    let name = usize::try_from(status).ok().and_then(|at| NAMES.get(at));
    name.copied().unwrap_or("an unknown status\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: the pointer is of a text that stays until the next failure in this thread.
        unsafe { CStr::from_ptr(dry_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_and_a_message() {
        assert_eq!(guard(|| panic!("the sky fell")), INTERNAL);
        assert!(last().ends_with("the sky fell"), "{}", last());
    }

    #[test]
    fn each_thread_has_its_own_last_message() {
        guard(|| Err(Failure::invalid("here")));
        std::thread::spawn(|| {
            assert_eq!(last(), "");
            guard(|| Err(Failure::invalid("there")));
        })
        .join()
        .unwrap();
        assert_eq!(last(), "here");
        assert_eq!(guard(|| Err(Failure::invalid("a\0b"))), INVALID_ARGUMENT);
        assert_eq!(last(), "a\\0b");
    }
}
