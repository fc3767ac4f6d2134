//! Read programs: the part of a read that can run on the storage side.
//!
//! A [`Program`] reads one object. Each of its items names a stored subchunk, its encoding, and a rule that
//! gathers the wanted bytes. An item may have a condition, and then returns only the cells that satisfy it.
//! [`run`] takes a program, a [`Source`] of the object's bytes and a [`Budget`], and returns a reply of
//! [`Frame`]s. An object class, a server and the tests of this library run the same function.
//! `docs/format/read-program.md` specifies the bytes of programs and replies.
//!
//! Invariants
//! - a program is validated, and its cost compared with the budget, before the source is read;
//! - only bytes that were verified against the check of their piece are returned;
//! - no program and no object causes a panic, and memory stays within the budget;
//! - a program has only one encoding.

#![forbid(unsafe_code)]
#![allow(
    clippy::single_range_in_vec_init,
    reason = "lists of one byte range are what reading parts is about"
)]

mod condition;
mod cost;
mod decode;
mod encode;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod gathered;
mod interpreter;
mod piece;
mod program;
mod reply;
mod source;

pub use condition::{Hits, NAME, type_of};
pub use cost::{Budget, Cost};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use fuzzing::{fuzz, fuzz_reply, sample};
pub use gathered::wanted;
pub use interpreter::{Bench, run, run_on};
pub use program::{
    Answer, Arrangement, Condition, Curved, Item, MAX_ITEMS, MAX_PROGRAM_LEN, MAX_RESULT_LEN, Mode, Program,
    ProgramError, VERSION,
};
pub use reply::{FRAME_OVERHEAD, Frame, Payload, REPLY_HEADER, Refusal, Reply, Why};
pub use source::{Source, SourceError};
