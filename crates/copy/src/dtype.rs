//! Element types, as far as a copy must know them to convert numbers.

use std::fmt;

/// A kind of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the Rust types")]
#[repr(u8)]
pub enum NumberKind {
    U8 = 0,
    U16 = 1,
    U32 = 2,
    U64 = 3,
    I8 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    F32 = 8,
    F64 = 9,
    /// IEEE 754 binary16.
    F16 = 10,
    /// The upper half of a binary32.
    BF16 = 11,
    /// Two `F32`: real and imaginary part.
    C64 = 12,
    /// Two `F64`.
    C128 = 13,
}

impl NumberKind {
    /// Every kind, in the order of its number in the wire format.
    pub const ALL: [NumberKind; 14] = [
        NumberKind::U8,
        NumberKind::U16,
        NumberKind::U32,
        NumberKind::U64,
        NumberKind::I8,
        NumberKind::I16,
        NumberKind::I32,
        NumberKind::I64,
        NumberKind::F32,
        NumberKind::F64,
        NumberKind::F16,
        NumberKind::BF16,
        NumberKind::C64,
        NumberKind::C128,
    ];

    /// Size of one number in bytes.
    pub fn bytes(self) -> usize {
        match self {
            NumberKind::U8 | NumberKind::I8 => 1,
            NumberKind::U16 | NumberKind::I16 | NumberKind::F16 | NumberKind::BF16 => 2,
            NumberKind::U32 | NumberKind::I32 | NumberKind::F32 => 4,
            NumberKind::U64 | NumberKind::I64 | NumberKind::F64 | NumberKind::C64 => 8,
            NumberKind::C128 => 16,
        }
    }

    /// Whether every value of this kind has an equal value in `to`.
    pub fn widens_to(self, to: NumberKind) -> bool {
        /// Returns (bits of magnitude, bits of exponent, signed, complex).
        fn reach(kind: NumberKind) -> (usize, usize, bool, bool) {
            match kind {
                NumberKind::F16 => (11, 5, true, false),
                NumberKind::BF16 => (8, 8, true, false),
                NumberKind::F32 => (24, 8, true, false),
                NumberKind::F64 => (53, 11, true, false),
                NumberKind::C64 => (24, 8, true, true),
                NumberKind::C128 => (53, 11, true, true),
                NumberKind::U8 | NumberKind::U16 | NumberKind::U32 | NumberKind::U64 => {
                    (8 * kind.bytes(), 0, false, false)
                }
                NumberKind::I8 | NumberKind::I16 | NumberKind::I32 | NumberKind::I64 => {
                    (8 * kind.bytes() - 1, 0, true, false)
                }
            }
        }
        let ((bits, exponent, signed, complex), (to_bits, to_exponent, to_signed, to_complex)) =
            (reach(self), reach(to));
        bits <= to_bits && exponent <= to_exponent && (to_signed || !signed) && (to_complex || !complex)
    }
}

/// The representation of a number in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dtype {
    /// The kind of number.
    pub kind: NumberKind,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

impl Dtype {
    /// A number with the least significant byte first.
    pub const fn little(kind: NumberKind) -> Self {
        Dtype { kind, big_endian: false }
    }

    /// A number with the most significant byte first.
    pub const fn big(kind: NumberKind) -> Self {
        Dtype { kind, big_endian: true }
    }

    /// Whether both types represent every value by the same bytes.
    pub fn same_bytes(self, other: Dtype) -> bool {
        self.kind == other.kind && (self.big_endian == other.big_endian || self.kind.bytes() == 1)
    }

    /// The type as one byte, for [`from_byte`](Self::from_byte).
    pub fn to_byte(self) -> u8 {
        self.kind as u8 | u8::from(self.big_endian) << 7
    }

    /// The type that a byte stands for; `None` if there is none.
    pub fn from_byte(byte: u8) -> Option<Self> {
        let kind = *NumberKind::ALL.get(usize::from(byte & 0x7F))?;
        Some(Dtype { kind, big_endian: byte & 0x80 != 0 })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.kind, if self.big_endian { " big-endian" } else { "" })
    }
}

/// What to do with a value that the destination's type cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Narrowing {
    /// Refuse, when the rule is compiled, every conversion that could lose something.
    #[default]
    Refuse,
    /// The nearest value that fits: integers stop at their limits, floats round to nearest and overflow to infinity,
    /// fractions are truncated towards zero, NaN becomes the integer 0. A complex number that is converted to a real
    /// one loses its imaginary part.
    Saturate,
    /// Integers keep their low bits; otherwise like [`Saturate`](Narrowing::Saturate).
    Wrap,
}
