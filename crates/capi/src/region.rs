//! Regions: boxes with memory that is mapped, locked and released while the program continues.

use std::ffi::c_char;
use std::sync::Arc;
use std::time::Duration;

use drystone::Container;
use drystone::Level;
use drystone_region::{Access, Cells, Keeper, Mapped, RegionError};

use crate::argument::{handle_place, optional_step, optional_text, place, set};
use crate::container::{container, dry_container};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::keepers;
use crate::memory::{check_ndim, optional_extents};
use crate::schema::path;

/// The handle of a region.
#[repr(C)]
pub(crate) struct dry_region {
    _private: [u8; 0],
}

/// A mapped region.
pub(crate) struct OpenRegion(Mapped);

impl Handled for OpenRegion {
    type Opaque = dry_region;
    const KIND: u64 = 8;
}

/// Bits of an access.
const READ: i32 = 1;
const WRITE: i32 = 2;
/// Interval between two checks of a transfer.
const LOOK: f64 = 1.0;

fn keeper(handle: *const dry_container) -> Result<(Arc<Container>, Arc<Keeper>)> {
    let container = container(handle)?;
    let keeper = keepers::of(handle.addr(), &container)?;
    Ok((container, keeper))
}

impl From<RegionError> for Failure {
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::LeaseExpired(text) => {
                drystone::Error::new(drystone::ErrorKind::Conflict, text).into()
            }
            RegionError::Deadline(text) => drystone::Error::new(drystone::ErrorKind::Deadline, text).into(),
            RegionError::Engine(error) => error.into(),
        }
    }
}

/// The time of a number of seconds, up to a day.
pub(crate) fn seconds(number: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|time| time.as_secs() <= 86_400)
        .ok_or_else(|| Failure::invalid(format!("{number} s is not a time from 0 to a day")))
}

/// Converts a level number; only some can be waited for.
fn level(number: i32) -> Result<Level> {
    let found = u64::try_from(number).ok().and_then(Level::of_code);
    match found {
        Some(Level::Partner) => Err(Failure::unsupported("this container has no partner: ask for DRY_HOME")),
        Some(level) => Ok(level),
        None => Err(Failure::invalid(format!("{number} is not a level (DRY_RECEIVED to DRY_STABLE)"))),
    }
}

/// Whether a level satisfies the wanted one. Without tiers, the log is in the home store.
fn is_enough(reached: Level, wanted: Level) -> bool {
    reached >= wanted || (wanted == Level::Home && reached >= Level::Node)
}

/// Waits until a transfer has a level. Returns the level reached, which is lower after a timeout.
fn waited(keeper: &Keeper, transfer: u64, wanted: Level, timeout: f64) -> Result<Level> {
    seconds(timeout)?;
    let mut left = timeout;
    loop {
        let part = seconds(left.min(LOOK))?;
        let begun = std::time::Instant::now();
        let reached = keeper.wait(transfer, wanted == Level::Stable, part)?;
        left -= begun.elapsed().as_secs_f64();
        if is_enough(reached, wanted) || left <= 0.0 {
            return Ok(reached);
        }
    }
}

/// Maps a box of a variable.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_map(
    handle: *const dry_container,
    name: *const c_char,
    step: i64,
    ndim: u32,
    offset: *const u64,
    count: *const u64,
    access: i32,
    out: *mut *mut dry_region,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies: an entry per dimension, or NULL.
        let (name, out, offset, count) = unsafe {
            check_ndim(ndim)?;
            (
                path(name)?,
                handle_place(out)?,
                optional_extents(offset, ndim, "the offset")?,
                optional_extents(count, ndim, "the count")?,
            )
        };
        for (what, given) in [("offset", offset), ("count", count)] {
            for (d, n) in given.unwrap_or_default().iter().enumerate() {
                if i64::try_from(*n).is_err() {
                    let negative = *n as i64;
                    return Err(Failure::invalid(format!(
                        "the {what} is {negative} in dimension {d}: it counts cells from 0"
                    )));
                }
            }
        }
        if !(READ..=READ | WRITE).contains(&access) {
            return Err(Failure::invalid(format!(
                "{access} is not an access: DRY_MAP_READ, DRY_MAP_WRITE, or both"
            )));
        }
        let access = Access { read: access & READ != 0, write: access & WRITE != 0 };
        let (container, keeper) = keeper(handle)?;
        let shape = container.variable(name)?.shape;
        let offset = offset.map_or_else(|| vec![0; ndim as usize], <[u64]>::to_vec);
        let rest = || shape.iter().zip(&offset).map(|(n, at)| n.saturating_sub(*at)).collect();
        let count = count.map_or_else(rest, <[u64]>::to_vec);
        let variable = Container::normal_path(name).to_owned();
        let cells = Cells { variable, step: optional_step(step)?, offset, count };
        let mapped = Mapped::new(keeper, &container, cells, access)?;
        if access.read {
            mapped.load(&container)?;
        }
        *out = keep(OpenRegion(mapped));
        Ok(())
    })
}

/// The memory of a region.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_region_memory(
    handle: *const dry_region,
    memory: *mut *mut u8,
    size: *mut u64,
) -> Status {
    guard(|| {
        let region = get::<OpenRegion>(handle)?;
        let found = region.0.memory()?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            *place(memory, "the place for the memory")? = found.pointer();
            set(size, found.len() as u64, "the place for the size")
        }
    })
}

/// Locks a region.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_lock(handle: *const dry_region, access: i32, timeout: f64) -> Status {
    guard(|| {
        let region = &get::<OpenRegion>(handle)?.0;
        match access {
            READ if !region.access().read => {
                Err(Failure::invalid("the region was mapped to be written: map it with DRY_MAP_READ, too"))
            }
            READ => Ok(region.load_newest()?),
            WRITE => {
                region.lock(seconds(timeout)?, Duration::ZERO, true)?;
                if region.access().read
                    && let Err(error) = region.load_newest()
                {
                    region.unlock()?;
                    return Err(error.into());
                }
                Ok(())
            }
            other => Err(Failure::invalid(format!("a lock is DRY_MAP_READ or DRY_MAP_WRITE, not {other}"))),
        }
    })
}

/// Releases the values of a region.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_release(
    handle: *const dry_region,
    wanted: i32,
    transfer: *mut u64,
) -> Status {
    guard(|| {
        let region = &get::<OpenRegion>(handle)?.0;
        let wanted = level(wanted)?;
        let number = region.release(wanted == Level::Stable)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { set(transfer, number, "the place for the transfer")? };
        while !is_enough(waited(region.keeper(), number, wanted, LOOK)?, wanted) {}
        Ok(())
    })
}

/// Ends a lock without a release.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_unlock(handle: *const dry_region) -> Status {
    guard(|| Ok(get::<OpenRegion>(handle)?.0.unlock()?))
}

/// Unmaps a region and frees its memory.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_unmap(handle: *mut dry_region) -> Status {
    guard(|| match take::<OpenRegion>(handle)? {
        Some(region) => Ok(region.0.close()?),
        None => Ok(()),
    })
}

/// Copies values of one variable to another.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_transfer(
    handle: *const dry_container,
    from: *const c_char,
    to: *const c_char,
    rule: *const c_char,
    step: i64,
    transfer: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (from, to, rule) = unsafe { (path(from)?, path(to)?, optional_text(rule, "the rule")?) };
        let (_, keeper) = keeper(handle)?;
        let number = keeper.transfer(from, to, rule.unwrap_or(""), optional_step(step)?)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { set(transfer, number, "the place for the transfer") }
    })
}

/// Waits for a transfer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_transfer_wait(
    handle: *const dry_container,
    transfer: u64,
    wanted: i32,
    timeout: f64,
    reached: *mut i32,
) -> Status {
    guard(|| {
        let (_, keeper) = keeper(handle)?;
        let wanted = level(wanted)?;
        let found = waited(&keeper, transfer, wanted, timeout)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { set(reached, i32::try_from(found.code()).unwrap_or(0), "the place for the level")? };
        if !is_enough(found, wanted) {
            let text =
                format!("the transfer has level {}, not {}, after {timeout} s", found.name(), wanted.name());
            return Err(drystone::Error::new(drystone::ErrorKind::Deadline, text).into());
        }
        Ok(())
    })
}
