//! Values of variable length: kept in the heap, named by offset and length.
//!
//! A name has 16 bytes: offset of the first byte and length, each 8 bytes, little-endian. All ones is null.

use std::ffi::c_void;

use crate::calls::{args, bytes, done};
use crate::library::abi::{BlobSpecific, Herr, Void};
use crate::library::failure::Failure;

const NULL: [u8; 16] = [0xff; 16];

pub(crate) unsafe extern "C" fn put(at: Void, buf: *const c_void, size: usize, id: Void, _ctx: Void) -> Herr {
    done(at, |h| {
        // SAFETY: the library gives `size` bytes and room for a name.
        unsafe {
            let first = h.context.opening.shared.keep(bytes(buf, size))?;
            let mut name = [0; 16];
            name[..8].copy_from_slice(&first.to_le_bytes());
            name[8..].copy_from_slice(&(size as u64).to_le_bytes());
            std::ptr::copy_nonoverlapping(name.as_ptr(), id.cast(), 16);
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn get(at: Void, id: *const c_void, buf: Void, size: usize, _ctx: Void) -> Herr {
    done(at, |h| {
        // SAFETY: the library gives a name and room for `size` bytes.
        unsafe {
            let name = bytes(id, 16);
            let word = |at: usize| name[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
            if name == NULL || (size as u64) > word(8) {
                return Err(Failure::damaged("a value of variable length has another size"));
            }
            if size > 0 {
                let out = std::slice::from_raw_parts_mut(buf.cast::<u8>(), size);
                h.context.opening.shared.kept(word(0), out)?;
            }
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn specific(at: Void, id: Void, args_at: *mut BlobSpecific) -> Herr {
    done(at, |_| {
        // SAFETY: the library gives a name, and its arguments.
        unsafe {
            let args = args(args_at)?;
            match args.op {
                0 => {} // the bytes stay until the file is published or written anew
                1 => {
                    let name = bytes(id, 16);
                    *args.is_null = name == NULL || name == [0; 16];
                }
                2 => std::ptr::copy_nonoverlapping(NULL.as_ptr(), id.cast(), 16),
                op => return Err(Failure::unsupported(format!("operation {op} on a value"))),
            }
        }
        Ok(())
    })
}
