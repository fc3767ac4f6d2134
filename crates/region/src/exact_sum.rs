//! Exact sums of 64-bit floats: the result is rounded once, so it does not depend on the order of the values. Pure.
//!
//! The sum is an integer in units of 2^-1075, held in 67 digits of 32 bits. Each digit is a signed 64-bit number and
//! has room for 2048 additions before its upper half is carried to the next digit.
//!
//! Invariant: no more than [`CARRY`] additions happen between two carries, so no digit overflows.

/// Digits: 2098 bits of values, and more than 2^32 values.
const DIGITS: usize = 67;
/// Additions after which digits are carried. One addition adds less than 2^52 to a digit.
const CARRY: u32 = 1024;
/// Bits of a digit.
const BITS: u32 = 32;
const LOW: u64 = (1 << BITS) - 1;

/// The sum of some values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExactSum {
    digits: [i64; DIGITS],
    /// Additions since digits were carried.
    additions: u32,
    /// The sum of infinities and NaNs: 0 if there were none.
    special: f64,
}

impl Default for ExactSum {
    fn default() -> Self {
        ExactSum { digits: [0; DIGITS], additions: 0, special: 0.0 }
    }
}

impl ExactSum {
    /// Adds values.
    pub(super) fn add(&mut self, values: &[f64]) {
        for some in values.chunks(CARRY as usize) {
            if self.additions + some.len() as u32 > CARRY {
                self.carry();
            }
            self.additions += some.len() as u32;
            for value in some {
                self.add_one(*value);
            }
        }
    }

    #[inline]
    fn add_one(&mut self, value: f64) {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as u32;
        if exponent == 0x7ff {
            self.special += value;
            return;
        }
        let fraction = bits & ((1 << 52) - 1);
        // A subnormal number has the exponent of the least normal ones, and no leading bit.
        let (exponent, mantissa) = match exponent {
            0 => (1, fraction),
            _ => (exponent, fraction | 1 << 52),
        };
        let (place, shift) = ((exponent / BITS) as usize, exponent % BITS);
        let (low, high) = ((mantissa << shift & LOW) as i64, (mantissa >> (BITS - shift)) as i64);
        let sign = if bits >> 63 == 0 { 1 } else { -1 };
        if let Some([first, second]) = self.digits.get_mut(place..place + 2) {
            *first += sign * low;
            *second += sign * high;
        }
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &ExactSum) {
        let mut other = other.clone();
        other.carry();
        self.carry();
        self.digits.iter_mut().zip(other.digits).for_each(|(digit, more)| *digit += more);
        self.special += other.special;
        self.carry();
    }

    /// Leaves in each digit but the last a number from 0 to 2^32 - 1: equal sums are equal then.
    pub(super) fn carry(&mut self) {
        carry(&mut self.digits);
        self.additions = 0;
    }

    /// The nearest float; of two equally near ones that with an even mantissa.
    pub(super) fn rounded(&self) -> f64 {
        if self.special != 0.0 {
            // One NaN stands for all.
            return if self.special.is_nan() { f64::NAN } else { self.special };
        }
        let mut digits = self.digits;
        carry(&mut digits);
        let negative = digits.last().is_some_and(|digit| *digit < 0);
        if negative {
            digits.iter_mut().for_each(|digit| *digit = -*digit);
            carry(&mut digits);
        }
        let bit = |n: u32| digits.get((n / BITS) as usize).map_or(0, |digit| *digit as u64 >> (n % BITS) & 1);
        let Some(top) = (0..DIGITS).rev().find(|n| digits.get(*n).is_some_and(|digit| *digit != 0)) else {
            return 0.0;
        };
        // The last digit has at most 32 bits as well, since sums of fewer than 2^32 values do not fill it.
        let first = digits.get(top).map_or(0, |digit| 63 - digit.leading_zeros()) + top as u32 * BITS;
        // The unit of the result: subnormal numbers have that of exponent 1.
        let last = first.saturating_sub(52).max(1);
        let mantissa = (last..=first).rev().fold(0, |all, n| all << 1 | bit(n));
        let half = bit(last - 1) == 1;
        let more = half && (0..last - 1).any(|n| bit(n) == 1);
        let mantissa = mantissa + u64::from(half && (more || mantissa & 1 == 1));
        // The leading bit of a normal number, or a carry out of the mantissa, counts up the exponent.
        let bits = (u64::from(last - 1) << 52).saturating_add(mantissa).min(f64::INFINITY.to_bits());
        let size = f64::from_bits(bits);
        if negative { -size } else { size }
    }
}

fn carry(digits: &mut [i64; DIGITS]) {
    let mut carried = 0;
    for (n, digit) in digits.iter_mut().enumerate() {
        *digit += carried;
        if n + 1 < DIGITS {
            carried = *digit >> BITS;
            *digit &= LOW as i64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        sum.add(values);
        sum.rounded()
    }

    /// Numbers of all sizes, from a fixed generator.
    fn numbers(many: usize) -> Vec<f64> {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        std::iter::repeat_with(|| f64::from_bits(next())).filter(|x| x.is_finite()).take(many).collect()
    }

    #[test]
    fn a_sum_is_exact_and_rounded_once() {
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1.0, f64::EPSILON / 2.0]), 1.0, "a tie goes to the even one");
        assert_eq!(
            sum(&[1.0, f64::EPSILON / 2.0, 5e-324]),
            1.0 + f64::EPSILON,
            "a bit beyond the tie decides"
        );
        assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
        assert_eq!(sum(&[f64::MIN_POSITIVE, -5e-324]), f64::MIN_POSITIVE - 5e-324);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX, "it went over the end and came back");
        assert_eq!(sum(&[-f64::MAX, -f64::MAX]), f64::NEG_INFINITY);
        assert_eq!(sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan() && sum(&[f64::NAN, 1.0]).is_nan());
        assert_eq!(sum(&vec![1.0; 5000]), 5000.0);
        assert_eq!(sum(&vec![-f64::MAX / 8192.0; 8192]), -f64::MAX);
        for x in numbers(500) {
            assert_eq!(sum(&[x]).to_bits(), x.to_bits(), "{x}");
            assert_eq!(sum(&[x, x / 3.0]), x + x / 3.0, "two values: the processor rounds once too");
        }
    }

    #[test]
    fn a_sum_does_not_depend_on_order_and_cuts() {
        let mut values = numbers(6000);
        let whole = sum(&values);
        values.reverse();
        assert_eq!(sum(&values).to_bits(), whole.to_bits());
        for cut in [0, 1, 999, 1024, 5999] {
            let (a, b) = values.split_at(cut);
            let mut parts = [ExactSum::default(), ExactSum::default()];
            parts[0].add(a);
            parts[1].add(b);
            let [mut all, other] = parts;
            all.merge(&other);
            assert_eq!(all.rounded().to_bits(), whole.to_bits(), "{cut}");
        }
    }
}
