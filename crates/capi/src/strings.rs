//! Strings and lists of numbers of any length: from memory of the caller, and concatenated into the caller's buffer.

use std::ffi::{CStr, c_char};

use drystone::plan::selection::Selection;

use crate::argument::optional_step;
use crate::argument::{bytes, give_list, list, optional_list};
use crate::failure::{Failure, Result, Status, guard};
use crate::reading::{dry_axis, dry_variable, selection, variable};

/// The bytes of texts or lists. Without lengths, each is a text that ends with NUL.
///
/// # Safety
/// There are as many, and as many lengths if these are given. Each is readable for its length, or ends with NUL.
pub(crate) unsafe fn gather<'a>(
    values: *const *const c_char,
    lengths: *const u64,
    many: usize,
) -> Result<Vec<&'a [u8]>> {
    // SAFETY: the caller's promise.
    let (values, lengths) =
        unsafe { (list(values, many, "the texts")?, optional_list(lengths, many, "the lengths")?) };
    let mut out: Vec<&[u8]> = Vec::with_capacity(values.len());
    for (i, value) in values.iter().enumerate() {
        // SAFETY: the caller's promise.
        let text: &[u8] = unsafe {
            match lengths.and_then(|lengths| lengths.get(i)) {
                Some(length) => bytes(value.cast(), *length, "a text of the block")?,
                None if value.is_null() => {
                    return Err(Failure::invalid(format!("text {i} of the block is NULL")));
                }
                None => CStr::from_ptr(*value).to_bytes(),
            }
        };
        out.push(text);
    }
    Ok(out)
}

/// Concatenates them, and returns the end of each.
unsafe fn hand_out(
    values: &[Vec<u8>],
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
    ends: *mut u64,
    cells: usize,
) -> Result<()> {
    let mut at = 0;
    let places: Vec<u64> = values
        .iter()
        .map(|value| {
            at += value.len() as u64;
            at
        })
        .collect();
    // SAFETY: guaranteed by the caller.
    unsafe {
        give_list(&values.concat(), "strings", out.cast::<u8>(), capacity, length)?;
        if !ends.is_null() {
            let mut count = 0;
            give_list(&places, "the ends of strings", ends, cells, &raw mut count)?;
        }
    }
    Ok(())
}

/// Reads strings of a selection.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_read_strings(
    handle: *const dry_variable,
    naxes: u32,
    axes: *const dry_axis,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
    ends: *mut u64,
    cells: usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let selection: Selection = unsafe { selection(naxes, axes)? };
        let (values, _) = variable(handle)?.reading.read_strings(&selection)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { hand_out(&values, out, capacity, length, ends, cells) }
    })
}

/// Reads the strings of a written block.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_read_block_strings(
    handle: *const dry_variable,
    step: i64,
    number: usize,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
    ends: *mut u64,
    cells: usize,
) -> Status {
    guard(|| {
        let reading = &variable(handle)?.reading;
        let (values, _) = reading.read_strings(&reading.block(optional_step(step)?, number)?)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { hand_out(&values, out, capacity, length, ends, cells) }
    })
}
