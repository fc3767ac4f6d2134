//! The set of values that a step can take, as an interval: the type that interval arithmetic works on.

use super::{Bounds, Extremes, Outcome, Truth};
use crate::constant::Scalar;
use crate::types::Type;

/// The possible numbers or truth values; `None`: no number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Span {
    Truth { can_true: bool, can_false: bool },
    Integers(Option<(i128, i128)>),
    Floats(Option<(f64, f64)>),
}

impl Span {
    pub(super) fn any(self) -> bool {
        match self {
            Span::Truth { can_true, can_false } => can_true || can_false,
            Span::Integers(numbers) => numbers.is_some(),
            Span::Floats(numbers) => numbers.is_some(),
        }
    }
}

/// Everything that the cells of a step can hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) span: Span,
    pub(super) nan: bool,
    pub(super) unknown: bool,
}

pub(super) const LINE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

impl Range {
    /// Any value of a type.
    pub(super) fn whole(dtype: Type) -> Self {
        let span = match dtype.limits() {
            Some(limits) => Span::Integers(Some(limits)),
            None if dtype == Type::Bool => Span::Truth { can_true: true, can_false: true },
            None => Span::Floats(Some(LINE)),
        };
        Range { span, nan: dtype.is_float(), unknown: false }
    }

    /// No value.
    pub(super) fn nothing(dtype: Type) -> Self {
        let span = match dtype {
            Type::Bool => Span::Truth { can_true: false, can_false: false },
            Type::F4 | Type::F8 => Span::Floats(None),
            _ => Span::Integers(None),
        };
        Range { span, nan: false, unknown: false }
    }

    pub(super) fn constant(value: Scalar, dtype: Type) -> Self {
        let (span, nan) = match value {
            Scalar::Bool(value) => (Span::Truth { can_true: value, can_false: !value }, false),
            Scalar::Integer(n) => (Span::Integers(Some((n, n))), false),
            Scalar::Float(x) if x.is_nan() => (Span::Floats(None), true),
            Scalar::Float(x) => (Span::Floats(Some((x, x))), false),
        };
        debug_assert_eq!(std::mem::discriminant(&span), std::mem::discriminant(&Range::whole(dtype).span));
        Range { span, nan, unknown: false }
    }

    /// The range that statistics give. Extremes of another type give no information.
    pub(super) fn of(bounds: &Bounds, dtype: Type) -> Self {
        let written = bounds.cells.saturating_sub(bounds.unwritten);
        let unknown = bounds.unwritten > 0;
        let whole = Range::whole(dtype);
        let numbers = match (bounds.extremes, whole.span) {
            (Extremes::Empty, _) => Range::nothing(dtype).span,
            (Extremes::Within(Scalar::Integer(lo), Scalar::Integer(hi)), Span::Integers(_)) if lo <= hi => {
                Span::Integers(Some((lo, hi)))
            }
            (Extremes::Within(Scalar::Float(lo), Scalar::Float(hi)), Span::Floats(_)) if lo <= hi => {
                Span::Floats(Some((lo, hi)))
            }
            (Extremes::Within(Scalar::Bool(lo), Scalar::Bool(hi)), Span::Truth { .. }) if lo <= hi => {
                Span::Truth { can_true: hi, can_false: !lo }
            }
            (_, span) => span,
        };
        if written == 0 && bounds.extremes != Extremes::Unknown {
            return Range { unknown, ..Range::nothing(dtype) };
        }
        let span = if dtype.is_float() && bounds.nans >= written && bounds.extremes != Extremes::Unknown {
            Span::Floats(None)
        } else {
            numbers
        };
        let nan = dtype.is_float() && (bounds.nans > 0 || bounds.extremes == Extremes::Unknown);
        Range { span, nan, unknown }
    }

    /// The union of two ranges.
    pub(super) fn or(&self, other: &Range, dtype: Type) -> Range {
        fn hull<T: Copy>(
            a: Option<(T, T)>,
            b: Option<(T, T)>,
            join: impl Fn((T, T), (T, T)) -> (T, T),
        ) -> Option<(T, T)> {
            match (a, b) {
                (Some(a), Some(b)) => Some(join(a, b)),
                (a, b) => a.or(b),
            }
        }
        let span = match (self.span, other.span) {
            (Span::Truth { can_true: at, can_false: af }, Span::Truth { can_true: bt, can_false: bf }) => {
                Span::Truth { can_true: at || bt, can_false: af || bf }
            }
            (Span::Integers(a), Span::Integers(b)) => {
                Span::Integers(hull(a, b, |a, b| (a.0.min(b.0), a.1.max(b.1))))
            }
            (Span::Floats(a), Span::Floats(b)) => {
                Span::Floats(hull(a, b, |a, b| (a.0.min(b.0), a.1.max(b.1))))
            }
            _ => Range::whole(dtype).span,
        };
        Range { span, nan: self.nan || other.nan, unknown: self.unknown || other.unknown }
    }

    /// The range as a public [`Outcome`].
    pub(super) fn outcome(&self, no_cells: bool) -> Outcome {
        let extremes = match self.span {
            Span::Truth { can_true, can_false } => {
                return Outcome::Condition(match (can_true, can_false || self.unknown) {
                    (false, _) => Truth::None,
                    _ if no_cells => Truth::None,
                    (true, false) => Truth::All,
                    (true, true) => Truth::Some,
                });
            }
            Span::Integers(Some((lo, hi))) => Extremes::Within(Scalar::Integer(lo), Scalar::Integer(hi)),
            Span::Floats(Some((lo, hi))) => Extremes::Within(Scalar::Float(lo), Scalar::Float(hi)),
            Span::Integers(None) | Span::Floats(None) => Extremes::Empty,
        };
        Outcome::Values { extremes, nan: self.nan, unknown: self.unknown }
    }
}

/// A conversion: monotone except where integers wrap.
pub(super) fn cast(a: &Range, to: Type) -> Range {
    let unknown = a.unknown;
    let any = a.span.any();
    let span = match (a.span, to) {
        (span @ Span::Truth { .. }, Type::Bool) => span,
        (Span::Truth { can_true, can_false }, to) => {
            let (lo, hi) = (i128::from(!can_false), i128::from(can_true));
            match (any, to.is_float()) {
                (true, true) => Span::Floats(Some((lo as f64, hi as f64))),
                (true, false) => Span::Integers(Some((lo, hi))),
                (false, _) => Range::nothing(to).span,
            }
        }
        (Span::Integers(numbers), Type::Bool) => {
            let zero = numbers.is_some_and(|(lo, hi)| lo <= 0 && 0 <= hi);
            Span::Truth { can_true: numbers.is_some_and(|n| n != (0, 0)), can_false: zero }
        }
        (Span::Floats(numbers), Type::Bool) => {
            let zero = numbers.is_some_and(|(lo, hi)| lo <= 0.0 && 0.0 <= hi);
            let other = numbers.is_some_and(|(lo, hi)| lo != 0.0 || hi != 0.0);
            Span::Truth { can_true: other || a.nan, can_false: zero }
        }
        (Span::Integers(numbers), Type::F4) => {
            Span::Floats(numbers.map(|(lo, hi)| (f64::from(lo as f32), f64::from(hi as f32))))
        }
        (Span::Integers(numbers), Type::F8) => Span::Floats(numbers.map(|(lo, hi)| (lo as f64, hi as f64))),
        (Span::Floats(numbers), Type::F4) => {
            Span::Floats(numbers.map(|(lo, hi)| (f64::from(lo as f32), f64::from(hi as f32))))
        }
        (span @ Span::Floats(_), Type::F8) => span,
        (Span::Integers(numbers), to) => Span::Integers(numbers.map(|n| super::integers::wrap(n, to))),
        (Span::Floats(numbers), to) => {
            let (least, greatest) = to.limits().unwrap_or((0, 0));
            // `as` truncates and saturates.
            let one = |x: f64| (x as i128).clamp(least, greatest);
            let numbers = numbers.map(|(lo, hi)| (one(lo), one(hi)));
            Span::Integers(match (numbers, a.nan) {
                (numbers, false) => numbers,
                (Some((lo, hi)), true) => Some((lo.min(0), hi.max(0))),
                (None, true) => Some((0, 0)),
            })
        }
    };
    Range { span, nan: a.nan && to.is_float(), unknown }
}
