//! Types of the dataset language as element types, and the stored place of a declared value.
//!
//! A struct is a record in the layout that the language gives it. Arrays directly above the element become dimensions
//! of the variable. Arrays inside a struct are members with a shape, always row by row.

use drystone_dataset::{ArrayType, Prim, Type};
use drystone_format::dtype::{DType, Member, Record, Scalar};

use crate::{Error, Result};

/// The element below directly nested arrays, and the extents of the arrays, outermost first.
pub(crate) fn strip(ty: &Type) -> (&Type, Vec<u64>) {
    let (mut ty, mut extents) = (ty, Vec::new());
    while let Type::Array(array) = ty {
        let array: &ArrayType = array;
        extents.extend(&array.extents);
        ty = &array.element;
    }
    (ty, extents)
}

/// Converts a type to an element type. Arrays directly above it are ignored.
pub(crate) fn dtype(ty: &Type) -> Result<DType> {
    let small = |n: u64| {
        u32::try_from(n)
            .map_err(|_| Error::unsupported(format!("an element of {n} bytes; 65536 are possible")))
    };
    Ok(match strip(ty).0 {
        Type::Struct(structure) => {
            let members = structure.fields.iter().map(|field| {
                Ok(Member {
                    name: field.name.to_string(),
                    dtype: dtype(&field.ty)?,
                    shape: strip(&field.ty).1,
                    offset: small(field.offset)?,
                })
            });
            DType::Record(Record {
                itemsize: small(structure.size)?,
                members: members.collect::<Result<_>>()?,
            })
        }
        Type::Prim(Prim::Bytes(n)) => DType::Bytes(small(*n)?),
        Type::Prim(prim) => DType::Scalar(scalar(*prim)),
        Type::Array(_) => return Err(Error::unsupported("an array is not an element")), // stripped above
    })
}

fn scalar(prim: Prim) -> Scalar {
    match prim {
        Prim::Bool => Scalar::Bool,
        Prim::Int8 => Scalar::I8,
        Prim::Int16 => Scalar::I16,
        Prim::Int32 => Scalar::I32,
        Prim::Int64 => Scalar::I64,
        Prim::Uint8 | Prim::Bytes(_) => Scalar::U8,
        Prim::Uint16 => Scalar::U16,
        Prim::Uint32 => Scalar::U32,
        Prim::Uint64 => Scalar::U64,
        Prim::Float16 => Scalar::F16,
        Prim::Bfloat16 => Scalar::BF16,
        Prim::Float32 => Scalar::F32,
        Prim::Float64 => Scalar::F64,
        Prim::Complex64 => Scalar::C64,
        Prim::Complex128 => Scalar::C128,
    }
}

/// The stored place of one declared column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// The member that is read and written: the whole path, or its part down to an array of structs. `None` is the
    /// element itself.
    pub(crate) field: Option<String>,
    /// Bytes from the beginning of the member to the value at index 0 of every array in it.
    pub(crate) at: u64,
    /// Bytes in the member from one index to the next, for each array in it.
    pub(crate) strides: Vec<u64>,
    /// Extents of arrays directly above the element, which are further dimensions of the variable.
    pub(crate) lead: Vec<u64>,
    /// The element type of the member.
    pub(crate) dtype: DType,
    /// Bytes of the member in one element.
    pub(crate) item: u64,
}

/// Finds the column at a dotted path below a variable's type. `None` if the path leads to no value.
pub(crate) fn column(ty: &Type, path: &str) -> Option<Column> {
    let (mut ty, lead) = strip(ty);
    let mut found =
        Column { field: None, at: 0, strides: Vec::new(), lead, dtype: dtype(ty).ok()?, item: ty.size() };
    let mut whole = true; // until the first array, the field grows with the path
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let Type::Struct(structure) = ty else { return None };
        let field = structure.field(name)?;
        let (element, extents) = strip(&field.ty);
        let mut strides = vec![0; extents.len()];
        let mut room = element.size();
        for (stride, n) in strides.iter_mut().zip(&extents).rev() {
            *stride = room;
            room = room.checked_mul(*n)?;
        }
        if whole {
            let dot = if found.field.is_some() { "." } else { "" };
            found.field = Some(format!("{}{dot}{name}", found.field.unwrap_or_default()));
            (found.dtype, found.item) = (dtype(&field.ty).ok()?, room);
            whole = extents.is_empty();
        } else {
            found.at = found.at.checked_add(field.offset)?;
        }
        found.strides.extend(strides);
        ty = element;
    }
    matches!(ty, Type::Prim(_)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stop_at_the_first_array_of_structs() {
        let text = "type In struct { a int8; b [2, 3]float32 col }
            type P struct { x int64; inn In; many [4]In; v [3]float64 }
            dataset { var p[10] P; var m[10] [3, 3]float32 }";
        let program = drystone_dataset::check(text).unwrap();
        let p = program.variable("p", &[]).unwrap();
        let find = |path| column(&p.ty, path).unwrap();
        assert_eq!(p.ty.size(), 8 + 28 + 112 + 4 + 24);
        let b = find("inn.b");
        assert_eq!((b.field.as_deref(), b.at, b.item), (Some("inn.b"), 0, 24));
        assert_eq!(b.strides, [12, 4]);
        let b = find("many.b");
        assert_eq!((b.field.as_deref(), b.at, b.item), (Some("many"), 4, 112));
        assert_eq!(b.strides, [28, 12, 4]);
        assert_eq!(find("v").strides, [8]);
        assert!(column(&p.ty, "inn").is_none() && column(&p.ty, "y").is_none());
        let m = program.variable("m", &[]).unwrap();
        assert_eq!(column(&m.ty, "").unwrap().lead, [3, 3]);
        dtype(&p.ty).unwrap().validate().unwrap();
    }
}
