//! How an HDF5 element is kept in the container: as what it is where the engine knows it, members by name, else as bytes.

use drystone::NewVariable;
use drystone::format::MAX_NDIM;
use drystone::format::dtype::{DType, Scalar, limit};
use drystone::format::schema::Attrs;

use crate::record::record;
use crate::tree::{Dataset, Filter, Space};

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

/// A variable's type, and whether a trailing axis holds the bytes of an element.
#[derive(Debug, Clone)]
pub struct Element {
    /// Of one cell of the variable.
    pub dtype: DType,
    /// Bytes of an element, where they have an axis of their own.
    pub trailing: Option<u64>,
}

impl Element {
    /// Of a variable that keeps elements of so many bytes.
    pub fn of(dtype: &DType, size: u32) -> Self {
        let trailing = (dtype.item_size() != size).then_some(u64::from(size));
        Element { dtype: dtype.clone(), trailing }
    }

    /// A first cell, with the axis of bytes.
    pub fn first(&self, first: &[u64]) -> Vec<u64> {
        first.iter().copied().chain(self.trailing.map(|_| 0)).collect()
    }

    /// Sizes, with the axis of bytes.
    pub fn count(&self, count: &[u64]) -> Vec<u64> {
        count.iter().copied().chain(self.trailing).collect()
    }
}

/// The type that bytes are kept as, by what the library says of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that the engine knows.
    Number(Scalar),
    /// Bytes.
    Bytes,
}

/// The first byte of an encoded type that says what is in it, without asking the library.
///
/// `H5Tencode` writes an object-header message: a byte 3 (its kind), a byte for its version, then class and version in one byte,
/// three bytes of bits, four of size. For numbers there follow offset and precision, two bytes each.
pub fn kind(encoded: &[u8], size: u32) -> Kind {
    number(encoded, size).map_or(Kind::Bytes, Kind::Number)
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
            // Sign, places and sizes of exponent and mantissa, bias: those of IEEE 754, mantissa normalised.
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

/// Is a plain number (or an enumeration of such) stored with the highest byte first?
pub fn is_big_endian(encoded: &[u8], size: u32) -> bool {
    let Some(body) = encoded.get(2..).filter(|_| number(encoded, size).is_some()) else { return false };
    let bits = match i32::from(body[0] & 0x0f) {
        class::ENUM => body.get(9),
        _ => body.get(1),
    };
    bits.is_some_and(|b| b & 1 != 0)
}

/// The variable for a dataset; `None` for one without values.
pub fn variable(dataset: &Dataset) -> Option<NewVariable> {
    if dataset.space == Space::Null {
        return None;
    }
    let size = dataset.dtype.size;
    let enum_big = is_big_endian(&dataset.dtype.encoded, size)
        && dataset.dtype.encoded.get(2).is_some_and(|b| i32::from(b & 0x0f) == class::ENUM);
    let (dtype, trailing) = match kind(&dataset.dtype.encoded, size) {
        Kind::Number(scalar) if !enum_big => (DType::Scalar(scalar), false),
        _ if u64::from(size) <= limit::ITEM_SIZE => {
            (record(&dataset.dtype.encoded, size).unwrap_or(DType::Bytes(size)), false)
        }
        _ => (DType::Scalar(Scalar::U8), true),
    };
    let (dims, max) = match &dataset.space {
        Space::Simple(dims, max) => (dims.clone(), max.clone()),
        _ => (Vec::new(), Vec::new()),
    };
    let mut shape: Vec<Option<u64>> = dims.iter().zip(&max).map(|(n, m)| (n == m).then_some(*n)).collect();
    if trailing {
        shape.push(Some(u64::from(size)));
    }
    if shape.len() > MAX_NDIM {
        return None;
    }
    Some(NewVariable {
        transform: transform(&dataset.properties.filters, &dtype),
        fill: dataset.unwritten().filter(|_| !trailing).map(<[u8]>::to_vec),
        dtype,
        shape,
        dims: Vec::new(),
        steps: false,
        local: false,
        chunks: None,
        attrs: Attrs::new(),
        access: String::new(),
    })
}

/// Filters that are kept by a transform, or by nothing at all because the engine does it always (checksums).
pub fn is_known_filter(id: i32) -> bool {
    matches!(id, 1..=6 | 307 | 32000 | 32001 | 32004 | 32008 | 32015)
}

/// The transform for a pipeline of filters.
fn transform(filters: &[Filter], dtype: &DType) -> String {
    let number = matches!(dtype, DType::Scalar(_)) && dtype.item_size() > 1;
    let mut words: Vec<String> = Vec::new();
    for filter in filters {
        let value = |i: usize, default: u32| filter.values.get(i).copied().unwrap_or(default);
        let word = match filter.id {
            1 => format!("zlib:{}", value(0, 6).clamp(1, 9)),
            2 if number => "shuffle".into(),
            307 => "bzip2".into(),
            4..=6 => "zstd:1".into(),
            32008 if number => "bitshuffle".into(),
            32000 | 32001 | 32004 => "lz4".into(),
            32015 => format!("zstd:{}", value(0, 3).clamp(1, 19)),
            _ => continue,
        };
        words.push(word);
    }
    if words.iter().all(|w| w.contains("shuffle")) { String::new() } else { words.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_recognised_by_their_encoding() {
        let f64le = [3, 0, 0x11, 0x20, 0x3f, 0, 8, 0, 0, 0, 0, 0, 64, 0, 52, 11, 0, 52, 0xff, 3, 0, 0];
        assert_eq!(kind(&f64le, 8), Kind::Number(Scalar::F64));
        let i32be = [3, 0, 0x10, 0x09, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0];
        assert_eq!(kind(&i32be, 4), Kind::Number(Scalar::I32));
        assert!(is_big_endian(&i32be, 4) && !is_big_endian(&f64le, 8));
        assert_eq!(kind(&i32be, 8), Kind::Bytes);
        assert_eq!(kind(&[3, 0], 4), Kind::Bytes);
    }

    #[test]
    fn pipelines_become_chains() {
        let f = |id, values: &[u32]| Filter { id, flags: 0, values: values.to_vec() };
        let number = DType::Scalar(Scalar::F32);
        assert_eq!(transform(&[f(2, &[4]), f(1, &[4])], &number), "shuffle,zlib:4");
        assert_eq!(transform(&[f(2, &[4]), f(1, &[4])], &DType::Bytes(20)), "zlib:4");
        assert_eq!(transform(&[f(3, &[])], &number), "");
    }
}
