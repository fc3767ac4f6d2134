//! Containers: creation, opening, queries, refresh, commit, closing.

use std::ffi::c_char;

use drystone::{Committed, Container, CreateOptions, Durability, Mode, Scheme};

use crate::argument::{give, give_list, handle_place, optional_text, options, set, text, versioned};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::keepers;
use crate::log;

/// The handle of a container.
#[repr(C)]
pub(crate) struct dry_container {
    _private: [u8; 0],
}

impl Handled for Container {
    type Opaque = dry_container;
    const KIND: u64 = 1;
}

/// Options for creating a container.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_create_options {
    struct_size: u32,
    durability: i32,
    redundancy: *const c_char,
    tiers: u32,
    reserved: u32,
}

versioned!(dry_create_options, 8, reserved);

/// The properties of a container, at the snapshot of its handle.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_container_info {
    struct_size: u32,
    durability: i32,
    snapshot: u64,
    time: u64,
    step_axis: u64,
    step_count: u64,
    variable_count: u64,
    uuid: [u8; 16],
    writable: u32,
    reserved: u32,
}

versioned!(dry_container_info, 72);

/// The result of a commit.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_commit_report {
    struct_size: u32,
    changed: u32,
    snapshot: u64,
    incomplete: u64,
}

versioned!(dry_commit_report, 24);

const DURABILITIES: [Durability; 3] = [Durability::Async, Durability::Durable, Durability::Memory];

/// Gives a container to C, and passes its warnings on.
fn hand_out(container: Container, out: &mut *mut dry_container) {
    log::tell_warnings(&container);
    *out = keep(container);
}

/// The container of a handle.
pub(crate) fn container(handle: *const dry_container) -> Result<std::sync::Arc<Container>> {
    get(handle)
}

/// Reports and counts what a commit did; without a commit the handle's snapshot stays.
pub(crate) fn report(done: Option<&Committed>, container: &Container) -> dry_commit_report {
    let Some(done) = done else {
        let snapshot = container.snapshot().version();
        return dry_commit_report { struct_size: 0, changed: 0, snapshot, incomplete: 0 };
    };
    done.notes.iter().for_each(|note| log::tell(log::WARNING, note));
    done.incomplete.iter().for_each(|step| log::tell(log::NOTE, &step.to_string()));
    dry_commit_report {
        struct_size: 0,
        changed: done.changed.into(),
        snapshot: done.snapshot.version(),
        incomplete: done.incomplete.len() as u64,
    }
}

/// The result of ending a team's step.
pub(crate) fn committed(snapshot: u64) -> dry_commit_report {
    dry_commit_report { struct_size: 0, changed: 1, snapshot, incomplete: 0 }
}

/// The mode of a number.
pub(crate) fn mode(number: i32) -> Result<Mode> {
    match number {
        0 => Ok(Mode::Read),
        1 => Ok(Mode::ReadWrite),
        2 => Ok(Mode::Append),
        other => Err(Failure::invalid(format!("{other} is not a mode (dry_mode)"))),
    }
}

impl dry_create_options {
    /// The container properties that the options request.
    ///
    /// # Safety
    /// The text is NULL or ends with NUL.
    pub(crate) unsafe fn create(&self) -> Result<CreateOptions> {
        // SAFETY: guaranteed by the caller.
        let scheme = unsafe { optional_text(self.redundancy, "redundancy")? }.unwrap_or("none");
        let redundancy = Scheme::parse(scheme).map_err(Failure::invalid)?;
        if self.tiers > 1 {
            return Err(Failure::invalid(format!("tiers is 0 or 1, not {}", self.tiers)));
        }
        Ok(CreateOptions {
            durability: durability(self.durability)?,
            tiers: self.tiers == 1,
            redundancy,
            ..CreateOptions::default()
        })
    }
}

/// The durability of a number.
fn durability(number: i32) -> Result<Durability> {
    let found = usize::try_from(number).ok().and_then(|at| DURABILITIES.get(at)).copied();
    found.ok_or_else(|| Failure::invalid(format!("{number} is not a durability (dry_durability)")))
}

/// Creates a container in a folder, or at a URL; options of its store come from the environment.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_create(
    path: *const c_char,
    given: *const dry_create_options,
    out: *mut *mut dry_container,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (path, given, out) = unsafe { (text(path, "the path")?, options(given)?, handle_place(out)?) };
        // SAFETY: as above.
        let options = unsafe { given.create()? };
        hand_out(Container::create(path, options)?, out);
        Ok(())
    })
}

/// Opens a container in a folder, or at a URL; options of its store come from the environment.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_open(
    path: *const c_char,
    mode: i32,
    out: *mut *mut dry_container,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (path, out) = unsafe { (text(path, "the path")?, handle_place(out)?) };
        let mode = self::mode(mode)?;
        hand_out(Container::open(path, mode)?, out);
        Ok(())
    })
}

/// Opens an earlier snapshot of an open container, for reading.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_open_snapshot(
    handle: *const dry_container,
    snapshot: u64,
    out: *mut *mut dry_container,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let out = unsafe { handle_place(out)? };
        hand_out(container(handle)?.at(snapshot)?, out);
        Ok(())
    })
}

/// Closes a container's handle.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_container_close(handle: *mut dry_container) -> Status {
    guard(|| {
        // Drops the handle. The container itself is not closed: writers and the team may still use it.
        if let Some(container) = take::<Container>(handle)? {
            keepers::forget(handle.addr());
            container.settle();
            container.drain_remaining()?;
            container.flush_made()?;
        }
        Ok(())
    })
}

/// Describes a container.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_container_describe(
    handle: *const dry_container,
    out: *mut dry_container_info,
) -> Status {
    guard(|| {
        let container = container(handle)?;
        let snapshot = container.snapshot();
        let identity = container.identity();
        let info = dry_container_info {
            struct_size: 0,
            durability: DURABILITIES
                .iter()
                .position(|d| *d == identity.durability)
                .map_or(-1, |at| at as i32),
            snapshot: snapshot.version(),
            time: snapshot.time(),
            step_axis: snapshot.step_axis(),
            step_count: snapshot.steps.iter().count() as u64,
            variable_count: snapshot.schema.variables.len() as u64,
            uuid: identity.uuid,
            writable: container.is_writable().into(),
            reserved: 0,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &info) }
    })
}

/// Moves the handle to the newest snapshot.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_refresh(handle: *const dry_container, changed: *mut i32) -> Status {
    guard(|| {
        let container = container(handle)?;
        let moved = container.refresh()?;
        log::tell_warnings(&container);
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { set(changed, moved.into(), "changed") }
    })
}

/// Numbers of the readable snapshots.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_snapshots(
    handle: *const dry_container,
    out: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        let snapshots = container(handle)?.snapshots()?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_list(&snapshots, "snapshots", out, capacity, count) }
    })
}

/// Committed steps.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_steps(
    handle: *const dry_container,
    out: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        let steps: Vec<u64> = container(handle)?.snapshot().steps.iter().collect();
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_list(&steps, "steps", out, capacity, count) }
    })
}

/// Commits what writers have closed.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_commit(
    handle: *const dry_container,
    out: *mut dry_commit_report,
) -> Status {
    guard(|| {
        let container = container(handle)?;
        let done = container.commit()?;
        log::tell_warnings(&container);
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &report(Some(&done), &container)) }
    })
}

/// Makes the committed state survive a power cut.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_flush(handle: *const dry_container, snapshot: *mut u64) -> Status {
    guard(|| {
        let version = container(handle)?.flush()?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { set(snapshot, version, "snapshot") }
    })
}
