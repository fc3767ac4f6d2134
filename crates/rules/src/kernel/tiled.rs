//! Two loops of which one is dense in the source and the other in the destination, walked in tiles.

use super::strided::{self, Plane};
use crate::copy::Dim;

/// Elements per side of a square tile: the lines of both sides stay in the first-level cache.
const SIDE: u64 = 32;
/// Elements per tile where one of the loops is shorter than [`SIDE`].
const AREA: u64 = 1024;

/// Copies the plane of `near` (neighbours in the source) and `inner` (neighbours in the destination).
///
/// # Safety
/// Every element of the plane is readable from `src` and writable from `dst`; the two do not overlap.
pub(super) unsafe fn run(elem: usize, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by the caller.
    if unsafe { super::x86::transpose(elem, near, inner, src, dst) } {
        return;
    }
    // SAFETY: by the caller.
    unsafe { portable(elem, near, inner, src, dst) }
}

/// Tiles of single moves, for every width and stride.
///
/// # Safety
/// As for [`run`].
pub(super) unsafe fn portable(elem: usize, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
    let near_step = SIDE.max(AREA / inner.count.min(SIDE)).min(near.count);
    let inner_step = SIDE.max(AREA / near.count.min(SIDE)).min(inner.count);
    let at = |dim: Dim, k: u64, base: (*const u8, *mut u8)| {
        let (s, d) = (k as i64 * dim.src_stride, k as i64 * dim.dst_stride);
        (base.0.wrapping_offset(s as isize), base.1.wrapping_offset(d as isize))
    };
    let kernel = strided::kernel(elem);
    for a in (0..near.count).step_by(near_step as usize) {
        let na = Dim { count: near_step.min(near.count - a), ..near };
        for b in (0..inner.count).step_by(inner_step as usize) {
            let nb = Dim { count: inner_step.min(inner.count - b), ..inner };
            let (src, dst) = at(inner, b, at(near, a, (src, dst)));
            let plane = if na.count > nb.count { Plane::new(nb, na) } else { Plane::new(na, nb) };
            // SAFETY: the tile is part of the plane.
            unsafe { kernel(elem, plane, src, dst) }
        }
    }
}
