//! Conditions and derived values: one tree for queries, derived variables and conversions.
//!
//! ```
//! use drystone_expression::{Answer, Type, parse};
//!
//! let tree = parse("p > 3e-5 & (abs(u) < 1 | mask == 2)")?;
//! let program = tree.check(|name| match name.path() {
//!     "mask" => Answer::Type(Type::I4),
//!     _ => Answer::Type(Type::F4),
//! })?;
//! assert_eq!(program.dtype(), Type::Bool);
//! assert_eq!(tree.to_string(), "p > 3e-5 & (abs(u) < 1 | mask == 2)");
//! # Ok::<(), drystone_expression::Error>(())
//! ```
//!
//! A [`Tree`] is the expression as written, without types. A [`Program`] is the tree with the types of its
//! names; every cast is a step of its own. A program is evaluated on statistics ([`Program::bounds`]) or on
//! values ([`Program::select`], [`Program::compute`]). `docs/decisions/102-expressions.md` defines the
//! semantics, `docs/format/expression.md` the bytes.
//!
//! Invariants
//! - operands come before the nodes that use them, in trees and in programs: passes are loops, and depth takes
//!   no stack;
//! - no function panics or allocates beyond its limits, whatever the text or the bytes.

#![deny(unsafe_code)]

mod bounds;
mod builder;
mod check;
mod constant;
mod decode;
mod dense;
mod encode;
mod error;
mod field;
mod field_function;
mod function;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod lexer;
mod name;
mod parser;
mod print;
mod program;
mod split;
mod tree;
mod types;
mod words;

pub use bounds::{Bounds, Extremes, Outcome, Truth};
pub use builder::Builder;
pub use check::Answer;
pub use constant::Scalar;
pub use dense::{BLOCK, Column, ColumnMut, Input, Scratch};
pub use error::{Corrupt, Error, Kind};
pub use field::{Act, Array, Called, Cells, Edge, Field, Meaning, Reach, Runner, Spare, Tile, Values};
pub use field_function::{MAX_HALO, is_function_name};
pub use function::{functions, is_function};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use fuzzing::fuzz;
pub use name::{MAX_OFFSET, Name, Offset};
pub use parser::{MAX_TEXT, parse, parse_along, parse_question, parse_with_groups, parse_with_words};
pub use program::{Program, Step};
pub use split::Split;
pub use tree::{Binary, MAX_DEPTH, MAX_WEIGHT, Node, NodeId, Over, Reduction, Role, Stencil, Tree, Unary};
pub use types::Type;
pub use words::Worded;
