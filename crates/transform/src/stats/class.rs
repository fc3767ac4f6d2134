//! The meaning of a scalar's bits, and keys: integers in the order of the values.

use std::ops::RangeInclusive;

use crate::stats::{Bf16, Domain, F16, ScalarKind};

/// The meaning of a scalar's bits. The codes are stored (docs/format/encodings.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The meaning is unknown.
    Opaque,
    Signed,
    Unsigned,
    Half,
    BFloat,
    Single,
    Double,
}

/// An end of a range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A whole number, which is compared exactly with integers and floats.
    Int(i128),
    /// Any other number except NaN.
    Float(f64),
}

impl Limit {
    /// The least integer that is not below it.
    fn ceil(self) -> i128 {
        match self {
            Limit::Int(limit) => limit,
            Limit::Float(limit) => limit.ceil() as i128,
        }
    }

    /// The largest integer that is not above it.
    fn floor(self) -> i128 {
        match self {
            Limit::Int(limit) => limit,
            Limit::Float(limit) => limit.floor() as i128,
        }
    }

    /// The least float that is not below it.
    fn float_above(self) -> f64 {
        match self {
            Limit::Float(limit) => limit,
            Limit::Int(limit) => {
                let near = limit as f64;
                if (near as i128) < limit { near.next_up() } else { near }
            }
        }
    }

    /// The largest float that is not above it.
    fn float_below(self) -> f64 {
        match self {
            Limit::Float(limit) => limit,
            Limit::Int(limit) => {
                let near = limit as f64;
                // 2^127 is above every integer here, and the conversion saturates.
                let above = near as i128 > limit || near >= 2f64.powi(127);
                if above { near.next_down() } else { near }
            }
        }
    }
}

impl Class {
    pub(crate) fn of(kind: ScalarKind, width: usize) -> Class {
        use ScalarKind::*;
        let class = match kind {
            I8 | I16 | I32 | I64 => Class::Signed,
            Bool | U8 | U16 | U32 | U64 => Class::Unsigned,
            F16 => Class::Half,
            BF16 => Class::BFloat,
            F32 => Class::Single,
            F64 => Class::Double,
            Other => Class::Opaque,
        };
        if kind.size() == width { class } else { Class::Opaque }
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// The class with this code, if scalars of the class can have `width` bytes.
    pub(crate) fn from_code(code: u8, width: usize) -> Option<Class> {
        use Class::*;
        let class = *[Opaque, Signed, Unsigned, Half, BFloat, Single, Double].get(usize::from(code))?;
        let fits = match class {
            Opaque => true,
            Signed | Unsigned => matches!(width, 1 | 2 | 4 | 8),
            Half | BFloat => width == 2,
            Single => width == 4,
            Double => width == 8,
        };
        fits.then_some(class)
    }

    /// The key of a scalar of `width` bytes: its bits as an integer in the order of the values. -0 is below 0, and NaNs
    /// are at both ends.
    #[inline(always)]
    pub(crate) fn key(self, bits: u64, width: usize) -> u64 {
        let sign = 1u64 << (8 * width - 1);
        let all = u64::MAX >> (64 - 8 * width);
        match self {
            Class::Unsigned | Class::Opaque => bits,
            Class::Signed => bits ^ sign,
            _ if bits & sign != 0 => !bits & all,
            _ => bits ^ sign,
        }
    }

    /// The bits that have this key.
    #[inline(always)]
    pub(crate) fn bits(self, key: u64, width: usize) -> u64 {
        let sign = 1u64 << (8 * width - 1);
        let all = u64::MAX >> (64 - 8 * width);
        match self {
            Class::Unsigned | Class::Opaque => key,
            Class::Signed => key ^ sign,
            _ if key & sign == 0 => !key & all,
            _ => key ^ sign,
        }
    }

    /// The integer that has this key.
    fn integer(self, key: u64, width: usize) -> i128 {
        let bits = self.bits(key, width);
        let shift = 64 - 8 * width;
        match self {
            Class::Signed => ((bits << shift) as i64 >> shift).into(),
            _ => bits.into(),
        }
    }

    /// The float that has this key.
    fn float(self, key: u64, width: usize) -> f64 {
        let bits = self.bits(key, width);
        match self {
            Class::Half => F16::widen(bits as u16).into(),
            Class::BFloat => Bf16::widen(bits as u16).into(),
            Class::Single => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        }
    }

    /// Keys of all values but NaN.
    fn numbers(self, width: usize) -> RangeInclusive<u64> {
        let infinity: u64 = match self {
            Class::Half => 0x7C00,
            Class::BFloat => 0x7F80,
            Class::Single => 0x7F80_0000,
            Class::Double => 0x7FF0_0000_0000_0000,
            _ => return 0..=u64::MAX >> (64 - 8 * width),
        };
        let sign = 1u64 << (8 * width - 1);
        self.key(infinity | sign, width)..=self.key(infinity, width)
    }
}

/// The keys of the values of a kind that lie between two limits, both included; empty if there are none, or if the kind
/// has no order. NaN is in no range, and -0 equals 0.
pub fn keys_between(kind: ScalarKind, low: Limit, high: Limit) -> RangeInclusive<u64> {
    let width = kind.size();
    let class = Class::of(kind, width);
    let numbers = class.numbers(width);
    match class {
        #[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
        Class::Opaque => 1..=0,
        Class::Signed | Class::Unsigned => {
            between(numbers, |key| class.integer(key, width), low.ceil(), high.floor())
        }
        _ => between(numbers, |key| class.float(key, width), low.float_above(), high.float_below()),
    }
}

/// The keys, which are in the order of the values, of the values from `low` to `high`.
fn between<T: PartialOrd>(
    keys: RangeInclusive<u64>,
    value: impl Fn(u64) -> T,
    low: T,
    high: T,
) -> RangeInclusive<u64> {
    let (least, most) = keys.into_inner();
    #[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
    let none = 1..=0;
    if value(most) < low || value(least) > high {
        return none;
    }
    let from = first(least, most, |key| value(key) >= low);
    let behind = if value(most) > high { first(least, most, |key| value(key) > high) } else { most };
    let to = if value(behind) > high { behind.saturating_sub(1) } else { behind };
    if from <= to { from..=to } else { none }
}

/// Whether values between two patterns of statistics ([`Stats`](crate::stats::Stats)) can lie between two limits.
pub fn meets(kind: ScalarKind, (min, max): (u64, u64), low: Limit, high: Limit) -> bool {
    match kind.domain() {
        Some(Domain::Signed) => {
            i128::from(max as i64) >= low.ceil() && i128::from(min as i64) <= high.floor()
        }
        Some(Domain::Unsigned) => i128::from(max) >= low.ceil() && i128::from(min) <= high.floor(),
        _ => {
            let (min, max) = (f64::from_bits(min), f64::from_bits(max));
            // Statistics that are NaN exclude nothing.
            !(max < low.float_above() || min > high.float_below())
        }
    }
}

/// The key of one scalar of a kind, from its little-endian bytes.
pub fn key_of(kind: ScalarKind, bytes: &[u8]) -> u64 {
    let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    Class::of(kind, bytes.len()).key(bits, bytes.len().clamp(1, 8))
}

/// The first of `low..=high` for which the condition holds. The condition must hold for `high`, and for all keys after
/// one for which it holds.
fn first(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ScalarKind; 7] = [
        ScalarKind::I16,
        ScalarKind::U16,
        ScalarKind::F16,
        ScalarKind::BF16,
        ScalarKind::I8,
        ScalarKind::U8,
        ScalarKind::Bool,
    ];

    #[test]
    fn keys_follow_the_values_and_give_the_bits_back() {
        for kind in KINDS {
            let width = kind.size();
            let class = Class::of(kind, width);
            for bits in 0..1u64 << (8 * width) {
                assert_eq!(class.bits(class.key(bits, width), width), bits);
            }
        }
    }

    #[test]
    fn the_keys_between_two_limits_are_those_of_the_values_between_them() {
        let limits = [
            -1e9,
            -40000.5,
            -3.25,
            -0.0,
            0.0,
            1e-7,
            0.5,
            7.0,
            255.5,
            65504.0,
            1e30,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        for kind in KINDS {
            let width = kind.size();
            let class = Class::of(kind, width);
            for low in limits {
                for high in limits {
                    let keys = keys_between(kind, Limit::Float(low), Limit::Float(high));
                    for bits in (0..1u64 << (8 * width)).step_by(if width == 1 { 1 } else { 37 }) {
                        let key = class.key(bits, width);
                        let x = match class {
                            Class::Signed | Class::Unsigned => class.integer(key, width) as f64,
                            _ => class.float(key, width),
                        };
                        assert_eq!(
                            keys.contains(&key),
                            low <= x && x <= high,
                            "{kind:?} {x} in {low}..={high}"
                        );
                    }
                }
            }
        }
        let whole = keys_between(ScalarKind::U64, Limit::Int(u64::MAX.into()), Limit::Int(i128::MAX));
        assert_eq!(whole, u64::MAX..=u64::MAX);
        assert!(keys_between(ScalarKind::Other, Limit::Int(0), Limit::Int(9)).is_empty());
    }

    /// Symptom: an integer limit was rounded to a float, so 2^53 was found in 2^53 + 1 and above, and 2^127
    /// in what is below it.
    #[test]
    fn integer_limits_of_floats_are_exact() {
        let found = |kind, x: f64, low: i128, high: i128| {
            let (low, high) = (Limit::Int(low), Limit::Int(high));
            let bits = if kind == ScalarKind::F32 { u64::from((x as f32).to_bits()) } else { x.to_bits() };
            let key = Class::of(kind, kind.size()).key(bits, kind.size());
            let found = keys_between(kind, low, high).contains(&key);
            assert_eq!(meets(kind, (x.to_bits(), x.to_bits()), low, high), found);
            found
        };
        let (whole, far) = (1i128 << 53, i128::MAX);
        for kind in [ScalarKind::F64, ScalarKind::F32] {
            for sign in [1, -1] {
                let x = (sign * whole) as f64;
                let found = |low: i128, high: i128| found(kind, x, low.min(high), low.max(high));
                assert!(found(sign * whole, sign * whole) && found(sign * (whole - 1), sign * (whole + 1)));
                assert!(!found(sign * (whole + 1), sign * far) && !found(0, sign * (whole - 1)));
            }
            assert!(!found(kind, 2f64.powi(127), 0, far) && found(kind, 2f64.powi(126), 0, far));
            assert!(found(kind, -(2f64.powi(127)), i128::MIN, 0));
            assert!(!found(kind, f64::INFINITY, 0, far) && !found(kind, f64::NEG_INFINITY, i128::MIN, 0));
        }
        let odd = (whole + 2) as f64;
        assert!(
            !found(ScalarKind::F64, odd, whole, whole + 1)
                && found(ScalarKind::F64, odd, whole + 1, whole + 2)
        );
    }
}
