//! Lists of numbers in C: all numbers concatenated, and the length of each list.
//!
//! The type of the numbers is compared with that of the variable. `dry_put_strings` and `dry_read_strings`, which take
//! and return bytes, cannot do that.

use std::ffi::c_char;

use drystone::format::dtype::{DType, Scalar};
use drystone::plan::selection::Selection;

use crate::argument::{aligned, bytes, count_entries, give_list, list, text};
use crate::dtype::{Type, name_of, scalar};
use crate::failure::{Failure, Result, Status, guard};
use crate::memory::{extents, optional_extents};
use crate::reading::{dry_axis, dry_variable, selection, variable};
use crate::schema::path;
use crate::writer::{dry_writer, product, writer};

/// The type of the numbers of a variable of lists; the caller's type must be the same.
fn element(what: &str, dtype: &DType, given: Type) -> Result<Scalar> {
    let DType::Ragged(element) = dtype else {
        return Err(Failure::invalid(format!("{what} holds {dtype}, not lists of numbers")));
    };
    match scalar(given) {
        Some(given) if given == *element => Ok(*element),
        _ => Err(Failure::invalid(format!(
            "{what} has lists of {element}, the memory is said to have {}; convert it first",
            name_of(given)
        ))),
    }
}

/// Writes a block of lists.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_put_lists(
    handle: *const dry_writer,
    name: *const c_char,
    type_: Type,
    numbers: *const u8,
    lengths: *const u64,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, offset, count) = unsafe {
            (path(name)?, optional_extents(offset, ndim, "the offset")?, extents(count, ndim, "the count")?)
        };
        let open = writer(handle)?;
        let (dtype, _) = open.element(name, None)?;
        let item = element(&format!("\"{name}\""), &dtype, type_)?.size() as u64;
        // SAFETY: as many lengths as the count says, and as many numbers as these add up to.
        let lists = unsafe { separate(numbers, lengths, product(count)?, item)? };
        open.put_strings(name, count, &lists, offset, None)
    })
}

/// Writes a block of lists of a member of records.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_put_member_lists(
    handle: *const dry_writer,
    name: *const c_char,
    member: *const c_char,
    type_: Type,
    numbers: *const u8,
    lengths: *const u64,
    many: usize,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, member, offset, count) = unsafe {
            (
                path(name)?,
                text(member, "the member")?,
                optional_extents(offset, ndim, "the offset")?,
                extents(count, ndim, "the count")?,
            )
        };
        let open = writer(handle)?;
        let (dtype, _) = open.element(name, Some(member))?;
        let item = element(&format!("member \"{member}\" of \"{name}\""), &dtype, type_)?.size() as u64;
        // SAFETY: as many lengths as the caller says, and as many numbers as these add up to.
        let lists = unsafe { separate(numbers, lengths, many, item)? };
        open.put_strings(name, count, &lists, offset, Some(member))
    })
}

/// The bytes of each list.
///
/// # Safety
/// There are as many lengths, and as many numbers of `item` bytes as these add up to.
unsafe fn separate<'a>(
    numbers: *const u8,
    lengths: *const u64,
    many: usize,
    item: u64,
) -> Result<Vec<&'a [u8]>> {
    // SAFETY: the caller's promise.
    let lengths = unsafe { list(lengths, many, "the lengths")? };
    let size = lengths.iter().try_fold(0u64, |sum, n| n.checked_mul(item)?.checked_add(sum));
    let size = size.ok_or_else(|| Failure::invalid("the lengths are too large"))?;
    // SAFETY: the caller's promise.
    let mut rest = unsafe { bytes(numbers, size, "the numbers")? };
    let mut lists = Vec::with_capacity(many);
    for length in lengths {
        // The lengths add up to the size of `rest`, which is in memory.
        let (one, behind) = rest.split_at((*length * item) as usize);
        lists.push(one);
        rest = behind;
    }
    Ok(lists)
}

/// Reads lists of a selection.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_read_lists(
    handle: *const dry_variable,
    type_: Type,
    naxes: u32,
    axes: *const dry_axis,
    numbers: *mut u8,
    capacity: usize,
    length: *mut usize,
    lengths: *mut u64,
    cells: usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let selection: Selection = unsafe { selection(naxes, axes)? };
        let open = variable(handle)?;
        let item = element(&open.what, open.dtype(), type_)?.size() as usize;
        let (lists, _) = open.reading.read_strings(&selection)?;
        let counts: Vec<u64> = lists.iter().map(|one| (one.len() / item) as u64).collect();
        let there = lists.iter().map(Vec::len).sum::<usize>() / item;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            if count_entries("the numbers", there, numbers.is_null(), capacity, length)? {
                let mut at = numbers;
                for one in &lists {
                    // There is room for `capacity` numbers, and there are no more (`count_entries` checked).
                    std::ptr::copy_nonoverlapping(one.as_ptr(), at, one.len());
                    at = at.add(one.len());
                }
            }
            if !lengths.is_null() {
                aligned(lengths, "the lengths")?;
                let mut count = 0;
                give_list(&counts, "the lengths", lengths, cells, &raw mut count)?;
            }
        }
        Ok(())
    })
}
