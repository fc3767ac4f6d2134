//! Why a rule is refused, in the terms of the person who has to act.
//!
//! All checks are made before a byte is moved: after an error no buffer has been touched.

use std::fmt;
use std::ops::Range;

use drystone_copy::{CopyError, Side};
use drystone_curve::TooManyCells;

/// Why a rule was refused. Nothing was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// A size, offset or stride exceeds the range of a buffer (63 bits); `what` names it.
    Overflow {
        /// The quantity that does not fit.
        what: &'static str,
    },
    /// The copy would touch bytes that the buffer does not have.
    OutOfBounds {
        /// The buffer that is too short.
        side: Side,
        /// The bytes that the copy needs.
        touched: Range<u64>,
        /// The length of the buffer in bytes.
        len: u64,
    },
    /// Two elements would be written to the same bytes, or the destination strides do not nest, so that this cannot be
    /// excluded.
    OverlappingDestination,
    /// Elements of 0 bytes cannot be copied.
    EmptyElement,
    /// A fragment contradicts itself; `what` says how.
    BadFragment {
        /// The contradiction.
        what: &'static str,
    },
    /// The rule would need more pieces than the limit `most`.
    TooLarge {
        /// The kind of pieces.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// Two fragments hold the same elements with types between which the conversion policy does not convert.
    Incompatible {
        /// The type of the source.
        source: String,
        /// The type of the destination.
        destination: String,
    },
    /// Bytes that are not an encoded rule.
    Corrupt {
        /// What is wrong.
        what: &'static str,
        /// Offset in the encoded bytes.
        at: usize,
    },
    /// An encoded rule of a version that this library does not support.
    UnknownVersion {
        /// The version found.
        version: u8,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Overflow { what } => write!(f, "{what} does not fit into 63 bits"),
            RuleError::OutOfBounds { side, touched, len } => {
                let (start, end) = (touched.start, touched.end);
                write!(f, "the copy needs bytes {start}..{end} of the {side}, which has {len} bytes")
            }
            RuleError::OverlappingDestination => {
                f.write_str("destination strides do not nest: two elements may be written to the same bytes")
            }
            RuleError::EmptyElement => f.write_str("an element has no bytes"),
            RuleError::BadFragment { what } => write!(f, "the fragment contradicts itself: {what}"),
            RuleError::TooLarge { what, most } => write!(f, "the rule would need more than {most} {what}"),
            RuleError::Incompatible { source, destination } => write!(
                f,
                "{source} does not convert to {destination} without loss; choose a policy for narrowing"
            ),
            RuleError::Corrupt { what, at } => write!(f, "not an encoded rule: {what} at byte {at}"),
            RuleError::UnknownVersion { version } => {
                write!(f, "the rule has wire version {version}; this library reads version 1")
            }
        }
    }
}

impl std::error::Error for RuleError {}

impl From<CopyError> for RuleError {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Overflow { what } => RuleError::Overflow { what },
            CopyError::OutOfBounds { side, touched, len } => RuleError::OutOfBounds { side, touched, len },
            CopyError::OverlappingDestination => RuleError::OverlappingDestination,
            CopyError::EmptyElement => RuleError::EmptyElement,
            CopyError::Incompatible { source, destination } => {
                RuleError::Incompatible { source, destination }
            }
        }
    }
}

impl From<TooManyCells> for RuleError {
    fn from(_: TooManyCells) -> Self {
        RuleError::TooLarge { what: "elements in curve order", most: drystone_curve::MOST_CELLS }
    }
}
