//! The loops that move bytes.
//!
//! The shape of a canonical copy selects the kernel. A copy without loops is one `memcpy`. Long elements are copied as
//! runs. Short elements are gathered or scattered with moves of exactly their width. If neighbours in the source are
//! far apart in the destination, both are visited in tiles, so that every fetched cache line is used completely before
//! it is evicted.
//!
//! `choice.rs` chooses the fastest of the loops over runs and short elements.
//!
//! Invariant: kernels trust the copy. The caller of [`run`] has checked both spans.

mod choice;
mod convert;
mod element;
mod few_loads;
#[cfg(target_arch = "x86_64")]
mod interleave;
mod plane;
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

use crate::dim::Dim;
use choice::{Choice, Places, Shape, Target};
use processor::Processor;
use stream::LINE;

pub(crate) use convert::convert;
use plane::{Kernel, Plane};
use tiled::Tiled;

/// Runs a copy of elements of `elem` bytes. The two pointers are at the first element.
///
/// # Safety
/// `src` is readable over the source span of the loops and `dst` writable over their destination span, counted from the
/// two pointers; the cells of the two do not overlap. `dst_len` and `src_len`, the sizes of the whole buffers, only
/// affect the speed: whether destination lines are worth caching, and whether source lines are likely to be cached.
pub(crate) unsafe fn run(
    elem: usize,
    dims: &[Dim],
    (src, src_len): (*const u8, usize),
    (dst, dst_len): (*mut u8, usize),
) {
    let processor = Processor::this();
    let bytes = dims.iter().map(|dim| dim.count).product::<u64>() * elem as u64;
    let target = Target::of(bytes, dst_len, processor);
    let far = target.is_far();
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
        // SAFETY: `near` and `inner` are two loops of the copy, and `rest` are the others.
        each(&rest, src, dst, &mut |src, dst| unsafe { plane.run(src, dst) });
    } else {
        let one = Dim::new(1, 0, 0);
        let (middle, rest) = outer.split_last().map_or((one, outer), |(dim, rest)| (*dim, rest));
        let plane = Plane::new(middle, *inner);
        let shape = Shape {
            elem,
            reach: inner.src_stride.unsigned_abs() as usize,
            apart: inner.dst_stride.unsigned_abs() as usize,
            places: places(elem, dims, dst),
            near: src_len <= strided::CACHED,
            target,
        };
        let kernel = choice(&shape, &plane, processor).kernel(elem);
        // SAFETY: the plane has the copy's two innermost loops.
        each(rest, src, dst, &mut |src, dst| unsafe { kernel(elem, plane, src, dst) });
    }
    if far {
        stream::finish();
    }
}

/// Where the elements of the innermost loop lie in the destination.
fn places(elem: usize, dims: &[Dim], dst: *mut u8) -> Places {
    let Some((inner, outer)) = dims.split_last() else { return Places::Dense };
    let (dense, stride) = (elem as i64, inner.dst_stride);
    let multiple = |bytes: u64, of: usize| bytes.is_multiple_of(of as u64);
    let begin = |dims: &[Dim], of: usize| {
        multiple(dst.addr() as u64, of) && dims.iter().all(|dim| multiple(dim.dst_stride.unsigned_abs(), of))
    };
    // Even with narrow gaps, two rows of some lines share lines that neither fills.
    let gap = if elem >= 2 * LINE { 1 } else { LINE as i64 };
    match stride {
        _ if stride == dense && begin(outer, 16) => Places::Packed,
        _ if stride >= dense + gap => {
            Places::Apart { whole: multiple(elem as u64, LINE) && begin(dims, LINE) }
        }
        _ if stride > dense => Places::Sharing,
        _ => Places::Dense,
    }
}

/// The register loop for short elements with gaps on one side, in the cache, if one is faster.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn wide_kernel(elem: usize, plane: &Plane) -> Option<Kernel> {
    let distance = wide::Distance { near: false, far: false };
    wide::windowed(elem, plane, distance, Processor::this()).map(wide::Windowed::kernel)
}

/// The choice for a plane of this shape.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn choice(shape: &Shape, plane: &Plane, processor: &Processor) -> Choice {
    let distance = wide::Distance { near: shape.near, far: shape.target.is_far() };
    wide::windowed(shape.elem, plane, distance, processor)
        .map_or_else(|| Choice::of(shape, processor), Choice::Windows)
}

/// Other processors move elements one by one.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn choice(shape: &Shape, _plane: &Plane, processor: &Processor) -> Choice {
    Choice::of(shape, processor)
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn wide_kernel(_elem: usize, _plane: &Plane) -> Option<Kernel> {
    None
}

/// The loop whose source elements are adjacent, if that is not the innermost one and elements share cache lines:
/// together with the innermost loop it is visited in tiles.
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
