//! The types of values, and the common type of two types.
//!
//! Names are NumPy's short ones; the digit counts bytes. Where NumPy would round a 64-bit integer to f8, there
//! is no common type (docs/decisions/102-expressions.md).

use std::fmt;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// A truth value.
    Bool,
    /// A signed integer of one byte.
    I1,
    /// A signed integer of two bytes.
    I2,
    /// A signed integer of four bytes.
    I4,
    /// A signed integer of eight bytes.
    I8,
    /// An unsigned integer of one byte.
    U1,
    /// An unsigned integer of two bytes.
    U2,
    /// An unsigned integer of four bytes.
    U4,
    /// An unsigned integer of eight bytes.
    U8,
    /// A floating-point number of four bytes.
    F4,
    /// A floating-point number of eight bytes.
    F8,
}

impl Type {
    /// Every type, in the order of their codes.
    pub const ALL: [Type; 11] = [
        Type::Bool,
        Type::I1,
        Type::I2,
        Type::I4,
        Type::I8,
        Type::U1,
        Type::U2,
        Type::U4,
        Type::U8,
        Type::F4,
        Type::F8,
    ];

    /// The name in texts: `f4`.
    pub fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::I1 => "i1",
            Type::I2 => "i2",
            Type::I4 => "i4",
            Type::I8 => "i8",
            Type::U1 => "u1",
            Type::U2 => "u2",
            Type::U4 => "u4",
            Type::U8 => "u8",
            Type::F4 => "f4",
            Type::F8 => "f8",
        }
    }

    /// The type of a name, NumPy's short or long one.
    pub fn from_name(name: &str) -> Option<Type> {
        let long = match name {
            "int8" => Type::I1,
            "int16" => Type::I2,
            "int32" => Type::I4,
            "int64" => Type::I8,
            "uint8" => Type::U1,
            "uint16" => Type::U2,
            "uint32" => Type::U4,
            "uint64" => Type::U8,
            "float32" => Type::F4,
            "float64" => Type::F8,
            _ => return Type::ALL.into_iter().find(|t| t.name() == name),
        };
        Some(long)
    }

    /// Size of one value in bytes.
    pub fn size(self) -> usize {
        match self {
            Type::Bool | Type::I1 | Type::U1 => 1,
            Type::I2 | Type::U2 => 2,
            Type::I4 | Type::U4 | Type::F4 => 4,
            Type::I8 | Type::U8 | Type::F8 => 8,
        }
    }

    /// True for f4 and f8.
    pub fn is_float(self) -> bool {
        matches!(self, Type::F4 | Type::F8)
    }

    /// True for integers of either sign.
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// True for signed integers.
    pub fn is_signed(self) -> bool {
        matches!(self, Type::I1 | Type::I2 | Type::I4 | Type::I8)
    }

    /// True for unsigned integers.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Type::U1 | Type::U2 | Type::U4 | Type::U8)
    }

    /// Smallest and largest value of an integer type; `None` for others.
    pub fn limits(self) -> Option<(i128, i128)> {
        let bits = 8 * self.size() as u32;
        if self.is_signed() {
            Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        } else {
            self.is_unsigned().then(|| (0, (1 << bits) - 1))
        }
    }

    /// The type in which both can be computed; `None` if every choice could lose values.
    pub fn promote(self, other: Type) -> Option<Type> {
        if self == other {
            return Some(self);
        }
        let (small, large) = if self.size() <= other.size() { (self, other) } else { (other, self) };
        match (self.is_float(), other.is_float()) {
            (true, true) => Some(Type::F8),
            (true, false) => other.with_float(self),
            (false, true) => self.with_float(other),
            _ if !self.is_integer() || !other.is_integer() => None,
            _ if self.is_signed() == other.is_signed() => Some(large),
            _ if large.is_signed() && large.size() > small.size() => Some(large),
            _ => {
                let unsigned = if self.is_unsigned() { self } else { other };
                [Type::I2, Type::I4, Type::I8].into_iter().find(|t| t.size() > unsigned.size())
            }
        }
    }

    fn with_float(self, float: Type) -> Option<Type> {
        match self.size() {
            _ if self == Type::Bool => None,
            1 | 2 => Some(float),
            4 => Some(Type::F8),
            _ => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
