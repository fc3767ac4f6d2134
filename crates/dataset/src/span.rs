//! Positions in a text.

/// A half-open range of bytes in the text. A text has at most [`crate::MAX_TEXT`] bytes, so 32 bits suffice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte; equal to `start` for a position between two bytes.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end`.
    pub fn new(start: usize, end: usize) -> Self {
        let clip = |v: usize| u32::try_from(v).unwrap_or(u32::MAX);
        Self { start: clip(start), end: clip(end) }
    }

    /// The smallest span that contains both.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The part of `text` in this span; empty if the span is not within the text.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}
