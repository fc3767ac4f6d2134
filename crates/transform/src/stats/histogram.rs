//! Histograms that merge exactly.
//!
//! Bins are 2^k wide and begin at multiples of 2^k, so the bins of a coarser histogram are unions of those of a finer
//! one. A histogram has the smallest k for which its values fit in 32 bins. Therefore merging the histograms of parts
//! gives, bit by bit, the histogram of the whole.
//!
//! Invariants
//! - the first and the last bin are not empty;
//! - NaN is not counted; infinities are counted separately;
//! - the bytes are specified in docs/format/encodings.md.

mod binning;
mod encoding;

use crate::TransformError;
use crate::stats::{Domain, ScalarKind, Stats};

/// Most bins that a histogram has.
pub const MAX_BINS: usize = 32;

/// Counts of the values of one payload, or of many merged, in at most 32 bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    domain: Domain,
    /// The exponent k: a bin is 2^k wide.
    exponent: i16,
    /// Bin i holds the values from (first + i) * 2^k up to the next edge.
    first: i128,
    counts: Vec<u64>,
    below: u64,
    above: u64,
}

impl Histogram {
    /// Counts the values in `bytes`, whose statistics are `stats`; `None` for a kind without an order.
    ///
    /// If the statistics are of other data, values outside them are not counted.
    pub fn of(kind: ScalarKind, bytes: &[u8], stats: &Stats) -> Option<Histogram> {
        Some(binning::count(kind, kind.domain()?, bytes, stats))
    }

    fn empty(domain: Domain) -> Histogram {
        let exponent = least_exponent(domain, 0.0);
        Histogram { domain, exponent, first: 0, counts: Vec::new(), below: 0, above: 0 }
    }

    /// How the edges are decoded.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// The exponent k: a bin is 2^k wide.
    pub fn exponent(&self) -> i16 {
        self.exponent
    }

    /// The first bin begins at this multiple of 2^k.
    pub fn first(&self) -> i128 {
        self.first
    }

    /// Number of values in each bin, from the first to the last bin that is not empty.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Number of values that are -infinity and +infinity.
    pub fn infinities(&self) -> (u64, u64) {
        (self.below, self.above)
    }

    /// Adds another histogram of the same domain; counts saturate.
    pub fn merge(&mut self, other: &Histogram) -> Result<(), TransformError> {
        if self.domain != other.domain {
            let problem = format!("a {:?} histogram cannot take a {:?} one", self.domain, other.domain);
            return Err(TransformError::InvalidArgument(problem));
        }
        self.below = self.below.saturating_add(other.below);
        self.above = self.above.saturating_add(other.above);
        let (Some(mine), Some(theirs)) = (self.span(), other.span()) else {
            if !other.counts.is_empty() {
                *self = Histogram { below: self.below, above: self.above, ..other.clone() };
            }
            return Ok(());
        };
        let mut exponent = self.exponent.max(other.exponent);
        let coarse = |span: (i128, i128), from: i16, to: i16| (span.0 >> (to - from), span.1 >> (to - from));
        let (mut low, mut high);
        loop {
            let a = coarse(mine, self.exponent, exponent.min(self.exponent + 126));
            let b = coarse(theirs, other.exponent, exponent.min(other.exponent + 126));
            (low, high) = (a.0.min(b.0), a.1.max(b.1));
            if high - low < MAX_BINS as i128 {
                break;
            }
            exponent += 1;
        }
        let mut counts = vec![0u64; (high - low + 1) as usize];
        for part in [&*self, other] {
            let shift = (exponent - part.exponent).min(126);
            for (i, &count) in part.counts.iter().enumerate() {
                let bin = ((part.first + i as i128) >> shift) - low;
                if let Some(slot) = usize::try_from(bin).ok().and_then(|bin| counts.get_mut(bin)) {
                    *slot = slot.saturating_add(count);
                }
            }
        }
        (self.exponent, self.first, self.counts) = (exponent, low, counts);
        Ok(())
    }

    /// First and last bin; `None` if no finite value was counted.
    fn span(&self) -> Option<(i128, i128)> {
        let last = self.counts.len().checked_sub(1)?;
        Some((self.first, self.first + last as i128))
    }

    /// Appends the encoded form: 14 bytes, and the counts, each in as few bytes as the largest needs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encoding::encode(self, out);
    }

    /// Decodes what [`Histogram::encode`] wrote; `bytes` holds nothing else.
    pub fn decode(bytes: &[u8]) -> Result<Histogram, TransformError> {
        encoding::decode(bytes)
    }
}

/// The smallest usable k if `magnitude` is the largest absolute value.
///
/// For floats a bin index must be exact in an `f64`, and 2^-k finite.
fn least_exponent(domain: Domain, magnitude: f64) -> i16 {
    match domain {
        Domain::Signed | Domain::Unsigned => 0,
        Domain::Float => {
            let binade = (magnitude.to_bits() >> 52 & 0x7FF) as i16 - 1023;
            (binade - 52).max(LEAST_FLOAT_EXPONENT)
        }
    }
}

const LEAST_FLOAT_EXPONENT: i16 = -1000;
const GREATEST_FLOAT_EXPONENT: i16 = 1020;
const GREATEST_INTEGER_EXPONENT: i16 = 59;
