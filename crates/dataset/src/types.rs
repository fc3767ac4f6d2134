//! Evaluated types: sizes, alignments and offsets in bytes.
//!
//! The layout is that of the C ABI on 64-bit machines: a field lies at the next multiple of its alignment, and a struct
//! is padded to a multiple of its own alignment. `packed` disables both; `pad` and `align(n)` add holes.

use std::sync::Arc;

/// The element types without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prim {
    /// One byte, 0 or 1.
    Bool,
    /// Signed, 1 byte.
    Int8,
    /// Signed, 2 bytes.
    Int16,
    /// Signed, 4 bytes.
    Int32,
    /// Signed, 8 bytes.
    Int64,
    /// Unsigned, 1 byte.
    Uint8,
    /// Unsigned, 2 bytes.
    Uint16,
    /// Unsigned, 4 bytes.
    Uint32,
    /// Unsigned, 8 bytes.
    Uint64,
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of a binary32.
    Bfloat16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// Two binary32: real, imaginary.
    Complex64,
    /// Two binary64: real, imaginary.
    Complex128,
    /// This many bytes without further meaning.
    Bytes(u64),
}

/// The primitive types with a fixed name.
const PRIMS: [Prim; 15] = [
    Prim::Bool,
    Prim::Int8,
    Prim::Int16,
    Prim::Int32,
    Prim::Int64,
    Prim::Uint8,
    Prim::Uint16,
    Prim::Uint32,
    Prim::Uint64,
    Prim::Float16,
    Prim::Bfloat16,
    Prim::Float32,
    Prim::Float64,
    Prim::Complex64,
    Prim::Complex128,
];

impl Prim {
    /// The type with this name; `None` for `bytes`, which has a length.
    pub fn from_name(name: &str) -> Option<Prim> {
        PRIMS.into_iter().find(|p| p.name() == name)
    }

    /// Its name in the language, without the length of `bytes`.
    pub fn name(self) -> &'static str {
        match self {
            Prim::Bool => "bool",
            Prim::Int8 => "int8",
            Prim::Int16 => "int16",
            Prim::Int32 => "int32",
            Prim::Int64 => "int64",
            Prim::Uint8 => "uint8",
            Prim::Uint16 => "uint16",
            Prim::Uint32 => "uint32",
            Prim::Uint64 => "uint64",
            Prim::Float16 => "float16",
            Prim::Bfloat16 => "bfloat16",
            Prim::Float32 => "float32",
            Prim::Float64 => "float64",
            Prim::Complex64 => "complex64",
            Prim::Complex128 => "complex128",
            Prim::Bytes(_) => "bytes",
        }
    }

    /// The names of all primitive types.
    pub(crate) fn names<'n>() -> impl Iterator<Item = &'n str> {
        PRIMS.into_iter().map(|p| -> &'n str { p.name() }).chain(["bytes"])
    }

    /// Bytes of one value.
    pub fn size(self) -> u64 {
        match self {
            Prim::Bool | Prim::Int8 | Prim::Uint8 => 1,
            Prim::Int16 | Prim::Uint16 | Prim::Float16 | Prim::Bfloat16 => 2,
            Prim::Int32 | Prim::Uint32 | Prim::Float32 => 4,
            Prim::Int64 | Prim::Uint64 | Prim::Float64 | Prim::Complex64 => 8,
            Prim::Complex128 => 16,
            Prim::Bytes(length) => length,
        }
    }

    /// Its alignment in C.
    pub fn align(self) -> u64 {
        match self {
            Prim::Complex64 => 4,
            Prim::Complex128 => 8,
            Prim::Bytes(_) => 1,
            other => other.size(),
        }
    }

    /// The smallest and the largest integer of the type; `None` if it is no integer type.
    pub(crate) fn integer_range(self) -> Option<(i128, i128)> {
        let signed = |bits: u32| Some((-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1));
        let unsigned = |bits: u32| Some((0, (1_i128 << bits) - 1));
        match self {
            Prim::Int8 => signed(8),
            Prim::Int16 => signed(16),
            Prim::Int32 => signed(32),
            Prim::Int64 => signed(64),
            Prim::Uint8 => unsigned(8),
            Prim::Uint16 => unsigned(16),
            Prim::Uint32 => unsigned(32),
            Prim::Uint64 => unsigned(64),
            _ => None,
        }
    }
}

impl std::fmt::Display for Prim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Prim::Bytes(length) => write!(f, "bytes({length})"),
            other => f.write_str(other.name()),
        }
    }
}

/// The type of an element. It is cheap to clone, since parts are shared.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A primitive type.
    Prim(Prim),
    /// An array inside the element.
    Array(Arc<ArrayType>),
    /// Named fields.
    Struct(Arc<StructType>),
}

impl Type {
    /// Bytes of one element, with the padding at its end.
    pub fn size(&self) -> u64 {
        match self {
            Type::Prim(prim) => prim.size(),
            Type::Array(array) => array.size,
            Type::Struct(structure) => structure.size,
        }
    }

    /// The alignment of an element in bytes.
    pub fn align(&self) -> u64 {
        match self {
            Type::Prim(prim) => prim.align(),
            Type::Array(array) => array.element.align(),
            Type::Struct(structure) => structure.align,
        }
    }
}

/// An array inside an element.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayType {
    /// The extents: at least one, each at least 1.
    pub extents: Vec<u64>,
    /// The type of its elements.
    pub element: Type,
    /// The order of its elements.
    pub order: Order,
    /// Bytes of the whole array.
    pub size: u64,
}

/// A struct with its layout. Two structs are equal if their layouts are, wherever they are declared.
#[derive(Clone, Debug)]
pub struct StructType {
    /// The fields in memory order.
    pub fields: Vec<Field>,
    /// Bytes of the struct, a multiple of `align`.
    pub size: u64,
    /// The largest alignment of its fields.
    pub align: u64,
    /// Whether it is declared `packed`.
    pub packed: bool,
    /// The position of its declaration, which identifies it.
    pub(crate) id: u32,
}

impl PartialEq for StructType {
    fn eq(&self, other: &Self) -> bool {
        (self.size, self.align, self.packed) == (other.size, other.align, other.packed)
            && self.fields == other.fields
    }
}

impl StructType {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| &*f.name == name)
    }
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: Type,
    /// Bytes from the beginning of the struct.
    pub offset: u64,
}

/// The order of an array's elements in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last dimension is contiguous, as in C.
    Row,
    /// The first dimension is contiguous, as in Fortran.
    Col,
    /// The dimensions from the slowest to the contiguous one.
    Perm(Vec<usize>),
    /// Along the Hilbert curve: there are no strides.
    Hilbert,
    /// Along the Morton (Z) curve: there are no strides.
    Morton,
}

impl Order {
    /// The distance in bytes between neighbours in each dimension, for elements of `unit` bytes. A growable extent is
    /// `None`; the strides of slower dimensions are then unknown. All are unknown for curves, whose elements are
    /// located by a rank function.
    pub fn strides(&self, extents: &[Option<u64>], unit: u64) -> Vec<Option<u64>> {
        let mut strides = vec![None; extents.len()];
        let fastest_first: Vec<usize> = match self {
            Order::Row => (0..extents.len()).rev().collect(),
            Order::Col => (0..extents.len()).collect(),
            Order::Perm(axes) => axes.iter().rev().copied().collect(),
            Order::Hilbert | Order::Morton => return strides,
        };
        let mut stride = Some(unit);
        for axis in fastest_first {
            if let (Some(slot), Some(&extent)) = (strides.get_mut(axis), extents.get(axis)) {
                *slot = stride;
                stride = stride.and_then(|s| extent.and_then(|e| s.checked_mul(e)));
            }
        }
        strides
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Order::Row => f.write_str("row"),
            Order::Col => f.write_str("col"),
            Order::Hilbert => f.write_str("hilbert"),
            Order::Morton => f.write_str("morton"),
            Order::Perm(axes) => {
                let axes: Vec<String> = axes.iter().map(usize::to_string).collect();
                write!(f, "perm({})", axes.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_follow_the_order() {
        let extents = [Some(2), Some(3), Some(5)];
        assert_eq!(Order::Row.strides(&extents, 8), [Some(120), Some(40), Some(8)]);
        assert_eq!(Order::Col.strides(&extents, 8), [Some(8), Some(16), Some(48)]);
        assert_eq!(Order::Perm(vec![1, 2, 0]).strides(&extents, 1), [Some(1), Some(10), Some(2)]);
        assert_eq!(Order::Hilbert.strides(&extents, 1), [None, None, None]);
    }

    #[test]
    fn a_growable_dimension_hides_only_the_strides_of_slower_ones() {
        assert_eq!(Order::Row.strides(&[None, Some(3)], 4), [Some(12), Some(4)]);
        assert_eq!(Order::Row.strides(&[Some(3), None], 4), [None, Some(4)]);
    }

    #[test]
    fn every_primitive_type_is_found_by_its_name() {
        for prim in PRIMS {
            assert_eq!(Prim::from_name(prim.name()), Some(prim));
        }
    }
}
