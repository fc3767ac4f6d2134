//! Attribute values: what CBOR can say, and typed arrays.

use std::collections::BTreeMap;

use crate::dtype::DType;

/// An attribute's value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Null,
    Bool(bool),
    /// -2^63 .. 2^64-1.
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
    Array(TypedArray),
}

/// A typed array or (shape empty) scalar: dense row-major little-endian bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TypedArray {
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub data: Vec<u8>,
}
