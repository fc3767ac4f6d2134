//! What went wrong, where, and what would have been right.
//!
//! One run reports several mistakes, at most [`MAX_DIAGNOSTICS`], and never two for one place: the second
//! would almost always be a consequence of the first. Messages name what was found; labels say what was
//! expected there; help says what to write instead.

use crate::span::Span;

/// After this many mistakes the rest of the text is not examined.
pub const MAX_DIAGNOSTICS: usize = 20;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The place that is underlined.
    pub span: Span,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What was expected at the place, or why it is wrong; empty if the message says it all.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Other places that matter, for example the first of two declarations.
    pub notes: Vec<Note>,
}

/// A second place that helps to understand a [`Diagnostic`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place that is underlined.
    pub span: Span,
    /// What it has to do with the mistake.
    pub message: String,
}

impl Diagnostic {
    /// A mistake at `span`.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), label: String::new(), help: None, notes: Vec::new() }
    }

    /// Says what was expected at the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says what to do, where something is known; an earlier help stays otherwise.
    #[must_use]
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Points at a second place.
    #[must_use]
    pub fn note(mut self, span: Span, message: impl Into<String>) -> Self {
        self.notes.push(Note { span, message: message.into() });
        self
    }
}

/// The mistakes of one run in the order of the text; as an error it holds at least one.
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
    /// Adds a mistake unless its place already has one or no more are taken.
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

    /// True if nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The mistakes, in the order of the text.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// True if the run stopped at [`MAX_DIAGNOSTICS`] mistakes and there may be more.
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

/// The messages alone, one per line; [`Diagnostics::render`] shows the text too.
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
