//! Element types of the engine as types of HDF5: for containers that HDF5 programs did not write.
//!
//! The bytes of an element of fixed size are the same on both sides. A `bool` is an enumeration, as in h5py; a text of
//! UTF-32 is an array of code points; a complex number is a compound of `r` and `i`.
//!
//! The engine refers to a value of any length by 16 bytes, HDF5 by [`VARIABLE`]. So in a record with such members, each
//! of them moves the following members by the difference ([`stored_offset`]).

use drystone_format::dtype::{DType, Record, Scalar};
use drystone_format::meaning::Meaning;
use drystone_hdf5_file::{Datatype, Member, Number};

use crate::model::catalogue::MAX_NDIM;
use crate::model::tree::StoredType;

/// Bytes of a stored element of variable length: its length, and where it is kept ([`crate::calls::blob`]).
pub const VARIABLE: u32 = 20;

/// Bytes by which a stored element of variable length is longer than the engine's reference.
const LONGER: u32 = VARIABLE - 16;

/// The stored type of a variable's elements; `None` where HDF5 has none.
pub fn stored(dtype: &DType, meaning: Option<&Meaning>) -> Option<StoredType> {
    let datatype = datatype(dtype, meaning)?;
    let many = dtype.leaves().iter().filter(|leaf| leaf.dtype.is_blob()).map(|leaf| leaf.repeat).sum();
    of(&datatype, stored_offset(datatype.size(), many)?)
}

/// The offset in a stored element of what follows `many` values of any length and has this offset in the engine's
/// element. `None` if HDF5 has no elements of that size.
pub fn stored_offset(offset: u32, many: u64) -> Option<u32> {
    u32::try_from(many).ok()?.checked_mul(LONGER)?.checked_add(offset)
}

/// A type with the size of an element.
pub fn plain(datatype: &Datatype) -> Option<StoredType> {
    of(datatype, datatype.size())
}

/// As `H5Tencode` writes it: the message behind its kind and version.
fn of(datatype: &Datatype, size: u32) -> Option<StoredType> {
    Some(StoredType { encoded: [vec![3, 0], datatype.message()?].concat(), size, committed: None })
}

fn datatype(dtype: &DType, meaning: Option<&Meaning>) -> Option<Datatype> {
    Some(match dtype {
        DType::Scalar(Scalar::Bool) => {
            let names = vec![("FALSE".into(), 0), ("TRUE".into(), 1)];
            Datatype::Enumeration { base: Number::I8, names }
        }
        DType::Scalar(Scalar::C64) => Datatype::complex(Number::F32),
        DType::Scalar(Scalar::C128) => Datatype::complex(Number::F64),
        DType::Scalar(scalar) => {
            let base = number(*scalar)?;
            match meaning {
                Some(Meaning::Names(names)) => Datatype::Enumeration { base, names: names.clone() },
                _ => Datatype::Number(base),
            }
        }
        DType::Bytes(len) => Datatype::Bytes(*len),
        DType::Unicode(len) => {
            Datatype::Array { shape: vec![*len], of: Box::new(Datatype::Number(Number::U32)) }
        }
        DType::Record(record) => compound(record, meaning)?,
        DType::String => Datatype::AnyText,
        DType::Ragged(scalar) => Datatype::NumberList(number(*scalar)?),
    })
}

fn compound(record: &Record, meaning: Option<&Meaning>) -> Option<Datatype> {
    let below = |name: &str| match meaning {
        Some(Meaning::Members(members)) => members.get(name),
        _ => None,
    };
    let members = record.members.iter().map(|member| {
        let cell = datatype(&member.dtype, below(&member.name))?;
        let shape: Vec<u32> = member.shape.iter().map(|n| u32::try_from(*n).ok()).collect::<Option<_>>()?;
        let datatype = match shape.len() {
            0 => cell,
            n if n > MAX_NDIM || shape.contains(&0) => return None,
            _ => Datatype::Array { shape, of: Box::new(cell) },
        };
        Some(Member { name: member.name.clone(), offset: member.offset, datatype })
    });
    Some(Datatype::Compound { size: record.itemsize, members: members.collect::<Option<_>>()? })
}

fn number(scalar: Scalar) -> Option<Number> {
    Some(match scalar {
        Scalar::I8 => Number::I8,
        Scalar::I16 => Number::I16,
        Scalar::I32 => Number::I32,
        Scalar::I64 => Number::I64,
        Scalar::Bool | Scalar::U8 => Number::U8,
        Scalar::U16 => Number::U16,
        Scalar::U32 => Number::U32,
        Scalar::U64 => Number::U64,
        Scalar::F16 => Number::F16,
        Scalar::BF16 => Number::BF16,
        Scalar::F32 => Number::F32,
        Scalar::F64 => Number::F64,
        Scalar::C64 | Scalar::C128 => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;
    use crate::model::encoded::{StoredType as Kind, kind};
    use crate::model::record;
    use drystone_format::dtype;

    #[test]
    fn encoded_types_are_recognised() {
        let scalars = [
            Scalar::I8,
            Scalar::I16,
            Scalar::I32,
            Scalar::I64,
            Scalar::U8,
            Scalar::U16,
            Scalar::U32,
            Scalar::U64,
            Scalar::F16,
            Scalar::BF16,
            Scalar::F32,
            Scalar::F64,
        ];
        for scalar in scalars {
            let made = stored(&DType::Scalar(scalar), None).unwrap();
            assert_eq!(kind(&made.encoded, made.size), Kind::Number(scalar), "{scalar:?}");
        }
        let names = Meaning::Names(vec![("off".into(), -1), ("on".into(), 256)]);
        let i16 = DType::Scalar(Scalar::I16);
        let made = stored(&i16, Some(&names)).unwrap();
        assert_eq!(record::meaning(&made.encoded, &i16), Some(names));
    }

    #[test]
    fn records_keep_their_members_and_padding() {
        let member = |name: &str, dtype: DType, shape: Vec<u64>, offset| dtype::Member {
            name: name.into(),
            dtype,
            shape,
            offset,
        };
        let inner = DType::Record(Record {
            itemsize: 16,
            members: vec![
                member("a", DType::Scalar(Scalar::U8), vec![], 0),
                member("b", DType::Scalar(Scalar::F64), vec![], 8),
            ],
        });
        let outer = Record {
            itemsize: 64,
            members: vec![
                member("in", inner, vec![2], 0),
                member("v", DType::Scalar(Scalar::F32), vec![2, 3], 32),
                member("s", DType::Bytes(5), vec![], 56),
            ],
        };
        let made = stored(&DType::Record(outer.clone()), None).unwrap();
        assert_eq!(record::record(&made.encoded, 64), Some(DType::Record(outer)));
    }

    #[test]
    fn values_of_any_length_take_20_bytes() {
        assert_eq!(stored(&DType::String, None).unwrap().size, 20);
        let member =
            |name: &str, dtype, shape, offset| dtype::Member { name: name.into(), dtype, shape, offset };
        let inner = DType::Record(Record {
            itemsize: 17,
            members: vec![
                member("hits", DType::Ragged(Scalar::F32), vec![], 0),
                member("on", DType::Scalar(Scalar::Bool), vec![], 16),
            ],
        });
        let members = vec![
            member("id", DType::Scalar(Scalar::I32), vec![], 0),
            member("names", DType::String, vec![3], 4),
            member("in", inner, vec![2], 52),
        ];
        let record = DType::Record(Record { itemsize: 86, members });
        assert_eq!(stored(&record, None).unwrap().size, 4 + 3 * 20 + 2 * (20 + 1));
        assert_eq!(stored_offset(u32::MAX, 1), None);
    }

    #[test]
    fn types_that_hdf5_lacks_have_none() {
        let member =
            dtype::Member { name: "s".into(), dtype: DType::Ragged(Scalar::C64), shape: vec![], offset: 0 };
        let record = DType::Record(Record { itemsize: 16, members: vec![member] });
        assert_eq!(stored(&record, None), None);
        assert_eq!(stored(&DType::Ragged(Scalar::C64), None), None);
    }
}
