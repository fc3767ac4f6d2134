//! The versioned schema: groups, variables, names, attributes (docs/format/manifest.md, Schema section).

use std::collections::BTreeMap;

use crate::dtype::DType;
use crate::value::Value;

/// Attributes of a group or variable.
pub type Attrs = BTreeMap<String, Value>;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// A variable by its permanent id.
    Variable(u32),
    /// Another path.
    Link(String),
}

/// One variable.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Variable {
    pub id: u32,
    pub dtype: DType,
    /// Without the step axis.
    pub shape: Vec<u64>,
    pub growable: Vec<bool>,
    /// One name per dimension, or empty.
    pub dims: Vec<String>,
    pub steps: bool,
    pub local: bool,
    /// Canonical chain text; empty is none.
    pub transform: String,
    pub chunks: Option<Vec<u64>>,
    /// Bytes of one element in memory order; None is all zeros.
    pub fill: Option<Vec<u8>>,
    pub attrs: Attrs,
    pub created: u64,
    /// Entries of commits up to and including this one are cut to the shape.
    pub clips: Vec<(u64, Vec<u64>)>,
}

/// The whole schema of one snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)]
pub struct Schema {
    pub next_id: u32,
    /// Path to attributes; "" is the root and always present.
    pub groups: BTreeMap<String, Attrs>,
    pub variables: BTreeMap<u32, Variable>,
    pub names: BTreeMap<String, Name>,
}
