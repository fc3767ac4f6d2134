//! The kinds of open objects.

use std::ffi::c_int;

use crate::library::abi::id;

/// The kind of an open object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ObjectKind {
    File,
    Group,
    Dataset,
    Datatype,
    /// An attribute of the object, by its name.
    Attribute(Vec<u8>),
}

impl ObjectKind {
    /// The library's number for it.
    pub fn id_type(&self) -> c_int {
        match self {
            ObjectKind::File => id::FILE,
            ObjectKind::Group => id::GROUP,
            ObjectKind::Dataset => id::DATASET,
            ObjectKind::Datatype => id::DATATYPE,
            ObjectKind::Attribute(_) => id::ATTR,
        }
    }
}
