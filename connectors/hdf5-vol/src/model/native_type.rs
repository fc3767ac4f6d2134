//! Element types of the engine as types of HDF5: for containers that HDF5 programs did not write.
//!
//! The bytes of an element are the same on both sides. A `bool` is the enumeration that h5py makes of it, a text of
//! UTF-32 an array of code points, and a complex number a compound of `r` and `i`.

use drystone_format::dtype::{DType, Record, Scalar};
use drystone_format::meaning::Meaning;
use drystone_hdf5_file::{Datatype, Member, Number};

use crate::model::catalogue::MAX_NDIM;
use crate::model::tree::StoredType;

/// Bytes of a stored element of variable length: its length, and where it is kept ([`crate::calls::blob`]).
pub const VARIABLE: u32 = 20;

/// The stored type of a variable's elements; `None` where HDF5 has none.
pub fn stored(dtype: &DType, meaning: Option<&Meaning>) -> Option<StoredType> {
    let datatype = match dtype {
        DType::String => Datatype::AnyText,
        DType::Ragged(scalar) => Datatype::NumberList(number(*scalar)?),
        _ => fixed(dtype, meaning)?,
    };
    let size = if dtype.is_blob() { VARIABLE } else { datatype.size() };
    of(&datatype, size)
}

/// A type whose elements have the size that it says.
pub fn plain(datatype: &Datatype) -> Option<StoredType> {
    of(datatype, datatype.size())
}

/// As `H5Tencode` writes it: the message behind its kind and version.
fn of(datatype: &Datatype, size: u32) -> Option<StoredType> {
    Some(StoredType { encoded: [vec![3, 0], datatype.message()?].concat(), size, committed: None })
}

fn fixed(dtype: &DType, meaning: Option<&Meaning>) -> Option<Datatype> {
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
        DType::String | DType::Ragged(_) => return None,
    })
}

fn compound(record: &Record, meaning: Option<&Meaning>) -> Option<Datatype> {
    let below = |name: &str| match meaning {
        Some(Meaning::Members(members)) => members.get(name),
        _ => None,
    };
    let members = record.members.iter().map(|member| {
        let cell = fixed(&member.dtype, below(&member.name))?;
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
    fn what_is_encoded_is_recognised_again() {
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
    fn what_has_no_type_in_hdf5_is_none() {
        let member = dtype::Member { name: "s".into(), dtype: DType::String, shape: vec![], offset: 0 };
        let record = DType::Record(Record { itemsize: 16, members: vec![member] });
        assert_eq!(stored(&record, None), None);
        assert_eq!(stored(&DType::Ragged(Scalar::C64), None), None);
        assert_eq!(stored(&DType::String, None).unwrap().size, VARIABLE);
    }
}
