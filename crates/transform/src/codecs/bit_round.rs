//! Bit rounding: keeps the first bits of each mantissa and rounds to nearest, ties to even.
//!
//! Lossy: |x - x'| <= 2^-(keepbits + 1) |x| for normal numbers, and below 2^-(keepbits + 1) of the least normal number
//! for subnormal ones. A number that would round to infinity becomes the greatest rounded number, within the same
//! bound. Infinities, zeros with their sign and NaNs with all their bits are unchanged. A compressor after this codec
//! removes the bits that are now zero.

use crate::codecs::same_length::{self, SameLength};
use crate::number;
use crate::params::Params;
use crate::stats::ScalarKind;
use crate::{
    Bound, CodecSpec, Fetched, Logical, Param, Pieces, Planned, Scratch, StoredSubchunk, TransformError,
    Transparent, Want,
};

/// The rounding codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BitRound {
    keep_bits: u32,
    kind: Option<ScalarKind>,
}

impl BitRound {
    pub(crate) fn from_params(params: &[Param]) -> Result<BitRound, TransformError> {
        let params = Params::read("bitround", &["keepbits", "dtype"], params)?;
        let Some(keep_bits) = params.int("keepbits", 0..=52)? else {
            let problem =
                "how many mantissa bits to keep? Write bitround:8; it is lossy, so there is no default";
            return Err(TransformError::bad_parameter("bitround", problem));
        };
        let kind = number::from_params(&params)?;
        if let Some(kind) = kind {
            mantissa_bits(kind)?;
        }
        Ok(BitRound { keep_bits: keep_bits as u32, kind })
    }
}

/// Explicit mantissa bits of a float of this kind.
fn mantissa_bits(kind: ScalarKind) -> Result<u32, TransformError> {
    match kind {
        ScalarKind::F16 => Ok(10),
        ScalarKind::BF16 => Ok(7),
        ScalarKind::F32 => Ok(23),
        ScalarKind::F64 => Ok(52),
        _ => Err(TransformError::bad_parameter(
            "bitround",
            "rounds floating-point numbers only; for other data leave it out",
        )),
    }
}

/// Rounds the float whose bits are `bits`, in the low `width` bits of a word.
#[inline(always)]
fn rounded(bits: u64, width: u32, mantissa: u32, drop: u32) -> u64 {
    let sign = 1u64 << (width - 1);
    let infinity = (sign - 1) >> mantissa << mantissa;
    let magnitude = bits & (sign - 1);
    let quantum = 1u64 << drop;
    let up = magnitude.wrapping_add((quantum >> 1) - 1).wrapping_add(magnitude >> drop & 1) & !(quantum - 1);
    let kept = if magnitude >= infinity {
        magnitude
    } else if up >= infinity {
        infinity - quantum
    } else {
        up
    };
    bits & sign | kept
}

impl SameLength for BitRound {
    fn spec(&self) -> CodecSpec {
        let mut params = vec![Param::Int(i64::from(self.keep_bits))];
        params.extend(self.kind.and_then(number::to_param));
        CodecSpec { name: "bitround".into(), params }
    }

    fn apply(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let kind = self.kind.unwrap_or(logical.kind);
        let mantissa = mantissa_bits(kind)?;
        let drop = mantissa.saturating_sub(self.keep_bits);
        if drop == 0 {
            out.extend_from_slice(data);
            return Ok(());
        }
        let tail = match kind.size() {
            2 => {
                let (words, tail) = data.as_chunks::<2>();
                let round =
                    |x: &[u8; 2]| rounded(u64::from(u16::from_le_bytes(*x)), 16, mantissa, drop) as u16;
                out.extend(words.iter().flat_map(|x| round(x).to_le_bytes()));
                tail
            }
            4 => {
                let (words, tail) = data.as_chunks::<4>();
                let round =
                    |x: &[u8; 4]| rounded(u64::from(u32::from_le_bytes(*x)), 32, mantissa, drop) as u32;
                out.extend(words.iter().flat_map(|x| round(x).to_le_bytes()));
                tail
            }
            _ => {
                let (words, tail) = data.as_chunks::<8>();
                let round = |x: &[u8; 8]| rounded(u64::from_le_bytes(*x), 64, mantissa, drop);
                out.extend(words.iter().flat_map(|x| round(x).to_le_bytes()));
                tail
            }
        };
        out.extend_from_slice(tail);
        Ok(())
    }

    fn undo(&self, encoded: &[u8], _logical: &Logical, out: &mut [u8], _scratch: &mut Scratch) {
        out.copy_from_slice(encoded);
    }

    fn is_lossy(&self) -> bool {
        true
    }

    fn loss(&self, logical: &Logical, greatest: f64) -> Bound {
        let kind = self.kind.unwrap_or(logical.kind);
        match mantissa_bits(kind) {
            // If the kind differs from the data's, the bits may mean anything.
            Ok(_) if kind != logical.kind => Bound::UNKNOWN,
            Err(_) => Bound::UNKNOWN,
            Ok(mantissa) if mantissa <= self.keep_bits => Bound::EXACT,
            Ok(_) => {
                let relative = 2f64.powi(-(self.keep_bits as i32) - 1);
                // For a number that was rounded down, the original is the greater one.
                let most = (greatest / (1.0 - relative)).max(kind.least_normal());
                Bound { absolute: relative * most, relative }
            }
        }
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// Decoding changes nothing, so a part of the data is the same part of the encoded bytes.
impl Transparent for BitRound {
    fn meta_len(&self, _encoded: &[u8]) -> usize {
        0
    }

    fn keeps_values(&self) -> bool {
        true
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        same_length::check(stored.len, stored.decoded_len as u64, "bitround")?;
        Ok(Planned { ranges: want.ranges.to_vec(), bound: Bound::EXACT })
    }

    fn decode_part(
        &self,
        _stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        _logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        for range in want.ranges {
            pieces.place(range.clone())?.copy_from_slice(fetched.get(range.clone())?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_f32(x: f32, keep: u32) -> f32 {
        f32::from_bits(rounded(u64::from(x.to_bits()), 32, 23, 23 - keep) as u32)
    }

    #[test]
    fn every_half_precision_number_keeps_the_bound_for_every_number_of_bits() {
        let value = |bits: u16| -> f64 {
            let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF));
            let size = if exponent == 0 {
                mantissa * 2f64.powi(-24)
            } else {
                (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15)
            };
            if bits >> 15 == 1 { -size } else { size }
        };
        for keep in 0..10 {
            for bits in 0..=u16::MAX {
                let kept = rounded(u64::from(bits), 16, 10, 10 - keep) as u16;
                if bits & 0x7C00 == 0x7C00 || bits & 0x7FFF == 0 {
                    assert_eq!(kept, bits, "infinity, NaN and zero stay");
                    continue;
                }
                assert_eq!(kept >> 15, bits >> 15, "the sign stays");
                let (x, y) = (value(bits), value(kept));
                let scale = x.abs().max(2f64.powi(-14));
                let bound = 2f64.powi(-(keep as i32) - 1) * scale;
                assert!(kept & 0x7C00 != 0x7C00 && (x - y).abs() <= bound, "{bits:#06x} keeping {keep}: {y}");
            }
        }
    }

    #[test]
    fn ties_go_to_even_and_the_greatest_number_stays_finite() {
        assert_eq!(round_f32(1.25, 1), 1.0);
        assert_eq!(round_f32(1.75, 1), 2.0);
        assert_eq!(round_f32(-1.75, 1), -2.0);
        assert_eq!(round_f32(f32::MAX, 3), f32::from_bits(0x7F70_0000));
        assert_eq!(round_f32(f32::INFINITY, 3), f32::INFINITY);
        assert_eq!(round_f32(f32::from_bits(0xFFC1_2345), 3).to_bits(), 0xFFC1_2345);
    }
}
