//! Queries: which cells satisfy a condition, and the values of variables there.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

use drystone::{Batches, Query, QueryReport, ReadReport};

use crate::argument::{bytes_mut, give_list, give_text, handle_place, list, place, set, text};
use crate::container::{container, dry_container};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::reading::{dry_axis, dry_read_report, give_report, selection};

/// The handle of a query.
#[repr(C)]
pub(crate) struct dry_query {
    _private: [u8; 0],
}

/// A query, and the remaining hits once the first were returned.
pub(crate) struct OpenQuery {
    query: Query,
    names: Mutex<Vec<String>>,
    hits: Mutex<Option<Batches>>,
}

impl Handled for OpenQuery {
    type Opaque = dry_query;
    const KIND: u64 = 7;
}

unsafe fn give_cost(out: *mut dry_read_report, report: &QueryReport) -> Result<()> {
    let cost = ReadReport { read_bytes: report.bytes, requests: report.requests, ..ReadReport::default() };
    // SAFETY: guaranteed by the caller.
    unsafe { give_report(out, &cost, 0) }
}

/// A query on the snapshot of the container's handle.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_open(
    handle: *const dry_container,
    condition: *const c_char,
    naxes: u32,
    axes: *const dry_axis,
    out: *mut *mut dry_query,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (condition, out) = unsafe { (text(condition, "the condition")?, handle_place(out)?) };
        let container = container(handle)?;
        let mut query = container.query(&container.condition(condition)?, &[])?;
        if naxes > 0 {
            // SAFETY: as above.
            let selection = unsafe { selection(naxes, axes)? };
            let wanted = query.shape().len();
            if selection.axes.len() != wanted {
                return Err(Failure::invalid(format!(
                    "the selection has {naxes} axes, the cells of the condition {wanted} (the step axis included)"
                )));
            }
            query = query.select(&selection)?;
        }
        *out = keep(OpenQuery { query, names: Mutex::default(), hits: Mutex::default() });
        Ok(())
    })
}

/// Closes a query.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_query_close(handle: *mut dry_query) -> Status {
    guard(|| take::<OpenQuery>(handle).map(|_| ()))
}

/// The shape of the selected cells.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_shape(
    handle: *const dry_query,
    shape: *mut u64,
    capacity: usize,
    naxes: *mut usize,
) -> Status {
    guard(|| {
        let open = get::<OpenQuery>(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_list(&open.query.shape(), "extents", shape, capacity, naxes) }
    })
}

/// Bounds of the count.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_bounds(
    handle: *const dry_query,
    low: *mut u64,
    high: *mut u64,
) -> Status {
    guard(|| {
        let (least, most) = get::<OpenQuery>(handle)?.query.bounds()?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            set(low, least, "the least number")?;
            set(high, most, "the greatest number")
        }
    })
}

/// The number of hits.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_count(
    handle: *const dry_query,
    count: *mut u64,
    report: *mut dry_read_report,
) -> Status {
    guard(|| {
        let open = get::<OpenQuery>(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            let count = place(count, "the number of hits")?;
            let (found, cost) = open.query.count()?;
            *count = found;
            give_cost(report, &cost)
        }
    })
}

/// Which of the selected cells are hits.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_mask(
    handle: *const dry_query,
    mask: *mut u8,
    size: u64,
    report: *mut dry_read_report,
) -> Status {
    guard(|| {
        let open = get::<OpenQuery>(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            let mask = bytes_mut(mask, size, "the mask")?;
            mask.fill(0);
            give_cost(report, &open.query.mask(mask)?)
        }
    })
}

/// Names the variables whose values are returned with the hits, and restarts at the first hit.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_select(
    handle: *const dry_query,
    count: usize,
    names: *const *const c_char,
) -> Status {
    guard(|| {
        let open = get::<OpenQuery>(handle)?;
        // SAFETY: pointers are as drystone.h specifies.
        let names: Vec<String> = unsafe {
            let names = list(names, count, "the names")?;
            names.iter().map(|name| Ok(text(*name, "a name")?.to_owned())).collect::<Result<_>>()?
        };
        let hits = open.query.batches(&names)?;
        *open.hits.lock().unwrap_or_else(PoisonError::into_inner) = Some(hits);
        *open.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(())
    })
}

/// The next hits, with the values of the named variables.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_next(
    handle: *const dry_query,
    capacity: usize,
    coords: *mut i64,
    values: *const *mut u8,
    sizes: *const u64,
    count: *mut usize,
    report: *mut dry_read_report,
) -> Status {
    guard(|| {
        let open = get::<OpenQuery>(handle)?;
        let mut hits = open.hits.lock().unwrap_or_else(PoisonError::into_inner);
        if hits.is_none() {
            *hits = Some(open.query.batches(&[])?);
        }
        let Some(hits) = hits.as_mut() else { return Ok(()) };
        if capacity == 0 {
            return Err(Failure::invalid("there is room for no hit"));
        }
        // SAFETY: pointers are as drystone.h specifies: room for `capacity` hits, and one value of each size per
        // variable and hit.
        unsafe {
            let count = place(count, "the number of hits")?;
            *count = 0;
            let columns = open.names.lock().unwrap_or_else(PoisonError::into_inner).len();
            let (values, sizes) = (list(values, columns, "the values")?, list(sizes, columns, "the sizes")?);
            let wanted = hits.items();
            for (given, item) in sizes.iter().zip(&wanted) {
                let needed = (capacity as u64).saturating_mul(*item);
                if *given < needed {
                    return Err(Failure::invalid(format!(
                        "there are {given} bytes for values, {capacity} hits need {needed}"
                    )));
                }
            }
            if let Some(batch) = hits.next(capacity)? {
                if !coords.is_null() {
                    give_list(
                        &batch.coords,
                        "coordinates",
                        coords,
                        batch.coords.len(),
                        std::ptr::null_mut(),
                    )?;
                }
                for ((out, size), from) in values.iter().zip(sizes).zip(&batch.values) {
                    if !out.is_null() {
                        let out = bytes_mut(*out, *size, "the values")?;
                        let len = from.len();
                        out.get_mut(..len).unwrap_or_default().copy_from_slice(from);
                    }
                }
                *count = batch.rows;
            }
            give_cost(report, &hits.report())
        }
    })
}

/// The plan of a query: subchunks and bytes that it would read.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_query_explain(
    handle: *const dry_query,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        let plan = get::<OpenQuery>(handle)?.query.explain()?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_text(&plan.to_string(), out, capacity, length) }
    })
}
