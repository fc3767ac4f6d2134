//! Element types, as HDF5 encodes them.

use crate::number::Number;
use crate::{Id, ObjectOffsets};

/// The type of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datatype {
    /// A number.
    Number(Number),
    /// Text of this many bytes; it ends at the first zero.
    Text(u32),
    /// Bytes of fixed length, padded with zeros: NumPy's `S`.
    Bytes(u32),
    /// Text of any length.
    AnyText,
    /// The address of an object.
    Reference,
    /// A list, of any length, of addresses of objects.
    ReferenceList,
    /// A list, of any length, of numbers.
    NumberList(Number),
    /// Integers, some of which have names.
    Enumeration {
        /// The integers' type.
        base: Number,
        /// Names with their values, which fit the type.
        names: Vec<(String, i128)>,
    },
    /// An array of the same shape in every element.
    Array {
        /// Its extents, at most 32.
        shape: Vec<u32>,
        /// The type of its cells.
        of: Box<Datatype>,
    },
    /// Several values side by side.
    Compound {
        /// Bytes of an element.
        size: u32,
        /// Members in the order of their offsets.
        members: Vec<Member>,
    },
    /// A type that has a name in the file, and its size.
    Named(Id, u32),
}

/// A member of a compound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Bytes from the beginning of the compound.
    pub offset: u32,
    /// Its type.
    pub datatype: Datatype,
}

const TEXT: u8 = 3;
const COMPOUND: u8 = 6;
const REFERENCE: u8 = 7;
const ENUMERATION: u8 = 8;
const VARIABLE: u8 = 9;
const ARRAY: u8 = 10;
const UTF8: u8 = 1;
/// Flag of a text: it is padded with zeros.
const FILLED: u8 = 1;

impl Datatype {
    /// Bytes of an element.
    pub fn size(&self) -> u32 {
        match self {
            Datatype::Number(number) => number.size(),
            Datatype::Text(len) | Datatype::Bytes(len) => *len,
            Datatype::AnyText | Datatype::ReferenceList | Datatype::NumberList(_) => 16,
            Datatype::Enumeration { base, .. } => base.size(),
            Datatype::Array { shape, of } => {
                shape.iter().fold(of.size(), |n, extent| n.saturating_mul(*extent))
            }
            Datatype::Reference => 8,
            Datatype::Compound { size, .. } | Datatype::Named(_, size) => *size,
        }
    }

    /// A complex number: two parts with the names that h5py uses.
    pub fn complex(part: Number) -> Self {
        let member =
            |name: &str, offset| Member { name: name.into(), offset, datatype: Datatype::Number(part) };
        Datatype::Compound { size: 2 * part.size(), members: vec![member("r", 0), member("i", part.size())] }
    }

    /// The body of a datatype message (HDF5 file format, IV.A.2.d).
    ///
    /// `H5Tdecode` expects it after two bytes of its own. `None` for a type that has a name in the file, and for one
    /// that contains such a type.
    pub fn message(&self) -> Option<Vec<u8>> {
        (!self.is_named()).then(|| self.encode(&[]))
    }

    fn is_named(&self) -> bool {
        match self {
            Datatype::Named(..) => true,
            Datatype::Compound { members, .. } => members.iter().any(|member| member.datatype.is_named()),
            Datatype::Array { of, .. } => of.is_named(),
            _ => false,
        }
    }

    /// The message body; for a named type, the reference to it, which the message must be marked as.
    pub(super) fn encode(&self, places: &[ObjectOffsets]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(places, &mut out);
        out
    }

    fn write(&self, places: &[ObjectOffsets], out: &mut Vec<u8>) {
        match self {
            Datatype::Number(number) => write_number(*number, out),
            Datatype::Text(len) => head(1, TEXT, [UTF8 << 4, 0, 0], *len, out),
            Datatype::Bytes(len) => head(1, TEXT, [FILLED, 0, 0], *len, out),
            Datatype::AnyText => {
                head(1, VARIABLE, [1, UTF8, 0], 16, out);
                write_number(Number::U8, out);
            }
            Datatype::Reference => head(1, REFERENCE, [0; 3], 8, out),
            Datatype::ReferenceList => {
                head(1, VARIABLE, [0; 3], 16, out);
                Datatype::Reference.write(places, out);
            }
            Datatype::NumberList(number) => {
                head(1, VARIABLE, [0; 3], 16, out);
                write_number(*number, out);
            }
            Datatype::Enumeration { base, names } => {
                let many = (names.len() as u16).to_le_bytes();
                head(3, ENUMERATION, [many[0], many[1], 0], base.size(), out);
                write_number(*base, out);
                for (name, _) in names {
                    out.extend_from_slice(name.as_bytes());
                    out.push(0);
                }
                for (_, value) in names {
                    out.extend_from_slice(&value.to_le_bytes()[..base.size() as usize]);
                }
            }
            Datatype::Array { shape, of } => {
                head(3, ARRAY, [0; 3], self.size(), out);
                out.push(shape.len() as u8);
                for extent in shape {
                    out.extend_from_slice(&extent.to_le_bytes());
                }
                of.write(places, out);
            }
            Datatype::Compound { size, members } => {
                let many = (members.len() as u16).to_le_bytes();
                head(3, COMPOUND, [many[0], many[1], 0], *size, out);
                let width = (1..4).find(|n| u64::from(*size) < 1 << (8 * n)).unwrap_or(4);
                for member in members {
                    out.extend_from_slice(member.name.as_bytes());
                    out.push(0);
                    out.extend_from_slice(&member.offset.to_le_bytes()[..width]);
                    member.datatype.write(places, out);
                }
            }
            Datatype::Named(id, _) => {
                out.extend_from_slice(&[3, 2]);
                out.extend_from_slice(&places.get(id.0).map_or(0, |p| p.header).to_le_bytes());
            }
        }
    }
}

fn head(version: u8, class: u8, bits: [u8; 3], size: u32, out: &mut Vec<u8>) {
    out.push(version << 4 | class);
    out.extend_from_slice(&bits);
    out.extend_from_slice(&size.to_le_bytes());
}

fn write_number(number: Number, out: &mut Vec<u8>) {
    let size = number.size();
    let bits = (8 * size) as u16;
    // For floats: bits of the exponent and of the mantissa.
    let float = |exponent: u8, mantissa: u8, out: &mut Vec<u8>| {
        head(1, 1, [0x20, (bits - 1) as u8, 0], size, out);
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&[mantissa, exponent, 0, mantissa]);
        out.extend_from_slice(&((1u32 << (exponent - 1)) - 1).to_le_bytes());
    };
    match number {
        Number::F16 => float(5, 10, out),
        Number::BF16 => float(8, 7, out),
        Number::F32 => float(8, 23, out),
        Number::F64 => float(11, 52, out),
        _ => {
            let signed = matches!(number, Number::I8 | Number::I16 | Number::I32 | Number::I64);
            head(1, 0, [if signed { 8 } else { 0 }, 0, 0], size, out);
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&bits.to_le_bytes());
        }
    }
}
