//! The loops that move bytes.
//!
//! A canonical copy says by its shape which kernel suits it: no loops is one `memcpy`; long elements are
//! runs; short elements are gathered or scattered with moves of exactly their width; and where
//! neighbours in the source are far apart in the destination, both are walked in tiles, so that every
//! cache line fetched is used up before it is lost.
//!
//! Invariant: kernels trust the copy. Whoever calls [`run`] has checked both spans.

mod convert;
mod element;
mod processor;
mod records;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod rows;
mod splat;
pub(crate) mod stream;
mod strided;
mod tiled;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::copy::{Dim, StridedCopy};
use processor::Processor;
use stream::LINE;

pub(crate) use convert::convert;
use strided::Plane;
use tiled::Tiled;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use wide::{available as wide_available, wide_kernel};

/// Runs a copy.
///
/// # Safety
/// `src` is readable over the copy's source span and `dst` writable over its destination span, counted
/// from the two pointers; the cells of the two do not overlap. `dst_len`, the size of the whole
/// destination buffer, only decides whether its lines are worth caching, and `src_len`, that of the source, whether its lines are
/// cached.
pub(crate) unsafe fn run(copy: &StridedCopy, src: *const u8, src_len: usize, dst: *mut u8, dst_len: usize) {
    let long = stream::AVAILABLE && copy.bytes() >= stream::FAR_COPY;
    let far = long && dst_len >= stream::FAR_BUFFER;
    let near = src_len <= strided::CACHED;
    let src = src.wrapping_add(copy.src_offset() as usize);
    let dst = dst.wrapping_add(copy.dst_offset() as usize);
    let elem = copy.elem_bytes();
    let dims = copy.dims();
    let Some((inner, outer)) = dims.split_last() else {
        // SAFETY: one element of `elem` bytes is the whole span on both sides.
        return unsafe { std::ptr::copy_nonoverlapping(src, dst, elem) };
    };
    if inner.src_stride == 0 && inner.dst_stride == elem as i64 {
        let len = inner.count as usize * elem;
        // SAFETY: the innermost loop writes `len` adjacent bytes from one element.
        return each(outer, src, dst, &mut |src, dst| unsafe { splat::splat(src, elem, dst, len) });
    }
    if let Some(near) = tiled_dim(dims, elem) {
        let mut rest = outer.to_vec();
        let near = rest.remove(near);
        let plane = Tiled::of(elem, near, *inner, far);
        // SAFETY: `near` and `inner` are two loops of the copy, `rest` are the others.
        each(&rest, src, dst, &mut |src, dst| unsafe { plane.run(src, dst) });
    } else {
        let one = Dim::new(1, 0, 0);
        let (middle, rest) = outer.split_last().map_or((one, outer), |(dim, rest)| (*dim, rest));
        let plane = Plane::new(middle, *inner);
        let packed = inner.dst_stride == elem as i64
            && dst.addr().is_multiple_of(16)
            && outer.iter().all(|dim| dim.dst_stride % 16 == 0);
        let apart = inner.src_stride.unsigned_abs() >= (elem + stream::LINE) as u64;
        // Even narrow gaps leave lines that two rows of some lines share, and neither fills.
        let gap = if elem >= 2 * LINE { 1 } else { LINE };
        let scattered = inner.dst_stride >= (elem + gap) as i64;
        let sparse = sparse(elem, inner.src_stride.unsigned_abs());
        let shares = inner.dst_stride > elem as i64 && !scattered && (4..=16).contains(&elem);
        let processor = Processor::this();
        let kernel = if let Some(kernel) = wide_kernel(elem, &plane, far) {
            kernel
        } else if far && scattered && whole_lines(elem, dims, dst) {
            strided::line_kernel()
        } else if far && scattered && elem <= strided::LONGEST_ASKED && dst_len < processor.uncached {
            strided::owning_kernel(elem)
        } else if let Some(kernel) = rows_kernel(elem, &plane, far, near) {
            kernel
        } else if far
            && processor.foretells_one_load
            && elem == 16
            && !scattered
            && inner.src_stride.unsigned_abs() >= 2 * LINE as u64
        {
            strided::rolled_kernel()
        } else if far && shares && processor.asks_shared {
            strided::sharing_kernel(elem)
        } else if far {
            strided::far_kernel(elem, near, packed, apart, scattered, sparse)
        } else if scattered && long && dst_len >= stream::UNCACHED_BUFFER {
            strided::owning_kernel(elem)
        } else {
            strided::kernel(elem, near)
        };
        // SAFETY: the plane is the copy's two innermost loops.
        each(rest, src, dst, &mut |src, dst| unsafe { kernel(elem, plane, src, dst) });
    }
    if far {
        stream::finish();
    }
}

/// Whether most of what is read besides elements is in vain: at most one byte of five is wanted, or one short element of two lines.
fn sparse(elem: usize, reach: u64) -> bool {
    let (elem, line) = (elem as u64, LINE as u64);
    reach >= 5 * elem || elem < line && reach >= 2 * line
}

/// Whether elements are whole lines of the destination, each of them.
fn whole_lines(elem: usize, dims: &[Dim], dst: *mut u8) -> bool {
    let whole = |bytes: u64| bytes.is_multiple_of(LINE as u64);
    whole(elem as u64)
        && whole(dst.addr() as u64)
        && dims.iter().all(|dim| whole(dim.dst_stride.unsigned_abs()))
}

/// The kernel for rows of some lines, where registers suit them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn rows_kernel(elem: usize, plane: &Plane, far: bool, near: bool) -> Option<strided::Kernel> {
    if far { rows::far_kernel(elem, &plane.inner) } else { rows::kernel(elem, near) }
}

/// Other processors move elements one by one.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn wide_kernel(_elem: usize, _plane: &Plane, _far: bool) -> Option<strided::Kernel> {
    None
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn rows_kernel(_elem: usize, _plane: &Plane, _far: bool, _near: bool) -> Option<strided::Kernel> {
    None
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn wide_available() -> bool {
    false
}

/// The loop whose source elements are neighbours, if that is not the innermost one and elements share
/// cache lines: the partner of the innermost loop in a tiled walk.
fn tiled_dim(dims: &[Dim], elem: usize) -> Option<usize> {
    let (inner, outer) = dims.split_last()?;
    let reach = |dim: &Dim| dim.src_stride.unsigned_abs();
    let near = (0..outer.len()).filter(|&k| reach(&outer[k]) > 0).min_by_key(|&k| reach(&outer[k]))?;
    let shares_lines = elem < LINE && reach(&outer[near]) < LINE as u64;
    (shares_lines && reach(&outer[near]) < reach(inner)).then_some(near)
}

/// Calls `body` for every position of the loops.
fn each(dims: &[Dim], src: *const u8, dst: *mut u8, body: &mut dyn FnMut(*const u8, *mut u8)) {
    let Some((outer, inner)) = dims.split_first() else {
        return body(src, dst);
    };
    let (mut src, mut dst) = (src, dst);
    for _ in 0..outer.count {
        each(inner, src, dst, body);
        src = src.wrapping_offset(outer.src_stride as isize);
        dst = dst.wrapping_offset(outer.dst_stride as isize);
    }
}
