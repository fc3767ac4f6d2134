//! Two nested loops over one element: gathers, scatters, and runs.

use super::element::{Fixed, Halves, Lines, Long, Mover};
use super::plane::{Kernel, Loop, Plane, step};
use super::processor::Processor;
use super::stream;

/// Calls a loop over elements of `elem` bytes, at least 1, with the mover for that width.
macro_rules! with_mover {
    ($loops:ident, $elem:expr) => {
        match $elem {
            1 => $loops::<Fixed<1>>,
            2 => $loops::<Fixed<2>>,
            3 => $loops::<Fixed<3>>,
            4 => $loops::<Fixed<4>>,
            6 => $loops::<Fixed<6>>,
            8 => $loops::<Fixed<8>>,
            12 => $loops::<Fixed<12>>,
            16 => $loops::<Fixed<16>>,
            24 => $loops::<Fixed<24>>,
            32 => $loops::<Fixed<32>>,
            5..=7 => $loops::<Halves<4>>,
            9..=15 => $loops::<Halves<8>>,
            17..=31 => $loops::<Halves<16>>,
            33..=63 => $loops::<Halves<32>>,
            64..=Lines::LONGEST => $loops::<Lines>,
            _ => $loops::<Long>,
        }
    };
}

/// The kernel for rows of at least two lines. `near` says that the source is likely to be in a processor's own cache.
pub(super) fn lines_kernel(near: bool) -> Kernel {
    if near { run_lines::<true> } else { run_lines::<false> }
}

/// The kernel for elements of `elem` bytes, at least 1, without prefetching.
pub(super) fn plain_kernel(elem: usize) -> Kernel {
    with_mover!(run, elem)
}

/// The kernel for runs with gaps in the source, past the caches. `packed` says that every run is a multiple of 16 bytes
/// and is written to a multiple of 16.
pub(super) fn prefetching_kernel(packed: bool) -> Kernel {
    if packed { run_prefetching::<true> } else { run_prefetching::<false> }
}

/// The kernel for elements of 4 or 8 bytes that are dense in a destination whose rows begin at multiples of 16 bytes,
/// past the caches.
pub(super) fn packed_elements_kernel(elem: usize) -> Kernel {
    if elem == 4 { run_packed::<4> } else { run_packed::<8> }
}

/// The kernel for multiples of 16 bytes written to multiples of 16, past the caches.
pub(super) fn packed_kernel() -> Kernel {
    run::<Packed>
}

/// Copies runs of lines. A later run is prefetched if it is not adjacent, and destination lines in either case. The
/// hardware prefetcher detects a sequential run only when half of it has been read, and stops at the end of a page. So
/// runs are prefetched in their order, across rows of the plane.
///
/// Measured with every eighth run of 128 to 512 bytes in the second-level cache: 1.1 to 1.3 times as fast; equally fast
/// if every other run is wanted. From memory, with boxes of 176 to 320 bytes a row out of 4 to 16 MiB: 1.2 to 1.25
/// times as fast as two runs ahead within a row. In a cache the distance is only two runs; a longer one costs up to a
/// quarter. From memory, lines are prefetched into the second-level cache: rows of 128 bytes out of 8 to 64 MiB take
/// 0.84 to 0.98 of the time that they take with the first-level cache, longer ones 0.91 to 1.07.
///
/// # Safety
/// As for [`Kernel`].
unsafe fn run_lines<const NEAR: bool>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let (mover, Plane { outer, inner }) = (Lines::of(elem), plane);
    let dst_ahead = if inner.dst == elem as isize { OWNED_AHEAD_NEAR } else { AHEAD * inner.dst };
    let ahead = if NEAR { AHEAD as usize } else { (LINES_AHEAD / elem).max(AHEAD as usize) };
    let (mut row, mut at) = (ahead / inner.count, ahead % inner.count);
    let start = |row: usize| src.wrapping_offset(row as isize * outer.src);
    let mut prefetched = start(row).wrapping_offset(at as isize * inner.src);
    for k in 0..outer.count as isize {
        let (mut src, mut dst) = (src.wrapping_offset(k * outer.src), dst.wrapping_offset(k * outer.dst));
        for _ in 0..inner.count {
            if !NEAR {
                stream::prefetch_near(prefetched.wrapping_add(elem - 1));
            }
            let each = |at: usize| {
                let line = prefetched.wrapping_add(at);
                if NEAR {
                    stream::prefetch(line)
                } else {
                    stream::prefetch_near(line)
                }
                stream::prefetch_for_write(dst.wrapping_offset(dst_ahead).wrapping_add(at));
            };
            // SAFETY: the caller's guarantee, for this run of the plane.
            unsafe { mover.mv_calling(src, dst, each) }
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
            at += 1;
            prefetched = prefetched.wrapping_offset(inner.src);
            if at == inner.count {
                (row, at) = (row + 1, 0);
                prefetched = start(row);
            }
        }
    }
}

/// A source buffer of at most this many bytes is likely to be in the second-level cache. A larger one is assumed to be
/// in memory, even if only a small part of it is copied.
pub(super) const CACHED: usize = if cfg!(miri) { 4 << 10 } else { 2 << 20 };

/// Short elements of rows longer than this are assumed to come from memory, or from a cache as far away.
const FAR_SOURCE: usize = 2 * CACHED;

/// Elements that spread over this many bytes are assumed to be in the cache that processors share, and in no closer
/// one.
const IN_SHARED: std::ops::RangeInclusive<usize> = CACHED / 2 + 1..=FAR_SOURCE;

/// Prefetch distance for runs from memory, in bytes.
const LINES_AHEAD: usize = 4096;

/// Prefetch distance for destination lines of adjacent runs, in bytes.
const OWNED_AHEAD_NEAR: isize = 512;

/// Runs up to this length are prefetched; the hardware prefetcher detects longer ones in time.
pub(super) const LONGEST_PREFETCHED: usize = 4096;
/// Least prefetch distance, in runs.
const AHEAD: isize = 2;
/// Prefetch distance for runs from memory, in bytes.
pub(super) const PREFETCHED_AHEAD: usize = 4096;

/// Prefetch distance for runs from caches, in runs.
pub(super) fn runs_ahead(elem: usize) -> isize {
    (PREFETCHED_AHEAD / elem).clamp(AHEAD as usize, 8) as isize
}

/// Copies runs with gaps in the source, past the caches, each prefetched.
///
/// # Safety
/// As for [`Kernel`]; if `PACKED`, every run is a multiple of 16 bytes to a multiple of 16.
unsafe fn run_prefetching<const PACKED: bool>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let Plane { outer, inner } = plane;
    let ahead = runs_ahead(elem) * inner.src;
    for row in 0..outer.count as isize {
        let (mut src, mut dst) = (src.wrapping_offset(row * outer.src), dst.wrapping_offset(row * outer.dst));
        for _ in 0..inner.count {
            // SAFETY: the caller's guarantee, for this run of the plane.
            unsafe { stream::copy_prefetching::<PACKED>(src, dst, elem, src.wrapping_offset(ahead)) }
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
        }
    }
}

/// Copies long elements with gaps in the destination: whole lines bypass the caches, and those in which elements begin
/// and end are prefetched.
///
/// Measured with runs of 512 to 4096 bytes into memory: 1.0 to 1.4 times as fast as with all lines prefetched, or with
/// none. With runs of 192 to 400 bytes that begin 16 bytes into a line: 1.1 to 1.9 times as fast as with all lines
/// prefetched, equally fast if they lie 4 KiB apart; with 128 and 176 bytes up to 1.4 times as slow (Xeon; 1.0 to 1.4
/// times as fast on Zen 5).
///
/// # Safety
/// As for [`Kernel`].
pub(super) unsafe fn run_ending(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let Plane { outer, inner } = plane;
    let ahead = runs_ahead(elem) * inner.dst;
    for row in 0..outer.count as isize {
        let (mut src, mut dst) = (src.wrapping_offset(row * outer.src), dst.wrapping_offset(row * outer.dst));
        for _ in 0..inner.count {
            stream::prefetch_for_write(dst.wrapping_offset(ahead));
            stream::prefetch_for_write(dst.wrapping_offset(ahead).wrapping_add(elem - 1));
            // SAFETY: the caller's guarantee, for this element of the plane.
            unsafe { stream::copy(src, dst, elem) }
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
        }
    }
}

/// The kernel for elements of `elem` bytes with gaps in a destination that no cache holds.
pub(super) fn owning_kernel(elem: usize) -> Kernel {
    if elem <= LONGEST_PREFETCHED { with_mover!(run_owning, elem) } else { plain_kernel(elem) }
}

/// Prefetch distance for destination lines of elements, in bytes.
const OWNED_AHEAD: usize = 2048;

/// Copies elements with gaps in the destination, with each line prefetched: a store to a line that is not cached delays
/// the stores after it.
///
/// Measured with runs of 176 to 512 bytes into memory: 1.4 to 1.9 times as fast as stores past the caches or
/// without prefetching.
///
/// # Safety
/// As for [`Kernel`].
unsafe fn run_owning<M: Mover>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let (mover, Plane { outer, inner }) = (M::of(elem), plane);
    let ahead = (OWNED_AHEAD / elem).clamp(2, 64);
    let prefetch = |to: *mut u8| {
        stream::prefetch_for_write(to);
        for line in (stream::LINE..elem).step_by(stream::LINE) {
            stream::prefetch_for_write(to.wrapping_add(line));
        }
        stream::prefetch_for_write(to.wrapping_add(elem - 1));
    };
    let start = |row: usize| dst.wrapping_offset(row as isize * outer.dst);
    // For the last elements of a row, the prefetched ones lie in later rows.
    let here = inner.count.saturating_sub(ahead);
    for k in 0..outer.count {
        let (mut src, mut dst) = (src.wrapping_offset(k as isize * outer.src), start(k));
        for _ in 0..here {
            prefetch(dst.wrapping_offset(ahead as isize * inner.dst));
            // SAFETY: the caller's guarantee, for this element of the plane.
            unsafe { mover.mv(src, dst) };
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
        }
        let (mut row, mut at) = (k + (here + ahead) / inner.count, (here + ahead) % inner.count);
        let mut prefetched = start(row).wrapping_offset(at as isize * inner.dst);
        for _ in here..inner.count {
            prefetch(prefetched);
            at += 1;
            prefetched = prefetched.wrapping_offset(inner.dst);
            if at == inner.count {
                (row, at) = (row + 1, 0);
                prefetched = start(row);
            }
            // SAFETY: as above.
            unsafe { mover.mv(src, dst) };
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
        }
    }
}

/// The kernel for elements of at least two lines whose whole lines bypass the caches. If elements are whole lines, no
/// line is read before it is written.
///
/// Measured with runs of 128 to 512 bytes in whole lines, from the cache into memory: 1.1 to 4 times as fast as
/// [`owning_kernel`], and as fast as a `memcpy` of equally many bytes.
pub(super) fn streamed_kernel() -> Kernel {
    run::<Streamed>
}

/// The kernel for elements of at most 16 bytes that share lines of a destination that no cache holds, but do
/// not fill them.
pub(super) fn sharing_kernel(elem: usize) -> Kernel {
    with_mover!(run_sharing, elem)
}

/// Number of elements in a group whose lines are prefetched together.
const GROUP: usize = 8;

/// Copies short elements, eight at a time, after prefetching the destination lines of later ones.
///
/// Measured with every other element of 8 bytes into memory: 1.15 times as fast (Xeon; 0.92 times on Zen 5). On Zen 5,
/// elements of 2 to 4 bytes gain from prefetching 2 KiB ahead: 20 to 28 bytes apart they are 1.01 to 1.05 times as
/// fast; elements of 8 and 16 bytes do not gain. In the cache prefetching costs up to a quarter.
///
/// # Safety
/// As for [`Kernel`].
unsafe fn run_sharing<M: Mover>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let (mover, Plane { outer, inner }) = (M::of(elem), plane);
    let (group, s, d) = (GROUP as isize, inner.src, inner.dst);
    let processor = Processor::this();
    let ahead = processor.sharing.ahead.unwrap_or(ELEMENTS_AHEAD * d);
    for k in 0..outer.count as isize {
        let (mut src, mut dst) = (src.wrapping_offset(k * outer.src), dst.wrapping_offset(k * outer.dst));
        for _ in 0..inner.count / GROUP {
            let prefetched = dst.wrapping_offset(ahead);
            for line in (0..GROUP * d as usize).step_by(stream::LINE) {
                stream::prefetch_for_write(prefetched.wrapping_add(line));
            }
            for k in 0..group {
                // SAFETY: the caller's guarantee, for the elements of the group.
                unsafe { mover.mv(src.wrapping_offset(k * s), dst.wrapping_offset(k * d)) };
            }
            src = src.wrapping_offset(group * s);
            dst = dst.wrapping_offset(group * d);
        }
        let rest = Loop { count: inner.count % GROUP, ..inner };
        // SAFETY: the caller's guarantee, for the last elements of the row.
        unsafe { row(processor, mover, rest, src, dst) };
    }
}

/// Moves multiples of 16 bytes to an aligned destination, past the caches.
#[derive(Clone, Copy)]
struct Packed(usize);

impl Mover for Packed {
    fn of(len: usize) -> Self {
        Packed(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's guarantee; [`packed_kernel`] is for aligned elements.
        unsafe { stream::copy_aligned(src, dst, self.0) }
    }
}

/// Moves at least two lines, past the caches.
#[derive(Clone, Copy)]
struct Streamed(usize);

impl Mover for Streamed {
    fn of(len: usize) -> Self {
        Streamed(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe { stream::copy(src, dst, self.0) }
    }
}

/// Copies short elements that are dense in an aligned destination, 16 bytes at a time past the caches.
///
/// # Safety
/// As for [`Kernel`], and every row of the destination begins at a multiple of 16 bytes.
unsafe fn run_packed<const W: usize>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let per_store = 16 / W;
    let stores = plane.inner.count / per_store;
    let rest = Loop { count: plane.inner.count % per_store, ..plane.inner };
    let one = Loop { count: 1, src: 0, dst: 0 };
    for outer in 0..plane.outer.count as isize {
        let mut src = src.wrapping_offset(outer * plane.outer.src);
        let mut dst = dst.wrapping_offset(outer * plane.outer.dst);
        for _ in 0..stores {
            // SAFETY: the caller's guarantee, for the next `per_store` elements of the row.
            unsafe { stream::pack::<W>(src, plane.inner.src, dst) };
            src = src.wrapping_offset(per_store as isize * plane.inner.src);
            dst = dst.wrapping_add(16);
        }
        // SAFETY: the last elements of the row.
        unsafe { run::<Fixed<W>>(elem, Plane { outer: one, inner: rest }, src, dst) };
    }
}

/// Implements [`Kernel`].
///
/// # Safety
/// As for [`Kernel`].
unsafe fn run<M: Mover>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let (processor, mover) = (Processor::this(), M::of(elem));
    let (mut src, mut dst) = (src, dst);
    for _ in 0..plane.outer.count {
        // SAFETY: the caller's guarantee, for each row of the plane.
        unsafe { row(processor, mover, plane.inner, src, dst) };
        src = src.wrapping_offset(plane.outer.src);
        dst = dst.wrapping_offset(plane.outer.dst);
    }
}

/// Prefetch distance for destination lines, in elements.
const ELEMENTS_AHEAD: isize = 64;

/// Which destination lines are prefetched for four elements.
mod written {
    /// None.
    pub(super) const NONE: u8 = 0;
    /// A line for each element.
    pub(super) const OWN: u8 = 1;
    /// Lines that several elements share.
    pub(super) const SHARED: u8 = 2;
}

/// Prefetches `SOURCE` lines (0, 1 or 4) of four later elements, and their destination lines. For loops with one stride
/// this gains 2 to 30 % over the hardware prefetcher alone, most if each element has its own line.
#[inline(always)]
fn prefetch_four<const SOURCE: usize, const WRITTEN: u8>(
    ahead: isize,
    src: *const u8,
    s: isize,
    dst: *mut u8,
    d: isize,
) {
    for k in 0..SOURCE as isize {
        stream::prefetch(src.wrapping_offset((ahead + k) * s));
    }
    match WRITTEN {
        written::OWN => {
            for k in 0..4 {
                stream::prefetch_for_write(dst.wrapping_offset((ELEMENTS_AHEAD + k) * d));
            }
        }
        written::SHARED => {
            let later = SHARED_AHEAD * d.signum();
            stream::prefetch_for_write(dst.wrapping_offset(later));
            stream::prefetch_for_write(dst.wrapping_offset(later + 2 * d));
        }
        _ => (),
    }
}

/// Whether prefetching later elements of a source that spans `spans` bytes is faster. It is slower for adjacent
/// elements, above all in the cache (2 to 5 %). For elements in every other line or fewer it gains at most 3 %, and
/// strides of 128 and 256 bytes lose 6 to 10 %.
///
/// On Zen 5 it is faster from the shared cache (40 to 112 bytes apart: 1.0 to 1.2 times as fast). From a processor's
/// own caches, loops that prefetch take up to 1.7 times as long, and from memory 1.05 to 1.25 times.
fn prefetches_source(processor: &Processor, stride: isize, spans: usize) -> bool {
    (SHORT + 1..2 * stream::LINE).contains(&stride.unsigned_abs())
        && (processor.prefetches_far || IN_SHARED.contains(&spans))
}

/// Whether prefetching later lines of a destination that spans `spans` bytes is faster.
fn prefetches_destination(processor: &Processor, stride: isize, spans: usize) -> bool {
    let apart = stride.unsigned_abs();
    apart >= stream::LINE
        && (processor.prefetches_owned || processor.owns(SHORT, apart) && IN_SHARED.contains(&spans))
}

/// The longest elements whose lines are prefetched.
const SHORT: usize = 8;

/// From this distance on, elements of 8 bytes are stored one by one.
const LONGEST_PAIRED: usize = 512;

/// Whether prefetching destination lines that two to eight elements share is faster, for source elements at most two
/// lines apart. It is faster in the second-level cache, where a store that misses the first-level cache waits, and
/// costs nothing in the first: measured with 2 to 16 bytes at destination strides of 8 to 32 bytes, 1.04 to 1.4 times
/// as fast (12 bytes: 1.6), and 0.96 times with a source stride of 128. Rows shorter than the distance gain nothing.
fn prefetches_shared(source: isize, stride: isize) -> bool {
    source.unsigned_abs() < 2 * stream::LINE && (8..=stream::LINE / 2).contains(&stride.unsigned_abs())
}

/// Prefetch distance for shared destination lines, in bytes. A distance of 256 gains up to a tenth less.
pub(super) const SHARED_AHEAD: isize = 2048;

/// One loop.
///
/// # Safety
/// As for [`run`], for one row.
#[inline(always)]
unsafe fn row<M: Mover>(processor: &Processor, mover: M, row: Loop, src: *const u8, dst: *mut u8) {
    let (s, d) = (row.src, row.dst);
    let spans = row.count.saturating_mul(s.unsigned_abs());
    let source = match M::PREFETCHES && prefetches_source(processor, s, spans) {
        false => 0,
        // Elements that share lines prefetch one line.
        true if s.unsigned_abs() < stream::LINE / 2 => 1,
        true => 4,
    };
    let spread = row.count.saturating_mul(d.unsigned_abs());
    let reaches = spread > 2 * SHARED_AHEAD.unsigned_abs();
    let written = if M::PREFETCHES && prefetches_destination(processor, d, spread) {
        written::OWN
    } else if M::PREFETCHES_SHARED && processor.prefetches_shared && reaches && prefetches_shared(s, d) {
        written::SHARED
    } else {
        written::NONE
    };
    let asks = source > 0 || written != written::NONE;
    if M::BY_EIGHTS > 0 && !asks && row.count >= 8 {
        let loops = match d == M::BY_EIGHTS as isize {
            true if s.unsigned_abs() < LONGEST_PAIRED => eights_gathered::<M, true>,
            true => eights_gathered::<M, false>,
            false => eights,
        };
        // SAFETY: the caller's guarantee; gathered elements are adjacent in the destination.
        return unsafe { loops(mover, row, src, dst) };
    }
    let ahead = if spans > CACHED { ELEMENTS_AHEAD } else { processor.elements_ahead };
    let by_fours = M::BY_FOURS || written == written::SHARED;
    let some = Loop { count: if by_fours { row.count / 4 } else { 0 }, ..row };
    let fours = match (source, written) {
        (0, written::OWN) => fours::<M, 0, { written::OWN }>,
        (0, written::SHARED) => fours::<M, 0, { written::SHARED }>,
        (0, _) => fours::<M, 0, { written::NONE }>,
        (1, written::OWN) => fours::<M, 1, { written::OWN }>,
        (1, written::SHARED) => fours::<M, 1, { written::SHARED }>,
        (1, _) => fours::<M, 1, { written::NONE }>,
        (_, written::OWN) => fours::<M, 4, { written::OWN }>,
        (_, written::SHARED) => fours::<M, 4, { written::SHARED }>,
        (_, _) => fours::<M, 4, { written::NONE }>,
    };
    // SAFETY: the caller's guarantee, for the row's groups of four.
    unsafe { fours(mover, some, ahead, src, dst) };
    let moved = 4 * some.count as isize;
    let (mut src, mut dst) = (src.wrapping_offset(moved * s), dst.wrapping_offset(moved * d));
    for _ in 4 * some.count..row.count {
        // SAFETY: one of the other elements of the row.
        unsafe { mover.mv(src, dst) };
        src = src.wrapping_offset(s);
        dst = dst.wrapping_offset(d);
    }
}

/// One loop, four elements at a time, `count` times. Lines of each element, or lines that elements share, are
/// prefetched.
///
/// # Safety
/// As for [`run`], for four times as many elements as the loop counts.
#[inline(never)]
unsafe fn fours<M: Mover, const SOURCE: usize, const WRITTEN: u8>(
    mover: M,
    row: Loop,
    ahead: isize,
    src: *const u8,
    dst: *mut u8,
) {
    let (mut src, mut dst) = (src, dst);
    let (s, d) = (row.src, row.dst);
    for _ in 0..row.count {
        prefetch_four::<SOURCE, WRITTEN>(ahead, src, s, dst, d);
        // SAFETY: four consecutive elements of the row.
        unsafe {
            mover.mv(src, dst);
            mover.mv(src.wrapping_offset(s), dst.wrapping_offset(d));
            mover.mv(src.wrapping_offset(2 * s), dst.wrapping_offset(2 * d));
            mover.mv(src.wrapping_offset(3 * s), dst.wrapping_offset(3 * d));
        }
        src = src.wrapping_offset(4 * s);
        dst = dst.wrapping_offset(4 * d);
    }
}

/// [`eights`] for elements that are adjacent in the destination; two elements of 8 bytes are stored at once if `PAIRS`.
///
/// Measured with 8 bytes of every 64 out of memory (Zen 5): 1.06 times as fast as with a destination stride unknown to
/// the compiler. Pairs are 1.0 to 1.1 times as fast in memory and the cache up to 400 bytes apart, and 0.88 to 1.0
/// times from 512 on; in the first-level cache up to 1.4 times, if the address of each pair takes one addition.
///
/// # Safety
/// As for [`run`], for one row, whose elements of `M::BY_EIGHTS` bytes follow each other in the destination.
#[inline(never)]
unsafe fn eights_gathered<M: Mover, const PAIRS: bool>(mover: M, row: Loop, src: *const u8, dst: *mut u8) {
    let (mut src, mut dst) = (src, dst);
    for _ in 0..row.count / 8 {
        for pair in 0..4 {
            let (second, to) = (src.wrapping_offset(row.src), dst.wrapping_add(2 * pair * M::BY_EIGHTS));
            // SAFETY: the caller's guarantee, for the next two elements of the row.
            unsafe {
                if PAIRS {
                    mover.two(src, second, to);
                } else {
                    mover.mv(src, to);
                    mover.mv(second, to.wrapping_add(M::BY_EIGHTS));
                }
            }
            src = match PAIRS && M::BY_EIGHTS == 8 {
                true => step(src, 2 * row.src),
                false => src.wrapping_offset(2 * row.src),
            };
        }
        dst = dst.wrapping_add(8 * M::BY_EIGHTS);
    }
    for _ in 0..row.count % 8 {
        // SAFETY: the caller's guarantee, for one of the last elements of the row.
        unsafe { mover.mv(src, dst) };
        src = src.wrapping_offset(row.src);
        dst = dst.wrapping_add(M::BY_EIGHTS);
    }
}

/// One loop without prefetching, eight elements at a time, each address computed from the previous one.
///
/// # Safety
/// As for [`run`], for one row.
#[inline(never)]
unsafe fn eights<M: Mover>(mover: M, row: Loop, src: *const u8, dst: *mut u8) {
    let (mut src, mut dst) = (src, dst);
    let mut one = || {
        // SAFETY: the caller's guarantee, for the next element of the row.
        unsafe { mover.mv(src, dst) };
        src = src.wrapping_offset(row.src);
        dst = dst.wrapping_offset(row.dst);
    };
    for _ in 0..row.count / 8 {
        one();
        one();
        one();
        one();
        one();
        one();
        one();
        one();
    }
    (0..row.count % 8).for_each(|_| one());
}
