//! The model of a file, without the library and without a container: the tree of objects, its encoding,
//! elements, boxes of cells.

pub mod boxes;
pub mod catalogue;
pub mod element;
pub mod encoded;
pub mod native_type;
pub mod record;
pub mod tree;
