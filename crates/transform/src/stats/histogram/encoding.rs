//! The encoding of a histogram: docs/format/encodings.md, "Histogram".

use super::{GREATEST_FLOAT_EXPONENT, GREATEST_INTEGER_EXPONENT, Histogram, LEAST_FLOAT_EXPONENT, MAX_BINS};
use crate::TransformError;
use crate::stats::Domain;

const VERSION: u8 = 1;
const HEAD_LEN: usize = 14;
/// Greatest absolute bin of a float: indices are exact in an `f64`.
const FLOAT_BINS: i128 = 1 << 53;

pub(super) fn encode(histogram: &Histogram, out: &mut Vec<u8>) {
    let width = width_of(counts(histogram).max().unwrap_or(0));
    let domain = match histogram.domain {
        Domain::Signed => 0,
        Domain::Unsigned => 1,
        Domain::Float => 2,
    };
    out.extend([VERSION, domain, histogram.counts.len() as u8, width]);
    out.extend(histogram.exponent.to_le_bytes());
    out.extend((histogram.first as u64).to_le_bytes());
    for count in counts(histogram) {
        out.extend(count.to_le_bytes().iter().take(usize::from(width)));
    }
}

/// The counts as stored; for floats the infinities come first.
fn counts(histogram: &Histogram) -> impl Iterator<Item = u64> {
    let aside = if histogram.domain == Domain::Float { 2 } else { 0 };
    [histogram.below, histogram.above].into_iter().take(aside).chain(histogram.counts.iter().copied())
}

/// The fewest bytes, of 1, 2, 4 and 8, that hold `largest`.
fn width_of(largest: u64) -> u8 {
    match largest {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Histogram, TransformError> {
    let corrupt = |what: &str, at: u64| TransformError::corrupt(format!("histogram: {what}"), at);
    let Some((head, body)) = bytes.split_first_chunk::<HEAD_LEN>() else {
        return Err(corrupt("shorter than its head", 0));
    };
    let [version, domain, bins, width, e0, e1, f0, f1, f2, f3, f4, f5, f6, f7] = *head;
    if version != VERSION {
        return Err(TransformError::Unsupported { what: format!("histogram version {version}") });
    }
    let exponent = i16::from_le_bytes([e0, e1]);
    let first = u64::from_le_bytes([f0, f1, f2, f3, f4, f5, f6, f7]);
    let (domain, aside) = match domain {
        0 => (Domain::Signed, 0),
        1 => (Domain::Unsigned, 0),
        2 => (Domain::Float, 2),
        _ => return Err(corrupt("unknown domain", 1)),
    };
    let bins = usize::from(bins);
    if bins > MAX_BINS {
        return Err(corrupt("more than 32 bins", 2));
    }
    if !matches!(width, 1 | 2 | 4 | 8) || body.len() != usize::from(width) * (bins + aside) {
        return Err(corrupt("the width of the counts does not agree with the length", 3));
    }
    let first = if domain == Domain::Unsigned { i128::from(first) } else { i128::from(first as i64) };
    // Edges must be numbers of the domain; float bins must also be exact in an f64.
    let (exponents, edges) = match domain {
        Domain::Signed => (0..=GREATEST_INTEGER_EXPONENT, -(1i128 << 63)..1i128 << 63),
        Domain::Unsigned => (0..=GREATEST_INTEGER_EXPONENT, 0..1i128 << 64),
        Domain::Float => (LEAST_FLOAT_EXPONENT..=GREATEST_FLOAT_EXPONENT, -FLOAT_BINS..FLOAT_BINS),
    };
    if !exponents.contains(&exponent) {
        return Err(corrupt("exponent out of range", 4));
    }
    // For floats, 2^53 bins reach beyond the greatest value, 2^1024, from exponent 971 on.
    let shift = if domain == Domain::Float { (exponent - 971).max(0) } else { exponent };
    if first < edges.start >> shift || first + bins as i128 > edges.end >> shift {
        return Err(corrupt("bins out of range", 6));
    }
    let mut counts = body.chunks_exact(usize::from(width)).map(|raw| {
        let mut wide = [0u8; 8];
        wide.iter_mut().zip(raw).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(wide)
    });
    let (below, above) = match aside {
        0 => (0, 0),
        _ => (counts.next().unwrap_or(0), counts.next().unwrap_or(0)),
    };
    let histogram = Histogram { domain, exponent, first, counts: counts.collect(), below, above };
    if width_of(self::counts(&histogram).max().unwrap_or(0)) != width {
        return Err(corrupt("counts wider than needed", 3));
    }
    if histogram.counts.first() == Some(&0) || histogram.counts.last() == Some(&0) {
        return Err(corrupt("an end bin is empty", HEAD_LEN as u64));
    }
    let empty = Histogram::empty(domain);
    if bins == 0 && (exponent, first) != (empty.exponent, empty.first) {
        return Err(corrupt("bins out of range", 6));
    }
    Ok(histogram)
}
