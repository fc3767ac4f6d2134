//! A fragment with everything computed, ready to be compiled into rules.

use std::sync::Arc;

use crate::index_map::IndexMap;
use crate::types::{Order, Type};
use crate::variable::Variable;

/// What a fragment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is asked for, or written and converted.
    View,
    /// It is stored: the canonical form of its part of the dataset.
    Default,
    /// It is stored besides the default, as the replica with this number.
    Replica(u32),
}

/// One instance of a declared fragment: a piece of memory and what each byte of it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// The name of its declaration.
    pub name: Arc<str>,
    /// What it is for.
    pub role: Role,
    /// The values of its own parameters, in their order.
    pub params: Vec<(Arc<str>, i64)>,
    /// Bytes from the first to the end of the last variable or padding.
    pub size: u64,
    /// What its address is a multiple of.
    pub align: u64,
    /// The variables in the order of memory, `for` written out.
    pub vars: Vec<FragmentVar>,
}

impl Fragment {
    /// Bytes from one such fragment to the next when they are stored side by side.
    pub fn padded_size(&self) -> u64 {
        self.size.checked_next_multiple_of(self.align.max(1)).unwrap_or(self.size)
    }
}

/// An array of the fragment: its place in the fragment's memory, and which part of the dataset it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct FragmentVar {
    /// Its name; the same for all that one `for` makes.
    pub name: Arc<str>,
    /// The value of the counter, if a `for` made it.
    pub iteration: Option<i64>,
    /// Bytes from the beginning of the fragment.
    pub offset: u64,
    /// What the offset is a multiple of.
    pub align: u64,
    /// How many values each index takes; none for a single element.
    pub extents: Vec<u64>,
    /// The order of the elements.
    pub order: Order,
    /// The type of an element as it stands in the fragment.
    pub element: Type,
    /// The dataset variable it shows.
    pub variable: Arc<Variable>,
    /// The parts of a dataset element it holds: one, or one per selected field.
    pub fields: Vec<FieldRef>,
    /// One per dimension of the dataset variable, then one per written index of a member array.
    pub dims: Vec<DatasetDim>,
}

impl FragmentVar {
    /// Bytes of the whole array.
    pub fn size(&self) -> u64 {
        self.extents.iter().fold(self.element.size(), |size, &extent| size.saturating_mul(extent))
    }

    /// Bytes between neighbours per index; `None` where the order is a curve.
    pub fn strides(&self) -> Option<Vec<u64>> {
        let extents: Vec<Option<u64>> = self.extents.iter().copied().map(Some).collect();
        self.order.strides(&extents, self.element.size()).into_iter().collect()
    }
}

/// A part of a dataset element, and where it stands in the fragment's element.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRef {
    /// The names from the variable's type to the part, with dots between; empty for the whole element.
    pub path: Arc<str>,
    /// Its type.
    pub ty: Type,
    /// Bytes from the beginning of the dataset element, at index 0 of every member array on the way.
    pub dataset_offset: u64,
    /// Bytes from the beginning of the fragment's element.
    pub offset: u64,
}

/// One dimension on the way to a part of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetDim {
    /// How long it is; `None` if it grows.
    pub extent: Option<u64>,
    /// Bytes between neighbours if the dataset were memory as declared; `None` behind a growable dimension
    /// or along a curve.
    pub stride: Option<u64>,
    /// Which of its indices the fragment shows.
    pub map: IndexMap,
}
