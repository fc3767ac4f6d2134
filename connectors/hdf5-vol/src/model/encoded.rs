//! Decodes encoded types without asking the library.

use drystone::format::dtype::Scalar;

/// Classes of datatypes (`H5T_class_t`).
pub mod class {
    #![allow(missing_docs, reason = "names of the library")]
    pub const INTEGER: i32 = 0;
    pub const FLOAT: i32 = 1;
    pub const STRING: i32 = 3;
    pub const BITFIELD: i32 = 4;
    pub const OPAQUE: i32 = 5;
    pub const COMPOUND: i32 = 6;
    pub const REFERENCE: i32 = 7;
    pub const ENUM: i32 = 8;
    pub const VLEN: i32 = 9;
    pub const ARRAY: i32 = 10;
    pub const COMPLEX: i32 = 11;
}

/// The type in which values are stored, derived from the encoded type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredType {
    /// A number that the engine knows.
    Number(Scalar),
    /// Bytes.
    Bytes,
}

/// Classifies an encoded type by its first bytes, without asking the library.
///
/// `H5Tencode` writes an object-header message: a byte 3 (its kind), a byte for its version, then class and
/// version in one byte, three bytes of bits, four of size. For numbers offset and precision follow, two bytes
/// each.
pub fn kind(encoded: &[u8], size: u32) -> StoredType {
    number(encoded, size).map_or(StoredType::Bytes, StoredType::Number)
}

fn number(encoded: &[u8], size: u32) -> Option<Scalar> {
    let body = encoded.get(2..)?;
    plain_number(body, size)
}

pub(crate) fn plain_number(body: &[u8], size: u32) -> Option<Scalar> {
    let class = i32::from(body.first()? & 0x0f);
    let bits = body.get(1..4)?;
    let word = |at: usize| Some(u32::from(*body.get(at)?) | u32::from(*body.get(at + 1)?) << 8);
    let long = |at: usize| Some(word(at)? | word(at + 2)? << 16);
    if long(4)? != size {
        return None;
    }
    match class {
        class::INTEGER if word(8)? == 0 && word(10)? == size.saturating_mul(8) => {
            integer(size, bits[0] & 0x08 != 0)
        }
        class::FLOAT if word(8)? == 0 && word(10)? == size.saturating_mul(8) => {
            // Sign, positions and sizes of exponent and mantissa, bias: those of IEEE 754, mantissa
            // normalised.
            let fields = (bits[1], *body.get(12)?, *body.get(13)?, *body.get(14)?, *body.get(15)?, long(16)?);
            match (size, fields) {
                (2, (15, 10, 5, 0, 10, 15)) => Some(Scalar::F16),
                (2, (15, 7, 8, 0, 7, 127)) => Some(Scalar::BF16),
                (4, (31, 23, 8, 0, 23, 127)) => Some(Scalar::F32),
                (8, (63, 52, 11, 0, 52, 1023)) => Some(Scalar::F64),
                _ => None,
            }
            .filter(|_| bits[0] & 0x30 == 0x20)
        }
        // The type of an enumeration follows; its bytes are the same.
        class::ENUM => {
            let base = body.get(8..)?;
            matches!(i32::from(*base.first()? & 0x0f), class::INTEGER).then(|| plain_number(base, size))?
        }
        _ => None,
    }
}

fn integer(size: u32, signed: bool) -> Option<Scalar> {
    Some(match (size, signed) {
        (1, true) => Scalar::I8,
        (2, true) => Scalar::I16,
        (4, true) => Scalar::I32,
        (8, true) => Scalar::I64,
        (1, false) => Scalar::U8,
        (2, false) => Scalar::U16,
        (4, false) => Scalar::U32,
        (8, false) => Scalar::U64,
        _ => return None,
    })
}

/// Whether it is a plain number (or an enumeration of such) stored with the highest byte first.
pub fn is_big_endian(encoded: &[u8], size: u32) -> bool {
    let Some(body) = encoded.get(2..).filter(|_| number(encoded, size).is_some()) else { return false };
    let bits = match i32::from(body[0] & 0x0f) {
        class::ENUM => body.get(9),
        _ => body.get(1),
    };
    bits.is_some_and(|b| b & 1 != 0)
}
