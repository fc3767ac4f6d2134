//! Two nested loops over one element: gather, scatter, and runs.

use super::element::{Fixed, Halves, Lines, Long, Mover};
use super::stream;
use crate::copy::Dim;

/// The two innermost loops of a copy, as the processor counts.
#[derive(Clone, Copy)]
pub(super) struct Plane {
    outer: Loop,
    inner: Loop,
}

#[derive(Clone, Copy)]
struct Loop {
    count: usize,
    src: isize,
    dst: isize,
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

/// Copies every element of a plane; the first argument is the element's size.
///
/// # Safety
/// The element size is the one the kernel was chosen for, every element of the plane is readable from
/// the source and writable from the destination pointer, and the two do not overlap.
pub(super) type Kernel = unsafe fn(usize, Plane, *const u8, *mut u8);

/// A loop over elements of `elem` bytes, at least 1, with the mover for that width.
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
            64..=191 => $loops::<Lines>,
            _ => $loops::<Long>,
        }
    };
}

/// The kernel for elements of `elem` bytes, at least 1.
pub(super) fn kernel(elem: usize) -> Kernel {
    with_mover!(run, elem)
}

/// The kernel for elements of `elem` bytes on their way to a buffer that is too large for the caches.
///
/// Short elements go past the caches only where they follow each other without gaps, so that lines are
/// written whole (`packed`: the inner loop is dense and every row begins at a multiple of 16 bytes);
/// elements of two lines and more always do. `apart`: there are holes between the elements of a row in the source.
pub(super) fn far_kernel(elem: usize, packed: bool, apart: bool) -> Kernel {
    let asks = apart && (2 * stream::LINE..=LONGEST_ASKED).contains(&elem);
    match elem {
        _ if asks && packed && elem.is_multiple_of(16) => run_asking::<true>,
        _ if asks => run_asking::<false>,
        4 if packed => run_packed::<4>,
        8 if packed => run_packed::<8>,
        _ if packed && elem.is_multiple_of(16) => run::<Packed>,
        _ if elem >= 2 * stream::LINE => run::<Streamed>,
        _ => kernel(elem),
    }
}

/// Runs of these lengths are asked for ahead where they are gathered in the cache: of 128 bytes 1.2 to 1.5 times as fast, from 216 bytes
/// on no faster.
const FETCHED: std::ops::Range<usize> = 2 * stream::LINE..3 * stream::LINE;
/// Runs up to this long are asked for ahead; longer ones are seen to be sequential in time.
const LONGEST_ASKED: usize = 4096;
/// How many runs ahead.
const AHEAD: isize = 2;

/// Runs that lie apart in the source, past the caches, each asked for before its turn.
///
/// # Safety
/// As [`Kernel`] says; if `PACKED`, every run is a multiple of 16 bytes to a multiple of 16.
unsafe fn run_asking<const PACKED: bool>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let Plane { outer, inner } = plane;
    for row in 0..outer.count as isize {
        let (mut src, mut dst) = (src.wrapping_offset(row * outer.src), dst.wrapping_offset(row * outer.dst));
        for _ in 0..inner.count {
            // SAFETY: by the caller, for this run of the plane.
            unsafe { stream::copy_asking::<PACKED>(src, dst, elem, src.wrapping_offset(AHEAD * inner.src)) }
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
        }
    }
}

/// The kernel for elements of `elem` bytes of which one side lies apart in memory, and the other in the cache or in order; `None`
/// where lines that are asked for ahead would not come earlier. `scattered` is that side the destination.
pub(super) fn ahead_kernel(elem: usize, scattered: bool) -> Option<Kernel> {
    match scattered {
        true if elem <= LONGEST_ASKED => Some(with_mover!(run_owning, elem)),
        false if FETCHED.contains(&elem) => Some(run_fetching::<Lines>),
        _ => None,
    }
}

/// Elements that lie apart in the destination, each line asked for before its turn: a store to a line that is not there holds up
/// those behind it.
///
/// Measured with runs of 176 to 512 bytes into memory: 1.4 to 1.9 times as fast as stores past the caches or without asking.
///
/// # Safety
/// As [`Kernel`] says.
unsafe fn run_owning<M: Mover>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    // SAFETY: by the caller.
    unsafe { run_ahead::<M, true>(elem, plane, src, dst) }
}

/// Elements that lie apart in the source, each line asked for before its turn: the processor does not see where the next run begins.
///
/// # Safety
/// As [`Kernel`] says.
unsafe fn run_fetching<M: Mover>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    // SAFETY: by the caller.
    unsafe { run_ahead::<M, false>(elem, plane, src, dst) }
}

/// So many bytes of elements lie between one that is moved and the one whose lines are asked for.
const BYTES_AHEAD: usize = 4096;

/// Asks for the lines of later elements, in the destination if `WRITTEN`, else in the source.
///
/// # Safety
/// As [`Kernel`] says.
unsafe fn run_ahead<M: Mover, const WRITTEN: bool>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let (mover, Plane { outer, inner }) = (M::of(elem), plane);
    let ahead = (BYTES_AHEAD / elem).clamp(2, 64);
    let (base, far, near) =
        if WRITTEN { (dst.cast_const(), outer.dst, inner.dst) } else { (src, outer.src, inner.src) };
    let ask = |line: *const u8| if WRITTEN { stream::ask_to_write(line) } else { stream::ask_to_read(line) };
    let (mut row, mut at) = (ahead / inner.count, ahead % inner.count);
    let start = |row: usize| base.wrapping_offset(row as isize * far);
    let mut asked = start(row).wrapping_offset(at as isize * near);
    for k in 0..outer.count as isize {
        let (mut src, mut dst) = (src.wrapping_offset(k * outer.src), dst.wrapping_offset(k * outer.dst));
        for _ in 0..inner.count {
            for line in (0..elem).step_by(stream::LINE) {
                ask(asked.wrapping_add(line));
            }
            ask(asked.wrapping_add(elem - 1));
            at += 1;
            asked = asked.wrapping_offset(near);
            if at == inner.count {
                (row, at) = (row + 1, 0);
                asked = start(row);
            }
            // SAFETY: by the caller, for this element of the plane.
            unsafe { mover.mv(src, dst) };
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
        }
    }
}

/// Multiples of 16 bytes to an aligned destination, past the caches.
#[derive(Clone, Copy)]
struct Packed(usize);

impl Mover for Packed {
    fn of(len: usize) -> Self {
        Packed(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: by the caller; [`far_kernel`] chose this for aligned elements.
        unsafe { stream::copy_aligned(src, dst, self.0) }
    }
}

/// Two lines or more, past the caches.
#[derive(Clone, Copy)]
struct Streamed(usize);

impl Mover for Streamed {
    fn of(len: usize) -> Self {
        Streamed(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: by the caller.
        unsafe { stream::copy(src, dst, self.0) }
    }
}

/// Short elements that are dense in an aligned destination, 16 bytes at a time past the caches.
///
/// # Safety
/// As [`Kernel`] says, and every row of the destination begins at a multiple of 16 bytes.
unsafe fn run_packed<const W: usize>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let per_store = 16 / W;
    let stores = plane.inner.count / per_store;
    let rest = Loop { count: plane.inner.count % per_store, ..plane.inner };
    let one = Loop { count: 1, src: 0, dst: 0 };
    for outer in 0..plane.outer.count as isize {
        let mut src = src.wrapping_offset(outer * plane.outer.src);
        let mut dst = dst.wrapping_offset(outer * plane.outer.dst);
        for _ in 0..stores {
            // SAFETY: by the caller, for the next `per_store` elements of the row.
            unsafe { stream::pack::<W>(src, plane.inner.src, dst) };
            src = src.wrapping_offset(per_store as isize * plane.inner.src);
            dst = dst.wrapping_add(16);
        }
        // SAFETY: the last elements of the row.
        unsafe { run::<Fixed<W>>(elem, Plane { outer: one, inner: rest }, src, dst) };
    }
}

/// A [`Kernel`].
///
/// # Safety
/// As [`Kernel`] says.
unsafe fn run<M: Mover>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let mover = M::of(elem);
    let (mut src, mut dst) = (src, dst);
    for _ in 0..plane.outer.count {
        // SAFETY: by the caller, for each row of the plane.
        unsafe { row(mover, plane.inner, src, dst) };
        src = src.wrapping_offset(plane.outer.src);
        dst = dst.wrapping_offset(plane.outer.dst);
    }
}

/// One loop.
///
/// # Safety
/// As for [`run`], for one row.
#[inline(always)]
unsafe fn row<M: Mover>(mover: M, row: Loop, src: *const u8, dst: *mut u8) {
    let (mut src, mut dst) = (src, dst);
    let (s, d) = (row.src, row.dst);
    let fours = if M::BY_FOURS { row.count / 4 } else { 0 };
    for _ in 0..fours {
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
    for _ in 4 * fours..row.count {
        // SAFETY: one of the other elements of the row.
        unsafe { mover.mv(src, dst) };
        src = src.wrapping_offset(s);
        dst = dst.wrapping_offset(d);
    }
}
