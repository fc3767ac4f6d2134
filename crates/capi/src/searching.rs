//! Reads of cells that form no box: points that the caller lists, and cells whose values lie in a range.

use std::sync::Arc;

use drystone::Limit;
use drystone::plan::listing::{Leg, Listing};

use crate::argument::optional_step;
use crate::argument::{bytes, list, place, set};
use crate::dtype::Type;
use crate::failure::{Failure, Result, Status, guard};
use crate::reading::{dry_read_options, dry_read_report, dry_variable, give_report, variable};

/// Reads listed cells, one element each, in the order of the list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_read_points(
    handle: *const dry_variable,
    type_: Type,
    out: *mut u8,
    size: u64,
    naxes: u32,
    cells: *const u64,
    count: usize,
    given: *const dry_read_options,
) -> Status {
    guard(|| {
        let open = variable(handle)?;
        let axes = open.reading.shape().len();
        if naxes as usize != axes {
            return Err(Failure::invalid(format!(
                "the points have {naxes} coordinates, the variable has {axes} axes (the step axis included)"
            )));
        }
        if count as u64 > size {
            return Err(Failure::invalid(format!("{count} points do not fit into {size} bytes")));
        }
        let numbers = count.checked_mul(axes).ok_or_else(|| Failure::invalid("there are too many points"))?;
        // SAFETY: pointers are as drystone.h specifies; the caller does not use the memory until this returns.
        unsafe {
            let cells = list(cells, numbers, "the points")?;
            let leg = match axes {
                0 => Leg::List { axes: Vec::new(), cells: Vec::new(), places: (0..count as u64).collect() },
                _ => Leg::list((0..axes).collect(), cells.to_vec()),
            };
            let listing = Listing { legs: vec![Arc::new(leg)] };
            let (reading, target, report) = open.listed(type_, out, size, count as u64, given)?;
            give_report(report, &reading.read(&listing, &target)?, 0)
        }
    })
}

/// A limit in the type that the caller names.
unsafe fn limit(type_: Type, given: *const u8, what: &str) -> Result<Limit> {
    // SAFETY: guaranteed by the caller: 8 bytes.
    let bytes = unsafe { bytes(given, 8, what)? };
    let word: [u8; 8] = bytes.try_into().map_err(|_| Failure::invalid("a limit has 8 bytes"))?;
    match type_ {
        5 => Ok(Limit::Int(i64::from_ne_bytes(word).into())),
        9 => Ok(Limit::Int(u64::from_ne_bytes(word).into())),
        13 => Ok(Limit::Float(f64::from_ne_bytes(word))),
        _ => Err(Failure::invalid("limits are DRY_INT64, DRY_UINT64 or DRY_FLOAT64")),
    }
}

/// Finds the cells of a step whose values lie in a range.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_find(
    handle: *const dry_variable,
    step: i64,
    type_: Type,
    low: *const u8,
    high: *const u8,
    cells: *mut u64,
    values: *mut u8,
    capacity: usize,
    count: *mut usize,
    report: *mut dry_read_report,
) -> Status {
    guard(|| {
        let open = variable(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            let (low, high) = (limit(type_, low, "the lower limit")?, limit(type_, high, "the upper limit")?);
            place(count, "the number of cells")?;
            let hits = open.reading.value_range(optional_step(step)?, low, high)?;
            set(count, hits.count, "the number of cells")?;
            give_report(report, &hits.report, 0)?;
            if cells.is_null() && values.is_null() && capacity == 0 {
                return Ok(());
            }
            if capacity < hits.count {
                return Err(Failure::too_small("cells", capacity, hits.count));
            }
            if !cells.is_null() {
                place(cells, "the cells")?;
                std::ptr::copy_nonoverlapping(hits.coords.as_ptr(), cells, hits.coords.len());
            }
            if !values.is_null() {
                std::ptr::copy_nonoverlapping(hits.values.as_ptr(), values, hits.values.len());
            }
            Ok(())
        }
    })
}
