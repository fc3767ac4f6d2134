//! Partial reads of a subchunk: what is wanted, what was fetched, and where decoded pieces go.
//!
//! A partial read has two steps. [`Transparent::plan_read`](crate::Transparent::plan_read) names the stored bytes that
//! the [`Want`] needs, from the subchunk's metadata alone. Given these bytes as a [`Fetched`] view, which may hold
//! more, the codec writes decoded [`Pieces`] to their places; the pieces may hold more than the wanted bytes.
//!
//! Invariants
//! - a codec sees only bytes that were fetched, and writes only inside the decoded subchunk;
//! - a read is complete only if the pieces hold every wanted byte. A byte that a codec left out is an error, and stale
//!   memory is never returned.

use std::fmt;
use std::ops::Range;

use crate::TransformError;

/// Most bytes of metadata that are kept beside a subchunk.
pub const MAX_META_LEN: usize = 64 << 10;

/// The required precision of values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Precision {
    /// Every bit as it was written.
    #[default]
    Exact,
    /// No finite value has a larger error.
    Absolute(f64),
    /// No finite value has a larger error relative to its own magnitude.
    Relative(f64),
    /// The first components of a codec that orders its bytes by weight: this many, at least 1.
    Level(u32),
}

/// Guaranteed largest error of a read. NaN and infinities are always exact, with error 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// Largest difference to the original value; infinite if unknown.
    pub absolute: f64,
    /// Largest difference divided by the magnitude of the original value; infinite if unknown. A subnormal number
    /// counts as the least normal one.
    pub relative: f64,
}

/// Which bytes of a subchunk are wanted, and how exactly.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// Decoded bytes, ascending and disjoint.
    pub ranges: &'a [Range<u64>],
    /// How exact the values must be.
    pub precision: Precision,
}

/// A stored subchunk before any of its bytes are fetched.
#[derive(Clone, Copy, Debug)]
pub struct StoredSubchunk<'a> {
    /// Length of the stored bytes.
    pub len: u64,
    /// The metadata that [`Chain::meta`](crate::Chain::meta) returned for them, or empty if it was not kept.
    pub meta: &'a [u8],
    /// Length of the decoded bytes.
    pub decoded_len: usize,
}

/// A prefix of the encoded bytes from which every element can be read at reduced precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefix {
    /// Length in bytes.
    pub len: usize,
    /// The precision level of the prefix.
    pub level: u8,
    /// Guaranteed error of the values at that level.
    pub bound: Bound,
}

/// The stored bytes that a read needs, and the precision of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Byte ranges, ascending and disjoint.
    pub ranges: Vec<Range<u64>>,
    /// Guaranteed error of the values.
    pub bound: Bound,
}

/// Fetched stored bytes: runs with holes between them.
#[derive(Clone, Debug)]
pub struct Fetched<'a> {
    /// Runs, ascending by offset; adjacent runs are joined.
    runs: Vec<(u64, &'a [u8])>,
}

/// The decoded subchunk, filled piece by piece.
#[derive(Debug)]
pub struct Pieces<'a> {
    out: &'a mut [u8],
    filled: Vec<Range<u64>>,
}

impl Precision {
    /// Whether values with these errors suffice. Only the codec can judge a level.
    pub fn allows(&self, bound: &Bound) -> bool {
        match *self {
            Precision::Exact => *bound == Bound::EXACT,
            Precision::Absolute(most) => bound.absolute <= most,
            Precision::Relative(most) => bound.relative <= most,
            Precision::Level(_) => true,
        }
    }

    /// The error that a read may add to values that already have this error from writing; none if that is larger.
    pub fn beside(&self, lost: &Bound) -> Precision {
        // A little less, so that rounding does not raise the sum above the request.
        let rest = |most: f64| (most * BELOW_ONE).max(0.0);
        match *self {
            _ if *lost == Bound::EXACT => *self,
            Precision::Absolute(most) => Precision::Absolute(rest(most - lost.absolute)),
            Precision::Relative(most) => {
                Precision::Relative(rest((most - lost.relative) / (1.0 + lost.relative)))
            }
            other => other,
        }
    }
}

/// Further below 1 than the rounding error of a double.
const BELOW_ONE: f64 = 1.0 - 4.0 * f64::EPSILON;

impl Bound {
    /// No error.
    pub const EXACT: Bound = Bound { absolute: 0.0, relative: 0.0 };

    /// Nothing is known about the error.
    pub const UNKNOWN: Bound = Bound { absolute: f64::INFINITY, relative: f64::INFINITY };

    /// Whether anything is guaranteed.
    pub fn is_known(&self) -> bool {
        self.absolute.is_finite() || self.relative.is_finite()
    }

    /// The bound of values that had the error `before` and then got this one.
    #[must_use]
    pub fn after(self, before: Bound) -> Bound {
        if self == Bound::EXACT || before == Bound::EXACT {
            return if self == Bound::EXACT { before } else { self };
        }
        let relative = before.relative + self.relative * (1.0 + before.relative);
        // Infinity times 0 is NaN.
        let relative = if relative.is_nan() { f64::INFINITY } else { relative };
        Bound { absolute: self.absolute + before.absolute, relative }
    }

    /// The bound of values that have one or the other bound.
    pub fn max(self, other: Bound) -> Bound {
        Bound { absolute: self.absolute.max(other.absolute), relative: self.relative.max(other.relative) }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.absolute.is_finite(), self.relative.is_finite()) {
            _ if *self == Bound::EXACT => f.write_str("values as they were written"),
            (false, false) => f.write_str("values off by an unknown error: their transform promises none"),
            (true, false) => write!(f, "values within {:e} of those written", self.absolute),
            (false, true) => write!(f, "values within {:e} of the magnitude of those written", self.relative),
            (true, true) => write!(
                f,
                "values within {:e} of those written, and within {:e} of their magnitude",
                self.absolute, self.relative
            ),
        }
    }
}

impl<'a> Fetched<'a> {
    /// A view of runs, each with its offset in the stored bytes, ascending and disjoint.
    pub fn new(runs: Vec<(u64, &'a [u8])>) -> Fetched<'a> {
        Fetched { runs }
    }

    /// The fetched bytes of a range; an error unless one run holds all of it.
    pub fn get(&self, range: Range<u64>) -> Result<&'a [u8], TransformError> {
        let after = self.runs.partition_point(|(at, _)| *at <= range.start);
        let found = after.checked_sub(1).and_then(|i| self.runs.get(i)).and_then(|(at, bytes)| {
            let from = usize::try_from(range.start.checked_sub(*at)?).ok()?;
            bytes.get(from..from.checked_add(usize::try_from(range.end.checked_sub(range.start)?).ok()?)?)
        });
        match found {
            Some(bytes) => Ok(bytes),
            None if range.is_empty() => Ok(&[]),
            None => Err(TransformError::InvalidArgument(format!(
                "the stored bytes {}..{} are needed and were not fetched",
                range.start, range.end
            ))),
        }
    }

    /// The same bytes, with offsets counted from `start`.
    pub(crate) fn after(&self, start: u64) -> Fetched<'a> {
        let moved = |(at, bytes): &(u64, &'a [u8])| {
            let cut = usize::try_from(start.saturating_sub(*at)).unwrap_or(usize::MAX).min(bytes.len());
            (at.saturating_add(cut as u64).saturating_sub(start), &bytes[cut..])
        };
        Fetched { runs: self.runs.iter().map(moved).filter(|(_, bytes)| !bytes.is_empty()).collect() }
    }
}

impl<'a> Pieces<'a> {
    /// A subchunk in which nothing is filled yet. `out` is as long as the decoded subchunk.
    pub fn new(out: &'a mut [u8]) -> Pieces<'a> {
        Pieces { out, filled: Vec::new() }
    }

    /// Bytes of the decoded subchunk.
    pub fn decoded_len(&self) -> u64 {
        self.out.len() as u64
    }

    /// The place of a piece, which the caller must fill completely; an error if it exceeds the subchunk.
    pub fn place(&mut self, range: Range<u64>) -> Result<&mut [u8], TransformError> {
        let Range { start, end } = range;
        let slice = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let len = self.out.len();
        match slice.and_then(|(start, end)| self.out.get_mut(start..end)) {
            Some(slice) => {
                match self.filled.last_mut() {
                    Some(last) if last.start <= start && start <= last.end => last.end = last.end.max(end),
                    _ => self.filled.push(start..end),
                }
                Ok(slice)
            }
            None => {
                Err(TransformError::corrupt(format!("a piece at {start}..{end} of {len} decoded bytes"), 0))
            }
        }
    }

    /// Checks that the pieces hold all of the wanted ranges, which ascend.
    pub(crate) fn hold(mut self, wanted: &[Range<u64>]) -> Result<(), TransformError> {
        self.filled.sort_by_key(|range| range.start);
        let mut filled = self.filled.iter().peekable();
        for range in wanted.iter().filter(|range| !range.is_empty()) {
            let mut at = range.start;
            while at < range.end {
                match filled.peek() {
                    Some(next) if next.end <= at => drop(filled.next()),
                    Some(next) if next.start <= at => at = next.end,
                    _ => {
                        let what = format!("the decoded bytes {at}..{} are missing", range.end);
                        return Err(TransformError::corrupt(what, 0));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetched_bytes_are_found_in_their_run_and_nowhere_else() {
        let fetched = Fetched::new(vec![(10, b"abcd".as_slice()), (20, b"xyz")]);
        assert_eq!(fetched.get(11..13).unwrap(), b"bc");
        assert_eq!(fetched.get(20..23).unwrap(), b"xyz");
        assert_eq!(fetched.get(5..5).unwrap(), b"");
        for missing in [9..11, 13..15, 14..20, 22..24] {
            assert!(fetched.get(missing.clone()).is_err(), "{missing:?}");
        }
        let moved = fetched.after(12);
        assert_eq!(
            (moved.get(0..2).unwrap(), moved.get(8..11).unwrap()),
            (b"cd".as_slice(), b"xyz".as_slice())
        );
        assert_eq!(fetched.after(1).get(9..10).unwrap(), b"a");
    }

    #[test]
    fn a_wanted_byte_that_no_piece_fills_is_an_error() {
        let mut out = [0; 100];
        let fill = |out: &mut [u8], filled: &[Range<u64>], wanted: &[Range<u64>]| {
            let mut pieces = Pieces::new(out);
            filled.iter().for_each(|range| pieces.place(range.clone()).unwrap().fill(1));
            pieces.hold(wanted).is_ok()
        };
        assert!(fill(&mut out, &[50..60, 0..20, 20..30], &[5..25, 29..30, 55..60]));
        assert!(fill(&mut out, &[0..50, 10..20], &[0..15, 40..50]));
        assert!(!fill(&mut out, &[0..20, 21..30], &[5..25; 1]));
        assert!(!fill(&mut out, &[], &[99..100; 1]));
        assert!(fill(&mut out, &[], &[7..7; 1]));
        assert!(Pieces::new(&mut out).place(99..101).is_err());
        assert!(Pieces::new(&mut out).place(Range { start: 20, end: 10 }).is_err());
    }
}
