//! In-register transposes for x86-64.

use crate::copy::Dim;

/// Transposes if there is a kernel for this shape; says whether it did.
///
/// # Safety
/// Every element of the plane is readable from `src` and writable from `dst`; the two do not overlap.
pub(super) unsafe fn transpose(
    _elem: usize,
    _near: Dim,
    _inner: Dim,
    _src: *const u8,
    _dst: *mut u8,
) -> bool {
    false
}
