//! Arguments: texts, lists and structures from C and back to C, within the sizes that come with them.
//!
//! Every `unsafe fn` here requires: the pointer is as drystone.h specifies, or NULL.

use std::ffi::{CStr, c_char};

use crate::failure::{Failure, Result};

/// A larger structure size means uninitialised memory.
const MAX_STRUCT: usize = 4096;
/// Longer lists are refused before their memory is read.
const MAX_LIST: usize = 1 << 28;

/// A structure whose first field is its size, so that header and library may differ in version.
///
/// # Safety
/// `repr(C)`, a `u32` first, and valid where every byte is 0.
pub(crate) unsafe trait Sized32: Copy {
    /// The structure's name in the header.
    const NAME: &'static str;
    /// Its size in the first released header.
    const FIRST: usize;
    /// Reserved fields, which must be zero: this library does not know what other values request.
    fn reserved(&self) -> u32 {
        0
    }
}

/// Declares that a structure of the header begins with its size, states its size in the first released header,
/// and that its field `reserved` has no meaning yet.
macro_rules! versioned {
    ($name:ident, $first:literal $(, $reserved:ident)?) => {
        // SAFETY: a structure of the header: repr(C), a u32 first, and zeros are a value of each field
        // (numbers and pointers).
        unsafe impl $crate::argument::Sized32 for $name {
            const NAME: &'static str = stringify!($name);
            const FIRST: usize = $first;
            $(fn reserved(&self) -> u32 {
                self.$reserved
            })?
        }
    };
}
pub(crate) use versioned;

fn check_size<T: Sized32>(given: usize) -> Result<()> {
    const { assert!(T::FIRST >= 4 && T::FIRST <= size_of::<T>()) };
    if given < T::FIRST || given > MAX_STRUCT {
        return Err(Failure::invalid(format!(
            "{} has struct_size {given}: set it to sizeof({}), which is at least {}",
            T::NAME,
            T::NAME,
            T::FIRST
        )));
    }
    Ok(())
}

/// Options; all zero for NULL.
pub(crate) unsafe fn options<T: Sized32>(given: *const T) -> Result<T> {
    // SAFETY: Sized32 guarantees that zeros are a valid value.
    let mut value: T = unsafe { std::mem::zeroed() };
    if given.is_null() {
        return Ok(value);
    }
    aligned(given, T::NAME)?;
    // SAFETY: the structure begins with its size, and that many of its bytes are readable.
    unsafe {
        let size = given.cast::<u32>().read() as usize;
        check_size::<T>(size)?;
        let known = size.min(size_of::<T>());
        let unknown = std::slice::from_raw_parts(given.cast::<u8>().add(known), size - known);
        std::ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut value).cast::<u8>(), known);
        if value.reserved() != 0 || unknown.iter().any(|byte| *byte != 0) {
            return Err(Failure::unsupported(format!(
                "{} asks for something this library ({}) does not know: its fields were not set to 0, or the program was \
                 compiled with a newer header",
                T::NAME,
                env!("CARGO_PKG_VERSION")
            )));
        }
    }
    Ok(value)
}

/// Checks a structure of the caller that is to be filled; NULL is none.
pub(crate) unsafe fn fits<T: Sized32>(out: *mut T) -> Result<()> {
    if out.is_null() {
        return Ok(());
    }
    aligned(out, T::NAME)?;
    // SAFETY: the structure begins with its size.
    check_size::<T>(unsafe { out.cast::<u32>().read() } as usize)
}

/// Fills a structure of the caller, up to the size that the caller knows; nothing for NULL.
pub(crate) unsafe fn give<T: Sized32>(out: *mut T, value: &T) -> Result<()> {
    // SAFETY: the caller's structure.
    unsafe { fits(out)? };
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: the structure begins with its size, and that many of its bytes are writable.
    unsafe {
        let size = out.cast::<u32>().read() as usize;
        fill(out.cast(), size, value);
    }
    Ok(())
}

/// Fills a list of structures of `size` bytes each.
pub(crate) unsafe fn give_structs<T: Sized32>(
    values: &[T],
    out: *mut T,
    size: usize,
    capacity: usize,
    count: *mut usize,
) -> Result<()> {
    if !out.is_null() {
        check_size::<T>(size)?;
        aligned(out, T::NAME)?;
    }
    // SAFETY: guaranteed by the caller.
    if unsafe { count_entries(T::NAME, values.len(), out.is_null(), capacity, count)? } {
        for (i, value) in values.iter().enumerate() {
            // SAFETY: the list holds `capacity` structures of `size` bytes, and there are no more values.
            unsafe {
                let place = out.cast::<u8>().add(i * size);
                fill(place, size, value);
                place.cast::<u32>().write_unaligned(size as u32);
            }
        }
    }
    Ok(())
}

unsafe fn fill<T: Sized32>(out: *mut u8, size: usize, value: &T) {
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes are writable; the first four, the size, stay unchanged.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *value).cast::<u8>().add(4), out.add(4), known - 4);
        out.add(known).write_bytes(0, size - known);
    }
}

pub(crate) fn aligned<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_aligned() {
        return Ok(());
    }
    Err(Failure::invalid(format!("{name} is at an address that is not aligned for it")))
}

/// A text; `what` names it in messages.
pub(crate) unsafe fn text<'a>(given: *const c_char, what: &str) -> Result<&'a str> {
    // SAFETY: not NULL here, and a text that ends with NUL.
    unsafe { optional_text(given, what)? }.ok_or_else(|| Failure::invalid(format!("{what} is NULL")))
}

/// A step as the engine takes it: -1 is none.
pub(crate) fn optional_step(step: i64) -> Result<Option<u64>> {
    match step {
        -1 => Ok(None),
        step => u64::try_from(step).map(Some).map_err(|_| Failure::invalid(format!("{step} is not a step"))),
    }
}

/// A text that may be NULL.
pub(crate) unsafe fn optional_text<'a>(given: *const c_char, what: &str) -> Result<Option<&'a str>> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: a text that ends with NUL.
    let text = unsafe { CStr::from_ptr(given) };
    text.to_str().map(Some).map_err(|e| Failure::invalid(format!("{what} is not UTF-8: {e}")))
}

/// A list of `count`; NULL only if that is 0.
pub(crate) unsafe fn list<'a, T>(given: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { optional_list(given, count, what)? }
        .ok_or_else(|| Failure::invalid(format!("{what} is NULL, {count} entries are needed")))
}

/// Texts of a list.
pub(crate) unsafe fn texts(given: *const *const c_char, count: usize, what: &str) -> Result<Vec<String>> {
    // SAFETY: guaranteed by the caller: `count` texts that end with NUL.
    unsafe { list(given, count, what)?.iter().map(|one| text(*one, what).map(str::to_owned)).collect() }
}

/// A list of `count`, or NULL.
pub(crate) unsafe fn optional_list<'a, T>(
    given: *const T,
    count: usize,
    what: &str,
) -> Result<Option<&'a [T]>> {
    if given.is_null() {
        return Ok(None);
    }
    if count > MAX_LIST {
        return Err(Failure::invalid(format!("{what} cannot have {count} entries")));
    }
    aligned(given, what)?;
    // SAFETY: aligned (checked), and `count` entries are readable, which do not change during the call.
    Ok(Some(unsafe { std::slice::from_raw_parts(given, count) }))
}

/// Bytes of the caller's memory; NULL only if there are none.
pub(crate) unsafe fn bytes<'a>(given: *const u8, size: u64, what: &str) -> Result<&'a [u8]> {
    if size == 0 {
        return Ok(&[]);
    }
    let size = byte_count(given, size, what)?;
    // SAFETY: not NULL, `size` bytes are readable, and they do not change during the call.
    Ok(unsafe { std::slice::from_raw_parts(given, size) })
}

/// The same for writing; no other thread uses it meanwhile.
pub(crate) unsafe fn bytes_mut<'a>(given: *mut u8, size: u64, what: &str) -> Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    let size = byte_count(given, size, what)?;
    // SAFETY: not NULL, `size` bytes are writable, and no other thread uses them during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(given, size) })
}

fn byte_count(given: *const u8, size: u64, what: &str) -> Result<usize> {
    if given.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL, {size} bytes are needed")));
    }
    let fits =
        isize::try_from(size).map_err(|_| Failure::invalid(format!("{what} cannot have {size} bytes")))?;
    Ok(fits.unsigned_abs())
}

/// The destination of a result; not NULL.
pub(crate) unsafe fn place<'a, T>(given: *mut T, what: &str) -> Result<&'a mut T> {
    aligned(given, what)?;
    // SAFETY: aligned (checked), NULL or writable.
    unsafe { given.as_mut() }
        .ok_or_else(|| Failure::invalid(format!("{what} is NULL: there is no place for the result")))
}

/// The destination of a handle; not NULL. Sets it to NULL until there is a handle.
pub(crate) unsafe fn handle_place<'a, T>(given: *mut *mut T) -> Result<&'a mut *mut T> {
    // SAFETY: guaranteed by the caller.
    let out = unsafe { place(given, "the handle")? };
    *out = std::ptr::null_mut();
    Ok(out)
}

/// Writes a value to the caller's pointer; nothing for NULL.
pub(crate) unsafe fn set<T>(out: *mut T, value: T, what: &str) -> Result<()> {
    if !out.is_null() {
        // SAFETY: guaranteed by the caller.
        *unsafe { place(out, what)? } = value;
    }
    Ok(())
}

/// Returns the number of entries; true if they are to be written.
pub(crate) unsafe fn count_entries(
    what: &str,
    there: usize,
    asking: bool,
    capacity: usize,
    count: *mut usize,
) -> Result<bool> {
    if asking && (capacity > 0 || count.is_null()) {
        return Err(Failure::invalid(format!(
            "the buffer for {what} is NULL; to ask for its size, give NULL, 0 and a place for the number"
        )));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { set(count, there, "the place for the number")? };
    if !asking && capacity < there {
        return Err(Failure::too_small(what, capacity, there));
    }
    Ok(!asking)
}

/// Copies a list into the caller's buffer of `capacity` entries and returns its length.
pub(crate) unsafe fn give_list<T: Copy>(
    values: &[T],
    what: &str,
    out: *mut T,
    capacity: usize,
    count: *mut usize,
) -> Result<()> {
    aligned(out, what)?;
    // SAFETY: guaranteed by the caller.
    if unsafe { count_entries(what, values.len(), out.is_null(), capacity, count)? } {
        // SAFETY: the buffer holds `capacity` entries, and there are no more values (`count_entries` checked).
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), out, values.len()) };
    }
    Ok(())
}

/// Copies a text and its NUL into the caller's buffer and returns its length without the NUL.
pub(crate) unsafe fn give_text(
    text: &str,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<()> {
    if !out.is_null() && capacity <= text.len() {
        // SAFETY: guaranteed by the caller.
        unsafe { set(length, text.len(), "the place for the length")? };
        return Err(Failure::too_small("a text with its NUL", capacity, text.len() + 1));
    }
    // SAFETY: guaranteed by the caller.
    if unsafe { count_entries("a text", text.len(), out.is_null(), capacity, length)? } {
        // SAFETY: the buffer holds the text and its NUL (checked).
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast::<u8>(), text.len());
            out.add(text.len()).write(0);
        }
    }
    Ok(())
}

/// Copies names, each followed by a NUL; `length` counts the bytes, NULs included.
pub(crate) unsafe fn give_names(
    names: &[String],
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
    count: *mut usize,
) -> Result<()> {
    let mut joined = Vec::new();
    for name in names {
        if name.contains('\0') {
            return Err(Failure::unsupported(format!("the name {name:?} holds a NUL, where C's texts end")));
        }
        joined.extend_from_slice(name.as_bytes());
        joined.push(0);
    }
    // SAFETY: guaranteed by the caller; a char is a byte.
    unsafe {
        set(count, names.len(), "the place for the number of names")?;
        give_list(&joined, "names", out.cast::<u8>(), capacity, length)
    }
}
