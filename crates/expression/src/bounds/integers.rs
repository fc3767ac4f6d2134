//! Intervals of integers, computed in more than 64 bits. A result outside its type wraps, so it can be any value.

use crate::tree::{Binary, Unary};
use crate::types::Type;

type Numbers = Option<(i128, i128)>;

/// The interval, or the whole range of the type if the interval exceeds it.
pub(super) fn wrap((lo, hi): (i128, i128), dtype: Type) -> (i128, i128) {
    match dtype.limits() {
        Some((least, greatest)) if lo < least || hi > greatest => (least, greatest),
        _ => (lo, hi),
    }
}

pub(super) fn unary(op: Unary, numbers: Numbers, dtype: Type) -> Numbers {
    let (lo, hi) = numbers?;
    let ends = match op {
        Unary::Neg => (-hi, -lo),
        Unary::Invert if dtype.is_signed() => (!hi, !lo),
        Unary::Invert => dtype.limits().map_or((lo, hi), |(_, top)| (top - hi, top - lo)),
        Unary::Abs if lo >= 0 => (lo, hi),
        Unary::Abs if hi <= 0 => (-hi, -lo),
        Unary::Abs => (0, hi.max(-lo)),
        Unary::Sign => (lo.signum(), hi.signum()),
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => (lo, hi),
        _ => dtype.limits()?,
    };
    Some(wrap(ends, dtype))
}

pub(super) fn binary(op: Binary, a: Numbers, b: Numbers, dtype: Type) -> Numbers {
    let (a, b) = (a?, b?);
    let all = dtype.limits()?;
    let ends = match op {
        Binary::Add => (a.0 + b.0, a.1 + b.1),
        Binary::Sub => (a.0 - b.1, a.1 - b.0),
        Binary::Mul => {
            let products = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(x, y)| x.checked_mul(y));
            let [Some(p), Some(q), Some(r), Some(s)] = products else { return Some(all) };
            (p.min(q).min(r).min(s), p.max(q).max(r).max(s))
        }
        Binary::Min => (a.0.min(b.0), a.1.min(b.1)),
        Binary::Max => (a.0.max(b.0), a.1.max(b.1)),
        Binary::FloorDiv => {
            // Division by 0 gives 0; every other divisor is at least 1 or at most -1.
            let zero = b.0 <= 0 && b.1 >= 0;
            let mut ends = zero.then_some((0, 0));
            for (lo, hi) in [(b.0.max(1), b.1), (b.0, b.1.min(-1))] {
                if lo <= hi {
                    let q = [(a.0, lo), (a.0, hi), (a.1, lo), (a.1, hi)].map(|(x, y)| floor_div(x, y));
                    let (least, greatest) =
                        (q[0].min(q[1]).min(q[2]).min(q[3]), q[0].max(q[1]).max(q[2]).max(q[3]));
                    ends =
                        Some(ends.map_or((least, greatest), |(l, g): (i128, i128)| {
                            (l.min(least), g.max(greatest))
                        }));
                }
            }
            ends?
        }
        Binary::Mod => ((b.0 + 1).min(0), (b.1 - 1).max(0)),
        Binary::And if a.0 >= 0 && b.0 >= 0 => (0, a.1.min(b.1)),
        Binary::And if a.0 >= 0 => (0, a.1),
        Binary::And if b.0 >= 0 => (0, b.1),
        Binary::Or | Binary::Xor if a.0 >= 0 && b.0 >= 0 => {
            let bits = 128 - a.1.max(b.1).leading_zeros();
            (0, (1 << bits) - 1)
        }
        Binary::Shl if b.0 == b.1 && (0..64).contains(&b.0) && b.0 < 8 * dtype.size() as i128 => {
            match (a.0.checked_mul(1 << b.0), a.1.checked_mul(1 << b.0)) {
                (Some(lo), Some(hi)) => (lo, hi),
                _ => all,
            }
        }
        Binary::Shr if b.0 >= 0 => {
            let by = |x: i128, n: i128| x >> n.min(127);
            (by(a.0, b.0).min(by(a.0, b.1)), by(a.1, b.0).max(by(a.1, b.1)))
        }
        Binary::Pow if b.0 == b.1 => {
            let power = |x: i128| u32::try_from(b.0).ok().and_then(|n| x.checked_pow(n));
            match (power(a.0), power(a.1)) {
                (Some(lo), Some(hi)) if b.0 == 0 || b.0 % 2 == 1 || a.0 >= 0 => (lo, hi),
                (Some(lo), Some(hi)) if a.1 <= 0 => (hi, lo),
                (Some(lo), Some(hi)) => (0, lo.max(hi)),
                _ => all,
            }
        }
        _ => all,
    };
    Some(wrap(ends, dtype))
}

fn floor_div(a: i128, b: i128) -> i128 {
    a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)
}
