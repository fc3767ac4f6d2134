//! Conversion rules between memory layouts, and the kernels that run them. No I/O, no dependencies.
//!
//! A [`Fragment`] is a part of a dataset with a memory layout of its own, built from block trees
//! ([`Block`]). [`Rule::compile`] turns two fragments into the rule that fills one from the other; the rule is
//! data that can be printed, encoded, hashed, split into gather and scatter, and run. At its bottom is the
//! canonical strided copy ([`StridedCopy`]), which can also be used by itself.
//!
//! Nothing here panics or touches memory outside the given buffers, whatever rule it is given; the
//! model and the wire form are described in docs/rules.md.

mod abreast;
mod block;
mod compile;
mod convert;
mod copy;
mod coverage;
pub mod curve;
mod dtype;
mod error;
mod extend;
mod fill;
mod fragment;
mod hash;
mod kernel;
mod listed;
mod number;
mod optimise;
mod progression;
mod rule;
mod threads;
mod together;
mod wire;

pub use abreast::{Abreast, LaneBytes};
pub use block::{ABlock, Block, Member, Order, SBlock, TBlock};
pub use convert::ConvertCopy;
pub use copy::{Dim, StridedCopy};
pub use coverage::{Coverage, Indexes, Missing, coverage};
pub use dtype::{Dtype, Kind, Narrowing};
pub use error::{RuleError, Side};
pub use extend::extend_past_caches;
pub use fill::fill;
pub use fragment::{Axis, Fragment, IndexMap, Step, View};
pub use listed::ListedCopy;
pub use rule::{Halves, Pack, Rule, Term};
pub use threads::THREAD_THRESHOLD;
pub use wire::{WIRE_VERSION, fuzz_decode};
