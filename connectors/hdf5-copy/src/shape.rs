//! The layout of a type's values in memory: the offsets of texts, lists and references in an element.

use std::ffi::{c_int, c_uint};

use crate::api::{Hdf5, Hid};
use crate::{Failure, Result};

mod class {
    use super::c_int;
    pub(crate) const STRING: c_int = 3;
    pub(crate) const COMPOUND: c_int = 6;
    pub(crate) const REFERENCE: c_int = 7;
    pub(crate) const LIST: c_int = 9;
    pub(crate) const ARRAY: c_int = 10;
}

/// Kinds of references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reference {
    /// `hobj_ref_t`: the 8 bytes of an address or id.
    Object,
    /// `hdset_reg_ref_t`: 12 bytes that only the file understands.
    Region,
    /// `H5R_ref_t`.
    Any,
}

/// A type, as the layout of its values in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Bytes that mean the same everywhere.
    Plain(usize),
    /// A pointer to a text.
    Text,
    /// A reference of this many bytes.
    Reference(Reference, usize),
    /// Members and their offsets; the size including padding.
    Compound(Vec<(usize, Shape)>, usize),
    /// This many elements, one after the other.
    Array(usize, Box<Shape>),
    /// `hvl_t`: a length and a pointer to that many elements.
    List(Box<Shape>),
}

impl Shape {
    /// Reads a type.
    pub(crate) fn of(hdf5: &Hdf5, kind: Hid) -> Result<Shape> {
        let unreadable = || "a type cannot be taken apart".to_string();
        // SAFETY: plain calls with an id of this library; arrays are as long as the library says.
        unsafe {
            let size = (hdf5.H5Tget_size)(kind);
            Ok(match (hdf5.H5Tget_class)(kind) {
                class::STRING if (hdf5.H5Tis_variable_str)(kind) > 0 => Shape::Text,
                class::REFERENCE => Shape::Reference(reference(hdf5, kind)?, size),
                class::COMPOUND => {
                    let count =
                        c_uint::try_from((hdf5.H5Tget_nmembers)(kind)).map_err(|_| Failure(unreadable()))?;
                    let mut members = Vec::new();
                    for n in 0..count {
                        let member = hdf5.id((hdf5.H5Tget_member_type)(kind, n), unreadable)?;
                        members.push(((hdf5.H5Tget_member_offset)(kind, n), Shape::of(hdf5, member.hid)?));
                    }
                    if members.iter().all(|(_, shape)| matches!(shape, Shape::Plain(_)))
                        && tight(&members, size)
                    {
                        Shape::Plain(size)
                    } else {
                        Shape::Compound(members, size)
                    }
                }
                class::ARRAY => {
                    let ndim = usize::try_from((hdf5.H5Tget_array_ndims)(kind))
                        .map_err(|_| Failure(unreadable()))?;
                    let mut dims = vec![0; ndim];
                    (hdf5.H5Tget_array_dims2)(kind, dims.as_mut_ptr());
                    let count =
                        usize::try_from(dims.iter().product::<u64>()).map_err(|_| Failure(unreadable()))?;
                    match Shape::of(hdf5, hdf5.id((hdf5.H5Tget_super)(kind), unreadable)?.hid)? {
                        Shape::Plain(_) => Shape::Plain(size),
                        base => Shape::Array(count, Box::new(base)),
                    }
                }
                class::LIST => {
                    let base = hdf5.id((hdf5.H5Tget_super)(kind), unreadable)?;
                    Shape::List(Box::new(Shape::of(hdf5, base.hid)?))
                }
                _ => Shape::Plain(size),
            })
        }
    }

    /// Bytes of an element in memory.
    pub(crate) fn size(&self) -> usize {
        match self {
            Shape::Plain(size) | Shape::Reference(_, size) | Shape::Compound(_, size) => *size,
            Shape::Text => size_of::<usize>(),
            Shape::Array(count, base) => count * base.size(),
            Shape::List(_) => size_of::<List>(),
        }
    }

    /// Whether it contains references.
    pub(crate) fn refers(&self) -> bool {
        match self {
            Shape::Reference(..) => true,
            Shape::Plain(_) | Shape::Text => false,
            Shape::Compound(members, _) => members.iter().any(|(_, shape)| shape.refers()),
            Shape::Array(_, base) | Shape::List(base) => base.refers(),
        }
    }

    /// Whether elements contain no pointers and references.
    pub(crate) fn is_flat(&self) -> bool {
        match self {
            Shape::Plain(_) => true,
            Shape::Text | Shape::List(_) | Shape::Reference(..) => false,
            Shape::Compound(members, _) => members.iter().all(|(_, shape)| shape.is_flat()),
            Shape::Array(_, base) => base.is_flat(),
        }
    }
}

/// `hvl_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct List {
    pub(crate) len: usize,
    pub(crate) at: *mut u8,
}

fn tight(members: &[(usize, Shape)], size: usize) -> bool {
    members.iter().map(|(_, shape)| shape.size()).sum::<usize>() == size
}

fn reference(hdf5: &Hdf5, kind: Hid) -> Result<Reference> {
    let is = |name| {
        let other = hdf5.global(name);
        // SAFETY: two ids of types.
        other >= 0 && unsafe { (hdf5.H5Tequal)(kind, other) } > 0
    };
    if is("H5T_STD_REF_OBJ_g\0") {
        Ok(Reference::Object)
    } else if is("H5T_STD_REF_DSETREG_g\0") {
        Ok(Reference::Region)
    } else if is("H5T_STD_REF_g\0") {
        Ok(Reference::Any)
    } else {
        Err(Failure("a type of references is not known".into()))
    }
}
