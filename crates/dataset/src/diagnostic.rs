//! Diagnostics: what is wrong, where, and what would be right.
//!
//! One run reports several mistakes, at most [`MAX_DIAGNOSTICS`], and never two at one position, since the second would
//! almost always be a consequence of the first. A message says what was found, a label what was expected there, and
//! help what to write instead.

use crate::span::Span;

/// After this many mistakes the rest of the text is not checked.
pub const MAX_DIAGNOSTICS: usize = 20;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The position, which is underlined.
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What was expected at the position, or why it is wrong; empty if the message suffices.
    pub label: String,
    /// What to write instead.
    pub help: Option<String>,
    /// Other relevant positions, for example the first of two declarations.
    pub notes: Vec<Note>,
}

/// A second position that explains a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The position, which is underlined.
    pub span: Span,
    /// How it is related to the mistake.
    pub message: String,
}

impl Diagnostic {
    /// A mistake at `span`.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), label: String::new(), help: None, notes: Vec::new() }
    }

    /// Adds what was expected at the position.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds what to write instead, if `help` has something; otherwise an earlier help stays.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Adds a second position.
    #[must_use]
    pub fn note(mut self, span: Span, message: impl Into<String>) -> Self {
        self.notes.push(Note { span, message: message.into() });
        self
    }
}

/// The mistakes of one run, in the order of the text. As an error it holds at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { items: vec![diagnostic] }
    }
}

impl Diagnostics {
    /// Adds a mistake, unless its position already has one or no more are recorded.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if !self.full() && self.items.iter().all(|d| d.span.start != diagnostic.span.start) {
            self.items.push(diagnostic);
        }
    }

    pub(crate) fn full(&self) -> bool {
        self.items.len() >= MAX_DIAGNOSTICS
    }

    pub(crate) fn sort(&mut self) {
        self.items.sort_by_key(|d| d.span);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The mistakes, in the order of the text.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// Whether the run stopped at [`MAX_DIAGNOSTICS`] mistakes, so that there may be more.
    pub fn is_truncated(&self) -> bool {
        self.full()
    }
}

impl<'d> IntoIterator for &'d Diagnostics {
    type Item = &'d Diagnostic;
    type IntoIter = std::slice::Iter<'d, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// Only the messages, one per line; [`Diagnostics::render`] also shows the text.
impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, d) in self.items.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&d.message)?;
            if !d.label.is_empty() {
                write!(f, ": {}", d.label)?;
            }
            if let Some(help) = &d.help {
                write!(f, " ({help})")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
