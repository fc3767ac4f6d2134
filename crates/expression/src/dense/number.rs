//! The loops: applies each operator to slices of each type.
//!
//! The operator is matched outside the loop, so that the compiler vectorises the loop. Results equal NumPy's bit for
//! bit (docs/decisions/102-expressions.md), except that functions of the C library may differ in the last few digits.

use super::bits;
use super::buffer::Buffer;
use super::chain::Chain;
use crate::tree::{Binary, Unary};

/// A type of numbers.
pub(super) trait Number: Copy + PartialOrd + Default + 'static {
    /// A function whose result has the operand's type.
    fn unary(op: Unary, a: &[Self], out: &mut [Self]);
    /// An operator whose result has the operands' type.
    fn binary(op: Binary, a: &[Self], b: &[Self], out: &mut [Self]);
    /// Two operators in one loop; only floats have such steps.
    fn chain(chain: &Chain, a: &[Self], b: &[Self], c: &[Self], out: &mut [Self]);
    /// `isnan`, `isinf`, `isfinite`; any other operator tests for a number that is not zero.
    fn test(op: Unary, a: &[Self], out: &mut [u64]);
    /// A conversion to the type of a buffer.
    fn cast(a: &[Self], out: &mut Buffer, cells: usize);
}

/// One value, for a constant, is used for all cells.
#[inline(always)]
fn map<T: Copy, U: Copy>(a: &[T], out: &mut [U], f: impl Fn(T) -> U) {
    match a {
        &[x] => out.fill(f(x)),
        _ => out.iter_mut().zip(a).for_each(|(out, &x)| *out = f(x)),
    }
}

/// One value, for a constant, is used for all cells.
#[inline(always)]
fn zip<T: Copy>(a: &[T], b: &[T], out: &mut [T], f: impl Fn(T, T) -> T) {
    match (a, b) {
        (&[x], _) => map(b, out, |y| f(x, y)),
        (_, &[y]) => map(a, out, |x| f(x, y)),
        _ => pairs(a, b, out, f),
    }
}

#[inline(always)]
fn pairs<T: Copy>(a: &[T], b: &[T], out: &mut [T], f: impl Fn(T, T) -> T) {
    out.iter_mut().zip(a).zip(b).for_each(|((out, &x), &y)| *out = f(x, y));
}

/// Applies a function to three operands, of which not all are constants.
#[inline(always)]
fn triples<T: Copy>(a: &[T], b: &[T], c: &[T], out: &mut [T], f: impl Fn(T, T, T) -> T) {
    match (a, b, c) {
        (&[x], _, &[z]) => map(b, out, |y| f(x, y, z)),
        (_, &[y], &[z]) => map(a, out, |x| f(x, y, z)),
        (_, _, &[z]) => pairs(a, b, out, |x, y| f(x, y, z)),
        (&[x], _, _) => pairs(b, c, out, |y, z| f(x, y, z)),
        (_, &[y], _) => pairs(a, c, out, |x, z| f(x, y, z)),
        _ => {
            let cells = out.iter_mut().zip(a).zip(b).zip(c);
            cells.for_each(|(((out, &x), &y), &z)| *out = f(x, y, z));
        }
    }
}

/// One bit per pair, from a comparison operator.
#[inline(always)]
pub(super) fn compare<T: Copy + PartialOrd<U>, U: Copy>(op: Binary, a: &[T], b: &[U], out: &mut [u64]) {
    match op {
        Binary::Eq => bits::compare(a, b, out, |x, y| x == y),
        Binary::Ne => bits::compare(a, b, out, |x, y| x != y),
        Binary::Lt => bits::compare(a, b, out, |x, y| x < y),
        Binary::Le => bits::compare(a, b, out, |x, y| x <= y),
        Binary::Gt => bits::compare(a, b, out, |x, y| x > y),
        _ => bits::compare(a, b, out, |x, y| x >= y),
    }
}

macro_rules! cast {
    () => {
        #[inline(always)]
        fn cast(a: &[Self], out: &mut Buffer, cells: usize) {
            macro_rules! convert {
                ($out:expr, $to:ty) => {
                    map(a, $out.get_mut(..cells).unwrap_or_default(), |x| x as $to)
                };
            }
            match out {
                Buffer::Bits(out) => {
                    Self::test(Unary::Not, a, out.get_mut(..cells.div_ceil(64)).unwrap_or_default())
                }
                Buffer::I1(out) => convert!(out, i8),
                Buffer::I2(out) => convert!(out, i16),
                Buffer::I4(out) => convert!(out, i32),
                Buffer::I8(out) => convert!(out, i64),
                Buffer::U1(out) => convert!(out, u8),
                Buffer::U2(out) => convert!(out, u16),
                Buffer::U4(out) => convert!(out, u32),
                Buffer::U8(out) => convert!(out, u64),
                Buffer::F4(out) => convert!(out, f32),
                Buffer::F8(out) => convert!(out, f64),
            }
        }
    };
}

/// `signed` or `unsigned` selects the code that differs between the two kinds of integers.
macro_rules! integers {
    ($($t:ident $kind:ident),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn unary(op: Unary, a: &[Self], out: &mut [Self]) {
                match op {
                    Unary::Neg => map(a, out, $t::wrapping_neg),
                    Unary::Invert => map(a, out, |x| !x),
                    Unary::Abs => map(a, out, |x| integers!(@abs $kind x)),
                    Unary::Sign => map(a, out, |x| integers!(@sign $kind x $t)),
                    _ => map(a, out, |x| x),
                }
            }

            #[inline(always)]
            fn binary(op: Binary, a: &[Self], b: &[Self], out: &mut [Self]) {
                match op {
                    Binary::Add => zip(a, b, out, $t::wrapping_add),
                    Binary::Sub => zip(a, b, out, $t::wrapping_sub),
                    Binary::Mul => zip(a, b, out, $t::wrapping_mul),
                    Binary::Min => zip(a, b, out, $t::min),
                    Binary::Max => zip(a, b, out, $t::max),
                    Binary::And => zip(a, b, out, |x, y| x & y),
                    Binary::Or => zip(a, b, out, |x, y| x | y),
                    Binary::Xor => zip(a, b, out, |x, y| x ^ y),
                    Binary::FloorDiv => zip(a, b, out, |x, y| {
                        if y == 0 {
                            return 0;
                        }
                        let quotient = x.wrapping_div(y);
                        let down = integers!(@rounds_up $kind x y);
                        if down { quotient.wrapping_sub(1) } else { quotient }
                    }),
                    Binary::Mod => zip(a, b, out, |x, y| {
                        if y == 0 {
                            return 0;
                        }
                        let rest = x.wrapping_rem(y);
                        let down = integers!(@rounds_up $kind x y);
                        if down { rest.wrapping_add(y) } else { rest }
                    }),
                    Binary::Shl => zip(a, b, out, |x, y| {
                        u32::try_from(y).ok().and_then(|y| x.checked_shl(y)).unwrap_or(0)
                    }),
                    Binary::Shr => zip(a, b, out, |x, y| {
                        let all = integers!(@sign_bits $kind x);
                        u32::try_from(y).ok().and_then(|y| x.checked_shr(y)).unwrap_or(all)
                    }),
                    Binary::Pow => zip(a, b, out, |x, y| {
                        let (mut base, mut left, mut power) = (x, y as u64, 1 as $t);
                        while left > 0 {
                            if left & 1 == 1 {
                                power = power.wrapping_mul(base);
                            }
                            base = base.wrapping_mul(base);
                            left >>= 1;
                        }
                        power
                    }),
                    _ => map(a, out, |x| x),
                }
            }

            fn chain(_: &Chain, _: &[Self], _: &[Self], _: &[Self], _: &mut [Self]) {}

            #[inline(always)]
            fn test(op: Unary, a: &[Self], out: &mut [u64]) {
                match op {
                    Unary::IsNan | Unary::IsInf => out.fill(0),
                    Unary::IsFinite => out.fill(u64::MAX),
                    _ => bits::test(a, out, |x| x != 0),
                }
            }

            cast!();
        }
    )*};
    (@abs signed $x:ident) => { $x.wrapping_abs() };
    (@abs unsigned $x:ident) => { $x };
    (@sign signed $x:ident $t:ident) => { $x.signum() };
    (@sign unsigned $x:ident $t:ident) => { $t::from($x > 0) };
    (@rounds_up signed $x:ident $y:ident) => { ($x < 0) != ($y < 0) && $x.wrapping_rem($y) != 0 };
    (@rounds_up unsigned $x:ident $y:ident) => { false };
    (@sign_bits signed $x:ident) => { if $x < 0 { -1 } else { 0 } };
    (@sign_bits unsigned $x:ident) => { 0 };
}

integers!(i8 signed, i16 signed, i32 signed, i64 signed, u8 unsigned, u16 unsigned, u32 unsigned, u64 unsigned);

macro_rules! floats {
    ($($t:ident),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn unary(op: Unary, a: &[Self], out: &mut [Self]) {
                use Unary::*;
                match op {
                    Neg => map(a, out, |x| -x),
                    Abs => map(a, out, $t::abs),
                    Sign => map(a, out, |x| {
                        if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else if x == 0.0 { 0.0 } else { x }
                    }),
                    Floor => map(a, out, $t::floor),
                    Ceil => map(a, out, $t::ceil),
                    Trunc => map(a, out, $t::trunc),
                    Round => map(a, out, $t::round_ties_even),
                    Sqrt => map(a, out, $t::sqrt),
                    Cbrt => map(a, out, $t::cbrt),
                    Exp => map(a, out, $t::exp),
                    Expm1 => map(a, out, $t::exp_m1),
                    Log => map(a, out, $t::ln),
                    Log2 => map(a, out, $t::log2),
                    Log10 => map(a, out, $t::log10),
                    Log1p => map(a, out, $t::ln_1p),
                    Sin => map(a, out, $t::sin),
                    Cos => map(a, out, $t::cos),
                    Tan => map(a, out, $t::tan),
                    Asin => map(a, out, $t::asin),
                    Acos => map(a, out, $t::acos),
                    Atan => map(a, out, $t::atan),
                    Sinh => map(a, out, $t::sinh),
                    Cosh => map(a, out, $t::cosh),
                    Tanh => map(a, out, $t::tanh),
                    Not | Invert | IsNan | IsInf | IsFinite | Cast(_) => map(a, out, |x| x),
                }
            }

            #[inline(always)]
            fn binary(op: Binary, a: &[Self], b: &[Self], out: &mut [Self]) {
                match op {
                    Binary::Add => zip(a, b, out, |x, y| x + y),
                    Binary::Sub => zip(a, b, out, |x, y| x - y),
                    Binary::Mul => zip(a, b, out, |x, y| x * y),
                    Binary::Div => zip(a, b, out, |x, y| x / y),
                    Binary::FloorDiv => zip(a, b, out, |x, y| floats!(@divided $t x y).0),
                    Binary::Mod => zip(a, b, out, |x, y| floats!(@divided $t x y).1),
                    Binary::Pow => zip(a, b, out, $t::powf),
                    Binary::Min => zip(a, b, out, |x, y| if x <= y || x.is_nan() { x } else { y }),
                    Binary::Max => zip(a, b, out, |x, y| if x >= y || x.is_nan() { x } else { y }),
                    Binary::Atan2 => zip(a, b, out, $t::atan2),
                    Binary::Hypot => zip(a, b, out, $t::hypot),
                    _ => map(a, out, |x| x),
                }
            }

            #[inline(always)]
            fn chain(chain: &Chain, a: &[Self], b: &[Self], c: &[Self], out: &mut [Self]) {
                macro_rules! with {
                    ($op:expr, $f:ident => $body:expr) => {
                        match $op {
                            Binary::Add => {
                                let $f = |x: $t, y: $t| x + y;
                                $body
                            }
                            Binary::Sub => {
                                let $f = |x: $t, y: $t| x - y;
                                $body
                            }
                            _ => {
                                let $f = |x: $t, y: $t| x * y;
                                $body
                            }
                        }
                    };
                }
                with!(chain.first, f => with!(chain.second, g => match chain.is_left {
                    true => triples(a, b, c, out, |x, y, z| g(f(x, y), z)),
                    false => triples(a, b, c, out, |x, y, z| g(z, f(x, y))),
                }));
            }

            #[inline(always)]
            fn test(op: Unary, a: &[Self], out: &mut [u64]) {
                match op {
                    Unary::IsNan => bits::test(a, out, $t::is_nan),
                    Unary::IsInf => bits::test(a, out, $t::is_infinite),
                    Unary::IsFinite => bits::test(a, out, $t::is_finite),
                    _ => bits::test(a, out, |x| x != 0.0),
                }
            }

            cast!();
        }
    )*};
    // Quotient and remainder of floor division, following NumPy's npy_divmod step by step.
    (@divided $t:ident $x:ident $y:ident) => {{
        let mut rest = $x % $y;
        if $y == 0.0 {
            ($x / $y, rest)
        } else {
            let mut quotient = ($x - rest) / $y;
            if rest == 0.0 {
                rest = (0.0 as $t).copysign($y);
            } else if ($y < 0.0) != (rest < 0.0) {
                rest += $y;
                quotient -= 1.0;
            }
            let whole = if quotient == 0.0 {
                (0.0 as $t).copysign($x / $y)
            } else {
                let below = quotient.floor();
                if quotient - below > 0.5 { below + 1.0 } else { below }
            };
            (whole, rest)
        }
    }};
}

floats!(f32, f64);

/// A function of one f8.
pub(crate) fn unary_f8(op: Unary, x: f64) -> f64 {
    let mut out = [x];
    f64::unary(op, &[x], &mut out);
    out[0]
}

/// An operator between two f8 whose result is one.
pub(crate) fn binary_f8(op: Binary, x: f64, y: f64) -> f64 {
    let mut out = [x];
    f64::binary(op, &[x], &[y], &mut out);
    out[0]
}

/// A function of one f4.
pub(crate) fn unary_f4(op: Unary, x: f32) -> f32 {
    let mut out = [x];
    f32::unary(op, &[x], &mut out);
    out[0]
}

/// An operator between two f4 whose result is one.
pub(crate) fn binary_f4(op: Binary, x: f32, y: f32) -> f32 {
    let mut out = [x];
    f32::binary(op, &[x], &[y], &mut out);
    out[0]
}
