//! A host: one HDF5 library in this process that has loaded the plug-in.
//!
//! The plug-in has no undefined H5 symbol. The caller of `H5PLget_plugin_info` is identified by the return
//! address, and every needed function and id is looked up in that library, so that several libraries in one
//! process stay apart.
//!
//! Invariants
//! - a host is never removed: its table and its classes are valid for ever;
//! - ids of types and errors are read at the time of use, after the library has made them.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::library::abi::{Herr, Hid, Void};

/// Most HDF5 libraries in one process.
pub const MAX_HOSTS: usize = 8;

macro_rules! api {
    (needed { $($name:ident: fn($($arg:ty),*) -> $ret:ty;)* } optional { $($oname:ident: fn($($oarg:ty),*) -> $oret:ty;)* }) => {
        /// Functions of one HDF5 library.
        #[allow(non_snake_case, missing_docs)]
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
            $(pub $oname: Option<unsafe extern "C" fn($($oarg),*) -> $oret>,)*
            pub H5Epush2: unsafe extern "C" fn(Hid, *const c_char, *const c_char, c_uint, Hid, Hid, Hid, *const c_char, ...) -> Herr,
        }

        impl Api {
            /// Looks everything up in a library; `None` if something required is missing.
            fn load(library: Void) -> Option<Self> {
                // SAFETY: the signatures are those of the public headers of HDF5 1.14.4 to 2.2.
                unsafe {
                    Some(Api {
                        $($name: std::mem::transmute::<Void, unsafe extern "C" fn($($arg),*) -> $ret>(
                            symbol(library, concat!(stringify!($name), "\0"))?),)*
                        $($oname: symbol(library, concat!(stringify!($oname), "\0"))
                            .map(|f| std::mem::transmute::<Void, unsafe extern "C" fn($($oarg),*) -> $oret>(f)),)*
                        H5Epush2: std::mem::transmute::<
                            Void,
                            unsafe extern "C" fn(Hid, *const c_char, *const c_char, c_uint, Hid, Hid, Hid, *const c_char, ...) -> Herr,
                        >(symbol(library, "H5Epush2\0")?),
                    })
                }
            }
        }
    };
}

type P = *const c_char;
type V = *mut c_void;
type C = *const c_void;

api! {
    needed {
    H5get_libversion: fn(*mut c_uint, *mut c_uint, *mut c_uint) -> Herr;
    H5allocate_memory: fn(usize, bool) -> V;
    H5Eset_auto2: fn(Hid, C, V) -> Herr;
    H5Eget_auto2: fn(Hid, *mut C, *mut V) -> Herr;
    H5Iget_type: fn(Hid) -> c_int;
    H5Iinc_ref: fn(Hid) -> c_int;
    H5Idec_ref: fn(Hid) -> c_int;
    H5Iis_valid: fn(Hid) -> c_int;
    H5Iiterate: fn(c_int, unsafe extern "C" fn(Hid, V) -> Herr, V) -> Herr;
    H5Iobject_verify: fn(Hid, c_int) -> V;
    H5VLobject: fn(Hid) -> V;
    H5VLget_file_type: fn(V, Hid, Hid) -> Hid;
    H5VLwrap_register: fn(V, c_int) -> Hid;
    H5VLget_connector_id_by_name: fn(P) -> Hid;
    H5VLclose: fn(Hid) -> Herr;
    H5Pget_vol_id: fn(Hid, *mut Hid) -> Herr;
    H5Pget_vol_info: fn(Hid, *mut V) -> Herr;
    H5Pset_vol: fn(Hid, Hid, C) -> Herr;
    H5Pcreate: fn(Hid) -> Hid;
    H5Pcopy: fn(Hid) -> Hid;
    H5Pequal: fn(Hid, Hid) -> c_int;
    H5Pclose: fn(Hid) -> Herr;
    H5Pexist: fn(Hid, P) -> c_int;
    H5Pisa_class: fn(Hid, Hid) -> c_int;
    H5Pget_layout: fn(Hid) -> c_int;
    H5Pset_layout: fn(Hid, c_int) -> Herr;
    H5Pget_chunk: fn(Hid, c_int, *mut u64) -> c_int;
    H5Pset_chunk: fn(Hid, c_int, *const u64) -> Herr;
    H5Pget_external_count: fn(Hid) -> c_int;
    H5Pget_nfilters: fn(Hid) -> c_int;
    H5Pget_filter2: fn(Hid, c_uint, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;
    H5Pset_filter: fn(Hid, c_int, c_uint, usize, *const c_uint) -> Herr;
    H5Zfilter_avail: fn(c_int) -> c_int;
    H5Pfill_value_defined: fn(Hid, *mut c_int) -> Herr;
    H5Pget_fill_value: fn(Hid, Hid, V) -> Herr;
    H5Pset_fill_value: fn(Hid, Hid, C) -> Herr;
    H5Pget_fill_time: fn(Hid, *mut c_int) -> Herr;
    H5Pset_fill_time: fn(Hid, c_int) -> Herr;
    H5Pget_alloc_time: fn(Hid, *mut c_int) -> Herr;
    H5Pset_alloc_time: fn(Hid, c_int) -> Herr;
    H5Pget_obj_track_times: fn(Hid, *mut bool) -> Herr;
    H5Pset_obj_track_times: fn(Hid, bool) -> Herr;
    H5Pget_attr_creation_order: fn(Hid, *mut c_uint) -> Herr;
    H5Pset_attr_creation_order: fn(Hid, c_uint) -> Herr;
    H5Pget_attr_phase_change: fn(Hid, *mut c_uint, *mut c_uint) -> Herr;
    H5Pset_attr_phase_change: fn(Hid, c_uint, c_uint) -> Herr;
    H5Pget_link_creation_order: fn(Hid, *mut c_uint) -> Herr;
    H5Pset_link_creation_order: fn(Hid, c_uint) -> Herr;
    H5Pget_create_intermediate_group: fn(Hid, *mut c_uint) -> Herr;
    H5Pget_char_encoding: fn(Hid, *mut c_int) -> Herr;
    H5Pset_char_encoding: fn(Hid, c_int) -> Herr;
    H5Pget_copy_object: fn(Hid, *mut c_uint) -> Herr;
    H5Pget_libver_bounds: fn(Hid, *mut c_int, *mut c_int) -> Herr;
    H5Pset_libver_bounds: fn(Hid, c_int, c_int) -> Herr;
    H5Pget_cache: fn(Hid, *mut c_int, *mut usize, *mut usize, *mut f64) -> Herr;
    H5Pset_cache: fn(Hid, c_int, usize, usize, f64) -> Herr;
    H5Pget_userblock: fn(Hid, *mut u64) -> Herr;
    H5Pget_fclose_degree: fn(Hid, *mut c_int) -> Herr;
    H5Pget_nlinks: fn(Hid, *mut usize) -> Herr;
    H5Pget_elink_acc_flags: fn(Hid, *mut c_uint) -> Herr;
    H5Pget_elink_fapl: fn(Hid) -> Hid;
    H5Pget_elink_prefix: fn(Hid, *mut c_char, usize) -> isize;
    H5Pencode2: fn(Hid, V, *mut usize, Hid) -> Herr;
    H5Pdecode: fn(C) -> Hid;
    H5Sclose: fn(Hid) -> Herr;
    H5Scopy: fn(Hid) -> Hid;
    H5Screate: fn(c_int) -> Hid;
    H5Screate_simple: fn(c_int, *const u64, *const u64) -> Hid;
    H5Sget_simple_extent_type: fn(Hid) -> c_int;
    H5Sget_simple_extent_ndims: fn(Hid) -> c_int;
    H5Sget_simple_extent_dims: fn(Hid, *mut u64, *mut u64) -> c_int;
    H5Sget_select_npoints: fn(Hid) -> i64;
    H5Sget_select_type: fn(Hid) -> c_int;
    H5Sget_select_bounds: fn(Hid, *mut u64, *mut u64) -> Herr;
    H5Sis_regular_hyperslab: fn(Hid) -> c_int;
    H5Sget_regular_hyperslab: fn(Hid, *mut u64, *mut u64, *mut u64, *mut u64) -> Herr;
    H5Sselect_valid: fn(Hid) -> c_int;
    H5Ssel_iter_create: fn(Hid, usize, c_uint) -> Hid;
    H5Ssel_iter_get_seq_list: fn(Hid, usize, usize, *mut usize, *mut usize, *mut u64, *mut usize) -> Herr;
    H5Ssel_iter_close: fn(Hid) -> Herr;
    H5Tclose: fn(Hid) -> Herr;
    H5Tcopy: fn(Hid) -> Hid;
    H5Tequal: fn(Hid, Hid) -> c_int;
    H5Tget_class: fn(Hid) -> c_int;
    H5Tget_size: fn(Hid) -> usize;
    H5Tset_size: fn(Hid, usize) -> Herr;
    H5Tget_order: fn(Hid) -> c_int;
    H5Tset_order: fn(Hid, c_int) -> Herr;
    H5Tget_sign: fn(Hid) -> c_int;
    H5Tget_precision: fn(Hid) -> usize;
    H5Tget_offset: fn(Hid) -> c_int;
    H5Tget_super: fn(Hid) -> Hid;
    H5Tget_nmembers: fn(Hid) -> c_int;
    H5Tget_member_type: fn(Hid, c_uint) -> Hid;
    H5Tget_member_offset: fn(Hid, c_uint) -> usize;
    H5Tget_member_name: fn(Hid, c_uint) -> *mut c_char;
    H5free_memory: fn(V) -> Herr;
    H5Tget_array_ndims: fn(Hid) -> c_int;
    H5Tget_array_dims2: fn(Hid, *mut u64) -> c_int;
    H5Tarray_create2: fn(Hid, c_uint, *const u64) -> Hid;
    H5Tvlen_create: fn(Hid) -> Hid;
    H5Tcreate: fn(c_int, usize) -> Hid;
    H5Tinsert: fn(Hid, P, usize, Hid) -> Herr;
    H5Tset_tag: fn(Hid, P) -> Herr;
    H5Tis_variable_str: fn(Hid) -> c_int;
    H5Tdetect_class: fn(Hid, c_int) -> c_int;
    H5Tencode: fn(Hid, V, *mut usize) -> Herr;
    H5Tconvert: fn(Hid, Hid, usize, V, V, Hid) -> Herr;
    H5Tcommitted: fn(Hid) -> c_int;
    H5Treclaim: fn(Hid, Hid, Hid, V) -> Herr;
    H5Oget_info3: fn(Hid, V, c_uint) -> Herr;
    H5Fcreate: fn(P, c_uint, Hid, Hid) -> Hid;
    H5Fopen: fn(P, c_uint, Hid) -> Hid;
    H5Fclose: fn(Hid) -> Herr;
    H5Pset_fapl_core: fn(Hid, usize, bool) -> Herr;
    H5Gcreate2: fn(Hid, P, Hid, Hid, Hid) -> Hid;
    H5Dcreate2: fn(Hid, P, Hid, Hid, Hid, Hid, Hid) -> Hid;
    H5Acreate2: fn(Hid, P, Hid, Hid, Hid, Hid) -> Hid;
    H5Tcommit2: fn(Hid, P, Hid, Hid, Hid, Hid) -> Herr;
    H5Lunpack_elink_val: fn(C, usize, *mut c_uint, *mut P, *mut P) -> Herr;
    H5Oopen: fn(Hid, P, Hid) -> Hid;
    }
    optional {
    H5Tdecode: fn(C) -> Hid;
    H5Tdecode2: fn(C, usize) -> Hid;
    H5Pget_fapl_mpio: fn(Hid, *mut V, *mut V) -> Herr;
    H5Pget_dxpl_mpio: fn(Hid, *mut c_int) -> Herr;
    H5Pget_driver: fn(Hid) -> Hid;
    H5FDdriver_query: fn(Hid, *mut std::ffi::c_ulong) -> Herr;
    H5Pget_fapl_core: fn(Hid, *mut usize, *mut bool) -> Herr;
    H5Pget_alignment: fn(Hid, *mut u64, *mut u64) -> Herr;
    H5Pget_file_space_strategy: fn(Hid, *mut c_int, *mut bool, *mut u64) -> Herr;
    H5Pget_file_space_page_size: fn(Hid, *mut u64) -> Herr;
    H5Pget_virtual_count: fn(Hid, *mut usize) -> Herr;
    H5Pget_file_locking: fn(Hid, *mut bool, *mut bool) -> Herr;
    }
}

fn symbol(library: Void, name: &'static str) -> Option<Void> {
    debug_assert!(name.ends_with('\0'));
    // SAFETY: `library` is a handle of dlopen, `name` ends with NUL.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    (!found.is_null()).then_some(found)
}

/// One HDF5 library.
pub struct Host {
    /// Its number, which is also that of its classes.
    pub index: usize,
    /// Its functions.
    pub api: Api,
    /// Its version.
    pub version: (u32, u32, u32),
    /// Its load address, which identifies the host.
    base: usize,
    library: usize,
}

static HOSTS: [OnceLock<Host>; MAX_HOSTS] = [const { OnceLock::new() }; MAX_HOSTS];
static REGISTERING: Mutex<()> = Mutex::new(());

impl Host {
    /// The host with this number. Only the classes of that host call this, so it exists.
    pub fn of(index: usize) -> Option<&'static Host> {
        HOSTS.get(index)?.get()
    }

    /// The library that contains this address, registered if it is new.
    ///
    /// `None` if it is no supported HDF5 (a function is missing), or the process has too many.
    #[allow(clippy::not_unsafe_ptr_arg_deref, reason = "an address that is only looked up, never read")]
    pub fn containing(address: *const c_void) -> Option<&'static Host> {
        let _one = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: dladdr fills the struct, or says that it did not.
        let info = unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
                return None;
            }
            info
        };
        let base = info.dli_fbase as usize;
        for slot in &HOSTS {
            match slot.get() {
                Some(host) if host.base == base => return Some(host),
                Some(_) => {}
                None => {
                    // SAFETY: the name comes from dladdr; NOLOAD only finds what is loaded. A program itself
                    // has no such name.
                    let mut library =
                        unsafe { libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
                    if library.is_null() {
                        // SAFETY: the program itself, for one that is linked with the library statically and
                        // exports it.
                        library = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
                    }
                    let api = Api::load(library)?;
                    let mut v = (0, 0, 0);
                    // SAFETY: writes three numbers.
                    unsafe { (api.H5get_libversion)(&mut v.0, &mut v.1, &mut v.2) };
                    let index = HOSTS.iter().position(|s| std::ptr::eq(s, slot))?;
                    return Some(slot.get_or_init(|| Host {
                        index,
                        api,
                        version: v,
                        base,
                        library: library as usize,
                    }));
                }
            }
        }
        None
    }

    /// The library, as `dlopen` gave it.
    pub fn library(&self) -> Void {
        self.library as Void
    }

    /// An id variable of the library, such as `H5T_NATIVE_INT_g`; `name` ends with NUL. -1 if there is none.
    pub fn global(&self, name: &'static str) -> Hid {
        // SAFETY: a host's library is never closed.
        unsafe { drystone_hdf5_copy::id_variable(self.library as Void, name) }
    }

    /// Whether claiming to be native was tested with this version.
    pub fn may_mimic(&self) -> bool {
        matches!(self.version, (1, 14, 6) | (2, 0, 0))
    }

    /// Pushes an error on the library's stack.
    pub fn push_error(&self, major: &'static str, minor: &'static str, message: &str) {
        let message = CString::new(message.replace('\0', " ").replace('%', "%%")).unwrap_or_default();
        let place: &CStr = c"libdrystone_hdf5_vol";
        // SAFETY: all strings end with NUL and are copied by the library; no further arguments follow,
        // percent signs are doubled.
        unsafe {
            (self.api.H5Epush2)(
                crate::library::abi::E_DEFAULT,
                place.as_ptr(),
                c"drystone".as_ptr(),
                0,
                self.global("H5E_ERR_CLS_g\0"),
                self.global(major),
                self.global(minor),
                message.as_ptr(),
            );
        }
    }
}

/// Runs calls of the library that may fail, without printing or keeping their errors.
pub fn quietly<T>(host: &Host, body: impl FnOnce() -> T) -> T {
    let mut f = std::ptr::null();
    let mut data = std::ptr::null_mut();
    // SAFETY: reads and later restores the handler of this thread's error stack.
    unsafe {
        (host.api.H5Eget_auto2)(crate::library::abi::E_DEFAULT, &mut f, &mut data);
        (host.api.H5Eset_auto2)(crate::library::abi::E_DEFAULT, std::ptr::null(), std::ptr::null_mut());
    }
    let result = body();
    // SAFETY: as above.
    unsafe { (host.api.H5Eset_auto2)(crate::library::abi::E_DEFAULT, f, data) };
    result
}

/// The type of callbacks of `H5Iiterate` and similar functions.
pub type IdOp = unsafe extern "C" fn(Hid, Void) -> Herr;
/// A C string of the library's caller.
pub type Text = *const c_char;
/// A plain C int of the library.
pub type Int = c_int;
