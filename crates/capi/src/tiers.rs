//! Tiers and levels: where blocks are written first, and how safe a step is.

use std::ffi::c_char;
use std::time::Duration;

use drystone::{Level, TierFolder};

use crate::argument::{give_list, optional_list, texts};
use crate::container::{container, dry_container};
use crate::failure::{Failure, Result, Status, guard};

/// The level of a number.
pub(crate) fn level(number: i32) -> Result<Level> {
    let found = usize::try_from(number).ok().and_then(|at| Level::ALL.get(at)).copied();
    found.ok_or_else(|| Failure::invalid(format!("{number} is not a level (DRY_NODE to DRY_STABLE)")))
}

/// A timeout in seconds; no timeout if negative.
fn timeout(seconds: f64) -> Result<Option<Duration>> {
    if seconds < 0.0 {
        return Ok(None);
    }
    let found = Duration::try_from_secs_f64(seconds);
    found
        .map(Some)
        .map_err(|_| Failure::invalid(format!("the timeout is {seconds} seconds; give a number, or -1")))
}

/// Uses folders as tiers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_use_tiers(
    handle: *const dry_container,
    folders: *const *const c_char,
    budgets: *const u64,
    count: usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (folders, budgets) = unsafe {
            (texts(folders, count, "a tier's folder")?, optional_list(budgets, count, "the budgets")?)
        };
        let budget =
            |at: usize| budgets.and_then(|budgets| budgets.get(at)).copied().filter(|most| *most > 0);
        let tier = |(at, folder): (usize, String)| TierFolder { folder: folder.into(), budget: budget(at) };
        Ok(container(handle)?.use_tiers(&folders.into_iter().enumerate().map(tier).collect::<Vec<_>>())?)
    })
}

/// The level of each committed step.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_levels(
    handle: *const dry_container,
    steps: *mut u64,
    levels: *mut i32,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        let found = container(handle)?.levels()?;
        let numbers: Vec<u64> = found.keys().copied().collect();
        let names: Vec<i32> = found.values().map(|level| level.number()).collect();
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            give_list(&numbers, "steps", steps, capacity, count)?;
            give_list(&names, "levels", levels, capacity, count)
        }
    })
}

/// Waits until a step has a level.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_wait(
    handle: *const dry_container,
    step: u64,
    wanted: i32,
    seconds: f64,
) -> Status {
    guard(|| {
        let (wanted, timeout) = (level(wanted)?, timeout(seconds)?);
        Ok(container(handle)?.wait_for(step, wanted, timeout, &mut || true)?)
    })
}

/// Drains the tiers.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_drain(handle: *const dry_container, seconds: f64) -> Status {
    guard(|| Ok(container(handle)?.drain(timeout(seconds)?, &mut |_, _| true)?))
}
