//! Moves short elements by 64-byte registers, for processors that permute bytes across a register (AVX-512 VBMI).
//!
//! The elements of one register, which have gaps in memory, span a few *windows* of 64 bytes. A gather loads each
//! window without the bytes between elements, and moves its part of the register into place by one permutation. A
//! scatter does the reverse and stores only the bytes of elements. So a loop needs one load or store per line instead
//! of one per element.
//!
//! Invariants
//! - no byte between elements is read or written: loads and stores are masked;
//! - windows are counted from the first element of a register, so they are right wherever rows begin. Those of the
//!   first row begin at lines.

use std::arch::x86_64::*;

use super::plane::{Kernel, Loop, Plane};
use super::processor::Processor;
use super::stream::{self, LINE};
use super::strided::plain_kernel;

/// Smaller planes use the loops over elements: describing the windows takes as long as moving some KiB.
const SHORTEST: usize = 4 << 10;

/// The same for elements of 8 bytes, where pairs of elements are as fast as registers.
const SHORTEST_OF_EIGHT: usize = 64 << 10;

/// Rows of fewer registers use the loops over elements too.
const FEWEST: usize = 4;

/// More windows than this cost as much as moving that many elements.
const MOST: usize = 9;

/// Marks occupied places while windows are being described.
const HELD: u8 = 1 << 7;

/// Prefetch distance in the source, in bytes.
const AHEAD: isize = 2048;
/// Prefetch distance in the destination, in bytes.
const OWNED_AHEAD: usize = 512;

/// The part of a register that 64 bytes in memory hold.
#[derive(Clone, Copy)]
struct Window {
    /// Bytes from the first element to the window.
    offset: isize,
    /// The bytes of the window that belong to elements.
    wanted: u64,
    /// For a gather: for every byte of the register, its place in the window, or the place of an unwanted byte, which
    /// is read as zero. (There is one, since elements are shorter than windows and have gaps between them.) For a
    /// scatter: for every byte of the window, its place in the register.
    places: [u8; LINE],
}

/// The windows of the elements of one register.
struct Windows {
    all: [Window; MOST],
    count: usize,
}

impl Windows {
    /// The windows of `LINE / elem` elements of `elem` bytes that lie `stride` bytes apart, with gaps, the first of
    /// them at `first`; `None` if there are too many. `scatter` chooses the meaning of `places`.
    fn new(elem: usize, stride: isize, first: *const u8, scatter: bool) -> Option<Windows> {
        let last = (LINE / elem - 1) as isize * stride;
        let low = last.min(0);
        let phase = (first.addr().wrapping_add_signed(low) % LINE) as isize;
        let none = Window { offset: 0, wanted: 0, places: [0; LINE] };
        let mut windows = Windows { all: [none; MOST], count: 0 };
        // In order of ascending addresses, so that bytes of one window follow each other.
        for k in 0..LINE / elem {
            let k = if stride < 0 { LINE / elem - 1 - k } else { k };
            for byte in 0..elem {
                let at = k as isize * stride + byte as isize;
                let offset = (at - low + phase) / LINE as isize * LINE as isize + low - phase;
                if windows.count == 0 || windows.all[windows.count - 1].offset != offset {
                    if windows.count == MOST {
                        return None;
                    }
                    windows.all[windows.count].offset = offset;
                    windows.count += 1;
                }
                let window = &mut windows.all[windows.count - 1];
                let (inside, register) = ((at - offset) as usize, k * elem + byte);
                window.wanted |= 1 << inside;
                let (index, place) = if scatter { (inside, register) } else { (register, inside) };
                window.places[index] = place as u8 | HELD;
            }
        }
        for window in &mut windows.all[..windows.count] {
            let gap = window.wanted.trailing_ones() as u8;
            for place in &mut window.places {
                *place = if *place & HELD != 0 { *place & !HELD } else { gap };
            }
        }
        Some(windows)
    }
}

/// How elements with gaps on one side and without gaps on the other are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windowed {
    /// Gathered to adjacent places.
    Gathered,
    /// The same with prefetching.
    GatheredOwning,
    /// The same, past the caches.
    GatheredPast,
    /// To places with gaps. `fours`: one bit of a mask stands for four bytes; `prefetched`: lines are prefetched.
    Scattered { fours: bool, prefetched: bool },
}

impl Windowed {
    /// The kernel.
    pub(super) fn kernel(self) -> Kernel {
        match self {
            Windowed::Gathered => gather::<NEAR>,
            Windowed::GatheredOwning => gather::<OWNED>,
            Windowed::GatheredPast => gather::<PAST>,
            Windowed::Scattered { fours: false, prefetched: false } => scatter::<false, false>,
            Windowed::Scattered { fours: false, prefetched: true } => scatter::<false, true>,
            Windowed::Scattered { fours: true, prefetched: false } => scatter::<true, false>,
            Windowed::Scattered { fours: true, prefetched: true } => scatter::<true, true>,
        }
    }
}

/// How far source and destination are from the processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    /// Whether the source is likely to be in a processor's own cache.
    pub(super) near: bool,
    /// Whether stores may bypass the caches.
    pub(super) far: bool,
}

/// How elements of `elem` bytes are moved by registers, if that is faster.
pub(super) fn windowed(
    elem: usize,
    plane: &Plane,
    distance: Distance,
    processor: &Processor,
) -> Option<Windowed> {
    let Distance { near, far } = distance;
    let Loop { count, src, dst } = plane.inner;
    let bytes = elem * count;
    let suits = matches!(elem, 1 | 2 | 4 | 8 | 16)
        && bytes >= FEWEST * LINE
        && bytes * plane.outer.count >= SHORTEST
        && super::processor::permutes();
    let within = |stride: isize, times: usize| (elem + 1..=times * elem).contains(&stride.unsigned_abs());
    let gathers = dst == elem as isize;
    let widest = match processor.scatters_widely {
        false => 4,
        true if elem == 4 => {
            if far {
                7
            } else {
                5
            }
        }
        true => 8,
    };
    let singly = gathers
        && processor.takes_pairs_singly
        && match elem {
            4 => near && !within(src, 7),
            8 => !far && bytes * plane.outer.count < SHORTEST_OF_EIGHT,
            _ => false,
        };
    if !suits || singly {
        None
    } else if gathers && within(src, if elem < 8 || far && elem < 16 { 8 } else { 5 }) && (far || elem < 16) {
        Some(match (far, processor.bypasses_for_sparse || within(src, 7)) {
            (true, true) => Windowed::GatheredPast,
            (true, false) => Windowed::GatheredOwning,
            (false, _) => Windowed::Gathered,
        })
    } else if src == elem as isize && within(dst, widest) && (elem <= 2 || elem == 4 && dst % 4 == 0) {
        Some(Windowed::Scattered { fours: elem == 4, prefetched: far || processor.scatters_widely })
    } else {
        None
    }
}

/// How registers are stored: by plain stores.
const NEAR: u8 = 0;
/// By plain stores, with prefetching.
const OWNED: u8 = 1;
/// Past the caches.
const PAST: u8 = 2;

/// The number of elements that are moved one by one before the first that begins at a line, if one does.
fn lead(elem: usize, pointer: *const u8) -> usize {
    let skew = pointer.addr().wrapping_neg() % LINE;
    if skew.is_multiple_of(elem) { skew / elem } else { 0 }
}

/// A row from element `start` on.
fn from(row: Loop, start: usize, src: *const u8, dst: *mut u8) -> (*const u8, *mut u8) {
    (src.wrapping_offset(start as isize * row.src), dst.wrapping_offset(start as isize * row.dst))
}

/// Moves elements `range` of a row one by one.
///
/// # Safety
/// As for [`Kernel`], for this row.
unsafe fn singly(elem: usize, row: Loop, range: std::ops::Range<usize>, src: *const u8, dst: *mut u8) {
    let (src, dst) = from(row, range.start, src, dst);
    let one = Loop { count: 1, src: 0, dst: 0 };
    let plane = Plane { outer: one, inner: Loop { count: range.len(), ..row } };
    // SAFETY: the caller's guarantee.
    unsafe { plain_kernel(elem)(elem, plane, src, dst) }
}

/// Calls the loop that is compiled for this many windows.
macro_rules! with_windows {
    ($count:expr, $lines:ident::<$($how:ident),+>, $arguments:tt) => {
        match $count {
            2 => $lines::<2, $($how),+> $arguments,
            3 => $lines::<3, $($how),+> $arguments,
            4 => $lines::<4, $($how),+> $arguments,
            5 => $lines::<5, $($how),+> $arguments,
            6 => $lines::<6, $($how),+> $arguments,
            7 => $lines::<7, $($how),+> $arguments,
            8 => $lines::<8, $($how),+> $arguments,
            _ => $lines::<MOST, $($how),+> $arguments,
        }
    };
}

/// Gathers elements with gaps to adjacent places.
///
/// # Safety
/// As for [`Kernel`]; the destination's inner loop is dense, and the processor has the instructions that [`windowed`]
/// requires.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn gather<const HOW: u8>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let (inner, per) = (plane.inner, LINE / elem);
    let (first, _) = from(inner, lead(elem, dst), src, dst);
    let Some(windows) = Windows::new(elem, inner.src, first, false) else {
        // SAFETY: the caller's guarantee.
        return unsafe { plain_kernel(elem)(elem, plane, src, dst) };
    };
    for k in 0..plane.outer.count as isize {
        let (src, dst) = (src.wrapping_offset(k * plane.outer.src), dst.wrapping_offset(k * plane.outer.dst));
        let lead = lead(elem, dst).min(inner.count);
        let lines = (inner.count - lead) / per;
        let step = per as isize * inner.src;
        let (from, to) = from(inner, lead, src, dst);
        // SAFETY: the caller's guarantee, for this row: the elements before the first line, the lines, and the rest.
        unsafe {
            singly(elem, inner, 0..lead, src, dst);
            with_windows!(windows.count, gather_lines::<HOW>, (&windows, lines, step, from, to));
            singly(elem, inner, lead + lines * per..inner.count, src, dst);
        }
    }
}

/// # Safety
/// As for [`gather`], for `lines` registers whose first elements lie `step` apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn gather_lines<const N: usize, const HOW: u8>(
    windows: &Windows,
    lines: usize,
    step: isize,
    src: *const u8,
    dst: *mut u8,
) {
    let windows: [Window; N] = std::array::from_fn(|k| windows.all[k]);
    // SAFETY: the tables are 64 bytes each.
    let places = windows.map(|window| unsafe { _mm512_loadu_si512(window.places.as_ptr().cast()) });
    let (mut src, mut dst) = (src, dst);
    for _ in 0..lines {
        let mut line = _mm512_setzero_si512();
        for (window, places) in windows.iter().zip(places) {
            // SAFETY: the caller's guarantee; unwanted bytes are not read.
            unsafe {
                let at = src.wrapping_offset(window.offset);
                stream::prefetch(at.wrapping_offset(AHEAD * step.signum()));
                let found = _mm512_maskz_loadu_epi8(window.wanted, at.cast());
                line = _mm512_or_si512(line, _mm512_permutexvar_epi8(places, found));
            }
        }
        // SAFETY: the caller's guarantee.
        unsafe { put::<HOW>(line, dst) }
        src = src.wrapping_offset(step);
        dst = dst.wrapping_add(LINE);
    }
}

/// Stores a register; past the caches only if it begins at a line.
///
/// # Safety
/// 64 bytes are writable at `dst`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put<const HOW: u8>(line: __m512i, dst: *mut u8) {
    // SAFETY: the caller's guarantee; the first is aligned.
    unsafe {
        if HOW == PAST && dst.addr().is_multiple_of(LINE) {
            _mm512_stream_si512(dst.cast(), line);
        } else {
            if HOW == OWNED {
                stream::prefetch_for_write(dst.wrapping_add(OWNED_AHEAD));
            }
            _mm512_storeu_si512(dst.cast(), line);
        }
    }
}

/// Scatters adjacent elements to places with gaps. If `FOURS`, one bit of a mask stands for four aligned bytes: such
/// stores take half as long.
///
/// # Safety
/// As for [`Kernel`]; the source's inner loop is dense, and the processor has the instructions that [`windowed`]
/// requires.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn scatter<const FOURS: bool, const PREFETCHED: bool>(
    elem: usize,
    plane: Plane,
    src: *const u8,
    dst: *mut u8,
) {
    let (inner, per) = (plane.inner, LINE / elem);
    let aligned = !FOURS || (dst.addr().is_multiple_of(4) && plane.outer.dst % 4 == 0);
    let Some(windows) = aligned.then(|| Windows::new(elem, inner.dst, dst, true)).flatten() else {
        // SAFETY: the caller's guarantee.
        return unsafe { plain_kernel(elem)(elem, plane, src, dst) };
    };
    for k in 0..plane.outer.count as isize {
        let (src, dst) = (src.wrapping_offset(k * plane.outer.src), dst.wrapping_offset(k * plane.outer.dst));
        let lines = inner.count / per;
        let step = per as isize * inner.dst;
        // SAFETY: the caller's guarantee, for this row: the registers, and the rest.
        unsafe {
            with_windows!(
                windows.count,
                scatter_lines::<FOURS, PREFETCHED>,
                (&windows, lines, step, src, dst)
            );
            singly(elem, inner, lines * per..inner.count, src, dst);
        }
    }
}

/// # Safety
/// As for [`scatter`], for `lines` registers whose first elements will lie `step` bytes apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn scatter_lines<const N: usize, const FOURS: bool, const PREFETCHED: bool>(
    windows: &Windows,
    lines: usize,
    step: isize,
    src: *const u8,
    dst: *mut u8,
) {
    let windows: [Window; N] = std::array::from_fn(|k| windows.all[k]);
    // SAFETY: the tables are 64 bytes each.
    let places = windows.map(|window| unsafe { _mm512_loadu_si512(window.places.as_ptr().cast()) });
    let (mut src, mut dst) = (src, dst);
    let masks = windows.map(|window| fours(window.wanted));
    for _ in 0..lines {
        // SAFETY: the caller's guarantee; the 64 bytes are those of a register's elements.
        let line = unsafe { _mm512_loadu_si512(src.cast()) };
        for ((window, places), mask) in windows.iter().zip(places).zip(masks) {
            // SAFETY: the caller's guarantee; bytes between elements are not written.
            unsafe {
                let to = dst.wrapping_offset(window.offset);
                if PREFETCHED {
                    stream::prefetch_for_write(to.wrapping_offset(AHEAD * step.signum()));
                }
                let spread = _mm512_permutexvar_epi8(places, line);
                if FOURS {
                    _mm512_mask_storeu_epi32(to.cast(), mask, spread);
                } else {
                    _mm512_mask_storeu_epi8(to.cast(), window.wanted, spread);
                }
            }
        }
        src = src.wrapping_add(LINE);
        dst = dst.wrapping_offset(step);
    }
}

/// One bit for every four bytes, whose first byte stands for all four.
fn fours(wanted: u64) -> u16 {
    (0..16).map(|k| ((wanted >> (4 * k) & 1) as u16) << k).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_for_what_they_move_faster_on_each_maker_s_processors() {
        if !super::super::processor::permutes() {
            return;
        }
        let one = Loop { count: 1, src: 0, dst: 0 };
        let chosen = |amd: bool, elem: usize, src: isize, dst: isize, near: bool, far: bool| {
            let plane = Plane { outer: one, inner: Loop { count: 1 << 16, src, dst } };
            windowed(elem, &plane, Distance { near, far }, &Processor::new(amd, 32 << 20, true))
        };
        for amd in [true, false] {
            let scattered = |fours| Some(Windowed::Scattered { fours, prefetched: amd });
            assert_eq!(chosen(amd, 4, 4, 8, true, false), scattered(true));
            assert_eq!(chosen(amd, 2, 2, 4, true, false), scattered(false));
            let widely = |fours, prefetched| amd.then_some(Windowed::Scattered { fours, prefetched });
            assert_eq!(chosen(amd, 1, 1, 8, true, false), widely(false, true));
            assert_eq!(chosen(amd, 2, 2, -16, true, true), widely(false, true));
            assert_eq!(chosen(amd, 4, 4, 20, true, false), widely(true, true));
            assert_eq!(chosen(amd, 4, 4, 28, true, true), widely(true, true));
            assert_eq!(chosen(amd, 4, 4, 32, true, true), None);
            assert_eq!(chosen(amd, 4, 4, 24, true, false), None);
            assert_eq!(chosen(amd, 2, 2, 18, true, true), None);
            assert_eq!(chosen(amd, 4, 28, 4, true, false), Some(Windowed::Gathered));
            assert_eq!(chosen(amd, 4, 32, 4, false, false), Some(Windowed::Gathered));
            assert_eq!(chosen(amd, 8, 56, 8, false, true), Some(Windowed::GatheredPast));
            assert_eq!(chosen(amd, 8, 16, 8, true, false), Some(Windowed::Gathered));
            assert_eq!(chosen(amd, 8, 40, 8, true, false), Some(Windowed::Gathered));
            assert_eq!(chosen(amd, 8, 72, 8, false, true), None);
        }
        assert_eq!(
            [true, false].map(|amd| chosen(amd, 4, 32, 4, true, false)),
            [None, Some(Windowed::Gathered)]
        );
        let far = [true, false].map(|amd| chosen(amd, 8, 64, 8, false, true));
        assert_eq!(far, [Some(Windowed::GatheredPast), Some(Windowed::GatheredOwning)]);
    }
}
