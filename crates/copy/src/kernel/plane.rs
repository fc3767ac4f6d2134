//! Two nested loops over one element: the argument of kernels.

use crate::dim::Dim;

/// The two innermost loops of a copy, in pointer arithmetic.
#[derive(Clone, Copy)]
pub(super) struct Plane {
    pub(super) outer: Loop,
    pub(super) inner: Loop,
}

/// One loop: its count, and bytes from one element to the next on either side.
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
    /// A plane with `outer` as the slow and `inner` as the fast loop.
    pub(super) fn new(outer: Dim, inner: Dim) -> Self {
        Plane { outer: outer.into(), inner: inner.into() }
    }
}

/// Whether rows moved by 64-byte registers are prefetched, and between which kinds of memory they move.
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

/// The address `by` bytes further, by one addition. Otherwise compilers share additions between elements, which makes
/// addresses sums, and unroll the loop, so that each load advances several times as far.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written through it")]
#[inline(always)]
pub(super) fn step(at: *const u8, by: isize) -> *const u8 {
    let mut at = at.wrapping_offset(by);
    // SAFETY: it emits no instruction; it only hides the address's origin from the compiler.
    unsafe { std::arch::asm!("/* {at} */", at = inout(reg) at, options(nomem, nostack, preserves_flags)) };
    at
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(super) fn step(at: *const u8, by: isize) -> *const u8 {
    at.wrapping_offset(by)
}
