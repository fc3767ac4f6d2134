//! Datatypes of the library: encoded, as stored in the file, and conversion between the two sides.
//!
//! A value in memory has the program's type; in the file it has the *disk type*: numbers in little-endian
//! order, values of variable length as (length, offset in the heap). `H5Tconvert` converts. References of the
//! old kind are 8 or 12 bytes on both sides; the library would cast our file to a struct of its own for them,
//! so for conversion they are opaque.

use crate::library::abi::{Hid, P_DEFAULT, Void};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::model::encoded::{class, is_big_endian};

/// A type id that is closed when it is dropped.
pub struct Type {
    host: &'static Host,
    /// The id.
    pub id: Hid,
}

impl Drop for Type {
    fn drop(&mut self) {
        // SAFETY: an id of our own.
        unsafe { (self.host.api.H5Tclose)(self.id) };
    }
}

impl Type {
    /// Takes over an id that a call has returned.
    pub fn own(host: &'static Host, id: Hid) -> Result<Type> {
        if id < 0 {
            Err(Failure::wrong_kind("the library refuses a datatype"))
        } else {
            Ok(Type { host, id })
        }
    }

    /// A copy, open for ever on its own.
    pub fn copy(host: &'static Host, id: Hid) -> Result<Type> {
        // SAFETY: any id may be given.
        Type::own(host, unsafe { (host.api.H5Tcopy)(id) })
    }

    /// Gives the id away.
    pub fn give(self) -> Hid {
        let id = self.id;
        std::mem::forget(self);
        id
    }

    /// The library that it is of.
    pub fn host(&self) -> &'static Host {
        self.host
    }

    /// Bytes of an element.
    pub fn size(&self) -> usize {
        // SAFETY: a valid id.
        unsafe { (self.host.api.H5Tget_size)(self.id) }
    }

    /// Its class, of those in [`class`].
    pub fn class(&self) -> i32 {
        // SAFETY: a valid id.
        unsafe { (self.host.api.H5Tget_class)(self.id) }
    }

    fn has(&self, class: i32) -> bool {
        // SAFETY: a valid id.
        unsafe { (self.host.api.H5Tdetect_class)(self.id, class) > 0 }
    }

    /// Whether it has members, of which a program may write only some.
    pub fn has_members(&self) -> bool {
        self.has(class::COMPOUND)
    }

    /// Whether its values have pointers.
    pub fn is_variable(&self) -> bool {
        self.is_or_has(&|t| t.is_sequence() || t.class() == class::REFERENCE && t.size() > 12)
    }

    /// Whether it contains sequences or strings of variable length.
    pub fn has_sequences(&self) -> bool {
        self.is_or_has(&Type::is_sequence)
    }

    fn is_sequence(&self) -> bool {
        // SAFETY: a valid id.
        self.class() == class::VLEN
            || self.class() == class::STRING && unsafe { (self.host.api.H5Tis_variable_str)(self.id) > 0 }
    }

    /// Whether it, or a member or element of it, satisfies the condition.
    fn is_or_has(&self, wanted: &dyn Fn(&Type) -> bool) -> bool {
        let api = &self.host.api;
        // SAFETY: valid ids.
        unsafe {
            match self.class() {
                class::ARRAY => {
                    Type::own(self.host, (api.H5Tget_super)(self.id)).is_ok_and(|t| t.is_or_has(wanted))
                }
                class::COMPOUND => (0..(api.H5Tget_nmembers)(self.id).max(0) as u32).any(|i| {
                    Type::own(self.host, (api.H5Tget_member_type)(self.id, i))
                        .is_ok_and(|t| t.is_or_has(wanted))
                }),
                _ => wanted(self),
            }
        }
    }
}

/// A type as bytes (`H5Tencode`).
pub fn encode(host: &Host, id: Hid) -> Result<Vec<u8>> {
    let mut size = 0;
    // SAFETY: the first call asks for the size, the second gets a buffer of it.
    unsafe {
        if (host.api.H5Tencode)(id, std::ptr::null_mut(), &mut size) < 0 {
            return Err(Failure::wrong_kind("the datatype cannot be encoded"));
        }
        let mut out = vec![0u8; size];
        if (host.api.H5Tencode)(id, out.as_mut_ptr().cast(), &mut size) < 0 {
            return Err(Failure::wrong_kind("the datatype cannot be encoded"));
        }
        Ok(out)
    }
}

/// A type from bytes, as programs expect it.
pub fn decode(host: &'static Host, bytes: &[u8]) -> Result<Type> {
    // SAFETY: the bytes come from a catalogue whose checksum was right, so `H5Tencode` wrote them.
    let id = unsafe {
        match (host.api.H5Tdecode2, host.api.H5Tdecode) {
            (Some(decode), _) => decode(bytes.as_ptr().cast(), bytes.len()),
            (None, Some(decode)) => decode(bytes.as_ptr().cast()),
            (None, None) => -1,
        }
    };
    let decoded = Type::own(host, id)?;
    // A sequence of references does not decode to an equal type; rebuilding makes it equal.
    if decoded.has(class::VLEN) && decoded.has(class::REFERENCE) {
        let same = |t: &Type| {
            let name = match t.size() {
                8 => "H5T_STD_REF_OBJ_g\0",
                12 => "H5T_STD_REF_DSETREG_g\0",
                _ => "H5T_STD_REF_g\0",
            };
            Type::copy(host, host.global(name)).map(Some)
        };
        if let Some(made) = replaced(&decoded, &same)? {
            return Ok(made);
        }
    }
    Ok(decoded)
}

/// The type with its references replaced; `None` if it has none to replace.
fn replaced(t: &Type, with: &dyn Fn(&Type) -> Result<Option<Type>>) -> Result<Option<Type>> {
    let (host, api) = (t.host, &t.host.api);
    if !t.has(class::REFERENCE) {
        return Ok(None);
    }
    // SAFETY: ids are valid, names and arrays live through the calls.
    unsafe {
        match t.class() {
            class::REFERENCE => with(t),
            class::VLEN => {
                let base = Type::own(host, (api.H5Tget_super)(t.id))?;
                let Some(base) = replaced(&base, with)? else { return Ok(None) };
                Type::own(host, (api.H5Tvlen_create)(base.id)).map(Some)
            }
            class::ARRAY => {
                let base = Type::own(host, (api.H5Tget_super)(t.id))?;
                let Some(base) = replaced(&base, with)? else { return Ok(None) };
                let mut dims = [0u64; 32];
                let rank = (api.H5Tget_array_dims2)(t.id, dims.as_mut_ptr());
                let rank = u32::try_from(rank).map_err(|_| Failure::wrong_kind("an array type"))?;
                Type::own(host, (api.H5Tarray_create2)(base.id, rank, dims.as_ptr())).map(Some)
            }
            class::COMPOUND => {
                let count = (api.H5Tget_nmembers)(t.id).max(0) as u32;
                let made = Type::own(host, (api.H5Tcreate)(class::COMPOUND, t.size()))?;
                for i in 0..count {
                    let member = Type::own(host, (api.H5Tget_member_type)(t.id, i))?;
                    let new = replaced(&member, with)?.unwrap_or(member);
                    let name = (api.H5Tget_member_name)(t.id, i);
                    let rc = (api.H5Tinsert)(made.id, name, (api.H5Tget_member_offset)(t.id, i), new.id);
                    (api.H5free_memory)(name.cast());
                    if rc < 0 {
                        return Err(Failure::wrong_kind("a compound type with references"));
                    }
                }
                Ok(Some(made))
            }
            _ => Ok(None),
        }
    }
}

/// A type for conversion: references of the old kind are opaque.
pub fn plain(host: &'static Host, id: Hid) -> Result<Type> {
    let copy = Type::copy(host, id)?;
    let opaque = |t: &Type| -> Result<Option<Type>> {
        if t.size() > 12 {
            return Ok(None);
        }
        // SAFETY: a new type and a static string.
        unsafe {
            let made = Type::own(host, (host.api.H5Tcreate)(class::OPAQUE, t.size()))?;
            (host.api.H5Tset_tag)(made.id, c"reference".as_ptr());
            Ok(Some(made))
        }
    };
    Ok(replaced(&copy, &opaque)?.unwrap_or(copy))
}

/// Refuses references to regions of the old kind: such a value is an address in a file of HDF5's own format,
/// which does not exist here, and the library would neither find nor miss it when it is read.
pub fn refuse_regions(host: &'static Host, id: Hid) -> Result<()> {
    let copy = Type::copy(host, id)?;
    let found = std::cell::Cell::new(false);
    replaced(&copy, &|t| {
        found.set(found.get() || t.size() == 12);
        Ok(None)
    })?;
    match found.get() {
        true => Err(Failure::unsupported(
            "references to regions (H5T_STD_REF_DSETREG) are not supported by the drystone connector",
        )),
        false => Ok(()),
    }
}

/// The disk type for a type of the program. `file` is a live handle of ours: the library passes it back when
/// it stores values of variable length.
#[allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "callers hand on what the library gave them for this call"
)]
pub fn disk(host: &'static Host, file: Void, connector: Hid, id: Hid, encoded: &[u8]) -> Result<Type> {
    let plain = plain(host, id)?;
    // SAFETY: ids are valid, `file` lives as long as the holder of the type.
    unsafe {
        match plain.class() {
            class::STRING | class::COMPOUND | class::VLEN | class::ARRAY | class::REFERENCE => {
                Type::own(host, (host.api.H5VLget_file_type)(file, connector, plain.id))
            }
            class::INTEGER | class::FLOAT if is_big_endian(encoded, plain.size() as u32) => {
                (host.api.H5Tset_order)(plain.id, 0);
                Ok(plain)
            }
            _ => Ok(plain),
        }
    }
}

/// Whether values of the two types are the same bytes.
pub fn same(host: &Host, a: Hid, b: Hid) -> bool {
    // SAFETY: any ids may be given.
    unsafe { (host.api.H5Tequal)(a, b) > 0 }
}

/// Whether a conversion between these needs the previous destination.
pub fn needs_background(from: &Type, to: &Type) -> bool {
    let nested = |t: &Type| matches!(t.class(), class::COMPOUND | class::ARRAY | class::VLEN);
    nested(from) || nested(to)
}

/// Converts `n` elements. `background` holds the previous destination, if [`needs_background`].
pub fn convert(
    host: &Host,
    from: &Type,
    to: &Type,
    n: u64,
    mut data: Vec<u8>,
    background: Option<Vec<u8>>,
    dxpl: Hid,
) -> Result<Vec<u8>> {
    let n = n as usize;
    let (a, b) = (from.size(), to.size());
    if same(host, from.id, to.id) || n == 0 {
        return Ok(data);
    }
    let wrong = || Failure::range("the selection is too large");
    let room = n.checked_mul(a.max(b)).ok_or_else(wrong)?;
    if data.len() != n * a {
        return Err(Failure::invalid("elements of another size than their type"));
    }
    data.resize(room, 0);
    let mut background = background.unwrap_or_default();
    if needs_background(from, to) {
        background.resize(room, 0);
    }
    let under = if background.is_empty() { std::ptr::null_mut() } else { background.as_mut_ptr() };
    // SAFETY: both buffers hold n elements of the larger type.
    let rc =
        unsafe { (host.api.H5Tconvert)(from.id, to.id, n, data.as_mut_ptr().cast(), under.cast(), dxpl) };
    if rc < 0 {
        return Err(Failure {
            major: "H5E_DATATYPE_g\0",
            minor: "H5E_CANTCONVERT_g\0",
            message: "no conversion between the datatype in memory and that in the file".into(),
        });
    }
    data.truncate(n * b);
    Ok(data)
}

/// Frees the memory that elements of variable length hold.
pub fn reclaim(host: &Host, t: &Type, n: u64, data: &mut [u8]) {
    if !t.is_variable() || data.is_empty() {
        return;
    }
    // SAFETY: the buffer holds n elements of the type.
    unsafe {
        let space = (host.api.H5Screate_simple)(1, &n, std::ptr::null());
        quietly(host, || (host.api.H5Treclaim)(t.id, space, P_DEFAULT, data.as_mut_ptr().cast()));
        (host.api.H5Sclose)(space);
    }
}
