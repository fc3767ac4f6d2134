//! Numbers for which Rust has no type: short floats and complex numbers.
//!
//! Short floats are rounded once, to nearest, ties to even, from any source: rounding to a wider float first would give
//! the wrong neighbour for some values.

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
#[derive(Clone, Copy, Default)]
pub(crate) struct F16(pub(crate) u16);

/// The upper half of a binary32: 8 bits of exponent, 7 of fraction.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bf16(pub(crate) u16);

/// Real and imaginary part, one after the other.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Complex<T>(pub(crate) T, pub(crate) T);

impl F16 {
    pub(crate) fn to_f32(self) -> f32 {
        let (sign, rest) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7FFF));
        // The exponents differ by 112. A multiplication by 2^112 also normalises subnormal numbers.
        let finite = f32::from_bits(rest << 13) * f32::from_bits((112 + 127) << 23);
        let special = f32::from_bits(0x7F80_0000 | rest << 13);
        let magnitude = if rest >= 0x7C00 { special } else { finite };
        f32::from_bits(magnitude.to_bits() | sign)
    }

    pub(crate) fn from_f64(value: f64) -> F16 {
        F16(short::<5, 10>(value))
    }
}

impl Bf16 {
    pub(crate) fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    pub(crate) fn from_f64(value: f64) -> Bf16 {
        Bf16(short::<8, 7>(value))
    }

    pub(crate) fn from_f32(value: f32) -> Bf16 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
        Bf16(if value.is_nan() { (bits >> 16 | 0x40) as u16 } else { rounded as u16 })
    }
}

/// The nearest float with `E` bits of exponent and `M` of fraction. NaN stays NaN.
fn short<const E: u32, const M: u32>(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 63 << (E + M)) as u16;
    let (exponent, fraction) = ((bits >> 52 & 0x7FF) as i64, bits & ((1 << 52) - 1));
    let infinite = ((1u16 << E) - 1) << M;
    if exponent == 0x7FF {
        let quiet = if fraction == 0 { 0 } else { 1 << (M - 1) | (fraction >> (52 - M)) as u16 };
        return sign | infinite | quiet;
    }
    let bias = (1i64 << (E - 1)) - 1;
    let short_exponent = exponent - 1023 + bias;
    if short_exponent >= (1 << E) - 1 {
        return sign | infinite;
    }
    // Subnormal results lose one more bit for each step below the least exponent. Subnormal doubles are far
    // below all of them.
    let lost = (52 - M) as i64 + if short_exponent < 1 { 1 - short_exponent } else { 0 };
    if exponent == 0 || lost > 53 {
        return sign;
    }
    let whole = fraction | 1 << 52;
    let (kept, rest) = (whole >> lost, whole & ((1 << lost) - 1));
    let half = 1u64 << (lost - 1);
    let rounded = kept + u64::from(rest > half || (rest == half && kept & 1 == 1));
    // A carry out of the fraction continues into the exponent, and from there to infinity.
    let implicit = if short_exponent < 1 { 0 } else { (short_exponent as u64 - 1) << M };
    sign | (implicit + rounded) as u16
}

/// A double that rounds to the same short float as the integer: bits that do not fit are recorded in the last bit.
pub(crate) fn traced(value: i128) -> f64 {
    let magnitude = value.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let trace = u128::from(magnitude & ((1 << excess) - 1) != 0);
    let kept = (magnitude >> excess | trace) as f64;
    let scaled = kept * (1u128 << excess) as f64;
    if value < 0 { -scaled } else { scaled }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All short floats but NaN, ascending, as (value, bits).
    fn line(to_f32: impl Fn(u16) -> f32) -> Vec<(f64, u16)> {
        let mut all: Vec<(f64, u16)> =
            (0..=u16::MAX).map(|bits| (f64::from(to_f32(bits)), bits)).filter(|(v, _)| !v.is_nan()).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    /// Rounds every short float, every midpoint of two neighbours, and the values next to it.
    fn check(line: &[(f64, u16)], round: impl Fn(f64) -> u16, limit: f64) {
        for pair in line.windows(2) {
            let ((low, low_bits), (high, high_bits)) = (pair[0], pair[1]);
            assert_eq!((round(low), round(high)), (low_bits, high_bits));
            if low == high || (low.is_infinite() || high.is_infinite()) {
                continue;
            }
            let middle = low + (high - low) / 2.0;
            let even = if low_bits & 1 == 0 { low_bits } else { high_bits };
            assert_eq!(round(middle), even, "{low} {high}");
            assert_eq!(round(middle.next_down()), low_bits);
            assert_eq!(round(middle.next_up()), high_bits);
        }
        let infinite = line[line.len() - 1].1;
        assert_eq!((round(limit), round(limit.next_down())), (infinite, line[line.len() - 2].1));
        assert_eq!((round(1e300), round(1e-300), round(-1e-320)), (infinite, 0, 0x8000));
    }

    #[test]
    fn halves_are_rounded_to_the_nearest_and_ties_to_even() {
        check(&line(|bits| F16(bits).to_f32()), |v| F16::from_f64(v).0, 65520.0);
        assert!(F16(F16::from_f64(f64::NAN).0).to_f32().is_nan());
        assert_eq!(F16(1).to_f32(), 1.0f32 / 16_777_216.0);
    }

    #[test]
    fn brain_floats_are_rounded_to_the_nearest_and_ties_to_even() {
        let limit = f64::from_bits(((1023 + 127) << 52) | 0x000F_F000_0000_0000);
        check(&line(|bits| Bf16(bits).to_f32()), |v| Bf16::from_f64(v).0, limit);
        for bits in (0..u32::MAX).step_by(65_521) {
            let value = f32::from_bits(bits);
            let (direct, by_way) = (Bf16::from_f32(value), Bf16::from_f64(value.into()));
            assert!(
                direct.0 == by_way.0 || (direct.to_f32().is_nan() && by_way.to_f32().is_nan()),
                "{value}"
            );
        }
    }

    #[test]
    fn large_integers_are_rounded_once() {
        let tie = (1i128 << 60) + (1 << 52);
        assert_eq!(Bf16::from_f64(traced(tie)).to_f32(), (1u64 << 60) as f32);
        assert_eq!(Bf16::from_f64(traced(tie + 1)).to_f32(), (1u64 << 60) as f32 * 1.007_812_5);
        assert_eq!(traced(-5), -5.0);
        assert_eq!(traced(0), 0.0);
    }
}
