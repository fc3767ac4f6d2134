//! Lists of numbers as C has them: all numbers in a row, and how many each list has.
//!
//! The type of the numbers is compared with that of the variable. `dry_put_strings` and `dry_read_strings`, which take
//! and return bytes, cannot do that.

use std::ffi::c_char;

use drystone::format::dtype::{DType, Scalar};
use drystone::plan::selection::Selection;

use crate::argument::{aligned, bytes, count_entries, give_list, list};
use crate::dtype::{Type, name_of, scalar};
use crate::failure::{Failure, Result, Status, guard};
use crate::memory::{extents, optional_extents};
use crate::reading::{dry_axis, dry_variable, selection, variable};
use crate::schema::path;
use crate::writer::{dry_writer, writer};

/// The type of the numbers of a variable of lists, which the caller's must be.
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
        // SAFETY: pointers as drystone.h says.
        let (name, offset, count) = unsafe {
            (path(name)?, optional_extents(offset, ndim, "the offset")?, extents(count, ndim, "the count")?)
        };
        let open = writer(handle)?;
        let (dtype, _) = open.element(name, None)?;
        let item = element(&format!("\"{name}\""), &dtype, type_)?.size() as u64;
        let cells = count.iter().try_fold(1u64, |cells, n| cells.checked_mul(*n));
        let cells = cells.and_then(|cells| usize::try_from(cells).ok());
        let cells = cells.ok_or_else(|| Failure::invalid("the count is too large"))?;
        // SAFETY: as many lengths as the count says.
        let lengths = unsafe { list(lengths, cells, "the lengths")? };
        let size = lengths.iter().try_fold(0u64, |sum, n| n.checked_mul(item)?.checked_add(sum));
        let size = size.ok_or_else(|| Failure::invalid("the lengths are too large"))?;
        // SAFETY: as many numbers as the lengths add up to.
        let mut rest = unsafe { bytes(numbers, size, "the numbers")? };
        let mut lists = Vec::with_capacity(cells);
        for length in lengths {
            // The lengths add up to the size of `rest`, which is in memory.
            let (one, behind) = rest.split_at((*length * item) as usize);
            lists.push(one);
            rest = behind;
        }
        open.put_strings(name, count, &lists, offset)
    })
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
        // SAFETY: pointers as drystone.h says.
        let selection: Selection = unsafe { selection(naxes, axes)? };
        let open = variable(handle)?;
        let item = element(&open.what, open.dtype(), type_)?.size() as usize;
        let (lists, _) = open.reading.read_strings(&selection)?;
        let counts: Vec<u64> = lists.iter().map(|one| (one.len() / item) as u64).collect();
        let there = lists.iter().map(Vec::len).sum::<usize>() / item;
        // SAFETY: pointers as drystone.h says.
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
