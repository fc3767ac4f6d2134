//! Conversion rules between memory layouts: compiled from two fragments, printed, encoded, run. No I/O.
//!
//! A [`MemoryLayout`] is a part of a dataset with a memory layout of its own, built from block trees ([`Block`]).
//! [`Rule::compile`] compiles two fragments to the rule that fills one from the other. The rule is data that can be
//! printed, encoded, hashed, split into gather and scatter, and run. It is based on the canonical strided copy
//! ([`StridedCopy`]) of the crate `drystone-copy`, which can also be used by itself.
//!
//! Nothing here panics or touches memory outside the given buffers, for any rule. The model and the wire format are
//! described in docs/guide/rules.md and docs/format/rules.md.

mod block;
mod compile;
mod coverage;
mod error;
mod fragment;
mod hash;
mod optimise;
mod progression;
mod rule;
mod term;
mod together;
mod wire;

pub use block::{ABlock, Block, Member, Order, SBlock, TBlock};
pub use coverage::{Coverage, Indexes, Missing, coverage};
pub use drystone_copy::{
    Abreast, ConvertCopy, CopyError, Dim, Dtype, LaneBytes, ListedCopy, Narrowing, NumberKind, Side,
    StridedCopy, THREAD_THRESHOLD, extend_past_caches, fill,
};
pub use drystone_curve as curve;
pub use error::RuleError;
pub use fragment::{Axis, IndexMap, MemoryLayout, Step, View};
pub use rule::{Halves, Pack, Rule};
pub use term::Term;
pub use wire::WIRE_VERSION;
#[cfg(feature = "fuzzing")]
pub use wire::fuzz_decode;
