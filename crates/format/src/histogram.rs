//! Histograms of subchunks (docs/format/index.md, Histogram).

use crate::Corrupt;
use crate::cursor::Reader;

/// Bins, at most.
pub const MAX_BINS: usize = 32;

/// Counts of elements in bins of equal width: bin `i` is `[(first + i)·2^exponent, (first + i + 1)·2^exponent)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Histogram {
    pub exponent: i16,
    /// Number of the lowest bin.
    pub first: i64,
    /// NaN is in none. 1 to 32 bins.
    pub counts: Vec<u32>,
}

impl Histogram {
    /// The bytes that end a trailer.
    ///
    /// # Panics
    /// With more than [`MAX_BINS`] bins, or none.
    pub fn encode(&self) -> Vec<u8> {
        let n = self.counts.len();
        assert!((1..=MAX_BINS).contains(&n), "a histogram has 1 to {MAX_BINS} bins");
        let mut out = Vec::with_capacity(12 + 4 * n);
        out.extend_from_slice(&self.exponent.to_le_bytes());
        out.extend_from_slice(&(n as u16).to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        self.counts.iter().for_each(|c| out.extend_from_slice(&c.to_le_bytes()));
        out
    }

    /// Reads a histogram.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let r = &mut Reader::new(bytes);
        let exponent = r.u16()?.cast_signed();
        let n = usize::from(r.u16()?);
        let first = r.u64()?.cast_signed();
        if !(1..=MAX_BINS).contains(&n) || first.checked_add(n as i64).is_none() {
            return Err(Corrupt::new(format!("a histogram of {n} bins from {first} on"), 2));
        }
        let counts = (0..n).map(|_| r.u32()).collect::<Result<_, _>>()?;
        r.end()?;
        Ok(Histogram { exponent, first, counts })
    }
}
