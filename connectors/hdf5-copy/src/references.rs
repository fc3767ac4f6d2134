//! Translates references to the source's objects into references to their copies, in values in memory.

use std::ffi::{c_int, c_void};

use crate::api::{ALL, DEFAULT, Hdf5, Hid, Token, done, text};
use crate::plan::Plan;
use crate::shape::{List, Reference, Shape};
use crate::{Failure, Result};

const REGION: c_int = 1;
mod any {
    pub(crate) const REGION: i32 = 3;
    pub(crate) const ATTRIBUTE: i32 = 4;
}

/// Both files, and the mapping of their objects.
pub(crate) struct References<'a> {
    pub(crate) hdf5: &'a Hdf5,
    pub(crate) plan: &'a Plan,
    pub(crate) source: Hid,
    pub(crate) target: Hid,
    /// The tokens of the copies, by number.
    pub(crate) copies: &'a [Token],
    /// Number of references to objects that are not in the file any more.
    pub(crate) dangling: u64,
}

impl References<'_> {
    /// Translates all references in `count` elements.
    ///
    /// # Safety
    /// `at` leads to that many elements of this shape, as the library stored them.
    pub(crate) unsafe fn translate(&mut self, shape: &Shape, at: *mut u8, count: usize) -> Result<()> {
        if !shape.refers() {
            return Ok(());
        }
        for n in 0..count {
            // SAFETY: within the elements that the caller vouches for.
            unsafe { self.element(shape, at.add(n * shape.size()))? };
        }
        Ok(())
    }

    /// # Safety
    /// As for [`References::translate`], for one element.
    unsafe fn element(&mut self, shape: &Shape, at: *mut u8) -> Result<()> {
        // SAFETY: members, elements and lists are where the library stored them.
        unsafe {
            match shape {
                Shape::Plain(_) | Shape::Text => Ok(()),
                Shape::Compound(members, _) => {
                    members.iter().try_for_each(|(offset, member)| self.translate(member, at.add(*offset), 1))
                }
                Shape::Array(count, base) => self.translate(base, at, *count),
                Shape::List(base) => {
                    let list = at.cast::<List>().read_unaligned();
                    self.translate(base, list.at, if list.at.is_null() { 0 } else { list.len })
                }
                Shape::Reference(kind, size) => {
                    let bytes = std::slice::from_raw_parts_mut(at, *size);
                    if bytes.iter().all(|byte| *byte == 0) {
                        return Ok(());
                    }
                    match kind {
                        Reference::Object => self.object(bytes),
                        Reference::Region => self.region(bytes),
                        Reference::Any => self.any(bytes),
                    }
                }
            }
        }
    }

    /// An address, which is the beginning of the token in every connector that h5py can use.
    fn object(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut token: Token = [0; 16];
        let length = bytes.len().min(8);
        token[..length].copy_from_slice(&bytes[..length]);
        bytes.fill(0);
        match self.plan.numbers.get(&token).and_then(|number| self.copies.get(*number)) {
            Some(copy) => bytes[..length].copy_from_slice(&copy[..length]),
            None => self.dangling += 1,
        }
        Ok(())
    }

    fn region(&mut self, bytes: &mut [u8]) -> Result<()> {
        let given = bytes.to_vec();
        let from = given.as_ptr().cast::<c_void>();
        let unreadable = || "a reference to a region cannot be read".to_string();
        // SAFETY: the reference is as long as the type says; names end with NUL.
        unsafe {
            let space = self.hdf5.id((self.hdf5.H5Rget_region)(self.source, REGION, from), unreadable)?;
            let object =
                self.hdf5.id((self.hdf5.H5Rdereference2)(self.source, DEFAULT, REGION, from), unreadable)?;
            bytes.fill(0);
            let Some(path) = self.path(object.hid)? else { return Ok(()) };
            done(
                (self.hdf5.H5Rcreate)(
                    bytes.as_mut_ptr().cast(),
                    self.target,
                    path.as_ptr(),
                    REGION,
                    space.hid,
                ),
                || "a reference to a region cannot be made".into(),
            )
        }
    }

    fn any(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut given = bytes.to_vec();
        let from = given.as_mut_ptr().cast::<c_void>();
        let failed = || "a reference cannot be copied".to_string();
        // SAFETY: an `H5R_ref_t` is as long as the type says; the old one is destroyed once, and the new one is
        // written in its place.
        unsafe {
            let object = self.hdf5.id((self.hdf5.H5Ropen_object)(from, DEFAULT, DEFAULT), failed)?;
            bytes.fill(0);
            let to = bytes.as_mut_ptr().cast::<c_void>();
            if let Some(path) = self.path(object.hid)? {
                let code = match (self.hdf5.H5Rget_type)(from) {
                    any::REGION => {
                        let space =
                            self.hdf5.id((self.hdf5.H5Ropen_region)(from, DEFAULT, DEFAULT), failed)?;
                        (self.hdf5.H5Rcreate_region)(self.target, path.as_ptr(), space.hid, DEFAULT, to)
                    }
                    any::ATTRIBUTE => {
                        let mut name = vec![
                            0u8;
                            1 + usize::try_from((self.hdf5.H5Rget_attr_name)(
                                from,
                                std::ptr::null_mut(),
                                0
                            ))
                            .unwrap_or(0)
                        ];
                        (self.hdf5.H5Rget_attr_name)(from, name.as_mut_ptr().cast(), name.len());
                        (self.hdf5.H5Rcreate_attr)(
                            self.target,
                            path.as_ptr(),
                            name.as_ptr().cast(),
                            DEFAULT,
                            to,
                        )
                    }
                    _ => (self.hdf5.H5Rcreate_object)(self.target, path.as_ptr(), DEFAULT, to),
                };
                done(code, failed)?;
            }
            (self.hdf5.H5Rdestroy)(from);
        }
        Ok(())
    }

    /// The path of an object of the source, which is the same in both files.
    fn path(&mut self, object: Hid) -> Result<Option<std::ffi::CString>> {
        let found = self.plan.numbers.get(&self.hdf5.info(object)?.token);
        match found.and_then(|number| self.plan.objects.get(*number)) {
            Some(object) => text(&object.path).map(Some),
            None => {
                self.dangling += 1;
                Ok(None)
            }
        }
    }
}

/// Memory that the library allocated for values, released here.
pub(crate) struct Values<'h> {
    pub(crate) hdf5: &'h Hdf5,
    /// Their type, and the space of all of them.
    pub(crate) kind: Hid,
    pub(crate) space: Hid,
    /// 8-byte words, so that every member is aligned.
    words: Vec<u64>,
    owns: bool,
}

impl<'h> Values<'h> {
    /// A buffer of `bytes`; `owns` if the library stores pointers or references there.
    pub(crate) fn new(hdf5: &'h Hdf5, kind: Hid, space: Hid, bytes: usize, owns: bool) -> Result<Self> {
        let mut words = Vec::new();
        words
            .try_reserve_exact(bytes.div_ceil(8))
            .map_err(|_| Failure(format!("no memory for a block of {bytes} bytes")))?;
        words.resize(bytes.div_ceil(8), 0);
        Ok(Values { hdf5, kind, space, words, owns })
    }

    pub(crate) fn at(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
}

impl Drop for Values<'_> {
    fn drop(&mut self) {
        if self.owns {
            let at = self.words.as_mut_ptr().cast();
            let space = if self.space == ALL { return } else { self.space };
            // SAFETY: the library wrote these values, or zeros if there are none.
            unsafe { (self.hdf5.H5Treclaim)(self.kind, space, DEFAULT, at) };
        }
    }
}
