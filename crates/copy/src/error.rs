//! Why a copy is refused. All checks are made before a byte is moved: after an error no buffer has been touched.

use std::fmt;
use std::ops::Range;

/// The buffer of a copy that an error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The buffer that is read.
    Source,
    /// The buffer that is written.
    Destination,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Source => "source",
            Side::Destination => "destination",
        })
    }
}

/// Why a copy was refused. Nothing was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyError {
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
    /// Values of one type do not convert to the other without loss, and the policy refuses loss.
    Incompatible {
        /// The type of the source.
        source: String,
        /// The type of the destination.
        destination: String,
    },
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Overflow { what } => write!(f, "{what} does not fit into 63 bits"),
            CopyError::OutOfBounds { side, touched, len } => {
                let (start, end) = (touched.start, touched.end);
                write!(f, "the copy needs bytes {start}..{end} of the {side}, which has {len} bytes")
            }
            CopyError::OverlappingDestination => {
                f.write_str("destination strides do not nest: two elements may be written to the same bytes")
            }
            CopyError::EmptyElement => f.write_str("an element has no bytes"),
            CopyError::Incompatible { source, destination } => write!(
                f,
                "{source} does not convert to {destination} without loss; choose a policy for narrowing"
            ),
        }
    }
}

impl std::error::Error for CopyError {}
