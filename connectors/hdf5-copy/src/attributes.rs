//! The attributes of an object: listed in their order, and read.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use crate::api::{BY_CREATION, BY_NAME, DEFAULT, Hdf5, Hid, INCREASING, Id, Token, done};
use crate::references::Values;
use crate::shape::Shape;
use crate::{Failure, Result};

const NULL: i32 = 2;

/// The names of an object's attributes; `list` is its creation list.
pub(crate) fn names(hdf5: &Hdf5, object: Hid, list: Hid, path: &str) -> Result<Vec<CString>> {
    unsafe extern "C" fn note(_: Hid, name: *const c_char, _: *const c_void, out: *mut c_void) -> c_int {
        // SAFETY: the library's name, and the vector that is given below.
        unsafe { (*out.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned()) };
        0
    }
    let mut found: Vec<CString> = Vec::new();
    let out = (&raw mut found).cast();
    let mut order: c_uint = 0;
    // SAFETY: the callback has the library's signature and is done when the call returns.
    unsafe {
        (hdf5.H5Pget_attr_creation_order)(list, &mut order);
        let by = if order & 1 != 0 { BY_CREATION } else { BY_NAME };
        done((hdf5.H5Aiterate2)(object, by, INCREASING, std::ptr::null_mut(), note, out), || {
            format!("the attributes of {path} cannot be listed")
        })?;
    }
    Ok(found)
}

/// An open attribute, and the layout of its values.
pub(crate) struct OpenAttribute<'h> {
    hdf5: &'h Hdf5,
    pub(crate) attribute: Id<'h>,
    pub(crate) kind: Id<'h>,
    pub(crate) space: Id<'h>,
    pub(crate) shape: Shape,
    pub(crate) count: usize,
}

impl<'h> OpenAttribute<'h> {
    /// Opens it.
    pub(crate) fn open(hdf5: &'h Hdf5, object: Hid, name: &CStr, path: &str) -> Result<Self> {
        let silent = || format!("the attribute {name:?} of {path} cannot be opened");
        // SAFETY: the name ends with NUL; plain calls with ids of this library.
        unsafe {
            let attribute = hdf5.id((hdf5.H5Aopen)(object, name.as_ptr(), DEFAULT), silent)?;
            let kind = hdf5.id((hdf5.H5Aget_type)(attribute.hid), silent)?;
            let space = hdf5.id((hdf5.H5Aget_space)(attribute.hid), silent)?;
            let shape = Shape::of(hdf5, kind.hid).map_err(|e| Failure(format!("{path}, {name:?}: {e}")))?;
            let count = if (hdf5.H5Sget_simple_extent_type)(space.hid) == NULL {
                0
            } else {
                usize::try_from((hdf5.H5Sget_simple_extent_npoints)(space.hid))
                    .map_err(|_| Failure(silent()))?
            };
            Ok(OpenAttribute { hdf5, attribute, kind, space, shape, count })
        }
    }

    /// All its values; none for a null space.
    pub(crate) fn values(&self, path: &str) -> Result<Values<'h>> {
        let bytes = self.count.saturating_mul(self.shape.size());
        let owns = !self.shape.is_flat() && self.count > 0;
        let mut values = Values::new(self.hdf5, self.kind.hid, self.space.hid, bytes, owns)?;
        if self.count > 0 {
            // SAFETY: the memory holds all elements.
            let code = unsafe { (self.hdf5.H5Aread)(self.attribute.hid, self.kind.hid, values.at().cast()) };
            done(code, || format!("an attribute of {path} cannot be read"))?;
        }
        Ok(values)
    }
}

/// The committed types of the target, by the tokens of those in the source.
pub(crate) type Types<'h> = BTreeMap<Token, Id<'h>>;

/// The type with which something is created in the target: the copy of a committed type, or the type itself.
pub(crate) fn kind_in_target<'h>(hdf5: &'h Hdf5, kind: Hid, types: &Types<'_>) -> Result<Id<'h>> {
    // SAFETY: plain calls with ids of this library.
    unsafe {
        if (hdf5.H5Tcommitted)(kind) > 0
            && let Some(copy) = types.get(&hdf5.info(kind)?.token)
        {
            (hdf5.H5Iinc_ref)(copy.hid);
            return hdf5.id(copy.hid, String::new);
        }
        // A committed type without links is not kept as an object.
        hdf5.id((hdf5.H5Tcopy)(kind), || "a type cannot be copied".into())
    }
}
