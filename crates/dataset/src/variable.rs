//! An evaluated dataset variable.

use std::sync::Arc;

use crate::types::{Order, Type};

/// A variable of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name, unique in the text.
    pub name: Arc<str>,
    /// The name of its dataset, if that has one.
    pub dataset: Option<Arc<str>>,
    /// Its extents without the steps; `None` for a growable one.
    pub extents: Vec<Option<u64>>,
    /// The type of an element.
    pub ty: Type,
    /// The preferred order of the elements.
    pub order: Order,
    /// Whether there is one such array per output time.
    pub steps: bool,
    /// One name per extent, if there are names.
    pub dims: Option<Vec<Arc<str>>>,
    /// The value of an element before it is written.
    pub fill: Option<Fill>,
    /// The transform, as written.
    pub transform: Option<Arc<str>>,
    /// The expected mix of reads, as written; [`Access::parse`](crate::Access::parse) parses it.
    pub access: Option<Arc<str>>,
}

/// A fill value of the variable's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// For integer types, within their range.
    Int(i128),
    /// For floating-point and complex types (the real part).
    Float(f64),
    /// For `bool`.
    Bool(bool),
    /// For `bytes(n)`: exactly n bytes, padded with zeros.
    Bytes(Vec<u8>),
}
