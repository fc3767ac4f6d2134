//! The declaration language: what data is, and which parts of it programs hold in which layout.
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
//! The crate is pure: no I/O, no clock, no dependencies. A text is a stranger's: whatever it holds, it is
//! read in time linear in its length, with bounded depth, and answered by a [`Program`] or by
//! [`Diagnostics`]. The language is described in `docs/language.md`.

#![forbid(unsafe_code)]

mod access;
pub mod ast;
mod check;
mod diagnostic;
mod display;
mod eval;
mod format;
mod fragment;
mod index_map;
mod lexer;
mod lowered;
mod overlap;
mod parser;
mod program;
mod render;
mod span;
mod suggest;
mod symbols;
mod trial;
mod types;
mod variable;

pub use access::{Access, Axes, Expected, MAX_READS, Read};
pub use diagnostic::{Diagnostic, Diagnostics, MAX_DIAGNOSTICS, Note};
pub use format::format;
pub use fragment::{DatasetDim, FieldRef, Fragment, FragmentVar, Role};
pub use index_map::{IndexMap, Source};
pub use lowered::{Leaf, Level, MAX_LEAVES, Run, TooManyLeaves};
pub use overlap::Writable;
pub use program::{FragmentInfo, Program, check};
pub use span::Span;
pub use suggest::did_you_mean;
pub use types::{ArrayType, Field, Order, Prim, StructType, Type};
pub use variable::{Fill, Variable};

/// The longest text, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// The deepest nesting of types and of parentheses.
pub const MAX_DEPTH: usize = 64;

/// The most operators in one expression.
pub const MAX_OPERATORS: usize = 256;

/// The most dimensions of a variable or array.
pub const MAX_RANK: usize = 32;

/// The most parameters of a fragment's own.
pub const MAX_PARAMS: usize = 64;

/// The most primitive members of one type.
pub const MAX_MEMBERS: u64 = 4096;

/// What [`parse`] found: the declarations that could be read, and the mistakes.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The declarations; those with mistakes are missing or incomplete.
    pub file: ast::File,
    /// Empty if the text is well formed. Names and numbers have not been looked at; [`check`] does that.
    pub diagnostics: Diagnostics,
}

/// Reads a text without checking what it means.
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

/// The body of the fuzz target: whatever the bytes, nothing panics, and what is promised holds.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match format(&text) {
        Ok(formatted) => {
            assert_eq!(format(&formatted).as_deref(), Ok(&*formatted), "formatting is idempotent")
        }
        Err(diagnostics) => assert!(!diagnostics.is_empty(), "an error says something"),
    }
    match check(&text) {
        Err(diagnostics) => {
            let shown = diagnostics.render("fuzz.drepl", &text, true);
            assert!(!diagnostics.is_empty() && !shown.is_empty(), "an error says something");
        }
        Ok(program) => {
            for extreme in [1, 0, -1, 3, i64::MAX, i64::MIN] {
                for fragment in program.fragments() {
                    let own = fragment.params.iter().copied();
                    let declared =
                        program.params().map(|(name, _)| name).filter(|n| !fragment.params.contains(n));
                    let values: Vec<(&str, i64)> = own.chain(declared).map(|name| (name, extreme)).collect();
                    if let Ok(fragment) = program.instantiate(fragment.name, &values) {
                        fuzz_fragment(&fragment);
                    }
                }
            }
            for name in program.variable_names() {
                let _ = program.whole(name, &[]);
            }
        }
    }
}

fn fuzz_fragment(fragment: &Fragment) {
    for leaf in fragment.lower().unwrap_or_default().iter().take(16) {
        let first: Vec<u64> = leaf.runs.iter().map(|r| r.start).collect();
        let last: Vec<u64> = leaf.runs.iter().map(|r| r.start + r.count.saturating_sub(1)).collect();
        for index in [first, last] {
            leaf.dataset_index(&index);
            let end = leaf.address(&index).map(|at| at + leaf.prim.size());
            assert!(end.is_none_or(|end| end <= fragment.size), "every element lies in the fragment");
        }
    }
    let _ = fragment.writable();
    assert!(!fragment.to_string().is_empty(), "a fragment can be shown");
}
