//! Intervals of floats. End points are computed in the type of the values, so they round as the values do.
//!
//! -0.0 counts as 0.0. Where the sign of a zero decides (`1 / x`), the interval is the whole line.

use super::span::{LINE, Range, Span};
use crate::dense::{binary_f4, binary_f8, unary_f4, unary_f8};
use crate::tree::{Binary, Unary};
use crate::types::Type;

type Numbers = Option<(f64, f64)>;

/// How far a C library function may deviate from a monotone one, in units in the last place.
pub(super) const ULPS: usize = 8;

fn one(op: Unary, dtype: Type, x: f64) -> f64 {
    if dtype == Type::F4 { unary_f4(op, x as f32).into() } else { unary_f8(op, x) }
}

fn two(op: Binary, dtype: Type, x: f64, y: f64) -> f64 {
    if dtype == Type::F4 { binary_f4(op, x as f32, y as f32).into() } else { binary_f8(op, x, y) }
}

fn down(dtype: Type, x: f64) -> f64 {
    (0..ULPS).fold(x, |x, _| if dtype == Type::F4 { (x as f32).next_down().into() } else { x.next_down() })
}

fn up(dtype: Type, x: f64) -> f64 {
    -down(dtype, -x)
}

fn widened(dtype: Type, (lo, hi): (f64, f64)) -> (f64, f64) {
    (if lo.is_nan() { LINE.0 } else { down(dtype, lo) }, if hi.is_nan() { LINE.1 } else { up(dtype, hi) })
}

fn infinite((lo, hi): (f64, f64)) -> bool {
    lo.is_infinite() || hi.is_infinite()
}

fn zero((lo, hi): (f64, f64)) -> bool {
    lo <= 0.0 && hi >= 0.0
}

/// The smallest and the largest of four numbers.
fn hull(numbers: [f64; 4]) -> (f64, f64) {
    numbers.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(x), hi.max(x)))
}

/// An interval cut to a domain, and whether part of it lies outside.
fn within((lo, hi): (f64, f64), least: f64, greatest: f64) -> (Numbers, bool) {
    let cut = (lo.max(least), hi.min(greatest));
    ((cut.0 <= cut.1).then_some(cut), lo < least || hi > greatest)
}

/// The interval of a function of one operand, and whether it returns NaN for some number.
pub(super) fn unary(op: Unary, numbers: Numbers, dtype: Type) -> (Numbers, bool) {
    use Unary::*;
    let Some((lo, hi)) = numbers else { return (None, false) };
    let both = |(lo, hi): (f64, f64)| (one(op, dtype, lo), one(op, dtype, hi));
    let magnitude =
        if zero((lo, hi)) { (0.0, hi.max(-lo)) } else { (lo.abs().min(hi.abs()), lo.abs().max(hi.abs())) };
    match op {
        Neg => (Some((-hi, -lo)), false),
        Abs => (Some(magnitude), false),
        Sign | Floor | Ceil | Trunc | Round => (Some(both((lo, hi))), false),
        Sqrt => {
            let (cut, outside) = within((lo, hi), 0.0, f64::INFINITY);
            (cut.map(both), outside)
        }
        Cbrt | Expm1 | Atan | Sinh | Tanh => (Some(widened(dtype, both((lo, hi)))), false),
        Exp => {
            let (lo, hi) = widened(dtype, both((lo, hi)));
            (Some((lo.max(0.0), hi)), false)
        }
        Cosh => {
            let (lo, hi) = widened(dtype, both(magnitude));
            (Some((lo.max(0.0), hi)), false)
        }
        Log | Log2 | Log10 | Log1p => {
            let least = if op == Log1p { -1.0 } else { 0.0 };
            let (cut, outside) = within((lo, hi), least, f64::INFINITY);
            (cut.map(|cut| widened(dtype, both(cut))), outside)
        }
        Asin => {
            let (cut, outside) = within((lo, hi), -1.0, 1.0);
            (cut.map(|cut| widened(dtype, both(cut))), outside)
        }
        Acos => {
            let (cut, outside) = within((lo, hi), -1.0, 1.0);
            let ends = cut.map(both).map(|(at_lo, at_hi)| widened(dtype, (at_hi, at_lo)));
            (ends, outside)
        }
        Sin | Cos => (Some((-1.0, 1.0)), infinite((lo, hi))),
        Tan => (Some(LINE), infinite((lo, hi))),
        Not | Invert | IsNan | IsInf | IsFinite | Cast(_) => (Some(LINE), true),
    }
}

/// The interval of a binary operator, and whether a result can be NaN.
pub(super) fn binary(op: Binary, a: &Range, b: &Range, dtype: Type) -> (Numbers, bool) {
    use Binary::*;
    let (Span::Floats(x), Span::Floats(y)) = (a.span, b.span) else { return (Some(LINE), true) };
    let nan = a.nan || b.nan;
    if op == Pow {
        return power(x, y, nan, dtype);
    }
    if op == Hypot && nan {
        // hypot(inf, nan) is inf.
        return (Some((0.0, f64::INFINITY)), true);
    }
    let (Some(x), Some(y)) = (x, y) else { return (None, nan) };
    let corners = [(x.0, y.0), (x.0, y.1), (x.1, y.0), (x.1, y.1)];
    let (ends, made) = match op {
        Add | Sub => {
            let y = if op == Sub { (-y.1, -y.0) } else { y };
            let ends = (two(Add, dtype, x.0, y.0), two(Add, dtype, x.1, y.1));
            let opposite = x.1 == f64::INFINITY && y.0 == f64::NEG_INFINITY
                || x.0 == f64::NEG_INFINITY && y.1 == f64::INFINITY;
            (if ends.0.is_nan() || ends.1.is_nan() { LINE } else { ends }, opposite)
        }
        Mul => {
            let product = |(p, q): (f64, f64)| if p == 0.0 || q == 0.0 { 0.0 } else { two(Mul, dtype, p, q) };
            (hull(corners.map(product)), zero(x) && infinite(y) || zero(y) && infinite(x))
        }
        Div if zero(y) => (LINE, zero(x) || infinite(x) && infinite(y)),
        Div if infinite(x) && infinite(y) => (LINE, true),
        Div => (hull(corners.map(|(p, q)| two(Div, dtype, p, q))), false),
        FloorDiv if zero(y) || infinite(x) || infinite(y) => (LINE, true),
        FloorDiv => {
            let (lo, hi) = hull(corners.map(|(p, q)| two(Div, dtype, p, q)));
            (widened(dtype, (down(dtype, lo).floor() - 1.0, up(dtype, hi).floor() + 1.0)), false)
        }
        Mod => ((y.0.min(0.0), y.1.max(0.0)), zero(y) || infinite(x)),
        Min => ((x.0.min(y.0), x.1.min(y.1)), false),
        Max => ((x.0.max(y.0), x.1.max(y.1)), false),
        Atan2 => ((-3.2, 3.2), false),
        Hypot => {
            let abs = |numbers| unary(Unary::Abs, Some(numbers), dtype).0.unwrap_or(LINE);
            let (x, y) = (abs(x), abs(y));
            let (lo, hi) = widened(dtype, (two(Hypot, dtype, x.0, y.0), two(Hypot, dtype, x.1, y.1)));
            ((lo.max(0.0), hi), false)
        }
        _ => (LINE, true),
    };
    (Some(ends), nan || made)
}

/// `pow` where the exponent is a single number; the whole line otherwise.
fn power(x: Numbers, y: Numbers, nan: bool, dtype: Type) -> (Numbers, bool) {
    let anything = (Some(LINE), true);
    let Some((e, _)) = y.filter(|y| y.0 == y.1 && y.0.is_finite()) else { return anything };
    if e == 0.0 {
        return (Some((1.0, 1.0)), nan);
    }
    let Some((lo, hi)) = x else { return (None, nan) };
    let even = e % 2.0 == 0.0;
    let odd = e % 2.0 == 1.0 || e % 2.0 == -1.0;
    let at = |x: f64| two(Binary::Pow, dtype, x, e);
    let ends = if e > 0.0 && (lo >= 0.0 || odd) {
        (at(lo), at(hi))
    } else if e > 0.0 && even {
        let far = hi.max(-lo);
        (if zero((lo, hi)) { 0.0 } else { at(lo.abs().min(hi.abs())) }, at(far))
    } else if e < 0.0 && lo > 0.0 {
        (at(hi), at(lo))
    } else {
        return anything;
    };
    let (least, greatest) = widened(dtype, ends);
    (Some((if lo >= 0.0 || even { least.max(0.0) } else { least }, greatest)), nan)
}
