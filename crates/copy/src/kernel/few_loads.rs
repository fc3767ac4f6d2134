//! Moves elements of 16 bytes that lie at least two lines apart, by loops of one load or two.
//!
//! Why not the loops for all short elements: the hardware prefetcher predicts strides per load instruction, up to a
//! distance of 2 KiB, and each of eight loads in a loop advances eight times as far as a single load. This is decisive
//! in a cache, and from memory on the processors of some makers.

use super::element::exactly;
use super::plane::{Kernel, Loop, Plane, step};
use super::stream::{self, LINE};
use super::strided::{CACHED, SHARED_AHEAD};

/// The kernel for elements of 16 bytes at least two lines apart in memory, by a loop with one load.
///
/// The hardware prefetcher predicts strides per load instruction, and not beyond 2 KiB: each of the eight loads into
/// which a compiler unrolls the loop advances eight times as far. Measured at strides of 128 and 256 bytes (Xeon): 1.05
/// to 1.1 times as fast as four or eight loads, or loads of half the size; at 144 and 512 equally fast. On Zen 5 it
/// takes 1.3 to 1.4 times as long as eight loads.
pub(super) fn rolled_kernel() -> Kernel {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return run_rolled;
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return super::strided::plain_kernel(16);
}

/// # Safety
/// As for [`Kernel`], with elements of 16 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn run_rolled(_elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let Plane { outer, inner } = plane;
    for k in 0..outer.count as isize {
        if inner.count == 0 {
            return;
        }
        // SAFETY: the caller guarantees 16 bytes for each of the row's elements, at least one; the operands declare
        // what the loop changes.
        unsafe {
            std::arch::asm!(
                "2:",
                "movups {element}, [{src}]",
                "movups [{dst}], {element}",
                "add {src}, {src_stride}",
                "add {dst}, {dst_stride}",
                "dec {count}",
                "jnz 2b",
                element = out(xmm_reg) _,
                src = inout(reg) src.wrapping_offset(k * outer.src) => _,
                dst = inout(reg) dst.wrapping_offset(k * outer.dst) => _,
                src_stride = in(reg) inner.src,
                dst_stride = in(reg) inner.dst,
                count = inout(reg) inner.count => _,
                options(nostack),
            );
        }
    }
}

/// Gathers elements of 16 bytes at least two lines apart in a cache, and prefetches the lines of the destination, where
/// they become adjacent: no source line is used twice, but source lines evict destination lines from the first-level
/// cache.
///
/// The hardware prefetcher predicts strides per load instruction (see [`rolled_kernel`]). Measured with 64 KiB to 1 MiB
/// (Zen 5) beside NumPy's loop of one load: two loads 1.0 to 1.15 times as fast, from memory 1.05 to 1.25 times; eight
/// 0.75 to 1.1 times. Strides that use few sets of the first-level cache leave no space for prefetched lines. For them
/// two loads are 0.88 to 1.0 times as fast as one while the second-level cache holds the source, and 1.15 to 1.25 times
/// beyond that.
///
/// # Safety
/// As for [`Kernel`], with elements of 16 bytes.
pub(super) unsafe fn run_stepping(_elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let lines = plane.outer.count.saturating_mul(plane.inner.count).saturating_mul(LINE);
    let crowded = plane.inner.src.unsigned_abs() >= CROWDED && plane.inner.src % (CROWDED / 2) as isize == 0;
    let rows = if crowded && lines <= CACHED / 2 { step_through::<1> } else { step_through::<2> };
    for k in 0..plane.outer.count as isize {
        let (from, to) = (k * plane.outer.src, k * plane.outer.dst);
        // SAFETY: the caller's guarantee, for this row of the plane.
        unsafe { rows(plane.inner, src.wrapping_offset(from), dst.wrapping_offset(to)) }
    }
}

/// [`step`] for a destination.
#[inline(always)]
fn step_mut(at: *mut u8, by: isize) -> *mut u8 {
    step(at, by).cast_mut()
}

/// Strides of at least this many bytes that are multiples of half as many use at most eight sets of the first-level
/// cache.
const CROWDED: usize = 1024;

/// Moves `LOADS` elements at a time. A later destination line is prefetched before each two or four.
///
/// # Safety
/// As for [`run_stepping`], for one row.
unsafe fn step_through<const LOADS: usize>(row: Loop, src: *const u8, dst: *mut u8) {
    let group = if LOADS == 1 { LINE / 16 } else { LOADS };
    // The value is hidden from the compiler, which would otherwise unroll the loop.
    let hidden = if LOADS == 1 { std::hint::black_box(group) } else { group };
    let (mut src, mut dst) = (src, dst);
    let mut some = |count: usize| {
        stream::prefetch_for_write(dst.wrapping_offset(SHARED_AHEAD));
        for _ in 0..count {
            // SAFETY: the caller's guarantee, for the next element of the row.
            unsafe { exactly::<16>(src, dst) }
            (src, dst) = (step(src, row.src), step_mut(dst, row.dst));
        }
    };
    (0..row.count / group).for_each(|_| some(hidden));
    some(row.count % group);
}
