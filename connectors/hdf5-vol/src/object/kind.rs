//! What can be open.

use std::ffi::c_int;

use crate::library::abi::id;

/// What is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    File,
    Group,
    Dataset,
    Datatype,
    /// An attribute of the object, by its name.
    Attribute(Vec<u8>),
}

impl Kind {
    /// The library's number for it.
    pub fn id_type(&self) -> c_int {
        match self {
            Kind::File => id::FILE,
            Kind::Group => id::GROUP,
            Kind::Dataset => id::DATASET,
            Kind::Datatype => id::DATATYPE,
            Kind::Attribute(_) => id::ATTR,
        }
    }
}
