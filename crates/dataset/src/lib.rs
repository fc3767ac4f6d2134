//! The declaration language: the structure of data, and which parts of it programs hold in which layout.
//!
//! ```
//! let text = "
//! type P struct { x, y, z float32; id int64 }
//! dataset { var p[1000] P }
//! fragment columns { var x[i:1000] = p[i].x; var id[i:1000] = p[i].id }
//! ";
//! let program = drystone_dataset::check(text).map_err(|e| e.render("p.drepl", text, false)).unwrap();
//! let columns = program.instantiate("columns", &[]).unwrap();
//! assert_eq!(program.type_layout("P", &[]).unwrap().size(), 24);
//! assert_eq!(columns.vars[1].offset, 4000);
//! ```
//!
//! The crate is pure: no I/O, no clock, no dependencies. Texts are untrusted: any text is parsed in time linear in its
//! length, with bounded depth, and gives a [`Program`] or [`Diagnostics`]. The language is described in
//! `docs/reference/language.md`.

#![forbid(unsafe_code)]

mod access;
pub mod ast;
mod check;
mod diagnostic;
mod display;
mod eval;
mod format;
mod fragment;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod index_map;
mod lexer;
mod lowered;
mod overlap;
mod parser;
mod program;
mod render;
mod run;
mod span;
mod symbols;
mod trial;
mod types;
mod variable;

pub use access::{Access, Axes, Expected, MAX_READS, Read};
pub use diagnostic::{Diagnostic, Diagnostics, MAX_DIAGNOSTICS, Note};
pub use format::format;
pub use fragment::{DatasetDim, FieldRef, Fragment, FragmentVar, Role};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use fuzzing::fuzz;
pub use index_map::{IndexMap, Source};
pub use lowered::{Leaf, Level, MAX_LEAVES, TooManyLeaves};
pub use overlap::Writable;
pub use program::{FragmentInfo, Program, check};
pub use run::Run;
pub use span::Span;
pub use types::{ArrayType, Field, Order, Prim, StructType, Type};
pub use variable::{Fill, Variable};

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// The deepest nesting of types and of parentheses.
pub const MAX_DEPTH: usize = 64;

/// The most operators in one expression.
pub const MAX_OPERATORS: usize = 256;

/// The most dimensions of a variable or array.
pub const MAX_NDIM: usize = 32;

/// The most own parameters of a fragment.
pub const MAX_PARAMS: usize = 64;

/// The most primitive members of one type.
pub const MAX_MEMBERS: u64 = 4096;

/// The result of [`parse`]: the declarations that could be parsed, and the mistakes.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The declarations; those with mistakes are missing or incomplete.
    pub file: ast::File,
    /// Empty if the text is well formed. Names and numbers are not checked; [`check`] does that.
    pub diagnostics: Diagnostics,
}

/// Parses a text without checking what it means.
pub fn parse(text: &str) -> Parsed {
    let mut diagnostics = Diagnostics::default();
    if text.len() > MAX_TEXT {
        diagnostics.push(
            Diagnostic::new(Span::default(), format!("the text is {} bytes long", text.len()))
                .label(format!("at most {MAX_TEXT} are read")),
        );
        return Parsed { file: ast::File::default(), diagnostics };
    }
    let lexed = lexer::lex(text, &mut diagnostics);
    let (file, diagnostics) = parser::parse(text, &lexed, diagnostics);
    Parsed { file, diagnostics }
}
