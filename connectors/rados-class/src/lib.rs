//! The object class's core: decodes and runs a read program and returns the reply, for `class.cc`, which calls Ceph.
//!
//! It runs in a storage daemon, on the thread that serves a placement group. It has no threads and no state,
//! and ends in bounded time.
//!
//! Invariants
//! - no panic leaves it: a panic would end the daemon, and the repeated operation would then end the next one;
//! - memory is allocated in proportion to the granted budget, and a refused allocation is a reply;
//! - errors of a program or an object are reported in the reply; error numbers only concern the class itself.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use drystone_program::{Budget, Program, Refusal, Source, SourceError, run};

/// The supported methods, as `dry.version` returns them.
const METHODS: &str = "dry.version dry.read.1 dry.read.2";
/// Time limit after which no further item is started; the current item is finished.
const TIME: Duration = Duration::from_millis(100);
const FAILED: c_int = -5;

/// Reads `len` bytes of the object at `offset` into `out`; returns the number of bytes, or a negative error number.
pub type Read = unsafe extern "C" fn(object: *mut c_void, offset: u64, out: *mut u8, len: usize) -> c_int;

/// The object, as the storage daemon reads it.
struct Object {
    object: *mut c_void,
    read: Read,
}

impl Source for Object {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        if out.is_empty() {
            return Ok(());
        }
        let end = offset.saturating_add(out.len() as u64);
        // SAFETY: the buffer is exclusively ours and has this length; the caller of `dry_read` guarantees the
        // function and the object.
        let got = unsafe { (self.read)(self.object, offset, out.as_mut_ptr(), out.len()) };
        match usize::try_from(got) {
            Ok(got) if got == out.len() => Ok(()),
            Ok(_) => Err(SourceError::Short(end)),
            Err(_) => Err(SourceError::Failed(format!("error {got} at byte {offset}"))),
        }
    }
}

fn answer(program: &[u8], object: &mut dyn Source) -> Vec<u8> {
    let program = match Program::decode(program) {
        Ok(program) => program,
        Err(error) => return Refusal::from(error).reply(),
    };
    let began = Instant::now();
    let mut first = true;
    let mut more = || std::mem::take(&mut first) || began.elapsed() < TIME;
    run(&program, object, &Budget::OBJECT_CLASS, &mut more)
}

/// Runs a program on an object. The reply is `out_len` bytes at `out`, which the caller passes to `dry_free`.
/// Returns 0, or a negative error number without a reply.
///
/// # Safety
/// `program` points to `len` bytes; `read` may be called with `object`, in this thread, until this returns;
/// `out` and `out_len` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dry_read(
    program: *const u8,
    len: usize,
    object: *mut c_void,
    read: Read,
    out: *mut *mut u8,
    out_len: *mut usize,
) -> c_int {
    let run = || {
        // SAFETY: guaranteed by the caller; there are no bytes if the length is 0.
        let program = if len == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(program, len) } };
        answer(program, &mut Object { object, read }).into_boxed_slice()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(reply) => {
            // SAFETY: guaranteed by the caller.
            unsafe {
                *out_len = reply.len();
                *out = Box::into_raw(reply).cast::<u8>();
            }
            0
        }
        Err(_) => FAILED,
    }
}

/// Frees a reply.
///
/// # Safety
/// `reply` and `len` come from one call of `dry_read`, and are passed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dry_free(reply: *mut u8, len: usize) {
    if !reply.is_null() {
        // SAFETY: `dry_read` released this box.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(reply, len)) });
    }
}

/// The supported methods, as text without a NUL; valid for ever.
///
/// # Safety
/// `len` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dry_version(len: *mut usize) -> *const u8 {
    // SAFETY: guaranteed by the caller.
    unsafe { *len = METHODS.len() };
    METHODS.as_ptr()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use super::*;
    use drystone_program::{Payload, Reply, Why, sample};

    /// Reads of a vector; panics for a null pointer.
    unsafe extern "C" fn read(object: *mut c_void, offset: u64, out: *mut u8, len: usize) -> c_int {
        // SAFETY: the tests pass a vector.
        let object = unsafe { &*object.cast::<Vec<u8>>() };
        let Some(rest) = object.get(offset as usize..) else { return 0 };
        let many = rest.len().min(len);
        // SAFETY: `out` has `len` bytes.
        unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), out, many) };
        many as c_int
    }

    unsafe extern "C" fn fails(_: *mut c_void, _: u64, _: *mut u8, _: usize) -> c_int {
        -5
    }

    fn call(program: &[u8], object: &mut Vec<u8>, read: Read) -> Vec<u8> {
        let (mut out, mut len) = (std::ptr::null_mut(), 0);
        let object = std::ptr::from_mut(object).cast::<c_void>();
        // SAFETY: all pointers are valid; the object outlives the call.
        let code = unsafe { dry_read(program.as_ptr(), program.len(), object, read, &mut out, &mut len) };
        assert_eq!(code, 0);
        // SAFETY: the result of the call; freed once.
        let reply = unsafe { std::slice::from_raw_parts(out, len) }.to_vec();
        // SAFETY: as above.
        unsafe { dry_free(out, len) };
        reply
    }

    #[test]
    fn a_program_gets_a_reply_and_errors_are_in_it() {
        let (program, mut object) = sample(5);
        let bytes = program.encode().unwrap();
        let reply = call(&bytes, &mut object, read);
        assert_eq!(Reply::new(&reply).unwrap().count(), program.items.len());
        assert!(Reply::new(&reply).unwrap().all(|f| !matches!(f.unwrap().payload, Payload::Refused(_))));
        for (bytes, why) in
            [(&b"nonsense"[..], Why::Malformed), (b"", Why::Malformed), (b"DRYP\x09\0", Why::Version)]
        {
            let reply = call(bytes, &mut object, read);
            let frame = Reply::new(&reply).unwrap().next().unwrap().unwrap();
            assert!(matches!(frame.payload, Payload::Refused(refusal) if refusal.why == why));
        }
        let reply = call(&bytes, &mut object, fails);
        let refused =
            |payload| matches!(payload, Payload::Refused(refusal) if refusal.why == Why::Unreadable);
        assert!(Reply::new(&reply).unwrap().all(|frame| refused(frame.unwrap().payload)));
        let mut len = 0;
        // SAFETY: the pointer is valid; the text has this length.
        let text = unsafe { std::slice::from_raw_parts(dry_version(&mut len), len) };
        assert_eq!(text, METHODS.as_bytes());
    }
}
