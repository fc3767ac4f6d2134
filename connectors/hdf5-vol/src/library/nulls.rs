//! Makes references null, as HDF5 does with those that are copied to another file: there they would point to other
//! objects.

use crate::library::failure::{Failure, Result};
use crate::library::types::Type;
use crate::model::encoded::class;

/// Where the references of an element in memory are.
pub enum References {
    /// It is one.
    Whole,
    /// In members: their offsets and sizes.
    Members(Vec<(usize, usize, References)>),
    /// In the elements of an array, which have this size.
    Elements(usize, Box<References>),
    /// In a sequence of elements of this size.
    Sequence(usize, Box<References>),
}

impl References {
    /// Those of a type; `None` if it has none.
    pub fn of(t: &Type) -> Result<Option<References>> {
        let (host, api) = (t.host(), &t.host().api);
        // SAFETY: valid ids.
        unsafe {
            Ok(match t.class() {
                class::REFERENCE => Some(References::Whole),
                class::ARRAY | class::VLEN => {
                    let base = Type::own(host, (api.H5Tget_super)(t.id))?;
                    let size = base.size().max(1);
                    let made =
                        if t.class() == class::ARRAY { References::Elements } else { References::Sequence };
                    References::of(&base)?.map(|inner| made(size, Box::new(inner)))
                }
                class::COMPOUND => {
                    let mut members = Vec::new();
                    for n in 0..(api.H5Tget_nmembers)(t.id).max(0) as u32 {
                        let member = Type::own(host, (api.H5Tget_member_type)(t.id, n))?;
                        if let Some(inner) = References::of(&member)? {
                            members.push(((api.H5Tget_member_offset)(t.id, n), member.size(), inner));
                        }
                    }
                    (!members.is_empty()).then_some(References::Members(members))
                }
                _ => None,
            })
        }
    }

    /// Makes the references of an element null.
    ///
    /// # Safety
    /// Sequences in the element are HDF5's, with as many elements as they say, or empty.
    pub unsafe fn clear(&self, element: &mut [u8]) -> Result<()> {
        let short = || Failure::wrong_kind("an element of another size than its datatype");
        match self {
            References::Whole => element.fill(0),
            References::Members(members) => {
                for (offset, size, inner) in members {
                    let part = element.get_mut(*offset..offset.saturating_add(*size)).ok_or_else(short)?;
                    // SAFETY: the caller's.
                    unsafe { inner.clear(part)? };
                }
            }
            References::Elements(size, inner) => {
                for part in element.chunks_exact_mut(*size) {
                    // SAFETY: the caller's.
                    unsafe { inner.clear(part)? };
                }
            }
            References::Sequence(size, inner) => {
                let word = |at: usize| {
                    let bytes = element.get(at..at + size_of::<usize>()).and_then(|b| b.try_into().ok());
                    bytes.map(usize::from_ne_bytes).ok_or_else(short)
                };
                // `hvl_t`: a number and an address.
                let (count, address) = (word(0)?, word(size_of::<usize>())?);
                if count > 0 && address != 0 {
                    let len = count.checked_mul(*size).ok_or_else(short)?;
                    // SAFETY: the caller guarantees that the library has put that many elements there.
                    let elements = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len) };
                    for part in elements.chunks_exact_mut(*size) {
                        // SAFETY: the caller's.
                        unsafe { inner.clear(part)? };
                    }
                }
            }
        }
        Ok(())
    }
}
