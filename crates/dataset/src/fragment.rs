//! An evaluated fragment, ready to be compiled into rules.

use std::sync::Arc;

use crate::index_map::IndexMap;
use crate::types::{Order, Type};
use crate::variable::Variable;

/// The purpose of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is requested by readers, or written and converted.
    View,
    /// It is stored: the canonical form of its part of the dataset.
    Default,
    /// It is stored besides the default, as the replica with this number.
    Replica(u32),
}

/// One instance of a declared fragment: a piece of memory, and the meaning of each byte.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// The name of its declaration.
    pub name: Arc<str>,
    /// Its purpose.
    pub role: Role,
    /// The values of its own parameters, in their order.
    pub params: Vec<(Arc<str>, i64)>,
    /// Bytes from the first to the last byte of variables and padding.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// The variables in memory order, with `for` expanded.
    pub vars: Vec<FragmentVar>,
}

impl Fragment {
    /// Bytes from one such fragment to the next if they are stored side by side.
    pub fn padded_size(&self) -> u64 {
        self.size.checked_next_multiple_of(self.align.max(1)).unwrap_or(self.size)
    }
}

/// An array of the fragment: its offset in the fragment's memory, and the part of the dataset that it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct FragmentVar {
    /// Its name; the same for all variables of one `for`.
    pub name: Arc<str>,
    /// The value of the counter, if it is in a `for`.
    pub iteration: Option<i64>,
    /// Bytes from the beginning of the fragment.
    pub offset: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// The number of values of each index; empty for a single element.
    pub extents: Vec<u64>,
    /// The order of the elements.
    pub order: Order,
    /// The type of an element in the fragment.
    pub element: Type,
    /// The dataset variable that it shows.
    pub variable: Arc<Variable>,
    /// The parts of a dataset element that it holds: one, or one per selected field.
    pub fields: Vec<FieldRef>,
    /// One for each dimension of the dataset variable, then one for each written index of a member array.
    pub dims: Vec<DatasetDim>,
}

impl FragmentVar {
    /// Bytes of the whole array.
    pub fn size(&self) -> u64 {
        self.extents.iter().fold(self.element.size(), |size, &extent| size.saturating_mul(extent))
    }

    /// Bytes between neighbours for each index; `None` if the order is a curve.
    pub fn strides(&self) -> Option<Vec<u64>> {
        let extents: Vec<Option<u64>> = self.extents.iter().copied().map(Some).collect();
        self.order.strides(&extents, self.element.size()).into_iter().collect()
    }
}

/// A part of a dataset element, and its offset in the fragment's element.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRef {
    /// The names from the variable's type to the part, separated by dots; empty for the whole element.
    pub path: Arc<str>,
    /// Its type.
    pub ty: Type,
    /// Bytes from the beginning of the dataset element, at index 0 of every member array on the path.
    pub dataset_offset: u64,
    /// Bytes from the beginning of the fragment's element.
    pub offset: u64,
}

/// One dimension on the path to a part of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetDim {
    /// Its extent; `None` if it grows.
    pub extent: Option<u64>,
    /// Bytes between neighbours if the dataset were in memory as declared; `None` behind a growable dimension or along
    /// a curve.
    pub stride: Option<u64>,
    /// Which of its indices the fragment shows.
    pub map: IndexMap,
}
