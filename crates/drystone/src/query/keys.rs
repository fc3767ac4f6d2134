//! Terms that an index of values can answer: terms on one variable whose hits form a range of its values.

use std::ops::RangeInclusive;

use drystone_expression::{Binary, Program, Scalar, Step, Type};
use drystone_transform::stats::ScalarKind;
use drystone_transform::{Limit, keys_between};

/// The keys of the values that satisfy a condition. `None` if they form no range, or if the condition has several
/// names.
pub(super) fn of(program: &Program) -> Option<RangeInclusive<u64>> {
    let [(_, dtype)] = program.inputs() else { return None };
    let steps: Vec<Step> = program.steps().map(|(step, _)| step).collect();
    range(&steps, program.result(), *dtype)
}

fn range(steps: &[Step], at: usize, dtype: Type) -> Option<RangeInclusive<u64>> {
    let Step::Binary(op, a, b) = *steps.get(at)? else { return None };
    if op == Binary::And {
        let (a, b) = (range(steps, a.into(), dtype)?, range(steps, b.into(), dtype)?);
        return Some(*a.start().max(b.start())..=*a.end().min(b.end()));
    }
    match (*steps.get(usize::from(a))?, *steps.get(usize::from(b))?) {
        (Step::Input(_), Step::Constant(value)) => compared(op, value, dtype),
        (Step::Constant(value), Step::Input(_)) => {
            let turned = match op {
                Binary::Lt => Binary::Gt,
                Binary::Le => Binary::Ge,
                Binary::Gt => Binary::Lt,
                Binary::Ge => Binary::Le,
                other => other,
            };
            compared(turned, value, dtype)
        }
        _ => None,
    }
}

/// The keys of the values that satisfy a comparison with a constant of their own type.
fn compared(op: Binary, value: Scalar, dtype: Type) -> Option<RangeInclusive<u64>> {
    let kind = kind(dtype)?;
    #[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
    let none = 1..=0;
    let (least, most, below, at, above) = match value {
        Scalar::Integer(n) if dtype.is_integer() => {
            let (least, most) = dtype.limits()?;
            (Limit::Int(least), Limit::Int(most), Limit::Int(n - 1), Limit::Int(n), Limit::Int(n + 1))
        }
        Scalar::Float(x) if dtype.is_float() => {
            if x.is_nan() {
                return (op != Binary::Ne).then_some(none);
            }
            let (down, up) = match dtype {
                Type::F4 => ((x as f32).next_down().into(), (x as f32).next_up().into()),
                _ => (x.next_down(), x.next_up()),
            };
            if op == Binary::Gt && x == f64::INFINITY || op == Binary::Lt && x == f64::NEG_INFINITY {
                return Some(none);
            }
            let all = (Limit::Float(f64::NEG_INFINITY), Limit::Float(f64::INFINITY));
            (all.0, all.1, Limit::Float(down), Limit::Float(x), Limit::Float(up))
        }
        _ => return None,
    };
    Some(match op {
        Binary::Lt => keys_between(kind, least, below),
        Binary::Le => keys_between(kind, least, at),
        Binary::Gt => keys_between(kind, above, most),
        Binary::Ge => keys_between(kind, at, most),
        Binary::Eq => keys_between(kind, at, at),
        _ => return None,
    })
}

/// The expected share of a subchunk's bins that overlap a range of keys, given the bits of its extremes: bins divide
/// the keys evenly.
pub(super) fn share(keys: &RangeInclusive<u64>, dtype: Type, extremes: Option<(u64, u64)>) -> f64 {
    let (Some((min, max)), Some(kind)) = (extremes, kind(dtype)) else { return 1.0 };
    let limit = |bits: u64| match dtype {
        Type::F4 | Type::F8 => Limit::Float(f64::from_bits(bits)),
        dtype if dtype.is_signed() => Limit::Int((bits as i64).into()),
        _ => Limit::Int(bits.into()),
    };
    let all = keys_between(kind, limit(min), limit(max));
    let (lo, hi) = (*keys.start().max(all.start()), *keys.end().min(all.end()));
    let count = |lo: u64, hi: u64| hi.checked_sub(lo).map_or(0.0, |n| n as f64 + 1.0);
    (count(lo, hi) / count(*all.start(), *all.end()).max(1.0)).min(1.0)
}

fn kind(dtype: Type) -> Option<ScalarKind> {
    Some(match dtype {
        Type::Bool => return None,
        Type::I1 => ScalarKind::I8,
        Type::I2 => ScalarKind::I16,
        Type::I4 => ScalarKind::I32,
        Type::I8 => ScalarKind::I64,
        Type::U1 => ScalarKind::U8,
        Type::U2 => ScalarKind::U16,
        Type::U4 => ScalarKind::U32,
        Type::U8 => ScalarKind::U64,
        Type::F4 => ScalarKind::F32,
        Type::F8 => ScalarKind::F64,
    })
}
