//! Element types, as HDF5 writes them.

use crate::number::Number;
use crate::{Id, ObjectOffsets};

/// The type of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datatype {
    /// A number.
    Number(Number),
    /// Bytes of text; it ends before them where a zero is.
    Text(u32),
    /// Text of any length.
    AnyText,
    /// The place of an object.
    Reference,
    /// A list of any length of places of objects.
    ReferenceList,
    /// Several values beside each other.
    Compound {
        /// Bytes of the whole.
        size: u32,
        /// In the order of their offsets.
        members: Vec<Member>,
    },
    /// A type that has a name in the file, and how large it is.
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
const VARIABLE: u8 = 9;
const UTF8: u8 = 1;

impl Datatype {
    /// Bytes of an element.
    pub fn size(&self) -> u32 {
        match self {
            Datatype::Number(number) => number.size(),
            Datatype::Text(len) => *len,
            Datatype::AnyText | Datatype::ReferenceList => 16,
            Datatype::Reference => 8,
            Datatype::Compound { size, .. } | Datatype::Named(_, size) => *size,
        }
    }

    /// The two parts of a complex number, under the names that h5py gives them.
    pub fn complex(part: Number) -> Self {
        let member =
            |name: &str, offset| Member { name: name.into(), offset, datatype: Datatype::Number(part) };
        Datatype::Compound { size: 2 * part.size(), members: vec![member("r", 0), member("i", part.size())] }
    }

    /// The message body; of a named type the reference to it, which its message must say it is.
    pub(super) fn encode(&self, places: &[ObjectOffsets]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(places, &mut out);
        out
    }

    fn write(&self, places: &[ObjectOffsets], out: &mut Vec<u8>) {
        match self {
            Datatype::Number(number) => write_number(*number, out),
            Datatype::Text(len) => head(1, TEXT, [UTF8 << 4, 0, 0], *len, out),
            Datatype::AnyText => {
                head(1, VARIABLE, [1, UTF8, 0], 16, out);
                write_number(Number::U8, out);
            }
            Datatype::Reference => head(1, REFERENCE, [0; 3], 8, out),
            Datatype::ReferenceList => {
                head(1, VARIABLE, [0; 3], 16, out);
                Datatype::Reference.write(places, out);
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
    // Of floats: bits of the exponent and of the mantissa.
    let float = |exponent: u8, mantissa: u8, out: &mut Vec<u8>| {
        head(1, 1, [0x20, (bits - 1) as u8, 0], size, out);
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&bits.to_le_bytes());
        out.extend_from_slice(&[mantissa, exponent, 0, mantissa]);
        out.extend_from_slice(&((1u32 << (exponent - 1)) - 1).to_le_bytes());
    };
    match number {
        Number::F16 => float(5, 10, out),
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
