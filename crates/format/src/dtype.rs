//! Element types: primitives, fixed and variable-length strings, records.
//!
//! A record is stored member by member, so the type knows its leaf members: paths, places in the in-memory element, sizes.

/// A primitive element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

/// An element type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DType {
    /// A primitive.
    Scalar(Scalar),
    /// Fixed-length bytes (NumPy `S`), length in bytes, at least 1.
    Bytes(u32),
    /// Fixed-length Unicode (NumPy `U`), length in UTF-32 code points, at least 1.
    Unicode(u32),
    /// UTF-8 string of any length; an element is a 16-byte blob reference when stored.
    String,
    /// Record with members at given byte offsets.
    Record(Record),
}

/// A record type; `itemsize` may exceed its members (padding).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// Bytes from one element to the next in memory.
    pub itemsize: u32,
    /// Members in declaration order; they do not overlap.
    pub members: Vec<Member>,
}

/// One member of a record: `shape` elements of `dtype` at `offset`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Member {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub offset: u32,
}

/// A leaf member: what is stored as one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Dotted path; empty for a variable that is no record.
    pub path: String,
    /// Primitive, fixed string, or `String`.
    pub dtype: DType,
    /// Number of `dtype` elements in it (product of the member shapes on the path).
    pub repeat: u64,
    /// Byte offset in the in-memory element.
    pub offset: u32,
    /// Bytes in memory: `repeat` x item size.
    pub size: u32,
}
