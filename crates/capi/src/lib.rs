//! The C library: implements `include/drystone.h` as conversion and error mapping, without decisions.
//!
//! The header states the contract of every function. The library cannot enforce it on a C program.
//! docs/guide/c.md is the guide.
//!
//! Invariants
//! - no function unwinds into its caller, and each returns a status whose message [`failure`] keeps for its thread;
//! - handles are looked up, never dereferenced: a wrong, closed or foreign one is an error (`handle`);
//! - memory of the caller is used only within the size that came with it, and only until the function
//!   returns.

#![allow(non_camel_case_types, reason = "these are the names that C sees")]
#![allow(
    clippy::too_many_arguments,
    reason = "C has no default arguments and no arrays that know their length"
)]

mod argument;
mod attribute;
mod container;
mod dtype;
mod failure;
mod fragment;
mod function;
mod handle;
mod keepers;
mod last_error;
mod lists;
mod log;
mod memory;
mod publish;
mod query;
mod reading;
mod recovery;
mod region;
mod rule;
mod schema;
mod searching;
mod strings;
mod team;
mod tiers;
mod writer;

use std::ffi::c_char;

use failure::{Failure, Status, guard};

/// Counts the incompatible changes of the header.
const ABI: u32 = 1;

/// The library's version, as text.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Fails if a program was compiled with a header that this library does not support.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_check_abi(header: u32) -> Status {
    guard(|| {
        if header == ABI {
            return Ok(());
        }
        Err(Failure::unsupported(format!(
            "the program was compiled with a header of interface {header}, this library ({}) has interface {ABI}; \
             compile and run with one version of drystone",
            env!("CARGO_PKG_VERSION")
        )))
    })
}
