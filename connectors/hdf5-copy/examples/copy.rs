//! `copy LIBHDF5 SOURCE TARGET`: copies a file through a library, whichever connector the environment makes
//! it use for the source.

#![allow(clippy::unwrap_used, reason = "a program for tests")]

use std::ffi::{CString, c_int, c_uint};

fn main() {
    let words: Vec<CString> = std::env::args().skip(1).map(|word| CString::new(word).unwrap()).collect();
    let [library, source, target] = &words[..] else { panic!("usage: copy LIBHDF5 SOURCE TARGET") };
    // SAFETY: an HDF5 library, which stays open; the two functions have these signatures.
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY);
        assert!(!handle.is_null(), "{library:?} cannot be loaded");
        let hdf5 = drystone_hdf5_copy::Hdf5::of(handle).unwrap();
        type Open = unsafe extern "C" fn(*const std::ffi::c_char, c_uint, i64) -> i64;
        let start = libc::dlsym(handle, c"H5open".as_ptr());
        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn() -> c_int>(start)();
        let open =
            std::mem::transmute::<*mut std::ffi::c_void, Open>(libc::dlsym(handle, c"H5Fopen".as_ptr()));
        let file = open(source.as_ptr(), 0, 0);
        assert!(file >= 0, "{source:?} cannot be opened");
        match drystone_hdf5_copy::copy(&hdf5, file, target) {
            Ok(copied) => println!("{copied:?}"),
            Err(failure) => {
                eprintln!("copy: {failure}");
                std::process::exit(1);
            }
        }
    }
}
