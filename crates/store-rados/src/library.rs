//! The part of librados that is used, as a table of functions that is filled when the library is loaded.
//!
//! The signatures are those of `rados/librados.h`, whose symbols are versioned and have been stable since release 14.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

/// A handle of librados: its types are opaque pointers.
pub(crate) type Handle = *mut c_void;
/// What is called when an operation is complete.
pub(crate) type Callback = unsafe extern "C" fn(Handle, *mut c_void);

/// `rados_object_list_item`: an object of a listing. Its texts do not end with a zero; empty ones are null pointers.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) name_len: usize,
    pub(crate) name: *mut c_char,
    pub(crate) namespace_len: usize,
    pub(crate) namespace: *mut c_char,
    pub(crate) locator_len: usize,
    pub(crate) locator: *mut c_char,
}

impl Listed {
    pub(crate) const NONE: Listed = Listed {
        name_len: 0,
        name: std::ptr::null_mut(),
        namespace_len: 0,
        namespace: std::ptr::null_mut(),
        locator_len: 0,
        locator: std::ptr::null_mut(),
    };
}

/// The names under which distributions install the library.
const NAMES: [&str; 2] = ["librados.so.2", "librados.2.dylib"];

macro_rules! api {
    ($($name:ident($($type:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions.
        #[allow(missing_docs)]
        pub(crate) struct Api {
            _library: Library,
            $(pub(crate) $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Api {
            fn load(name: &str) -> Result<Api, libloading::Error> {
                // SAFETY: librados runs no code of ours when it is loaded, and its own initialisers have no
                // preconditions.
                let library = unsafe { Library::new(name) }?;
                $(
                    // SAFETY: the function has this signature in every release of librados.so.2.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($type),*) $(-> $result)?>(concat!(stringify!($name), "\0").as_bytes())
                    }?;
                )*
                Ok(Api { _library: library, $($name,)* })
            }
        }
    };
}

api! {
    rados_create(*mut Handle, *const c_char) -> c_int;
    rados_conf_read_file(Handle, *const c_char) -> c_int;
    rados_conf_parse_env(Handle, *const c_char) -> c_int;
    rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    rados_connect(Handle) -> c_int;
    rados_shutdown(Handle);
    rados_cluster_fsid(Handle, *mut c_char, usize) -> c_int;
    rados_mon_command(Handle, *mut *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize) -> c_int;
    rados_buffer_free(*mut c_char);
    rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_destroy(Handle);
    rados_ioctx_set_namespace(Handle, *const c_char);
    rados_object_list_begin(Handle) -> Handle;
    rados_object_list_end(Handle) -> Handle;
    rados_object_list_is_end(Handle, Handle) -> c_int;
    rados_object_list_cursor_cmp(Handle, Handle, Handle) -> c_int;
    rados_object_list_cursor_free(Handle, Handle);
    rados_object_list_slice(Handle, Handle, Handle, usize, usize, *mut Handle, *mut Handle);
    rados_object_list(Handle, Handle, Handle, usize, *const c_char, usize, *mut Listed, *mut Handle) -> c_int;
    rados_object_list_free(usize, *mut Listed);
    rados_aio_create_completion2(*mut c_void, Option<Callback>, *mut Handle) -> c_int;
    rados_aio_wait_for_complete(Handle) -> c_int;
    rados_aio_get_return_value(Handle) -> c_int;
    rados_aio_get_version(Handle) -> u64;
    rados_aio_release(Handle);
    rados_aio_read(Handle, *const c_char, Handle, *mut c_char, usize, u64) -> c_int;
    rados_aio_stat(Handle, *const c_char, Handle, *mut u64, *mut i64) -> c_int;
    rados_aio_remove(Handle, *const c_char, Handle) -> c_int;
    rados_aio_exec(Handle, *const c_char, Handle, *const c_char, *const c_char, *const c_char, usize, *mut c_char, usize) -> c_int;
    rados_aio_write_op_operate(Handle, Handle, Handle, *const c_char, *mut i64, c_int) -> c_int;
    rados_create_write_op() -> Handle;
    rados_release_write_op(Handle);
    rados_write_op_assert_version(Handle, u64);
    rados_write_op_create(Handle, c_int, *const c_char);
    rados_write_op_write(Handle, *const c_char, usize, u64);
    rados_write_op_write_full(Handle, *const c_char, usize);
    rados_write_op_truncate(Handle, u64);
}

/// The library of this process, loaded once; or why it cannot be.
pub(crate) fn api() -> Result<&'static Api, String> {
    static LOADED: OnceLock<Result<Api, String>> = OnceLock::new();
    let load = || {
        let mut reason = String::new();
        for name in NAMES {
            match Api::load(name) {
                Ok(api) => return Ok(api),
                Err(error) if reason.is_empty() => reason = error.to_string(),
                Err(_) => {}
            }
        }
        Err(format!(
            "rados:// needs Ceph's client library, which is not installed ({reason}); install the package librados2 \
             (Debian, Ubuntu, Fedora, openSUSE), then try again"
        ))
    };
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}
