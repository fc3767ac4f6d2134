//! Two nested loops over one element, as kernels take them.

use crate::dim::Dim;

/// The two innermost loops of a copy, in pointer arithmetic.
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

/// Whether rows by 64-byte registers are prefetched, and from where to where.
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

/// The address `by` bytes on, by one addition: compilers would rather share additions between elements, which
/// makes addresses sums, and unroll the loop, whose loads then advance several times as far each.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written through it")]
#[inline(always)]
pub(super) fn step(at: *const u8, by: isize) -> *const u8 {
    let mut at = at.wrapping_offset(by);
    // SAFETY: no instruction at all; it only hides the address's origin from the compiler.
    unsafe { std::arch::asm!("/* {at} */", at = inout(reg) at, options(nomem, nostack, preserves_flags)) };
    at
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(super) fn step(at: *const u8, by: isize) -> *const u8 {
    at.wrapping_offset(by)
}
