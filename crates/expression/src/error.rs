//! Errors in an expression: what is wrong, where, and what to write instead.

use std::fmt;
use std::ops::Range;

/// The sort of mistake. All are invalid arguments of the expression's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The text does not parse.
    Syntax,
    /// Types do not fit an operator or a function.
    Type,
    /// A constant is outside the type that it meets.
    Constant,
    /// An unknown name.
    Unknown,
    /// The expression is larger or deeper than allowed.
    Limit,
    /// Values given for an evaluation do not fit the program.
    Argument,
}

/// An error in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The sort of mistake.
    pub kind: Kind,
    /// The bytes of the text that the error is about, if the expression was a text.
    pub at: Option<Range<usize>>,
    /// What was found, in one sentence without a full stop.
    pub found: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Error {
    pub(crate) fn new(kind: Kind, found: impl Into<String>) -> Self {
        Error { kind, at: None, found: found.into(), help: None }
    }

    pub(crate) fn at(mut self, at: Range<usize>) -> Self {
        self.at = Some(at);
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// The error, followed by the text with the place marked.
    pub fn render(&self, text: &str) -> String {
        let Some(at) = &self.at else { return self.to_string() };
        let start = floor(text, at.start);
        let line_start = text[..start].rfind('\n').map_or(0, |n| n + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |n| start + n);
        let end = floor(text, at.end).clamp(start, line_end);
        // A long line is cut around the place.
        let from = floor(text, start.saturating_sub(60)).max(line_start);
        let to = floor(text, end.min(start + 60) + 40).min(line_end).max(start);
        let printable = |part: &str| -> String {
            part.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
        };
        let marks = text[start..end.min(to)].chars().count().max(1);
        let lead = text[from..start].chars().count();
        let line = printable(&text[from..to]);
        format!("{self}\n  {line}\n  {}{}", " ".repeat(lead), "^".repeat(marks))
    }
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)?;
        if let Some(at) = &self.at {
            write!(f, " (at byte {} of the expression)", at.start)?;
        }
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The bytes do not encode an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// What was expected and what was found.
    pub what: String,
    /// Offset from the beginning of the bytes.
    pub at: u64,
    /// True where a newer writer may have written these bytes: an unknown version, operator or type.
    pub unsupported: bool,
}

impl Corrupt {
    pub(crate) fn new(what: impl Into<String>, at: usize) -> Self {
        Corrupt { what: what.into(), at: at as u64, unsupported: false }
    }

    pub(crate) fn unsupported(what: impl Into<String>, at: usize) -> Self {
        Corrupt { unsupported: true, ..Corrupt::new(what, at) }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {} of the encoded expression)", self.what, self.at)
    }
}

impl std::error::Error for Corrupt {}
