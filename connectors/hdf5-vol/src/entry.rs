//! The two functions by which a library recognises a plug-in. The second must identify its caller: it looks
//! at its return address.

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;

use crate::classes;
use crate::library::host::Host;

/// A VOL connector (`H5PL_TYPE_VOL`).
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    1
}

/// The class for the calling library, identified by the return address. Null if that library cannot be
/// served.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    // On entry the stack holds only the return address.
    core::arch::naked_asm!("mov rdi, [rsp]", "jmp {}", sym plugin_info)
}

/// The class for the calling library, identified by the return address. Null if that library cannot be
/// served.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    // On entry the link register holds the return address.
    core::arch::naked_asm!("mov x0, x30", "b {}", sym plugin_info)
}

extern "C" fn plugin_info(caller: *const c_void) -> *const c_void {
    catch_unwind(|| {
        Host::containing(caller).map_or(std::ptr::null(), |host| classes::class(host.index).cast())
    })
    .unwrap_or(std::ptr::null())
}
