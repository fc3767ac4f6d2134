//! Evaluation on statistics: what is known about the cells of a box before any byte of them is read.
//!
//! A condition holds for no, all or some cells; a value lies between bounds. Both answers are sound: evaluating
//! any values with these statistics agrees with them. They are not tight, because operands are taken as
//! independent: `x == x` is "some". Only squares are recognised.
//!
//! Why rounding is exact: IEEE operations are monotone. Results computed from the extremes, in the same type,
//! bound the results of all values. Results of C library functions are widened by [`floats::ULPS`].

mod floats;
mod integers;
mod span;

use crate::constant::Scalar;
use crate::program::{Program, Step};
use crate::tree::{Binary, Unary};
use crate::types::Type;
use span::{Range, Span};

/// The range of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extremes {
    /// Nothing is known: any value, NaN included, in any of the cells.
    Unknown,
    /// No value is a number: all are NaN or unwritten.
    Empty,
    /// All numbers lie between the two, inclusive.
    Within(Scalar, Scalar),
}

/// Statistics of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The range of the written values that are not NaN.
    pub extremes: Extremes,
    /// Number of values that are NaN.
    pub nans: u64,
    /// Number of unwritten cells.
    pub unwritten: u64,
    /// Number of cells, written or not.
    pub cells: u64,
}

impl Bounds {
    /// Bounds of an input without statistics: `cells` cells, some of which may be unwritten.
    pub fn unknown(cells: u64) -> Self {
        Bounds { extremes: Extremes::Unknown, nans: cells, unwritten: cells, cells }
    }
}

/// Which cells satisfy a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// No cell.
    None,
    /// Every cell, all of them written.
    All,
    /// Unknown: no, some or all cells.
    Some,
}

/// What statistics tell about a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The result is a condition.
    Condition(Truth),
    /// The result is a value.
    Values {
        /// The range of the values.
        extremes: Extremes,
        /// True if some may be NaN.
        nan: bool,
        /// True if some may be unknown, because an input is unwritten.
        unknown: bool,
    },
}

impl Program {
    /// Bounds of the result, given statistics of each of [`Program::inputs`]. A missing entry means no statistics.
    pub fn bounds(&self, inputs: &[Bounds]) -> Outcome {
        let mut ranges: Vec<Range> = Vec::with_capacity(self.steps.len());
        for (step, dtype) in self.steps() {
            let range = match step {
                Step::Input(i) => match inputs.get(usize::from(i)) {
                    Some(bounds) => Range::of(bounds, dtype),
                    None => Range { unknown: true, ..Range::whole(dtype) },
                },
                Step::Constant(value) => Range::constant(value, dtype),
                Step::Binary(Binary::Mul, a, b) if a == b => square(&ranges[usize::from(a)], dtype),
                Step::Unary(op, a) => unary(op, &ranges[usize::from(a)], self.type_of(a), dtype),
                Step::Binary(op, a, b) => {
                    binary(op, &ranges[usize::from(a)], &ranges[usize::from(b)], self.type_of(a), dtype)
                }
                Step::Where(c, a, b) => {
                    choose(&ranges[usize::from(c)], &ranges[usize::from(a)], &ranges[usize::from(b)], dtype)
                }
            };
            ranges.push(range);
        }
        ranges[self.result()].outcome(inputs.iter().any(|b| b.cells == 0))
    }
}

/// The square of a value: negative only where integers wrap.
fn square(a: &Range, dtype: Type) -> Range {
    let magnitude = unary(Unary::Abs, a, dtype, dtype);
    let product = binary(Binary::Mul, &magnitude, &magnitude, dtype, dtype);
    // Zero times infinity is the only other source of NaN, and no value is both.
    Range { nan: a.nan, ..product }
}

fn unary(op: Unary, a: &Range, from: Type, to: Type) -> Range {
    let unknown = a.unknown;
    match (op, a.span) {
        (Unary::Not, Span::Truth { can_true, can_false }) => {
            Range { span: Span::Truth { can_true: can_false, can_false: can_true }, nan: false, unknown }
        }
        (Unary::IsNan | Unary::IsInf | Unary::IsFinite, span) => {
            let span = match span {
                Span::Floats(numbers) => {
                    let infinite = numbers.is_some_and(|(lo, hi)| lo.is_infinite() || hi.is_infinite());
                    let finite = numbers.is_some_and(|(lo, hi)| lo < f64::INFINITY && hi > f64::NEG_INFINITY);
                    match op {
                        Unary::IsNan => Span::Truth { can_true: a.nan, can_false: numbers.is_some() },
                        Unary::IsInf => Span::Truth { can_true: infinite, can_false: finite || a.nan },
                        _ => Span::Truth { can_true: finite, can_false: infinite || a.nan },
                    }
                }
                other => {
                    let any = other.any();
                    Span::Truth {
                        can_true: any && op == Unary::IsFinite,
                        can_false: any && op != Unary::IsFinite,
                    }
                }
            };
            Range { span, nan: false, unknown }
        }
        (Unary::Cast(_), _) => span::cast(a, to),
        (op, Span::Integers(numbers)) => {
            Range { span: Span::Integers(integers::unary(op, numbers, from)), nan: false, unknown }
        }
        (op, Span::Floats(numbers)) => {
            let (numbers, nan) = floats::unary(op, numbers, from);
            Range { span: Span::Floats(numbers), nan: nan || a.nan, unknown }
        }
        _ => Range { unknown, ..Range::whole(to) },
    }
}

fn binary(op: Binary, a: &Range, b: &Range, from: Type, to: Type) -> Range {
    let unknown = a.unknown || b.unknown;
    match (a.span, b.span) {
        (Span::Truth { can_true: at, can_false: af }, Span::Truth { can_true: bt, can_false: bf }) => {
            let (can_true, can_false, unknown) = match op {
                Binary::And => {
                    (at && bt, af || bf, a.unknown && (bt || b.unknown) || b.unknown && (at || a.unknown))
                }
                Binary::Or => {
                    (at || bt, af && bf, a.unknown && (bf || b.unknown) || b.unknown && (af || a.unknown))
                }
                Binary::Xor | Binary::Ne => (at && bf || af && bt, at && bt || af && bf, unknown),
                Binary::Eq => (at && bt || af && bf, at && bf || af && bt, unknown),
                _ => (true, true, unknown),
            };
            Range { span: Span::Truth { can_true, can_false }, nan: false, unknown }
        }
        (Span::Integers(x), Span::Integers(y)) if op.is_comparison() => {
            let orders = x.zip(y).map(|(x, y)| (x.0 < y.1, x.0.max(y.0) <= x.1.min(y.1), x.1 > y.0));
            compare(op, orders, false, unknown)
        }
        (Span::Floats(x), Span::Floats(y)) if op.is_comparison() => {
            let orders = x.zip(y).map(|(x, y)| (x.0 < y.1, x.0.max(y.0) <= x.1.min(y.1), x.1 > y.0));
            let some = |nan: bool, numbers: Option<(f64, f64)>| nan || numbers.is_some();
            let nan = a.nan && some(b.nan, y) || b.nan && some(a.nan, x);
            compare(op, orders, nan, unknown)
        }
        (Span::Integers(x), Span::Integers(y)) => {
            Range { span: Span::Integers(integers::binary(op, x, y, from)), nan: false, unknown }
        }
        (Span::Floats(_), Span::Floats(_)) => {
            let (numbers, nan) = floats::binary(op, a, b, from);
            Range { span: Span::Floats(numbers), nan, unknown }
        }
        _ => Range { unknown, ..Range::whole(to) },
    }
}

/// A comparison, given whether some pair can be less, equal or greater, and whether NaN can occur.
fn compare(op: Binary, orders: Option<(bool, bool, bool)>, nan: bool, unknown: bool) -> Range {
    let (less, equal, greater) = orders.unwrap_or((false, false, false));
    let (can_true, can_false) = match op {
        Binary::Eq => (equal, less || greater || nan),
        Binary::Ne => (less || greater || nan, equal),
        Binary::Lt => (less, equal || greater || nan),
        Binary::Le => (less || equal, greater || nan),
        Binary::Gt => (greater, less || equal || nan),
        _ => (greater || equal, less || nan),
    };
    Range { span: Span::Truth { can_true, can_false }, nan: false, unknown }
}

fn choose(c: &Range, a: &Range, b: &Range, dtype: Type) -> Range {
    let Span::Truth { can_true, can_false } = c.span else {
        return Range { unknown: true, ..Range::whole(dtype) };
    };
    let mut out = match (can_true, can_false) {
        (true, true) => a.or(b, dtype),
        (true, false) => *a,
        (false, true) => *b,
        (false, false) => Range::nothing(dtype),
    };
    out.unknown |= c.unknown;
    out
}
