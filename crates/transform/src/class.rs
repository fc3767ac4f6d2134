//! What the bits of a scalar mean, and integers in the order of the values.

use std::ops::RangeInclusive;

use crate::stats::{Bf16, Domain, F16, ScalarKind};

/// What the bits of a scalar mean. The codes are stored (docs/transforms.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing is known.
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
    /// A whole number; exact against integers.
    Int(i128),
    /// Any other; not NaN.
    Float(f64),
}

/// A value, for comparison with a [`Limit`].
#[derive(Clone, Copy)]
enum Value {
    Int(i128),
    Float(f64),
}

impl Value {
    fn below(self, limit: Limit) -> bool {
        match (self, limit) {
            (Value::Int(x), Limit::Int(limit)) => x < limit,
            (Value::Int(x), Limit::Float(limit)) => x < limit.ceil() as i128,
            (Value::Float(x), Limit::Float(limit)) => x < limit,
            (Value::Float(x), Limit::Int(limit)) => x < limit as f64,
        }
    }

    fn above(self, limit: Limit) -> bool {
        match (self, limit) {
            (Value::Int(x), Limit::Int(limit)) => x > limit,
            (Value::Int(x), Limit::Float(limit)) => x > limit.floor() as i128,
            (Value::Float(x), Limit::Float(limit)) => x > limit,
            (Value::Float(x), Limit::Int(limit)) => x > limit as f64,
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

    /// The class of a code, if scalars of it can have `width` bytes.
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

    /// The bits of a scalar of `width` bytes as an integer in the order of the values: -0 below 0, NaNs at both ends.
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

    /// The bits that have a key.
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

    fn value(self, key: u64, width: usize) -> Value {
        let bits = self.bits(key, width);
        let shift = 64 - 8 * width;
        match self {
            Class::Opaque | Class::Unsigned => Value::Int(bits.into()),
            Class::Signed => Value::Int(((bits << shift) as i64 >> shift).into()),
            Class::Half => Value::Float(F16::widen(bits as u16).into()),
            Class::BFloat => Value::Float(Bf16::widen(bits as u16).into()),
            Class::Single => Value::Float(f32::from_bits(bits as u32).into()),
            Class::Double => Value::Float(f64::from_bits(bits)),
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

/// The keys of the values of a kind that lie between two limits, both included; empty if there are none, or if the kind has no
/// order. NaN lies nowhere; -0 and 0 are the same value.
pub fn keys_between(kind: ScalarKind, low: Limit, high: Limit) -> RangeInclusive<u64> {
    let width = kind.size();
    let class = Class::of(kind, width);
    let numbers = class.numbers(width);
    let (least, most) = numbers.into_inner();
    let below = |limit: Limit, key: u64| class.value(key, width).below(limit);
    let above = |limit: Limit, key: u64| class.value(key, width).above(limit);
    #[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
    let none = 1..=0;
    if class == Class::Opaque || below(low, most) || above(high, least) {
        return none;
    }
    let from = first(least, most, |key| !below(low, key));
    let behind = if above(high, most) { first(least, most, |key| above(high, key)) } else { most };
    let to = if above(high, behind) { behind.saturating_sub(1) } else { behind };
    if from <= to { from..=to } else { none }
}

/// Whether values between two patterns of statistics ([`Stats`](crate::stats::Stats)) can lie between two limits.
pub fn meets(kind: ScalarKind, (min, max): (u64, u64), low: Limit, high: Limit) -> bool {
    let value = |bits: u64| match kind.domain() {
        Some(Domain::Signed) => Value::Int((bits as i64).into()),
        Some(Domain::Unsigned) => Value::Int(bits.into()),
        _ => Value::Float(f64::from_bits(bits)),
    };
    !value(max).below(low) && !value(min).above(high)
}

/// The key of one scalar of a kind, from its little-endian bytes.
pub fn key_of(kind: ScalarKind, bytes: &[u8]) -> u64 {
    let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    Class::of(kind, bytes.len()).key(bits, bytes.len().clamp(1, 8))
}

/// The first of `low..=high` for which a condition holds that never turns false again, and that holds for `high`.
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
                        let x = match class.value(key, width) {
                            Value::Int(x) => x as f64,
                            Value::Float(x) => x,
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
}
