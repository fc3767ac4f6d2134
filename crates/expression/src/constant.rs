//! Constants: computed among themselves as in Python, then converted to the type that they meet.
//!
//! No integer is rounded silently: a constant outside its type is an error. Only the last digits of a float may round.

use std::fmt;

use crate::dense::{binary_f8, unary_f8};
use crate::error::{Error, Kind};
use crate::tree::{Binary, Unary};
use crate::types::Type;

/// One value. Its type is stored beside it. An integer is within its type; an f4 is held as the f8 of the same value.
#[derive(Debug, Clone, Copy)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// A float.
    Float(f64),
}

impl PartialEq for Scalar {
    /// Compares bits: NaN equals itself, -0.0 differs from 0.0.
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            (Scalar::Integer(a), Scalar::Integer(b)) => a == b,
            (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl Eq for Scalar {}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Integer(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value:?}"),
        }
    }
}

impl Scalar {
    /// True if a type holds this integer.
    pub(crate) fn fits(self, dtype: Type) -> bool {
        match (self, dtype.limits()) {
            (Scalar::Integer(n), Some((least, greatest))) => least <= n && n <= greatest,
            _ => false,
        }
    }

    /// The type of a constant that meets no typed operand.
    pub(crate) fn default_type(self) -> Type {
        match self {
            Scalar::Bool(_) => Type::Bool,
            Scalar::Float(_) => Type::F8,
            Scalar::Integer(_) if self.fits(Type::I8) => Type::I8,
            Scalar::Integer(_) => Type::U8,
        }
    }

    /// The constant as a value of the type that it meets.
    pub(crate) fn fit(self, dtype: Type) -> Result<Scalar, Error> {
        let error = |found: String| Err(Error::new(Kind::Constant, found));
        match self {
            Scalar::Integer(n) if dtype.is_float() => {
                let held = if dtype == Type::F4 { f64::from(n as f32) } else { n as f64 };
                if held as i128 == n && held.abs() < 1e30 {
                    return Ok(Scalar::Float(held));
                }
                let found = format!("the integer {n} is not a value of {dtype}; the nearest is {held}");
                Err(Error::new(Kind::Constant, found).help(format!("write {n}.0 to round it")))
            }
            Scalar::Integer(_) if self.fits(dtype) => Ok(self),
            Scalar::Integer(n) => {
                let Some((least, greatest)) = dtype.limits() else {
                    return error(format!("the constant {n} meets truth values"));
                };
                let found =
                    format!("the constant {n} is not a value of {dtype}, which holds {least} to {greatest}");
                Err(Error::new(Kind::Constant, found)
                    .help(format!("cast the other side: {}(...)", self.default_type())))
            }
            Scalar::Float(x) if dtype == Type::F4 => {
                let held = f64::from(x as f32);
                if held.is_infinite() && x.is_finite() {
                    let found = format!("the constant {x:?} is beyond the range of f4");
                    return Err(Error::new(Kind::Constant, found).help("cast the other side: f8(...)"));
                }
                Ok(Scalar::Float(held))
            }
            Scalar::Float(_) if dtype == Type::F8 => Ok(self),
            Scalar::Bool(_) if dtype == Type::Bool => Ok(self),
            _ => error(format!("the constant {self} is not a value of {dtype}")),
        }
    }

    fn float(self) -> Result<f64, Error> {
        match self {
            Scalar::Float(x) => Ok(x),
            _ => match self.fit(Type::F8)? {
                Scalar::Float(x) => Ok(x),
                _ => Err(Error::new(Kind::Constant, format!("the constant {self} is not a number"))),
            },
        }
    }
}

fn integer(n: Option<i128>) -> Result<Scalar, Error> {
    match n.map(Scalar::Integer) {
        Some(n) if n.fits(Type::I8) || n.fits(Type::U8) => Ok(n),
        _ => Err(Error::new(Kind::Constant, "the result has more than 64 bits")
            .help("compute with floats: add `.0`")),
    }
}

/// A function of one numeric constant; `None` for functions that are not arithmetic.
pub(crate) fn unary(op: Unary, a: Scalar) -> Option<Result<Scalar, Error>> {
    use Unary::*;
    let result = match (op, a) {
        (Not | IsNan | IsInf | IsFinite | Cast(_), _) | (_, Scalar::Bool(_)) => return None,
        (Neg, Scalar::Integer(n)) => integer(Some(-n)),
        (Invert, Scalar::Integer(n)) => integer(Some(!n)),
        (Invert, Scalar::Float(_)) => return None,
        (Abs, Scalar::Integer(n)) => integer(Some(n.abs())),
        (Sign, Scalar::Integer(n)) => integer(Some(n.signum())),
        (Floor | Ceil | Trunc | Round, Scalar::Integer(_)) => Ok(a),
        (_, a) => a.float().map(|x| Scalar::Float(unary_f8(op, x))),
    };
    Some(result)
}

/// An operator on two numeric constants; `None` for operators that are not arithmetic.
pub(crate) fn binary(op: Binary, a: Scalar, b: Scalar) -> Option<Result<Scalar, Error>> {
    use Binary::*;
    if matches!(a, Scalar::Bool(_)) || matches!(b, Scalar::Bool(_)) {
        return None;
    }
    if let (Scalar::Integer(a), Scalar::Integer(b)) = (a, b)
        && let Some(result) = integers(op, a, b)
    {
        return Some(result);
    }
    let (a, b) = match (a.float(), b.float()) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
    };
    Some(Ok(match op {
        Or | Xor | And | Shl | Shr => return None,
        Eq => Scalar::Bool(a == b),
        Ne => Scalar::Bool(a != b),
        Lt => Scalar::Bool(a < b),
        Le => Scalar::Bool(a <= b),
        Gt => Scalar::Bool(a > b),
        Ge => Scalar::Bool(a >= b),
        Div | FloorDiv | Mod if b == 0.0 => return Some(Err(division_by_zero())),
        _ => Scalar::Float(binary_f8(op, a, b)),
    }))
}

fn division_by_zero() -> Error {
    Error::new(Kind::Constant, "a constant is divided by the constant 0").help("write `inf` or `nan`")
}

fn integers(op: Binary, a: i128, b: i128) -> Option<Result<Scalar, Error>> {
    use Binary::*;
    let result = match op {
        Add => a.checked_add(b),
        Sub => a.checked_sub(b),
        Mul => a.checked_mul(b),
        FloorDiv | Mod | Div if b == 0 => return Some(Err(division_by_zero())),
        FloorDiv => Some(a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)),
        Mod => Some(a - b * (a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0))),
        Pow if b >= 0 => u32::try_from(b)
            .ok()
            .and_then(|b| a.checked_pow(b))
            .or((a.abs() <= 1).then(|| if b % 2 == 0 { a * a } else { a })),
        Shl => u32::try_from(b).ok().filter(|&b| b < 64).map(|b| a << b),
        Shr => u32::try_from(b).ok().map(|b| a >> b.min(127)),
        And => Some(a & b),
        Or => Some(a | b),
        Xor => Some(a ^ b),
        Min => Some(a.min(b)),
        Max => Some(a.max(b)),
        Eq => return Some(Ok(Scalar::Bool(a == b))),
        Ne => return Some(Ok(Scalar::Bool(a != b))),
        Lt => return Some(Ok(Scalar::Bool(a < b))),
        Le => return Some(Ok(Scalar::Bool(a <= b))),
        Gt => return Some(Ok(Scalar::Bool(a > b))),
        Ge => return Some(Ok(Scalar::Bool(a >= b))),
        Div | Pow | Atan2 | Hypot => return None,
    };
    Some(integer(result))
}
