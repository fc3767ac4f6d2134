//! Publishing: the Zarr replica of a container, which other tools read.

use std::ffi::{c_char, c_void};

use drystone::{Compressor, PublishOptions};

use crate::argument::{give, list, optional_text, options, text, versioned};
use crate::container::{container, dry_container};
use crate::failure::{Result, Status, guard};
use crate::log;
use crate::recovery::dry_progress;

/// How to publish.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_publish_options {
    struct_size: u32,
    variable_count: u32,
    variables: *const *const c_char,
    memory: u64,
    compressor: *const c_char,
}

versioned!(dry_publish_options, 32);

/// The result of a publication.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_publish_report {
    struct_size: u32,
    reserved: u32,
    snapshot: u64,
    arrays: u64,
    written: u64,
    kept: u64,
    stored_bytes: u64,
    skipped: u64,
}

versioned!(dry_publish_report, 56);

impl dry_publish_options {
    unsafe fn parse(&self) -> Result<PublishOptions> {
        let mut out = PublishOptions::default();
        // SAFETY: the caller's promise: as many paths as it says, and texts that end with NUL.
        unsafe {
            if !self.variables.is_null() {
                let paths = list(self.variables, self.variable_count as usize, "the variables")?;
                let paths = paths.iter().map(|path| Ok(text(*path, "a path")?.to_string()));
                out.variables = Some(paths.collect::<Result<_>>()?);
            }
            if let Some(compressor) = optional_text(self.compressor, "the compressor")? {
                out.compressor = Compressor::parse(compressor)?;
            }
        }
        if self.memory > 0 {
            out.memory = self.memory;
        }
        Ok(out)
    }
}

/// Writes the Zarr replica.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_publish(
    handle: *const dry_container,
    given: *const dry_publish_options,
    progress: dry_progress,
    context: *mut c_void,
    out: *mut dry_publish_report,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let wanted = unsafe { options(given)?.parse()? };
        let done = container(handle)?.publish(&wanted, &mut |done, total| match progress {
            // SAFETY: the header specifies the callback; it is called by this thread, before dry_publish returns.
            Some(progress) => unsafe { progress(context, done, total) == 0 },
            None => true,
        })?;
        for skipped in &done.skipped {
            log::tell(log::NOTE, &format!("\"{}\" was not published: {}", skipped.variable, skipped.reason));
        }
        let sum = |of: fn(&drystone::PublishedArray) -> u64| done.arrays.iter().map(of).sum();
        let report = dry_publish_report {
            struct_size: 0,
            reserved: 0,
            snapshot: done.snapshot,
            arrays: done.arrays.len() as u64,
            written: sum(|array| array.written),
            kept: sum(|array| array.kept),
            stored_bytes: sum(|array| array.stored_bytes),
            skipped: done.skipped.len() as u64,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &report) }
    })
}
