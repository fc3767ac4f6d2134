//! Element types in the terms of codecs and statistics.

use drystone_expression::Type;
use drystone_format::dtype::{DType, Leaf, Scalar};
use drystone_rules::NumberKind;
use drystone_transform::Logical;
use drystone_transform::stats::ScalarKind;

use crate::{Error, Result};

/// The greatest size of a decoded subchunk.
pub(crate) const MAX_SUBCHUNK: u64 = 16 << 20;

/// The statistics kind of a leaf.
pub(crate) fn kind_of(dtype: &DType) -> ScalarKind {
    let DType::Scalar(scalar) = dtype else { return ScalarKind::Other };
    match scalar {
        Scalar::Bool => ScalarKind::Bool,
        Scalar::I8 => ScalarKind::I8,
        Scalar::I16 => ScalarKind::I16,
        Scalar::I32 => ScalarKind::I32,
        Scalar::I64 => ScalarKind::I64,
        Scalar::U8 => ScalarKind::U8,
        Scalar::U16 => ScalarKind::U16,
        Scalar::U32 => ScalarKind::U32,
        Scalar::U64 => ScalarKind::U64,
        Scalar::F16 => ScalarKind::F16,
        Scalar::BF16 => ScalarKind::BF16,
        Scalar::F32 => ScalarKind::F32,
        Scalar::F64 => ScalarKind::F64,
        Scalar::C64 | Scalar::C128 => ScalarKind::Other,
    }
}

/// The number type that rules convert a scalar as. `None` for `bool`, which rules only copy.
pub fn rule_kind(scalar: Scalar) -> Option<NumberKind> {
    Some(match scalar {
        Scalar::I8 => NumberKind::I8,
        Scalar::I16 => NumberKind::I16,
        Scalar::I32 => NumberKind::I32,
        Scalar::I64 => NumberKind::I64,
        Scalar::U8 => NumberKind::U8,
        Scalar::U16 => NumberKind::U16,
        Scalar::U32 => NumberKind::U32,
        Scalar::U64 => NumberKind::U64,
        Scalar::F16 => NumberKind::F16,
        Scalar::BF16 => NumberKind::BF16,
        Scalar::F32 => NumberKind::F32,
        Scalar::F64 => NumberKind::F64,
        Scalar::C64 => NumberKind::C64,
        Scalar::C128 => NumberKind::C128,
        Scalar::Bool => return None,
    })
}

/// The information about a subchunk of a leaf that codecs need.
pub(crate) fn logical(leaf: &Leaf, shape: &[u64]) -> Logical {
    let (scalar, kind) = match &leaf.dtype {
        DType::Scalar(Scalar::C64) => (4, ScalarKind::F32),
        DType::Scalar(Scalar::C128) => (8, ScalarKind::F64),
        DType::Scalar(s) => (s.size() as usize, kind_of(&leaf.dtype)),
        DType::Unicode(_) => (4, ScalarKind::Other),
        DType::Bytes(_) => (1, ScalarKind::Other),
        _ => (8, ScalarKind::Other),
    };
    Logical { item: leaf.size as usize, scalar, kind, shape: shape.to_vec() }
}

/// The information that codecs need about a subchunk of this shape, of a variable of this type.
///
/// Errors: `Unsupported` for records and strings of any length. Their cells are stored member by member, or as
/// references.
pub fn logical_of(dtype: &DType, shape: &[u64]) -> Result<Logical> {
    match &dtype.leaves()[..] {
        [leaf] if leaf.path.is_empty() && !leaf.dtype.is_blob() => Ok(logical(leaf, shape)),
        _ => Err(Error::unsupported(format!(
            "a subchunk of {dtype} by itself; numbers and fixed-size text have them"
        ))),
    }
}

/// The element type in expressions. An error completes the sentence "`name` ...".
pub(crate) fn expression_type(dtype: &DType) -> std::result::Result<Type, String> {
    let scalar = match dtype {
        DType::Scalar(scalar) => *scalar,
        DType::Record(record) => {
            let first = record.members.first().map_or("x", |member| &member.name);
            return Err(format!("it is a record: name a member, as `.{first}`"));
        }
        DType::Bytes(_) | DType::Unicode(_) | DType::String => {
            return Err("it holds texts, on which there are no conditions".into());
        }
        DType::Ragged(_) => return Err("it holds lists of numbers, on which there are no conditions".into()),
    };
    Ok(match scalar {
        Scalar::Bool => Type::Bool,
        Scalar::I8 => Type::I1,
        Scalar::I16 => Type::I2,
        Scalar::I32 => Type::I4,
        Scalar::I64 => Type::I8,
        Scalar::U8 => Type::U1,
        Scalar::U16 => Type::U2,
        Scalar::U32 => Type::U4,
        Scalar::U64 => Type::U8,
        Scalar::F32 => Type::F4,
        Scalar::F64 => Type::F8,
        Scalar::F16 | Scalar::BF16 | Scalar::C64 | Scalar::C128 => {
            return Err(format!("it is {dtype}, on which there are no expressions"));
        }
    })
}
