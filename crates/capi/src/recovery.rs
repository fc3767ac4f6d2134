//! After a failure: recovery of a dead run's steps, and verification of stored bytes.

use std::ffi::{c_char, c_void};

use drystone::Adopt;

use crate::argument::{give, list, texts, versioned};
use crate::container::{container, dry_container};
use crate::failure::{Failure, Status, guard};
use crate::log;

/// The result of a recovery.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_recover_report {
    struct_size: u32,
    reserved: u32,
    run: u64,
    snapshot: u64,
    adopted: u64,
    discarded: u64,
    incomplete: u64,
    rebuilt: u64,
}

versioned!(dry_recover_report, 48);

/// The result of a verification.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_verify_report {
    struct_size: u32,
    reserved: u32,
    entries: u64,
    bytes: u64,
    manifests: u64,
    damaged: u64,
}

versioned!(dry_verify_report, 40);

/// `dry_progress` of the header.
pub(crate) type dry_progress = Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> i32>;

/// Settles the steps that a dead run left.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_recover(
    handle: *const dry_container,
    decision: i32,
    steps: *const u64,
    step_count: usize,
    out: *mut dry_recover_report,
) -> Status {
    // SAFETY: pointers are as drystone.h specifies.
    unsafe { dry_recover_without(handle, decision, steps, step_count, std::ptr::null(), 0, out) }
}

/// The same if nodes are lost for good.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_recover_without(
    handle: *const dry_container,
    decision: i32,
    steps: *const u64,
    step_count: usize,
    lost_nodes: *const *const c_char,
    lost_count: usize,
    out: *mut dry_recover_report,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let lost_nodes = unsafe { texts(lost_nodes, lost_count, "a lost node")? };
        // SAFETY: pointers are as drystone.h specifies.
        let steps = unsafe { list(steps, step_count, "the steps")? };
        let adopt = match decision {
            0 | 1 if !steps.is_empty() => {
                return Err(Failure::invalid("steps are given with a decision about all steps"));
            }
            0 => Adopt::All,
            1 => Adopt::None,
            2 => Adopt::Steps(steps.iter().copied().collect()),
            3 => Adopt::AllBut(steps.iter().copied().collect()),
            other => return Err(Failure::invalid(format!("{other} is not a decision (dry_adopt)"))),
        };
        let container = container(handle)?;
        let done = container.recover(&adopt, &lost_nodes)?;
        log::tell_warnings(&container);
        done.notes.iter().for_each(|note| log::tell(log::WARNING, note));
        done.incomplete.iter().for_each(|step| log::tell(log::NOTE, &step.to_string()));
        let report = dry_recover_report {
            struct_size: 0,
            reserved: 0,
            run: done.run,
            snapshot: done.version,
            adopted: done.adopted.len() as u64,
            discarded: done.discarded.len() as u64,
            incomplete: done.incomplete.len() as u64,
            rebuilt: done.rebuilt.len() as u64,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &report) }
    })
}

/// Checks everything the handle's snapshot refers to.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_verify(
    handle: *const dry_container,
    progress: dry_progress,
    context: *mut c_void,
    out: *mut dry_verify_report,
) -> Status {
    guard(|| {
        let done = container(handle)?.verify(&mut |done, total| match progress {
            // SAFETY: the header specifies the callback; it is called by this thread, before dry_verify returns.
            Some(progress) => unsafe { progress(context, done, total) == 0 },
            None => true,
        })?;
        for damage in &done.damage {
            let variable =
                damage.variable.as_deref().map_or_else(String::new, |v| format!(", variable \"{v}\""));
            let step = damage.step.map_or_else(String::new, |s| format!(", step {s}"));
            log::tell(log::WARNING, &format!("{}{variable}{step}: {}", damage.key, damage.message));
        }
        let report = dry_verify_report {
            struct_size: 0,
            reserved: 0,
            entries: done.entries,
            bytes: done.bytes,
            manifests: done.manifests,
            damaged: done.damage.len() as u64,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &report) }
    })
}
