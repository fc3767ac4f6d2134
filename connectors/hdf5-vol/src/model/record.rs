//! Compound types as records of the engine, so that their members are columns, and tools without HDF5 show
//! them by name.
//!
//! The input is the message that `H5Tencode` writes, in versions 1 to 5 of HDF5's file format specification
//! (IV.A.2.d). The record has HDF5's offsets and size, so that the bytes of an element are the same on both
//! sides. Members of types that the engine does not have (strings, references, values of variable length, odd
//! numbers) are bytes of their size.
//!
//! Invariant: the bytes are untrusted; a type that does not fit is `None`, and the compound is stored as
//! bytes.

use std::collections::BTreeMap;

use drystone::format::dtype::{DType, Member, Record, Scalar, limit};
use drystone::format::meaning::Meaning;

use crate::model::encoded::{class, plain_number};

/// Greatest nesting of types; as deep as the engine's records go.
const DEEPEST: usize = limit::NESTING + 4;

/// The record for an encoded compound of this many bytes.
pub fn record(encoded: &[u8], size: u32) -> Option<DType> {
    let body = encoded.get(2..)?;
    if body.first()? & 0x0f != class::COMPOUND as u8 {
        return None;
    }
    let (found, _) = read(body, 0)?;
    (found.size == size && found.shape.is_empty() && found.dtype.validate().is_ok()).then_some(found.dtype)
}

/// The names of the values of an enumeration, or of the enumerations in a compound, which is stored as `dtype`.
pub fn meaning(encoded: &[u8], dtype: &DType) -> Option<Meaning> {
    let (found, _) = read(encoded.get(2..)?, 0)?;
    found.meaning.filter(|meaning| meaning.validate(dtype).is_ok())
}

/// A type, the shape if it is an array, and the names of an enumeration's values.
struct ParsedType {
    dtype: DType,
    shape: Vec<u64>,
    size: u32,
    meaning: Option<Meaning>,
}

/// Bytes that are consumed from the start.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    /// A little-endian number of up to 4 bytes.
    fn number(&mut self, n: usize) -> Option<u32> {
        Some(self.take(n)?.iter().rev().fold(0, |a, b| a << 8 | u32::from(*b)))
    }

    /// A text that ends with a zero; up to version 2 zeros fill it to a multiple of 8.
    fn name(&mut self, version: u8) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|b| *b == 0)?;
        let len = if version < 3 { (end + 1).next_multiple_of(8) } else { end + 1 };
        Some(&self.take(len)?[..end])
    }
}

/// The type at the start of a message, and the bytes after it.
fn read(body: &[u8], depth: usize) -> Option<(ParsedType, &[u8])> {
    if depth > DEEPEST {
        return None;
    }
    let mut at = Bytes(body);
    let head = at.number(1)?;
    let (version, class) = ((head >> 4) as u8, (head & 0x0f) as i32);
    let bits = at.number(3)?;
    let size = at.number(4)?;
    let mut dtype = DType::Bytes(size);
    let mut shape = Vec::new();
    let mut meaning = None;
    match class {
        class::INTEGER | class::BITFIELD => drop(at.take(4)?),
        class::FLOAT => drop(at.take(12)?),
        2 => drop(at.take(2)?), // a time
        class::STRING | class::REFERENCE => {}
        class::OPAQUE => drop(at.take(((bits & 0xff) as usize).next_multiple_of(8))?),
        class::COMPOUND => {
            let mut meanings = BTreeMap::new();
            let members = (0..bits & 0xffff)
                .map(|_| {
                    let (member, below) = member(&mut at, version, size, depth)?;
                    meanings.extend(below.map(|below| (member.name.clone(), below)));
                    Some(member)
                })
                .collect::<Option<_>>()?;
            dtype = DType::Record(Record { itemsize: size, members });
            meaning = (!meanings.is_empty()).then_some(Meaning::Members(meanings));
        }
        class::ENUM => {
            let (base, rest) = read(at.0, depth + 1)?;
            at.0 = rest;
            let names: Vec<_> = (0..bits & 0xffff).map(|_| at.name(version)).collect::<Option<_>>()?;
            let values = at.take(names.len() * base.size as usize)?;
            meaning = named(&names, values, &base.dtype);
        }
        class::VLEN | class::COMPLEX => at.0 = read(at.0, depth + 1)?.1,
        class::ARRAY => {
            let rank = at.number(1)? as usize;
            if version < 3 {
                at.take(3)?;
            }
            for _ in 0..rank {
                shape.push(u64::from(at.number(4)?));
            }
            if version < 3 {
                at.take(4 * rank)?;
            }
            let (base, rest) = read(at.0, depth + 1)?;
            at.0 = rest;
            shape.extend(&base.shape);
            dtype = base.dtype;
            meaning = base.meaning;
        }
        _ => return None,
    }
    // Members are stored as in the program's type: a number in the other byte order is not the engine's
    // number.
    let order = if class == class::ENUM { body.get(9) } else { body.get(1) };
    if let (Some(scalar), Some(0)) = (plain_number(body, size), order.map(|bits| bits & 1)) {
        dtype = DType::Scalar(scalar);
    }
    let meaning = meaning.filter(|meaning| meaning.validate(&dtype).is_ok());
    Some((ParsedType { dtype, shape, size, meaning }, at.0))
}

/// The names of an enumeration; `None` if one is not UTF-8, or the integers are not in the engine's byte order.
fn named(names: &[&[u8]], values: &[u8], base: &DType) -> Option<Meaning> {
    let DType::Scalar(scalar) = base else { return None };
    let size = scalar.size() as usize;
    let signed = matches!(scalar, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64);
    let number = |bytes: &[u8]| {
        let minus = signed && bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut wide = [if minus { 0xff } else { 0 }; 16];
        wide.get_mut(..size)?.copy_from_slice(bytes);
        Some(i128::from_le_bytes(wide))
    };
    let one =
        |(name, bytes): (&&[u8], &[u8])| Some((std::str::from_utf8(name).ok()?.to_owned(), number(bytes)?));
    names.iter().zip(values.chunks_exact(size)).map(one).collect::<Option<_>>().map(Meaning::Names)
}

fn member(at: &mut Bytes<'_>, version: u8, size: u32, depth: usize) -> Option<(Member, Option<Meaning>)> {
    let name = std::str::from_utf8(at.name(version)?).ok()?.to_string();
    let offset = match version {
        0..=2 => at.number(4)?,
        _ => at.number((1..4).find(|n| size >> (8 * n) == 0).unwrap_or(4))?,
    };
    let rank = if version == 1 { at.number(1)? as usize } else { 0 };
    let mut shape = Vec::new();
    if version == 1 {
        at.take(3 + 4 + 4)?;
        for axis in 0..4 {
            let n = u64::from(at.number(4)?);
            shape.extend((axis < rank).then_some(n));
        }
    }
    let (found, rest) = read(at.0, depth + 1)?;
    at.0 = rest;
    shape.extend(found.shape);
    Some((Member { name, dtype: found.dtype, shape, offset }, found.meaning))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;

    /// `H5Tencode` of {"i": int32, "v": float64[2][3], "s": string of 5, "in": {"b": uint8, "r": reference}}
    /// as HDF5 writes it.
    fn example(version: u8) -> Vec<u8> {
        let name = |text: &str| {
            let mut out = [text.as_bytes(), &[0]].concat();
            if version < 3 {
                out.resize(out.len().next_multiple_of(8), 0);
            }
            out
        };
        let place = |n: u8| if version < 3 { vec![n, 0, 0, 0] } else { vec![n] };
        let int = |size: u8, bits: u8| vec![0x10, bits, 0, 0, size, 0, 0, 0, 0, 0, size * 8, 0];
        let float = vec![0x11, 0x20, 63, 0, 8, 0, 0, 0, 0, 0, 64, 0, 52, 11, 0, 52, 0xff, 3, 0, 0];
        let mut array = vec![version << 4 | 10, 0, 0, 0, 48, 0, 0, 0, 2];
        array.extend(if version < 3 { vec![0; 3] } else { vec![] });
        array.extend([2, 0, 0, 0, 3, 0, 0, 0]);
        array.extend(if version < 3 { vec![0; 8] } else { vec![] });
        array.extend(float);
        let string = vec![0x13, 0, 0, 0, 5, 0, 0, 0];
        let reference = vec![0x17, 0, 0, 0, 8, 0, 0, 0];
        let compound = |size: u8, members: Vec<(&str, u8, Vec<u8>)>| {
            let mut out = vec![version << 4 | 6, members.len() as u8, 0, 0, size, 0, 0, 0];
            for (text, at, dtype) in members {
                out.extend([name(text), place(at), dtype].concat());
            }
            out
        };
        let inner = compound(9, vec![("b", 0, int(1, 0)), ("r", 1, reference)]);
        let members = vec![("i", 0, int(4, 8)), ("v", 8, array), ("s", 56, string), ("in", 61, inner)];
        [vec![3, 0], compound(72, members)].concat()
    }

    #[test]
    fn members_keep_their_names_places_and_kinds() {
        for version in [2, 3] {
            let found = record(&example(version), 72).unwrap();
            assert_eq!(
                found.to_string(),
                "record{i: int32, v: float64[2][3], s: bytes(5), in: record{b: uint8, r: bytes(8)}}"
            );
            let offsets: Vec<u32> = found.leaves().iter().map(|leaf| leaf.offset).collect();
            assert_eq!((found.item_size(), offsets), (72, vec![0, 8, 56, 61, 62]));
        }
    }

    #[test]
    fn enumerations_keep_their_names() {
        // H5Tencode of an enumeration of int16: {"off": -1, "on": 256}.
        for version in [1, 3] {
            let mut encoded = vec![3, 0, version << 4 | 8, 2, 0, 0, 2, 0, 0, 0];
            encoded.extend([0x10, 0x08, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0]);
            for name in ["off", "on"] {
                let mut bytes = [name.as_bytes(), &[0]].concat();
                if version < 3 {
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                }
                encoded.extend(bytes);
            }
            encoded.extend([0xff, 0xff, 0, 1]);
            let int = DType::Scalar(Scalar::I16);
            let names = Meaning::Names(vec![("off".into(), -1), ("on".into(), 256)]);
            assert_eq!(meaning(&encoded, &int), Some(names));
            assert_eq!(meaning(&encoded, &DType::Bytes(2)), None);
            for end in 0..encoded.len() {
                assert_eq!(meaning(&encoded[..end], &int), None, "{end}");
            }
        }
    }

    #[test]
    fn numbers_with_the_highest_byte_first_are_bytes() {
        let mut whole = example(3);
        let (head, number) = (10, 3); // the name "i" and the place of the member stand before its type
        assert_eq!(whole[head..head + number], [b'i', 0, 0]);
        whole[head + number + 1] |= 1;
        assert!(record(&whole, 72).unwrap().to_string().starts_with("record{i: bytes(4), v: float64[2][3],"));
    }

    #[test]
    fn a_compound_that_does_not_fit_is_no_record() {
        let whole = example(3);
        assert_eq!(record(&whole, 71), None);
        for end in 0..whole.len() {
            assert_eq!(record(&whole[..end], 72), None, "{end}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                let _ = record(&changed, 72); // a value or none, no panic
            }
        }
    }
}
