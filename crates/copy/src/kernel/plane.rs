//! Two nested loops over one element, as kernels take them.

use crate::dim::Dim;

/// The two innermost loops of a copy, as the processor counts.
#[derive(Clone, Copy)]
pub(super) struct Plane {
    pub(super) outer: Loop,
    pub(super) inner: Loop,
}

/// One loop: how often, and bytes from one element to the next on either side.
#[derive(Clone, Copy)]
pub(super) struct Loop {
    pub(super) count: usize,
    pub(super) src: isize,
    pub(super) dst: isize,
}

impl From<Dim> for Loop {
    fn from(dim: Dim) -> Self {
        Loop { count: dim.count as usize, src: dim.src_stride as isize, dst: dim.dst_stride as isize }
    }
}

impl Plane {
    /// Walks `outer` slowly and `inner` fast.
    pub(super) fn new(outer: Dim, inner: Dim) -> Self {
        Plane { outer: outer.into(), inner: inner.into() }
    }
}

/// Whether rows by registers of 64 bytes are asked for before their turn, and on the way to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePrefetch {
    Not,
    IntoCache,
    IntoMemory,
}

/// Copies every element of a plane; the first argument is the element's size.
///
/// # Safety
/// The element size is the one the kernel was chosen for, every element of the plane is readable from
/// the source and writable from the destination pointer, and the two do not overlap.
pub(super) type Kernel = unsafe fn(usize, Plane, *const u8, *mut u8);

/// The place `by` bytes on, found by one addition: compilers would rather share additions between elements,
/// at the price of addresses that are sums, and repeat a loop's body, at the price of loads that each go
/// several times as far.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written through it")]
#[inline(always)]
pub(super) fn step(at: *const u8, by: isize) -> *const u8 {
    let mut at = at.wrapping_offset(by);
    // SAFETY: no instruction at all; the compiler only no longer knows where the place came from.
    unsafe { std::arch::asm!("/* {at} */", at = inout(reg) at, options(nomem, nostack, preserves_flags)) };
    at
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(super) fn step(at: *const u8, by: isize) -> *const u8 {
    at.wrapping_offset(by)
}
