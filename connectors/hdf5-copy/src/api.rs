//! The functions of a loaded HDF5 library, and ids that are released when they are dropped.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulong, c_void};

use crate::{Failure, Result};

/// An id of the library.
pub type Hid = i64;
type Herr = c_int;
type Text = *const c_char;
type Put = *mut c_void;
type Get = *const c_void;

pub(crate) const DEFAULT: Hid = 0;
pub(crate) const ALL: Hid = 0;
pub(crate) const BY_NAME: c_int = 0;
pub(crate) const BY_CREATION: c_int = 1;
pub(crate) const INCREASING: c_int = 0;
pub(crate) const TRUNCATE: c_uint = 2;
pub(crate) const READ_ONLY: c_uint = 0;
/// `H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS`.
pub(crate) const BASIC: c_uint = 1 | 4;

/// `H5O_token_t`: identifies an object within its file.
pub(crate) type Token = [u8; 16];

/// `H5O_info2_t`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct ObjectInfo {
    pub(crate) fileno: c_ulong,
    pub(crate) token: Token,
    pub(crate) kind: c_int,
    pub(crate) count: c_uint,
    pub(crate) times: [i64; 4],
    pub(crate) attributes: u64,
}

/// `H5L_info2_t`; `value` is a token, or the size of a soft link's text in its first bytes.
#[repr(C)]
pub(crate) struct LinkInfo {
    pub(crate) kind: c_int,
    pub(crate) order_valid: bool,
    pub(crate) order: i64,
    pub(crate) encoding: c_int,
    pub(crate) value: [u64; 2],
}

const _: () = assert!(size_of::<ObjectInfo>() == 72 && size_of::<LinkInfo>() == 40);

pub(crate) type EachLink = unsafe extern "C" fn(Hid, Text, *const LinkInfo, Put) -> Herr;
pub(crate) type EachAttribute = unsafe extern "C" fn(Hid, Text, Get, Put) -> Herr;

macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $ret:ty;)*) => {
        /// Functions of one HDF5 library.
        #[allow(non_snake_case, reason = "the library's names")]
        pub struct Hdf5 {
            library: usize,
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Hdf5 {
            pub(crate) fn library(&self) -> usize {
                self.library
            }

            /// Looks them up in a library that `dlopen` gave, HDF5 1.14 or newer.
            ///
            /// # Safety
            /// `library` is such a handle, and stays open as long as this value is used.
            pub unsafe fn of(library: *mut c_void) -> Result<Self> {
                $(
                    // SAFETY: the caller's handle; the name ends with NUL.
                    let $name = unsafe { libc::dlsym(library, concat!(stringify!($name), "\0").as_ptr().cast()) };
                    if $name.is_null() {
                        return Err(Failure(concat!("this HDF5 library has no ", stringify!($name)).into()));
                    }
                )*
                Ok(Hdf5 {
                    library: library as usize,
                    // SAFETY: the signatures are those of the public headers of HDF5 1.14 to 2.2.
                    $($name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> $ret>($name)
                    },)*
                })
            }
        }
    };
}

#[allow(non_snake_case, reason = "the library's names")]
mod table {
    use super::*;
    functions! {
        H5open() -> Herr;
        H5Iinc_ref(Hid) -> c_int;
        H5Idec_ref(Hid) -> c_int;
        H5VLget_connector_id_by_name(Text) -> Hid;
        H5Pcreate(Hid) -> Hid;
        H5Pset_vol(Hid, Hid, Get) -> Herr;
        H5Pset_char_encoding(Hid, c_int) -> Herr;
        H5Pget_link_creation_order(Hid, *mut c_uint) -> Herr;
        H5Pget_attr_creation_order(Hid, *mut c_uint) -> Herr;
        H5Pget_layout(Hid) -> c_int;
        H5Pget_chunk(Hid, c_int, *mut u64) -> c_int;
        H5Pfill_value_defined(Hid, *mut c_int) -> Herr;
        H5Pget_fill_value(Hid, Hid, Put) -> Herr;
        H5Fcreate(Text, c_uint, Hid, Hid) -> Hid;
        H5Fopen(Text, c_uint, Hid) -> Hid;
        H5Fclose(Hid) -> Herr;
        H5Fget_create_plist(Hid) -> Hid;
        H5Gcreate2(Hid, Text, Hid, Hid, Hid) -> Hid;
        H5Gget_create_plist(Hid) -> Hid;
        H5Oopen(Hid, Text, Hid) -> Hid;
        H5Olink(Hid, Hid, Text, Hid, Hid) -> Herr;
        H5Oget_info3(Hid, *mut ObjectInfo, c_uint) -> Herr;
        H5Literate2(Hid, c_int, c_int, *mut u64, EachLink, Put) -> Herr;
        H5Lget_val(Hid, Text, Put, usize, Hid) -> Herr;
        H5Lunpack_elink_val(Get, usize, *mut c_uint, *mut Text, *mut Text) -> Herr;
        H5Lcreate_soft(Text, Hid, Text, Hid, Hid) -> Herr;
        H5Lcreate_hard(Hid, Text, Hid, Text, Hid, Hid) -> Herr;
        H5Lcreate_external(Text, Text, Hid, Text, Hid, Hid) -> Herr;
        H5Aiterate2(Hid, c_int, c_int, *mut u64, EachAttribute, Put) -> Herr;
        H5Aopen(Hid, Text, Hid) -> Hid;
        H5Acreate2(Hid, Text, Hid, Hid, Hid, Hid) -> Hid;
        H5Aget_type(Hid) -> Hid;
        H5Aget_space(Hid) -> Hid;
        H5Aget_create_plist(Hid) -> Hid;
        H5Aread(Hid, Hid, Put) -> Herr;
        H5Awrite(Hid, Hid, Get) -> Herr;
        H5Dcreate2(Hid, Text, Hid, Hid, Hid, Hid, Hid) -> Hid;
        H5Dget_type(Hid) -> Hid;
        H5Dget_space(Hid) -> Hid;
        H5Dget_create_plist(Hid) -> Hid;
        H5Dread(Hid, Hid, Hid, Hid, Hid, Put) -> Herr;
        H5Dwrite(Hid, Hid, Hid, Hid, Hid, Get) -> Herr;
        H5Scopy(Hid) -> Hid;
        H5Screate_simple(c_int, *const u64, *const u64) -> Hid;
        H5Sget_simple_extent_type(Hid) -> c_int;
        H5Sget_simple_extent_ndims(Hid) -> c_int;
        H5Sget_simple_extent_dims(Hid, *mut u64, *mut u64) -> c_int;
        H5Sget_simple_extent_npoints(Hid) -> i64;
        H5Sselect_hyperslab(Hid, c_int, *const u64, *const u64, *const u64, *const u64) -> Herr;
        H5Tcopy(Hid) -> Hid;
        H5Tcommitted(Hid) -> c_int;
        H5Tcommit_anon(Hid, Hid, Hid, Hid) -> Herr;
        H5Tget_create_plist(Hid) -> Hid;
        H5Tget_class(Hid) -> c_int;
        H5Tget_size(Hid) -> usize;
        H5Tget_super(Hid) -> Hid;
        H5Tget_nmembers(Hid) -> c_int;
        H5Tget_member_offset(Hid, c_uint) -> usize;
        H5Tget_member_type(Hid, c_uint) -> Hid;
        H5Tget_array_ndims(Hid) -> c_int;
        H5Tget_array_dims2(Hid, *mut u64) -> c_int;
        H5Tis_variable_str(Hid) -> c_int;
        H5Tequal(Hid, Hid) -> c_int;
        H5Treclaim(Hid, Hid, Hid, Put) -> Herr;
        H5Rcreate(Put, Hid, Text, c_int, Hid) -> Herr;
        H5Rdereference2(Hid, Hid, c_int, Get) -> Hid;
        H5Rget_region(Hid, c_int, Get) -> Hid;
        H5Rget_type(Get) -> c_int;
        H5Ropen_object(Put, Hid, Hid) -> Hid;
        H5Ropen_region(Put, Hid, Hid) -> Hid;
        H5Rget_attr_name(Get, *mut c_char, usize) -> isize;
        H5Rcreate_object(Hid, Text, Hid, Put) -> Herr;
        H5Rcreate_region(Hid, Text, Hid, Hid, Put) -> Herr;
        H5Rcreate_attr(Hid, Text, Text, Hid, Put) -> Herr;
        H5Rdestroy(Put) -> Herr;
    }
}
pub use table::Hdf5;

/// An id variable of a library that `dlopen` gave, as `H5T_STD_REF_OBJ_g`; `name` ends with NUL. -1 if there is none.
///
/// A program that names such a variable may have its own copy (a copy relocation): the library then sets and
/// reads that copy, and its own stays -1, which is no id.
///
/// # Safety
/// The library is open.
pub unsafe fn id_variable(library: *mut c_void, name: &'static str) -> Hid {
    debug_assert!(name.ends_with('\0'));
    // SAFETY: such variables are hid_t, which the library sets before it returns any id.
    let read = |library| unsafe {
        let at = libc::dlsym(library, name.as_ptr().cast()).cast::<Hid>();
        if at.is_null() { -1 } else { at.read() }
    };
    match read(library) {
        -1 => read(libc::RTLD_DEFAULT),
        id => id,
    }
}

impl Hdf5 {
    /// An id variable of the library, as `H5T_STD_REF_OBJ_g`; `name` ends with NUL. -1 if there is none.
    pub(crate) fn global(&self, name: &'static str) -> Hid {
        // SAFETY: the library is open.
        unsafe { id_variable(self.library() as *mut c_void, name) }
    }

    /// An id that the library returned, or an error that says what could not be done.
    pub(crate) fn id(&self, hid: Hid, what: impl FnOnce() -> String) -> Result<Id<'_>> {
        if hid < 0 { Err(Failure(what())) } else { Ok(Id { hdf5: self, hid }) }
    }

    /// An access list for HDF5's own format, whatever the environment chooses.
    pub(crate) fn native_access(&self) -> Result<Id<'_>> {
        // SAFETY: plain calls with ids of this library.
        unsafe {
            (self.H5open)();
            let list = self.id((self.H5Pcreate)(self.global("H5P_CLS_FILE_ACCESS_ID_g\0")), || {
                "no access list".into()
            })?;
            let native = self.id((self.H5VLget_connector_id_by_name)(c"native".as_ptr()), || {
                "HDF5 does not return its own connector".into()
            })?;
            done((self.H5Pset_vol)(list.hid, native.hid, std::ptr::null()), || {
                "HDF5's own connector cannot be chosen".into()
            })?;
            Ok(list)
        }
    }

    /// The extent of a simple space; empty for a scalar.
    pub(crate) fn extent(&self, space: Hid) -> Result<Vec<u64>> {
        // SAFETY: the array has as many elements as the library says it will write.
        unsafe {
            let ndim = (self.H5Sget_simple_extent_ndims)(space);
            let mut dims =
                vec![0; usize::try_from(ndim).map_err(|_| Failure("a space has no extent".into()))?];
            if ndim > 0 {
                done(
                    (self.H5Sget_simple_extent_dims)(space, dims.as_mut_ptr(), std::ptr::null_mut()),
                    || "a space has no extent".into(),
                )?;
            }
            Ok(dims)
        }
    }

    /// The token and the kind of an object.
    pub(crate) fn info(&self, object: Hid) -> Result<ObjectInfo> {
        let mut info = ObjectInfo::default();
        // SAFETY: the struct is the library's.
        done(unsafe { (self.H5Oget_info3)(object, &mut info, BASIC) }, || {
            "an object's type cannot be read".into()
        })?;
        Ok(info)
    }
}

/// An id that is released when it is dropped.
pub(crate) struct Id<'h> {
    hdf5: &'h Hdf5,
    pub(crate) hid: Hid,
}

impl Drop for Id<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns one count of the id.
        unsafe { (self.hdf5.H5Idec_ref)(self.hid) };
    }
}

/// Success, or an error that says what could not be done.
pub(crate) fn done(code: Herr, what: impl FnOnce() -> String) -> Result<()> {
    if code < 0 { Err(Failure(what())) } else { Ok(()) }
}

/// A text for the library.
pub(crate) fn text(bytes: &str) -> Result<CString> {
    CString::new(bytes).map_err(|_| Failure(format!("a name holds a NUL: {bytes:?}")))
}
