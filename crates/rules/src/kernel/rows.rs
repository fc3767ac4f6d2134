//! Rows of some lines by registers of 64 bytes, for processors whose loads and stores of a whole line cost little where they cross one.
//!
//! A row's first and last 64 bytes are one load and one store each, wherever they lie; between them stores begin at lines. All rows go
//! the same way whatever their length, without a call per row.
//!
//! Measured (Zen 5) beside moves of 16 bytes with lines asked for: rows of 256 to 1024 bytes in the cache 1.02 to 1.18 times as fast;
//! gathered out of memory, one of three or eight of 128 to 512 bytes, 1.05 to 1.2 times. Beside `memcpy` row by row 0.95 to 1.15 times,
//! but for rows of 4096 bytes and more in the cache, where that is 1.2 times as fast.

use std::arch::x86_64::*;

use super::stream::{self, LINE};
use super::strided::{Kernel, Loop, Plane, runs_ahead};

/// The kernel for rows of a line and more, each asked for some rows before its turn or not, on a processor that has these registers.
pub(super) fn kernel(asks: bool) -> Kernel {
    if asks { run::<true> } else { run::<false> }
}

/// The kernel for rows of a line and more that follow each other in a destination that no cache holds, each asked for some rows before its
/// turn: whole lines go past the caches, also those that two rows share.
///
/// Measured (Zen 5) beside moves of 16 bytes past the caches, or rows stored plainly: one of two, three or eight of 2048 and 4096 bytes 1.05
/// to 1.2 times as fast, of 1024 bytes 1.0 to 1.1 times; shorter ones as fast or slower.
pub(super) fn past_kernel() -> Kernel {
    run_past
}

/// Moves rows past the caches.
///
/// # Safety
/// As [`Kernel`] says, with elements of 64 bytes and more whose inner loop is dense in the destination, on a processor that has these
/// registers.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn run_past(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let Plane { outer, inner } = plane;
    for k in 0..outer.count as isize {
        // SAFETY: by the caller, for this row of elements.
        unsafe { follow(elem, inner, src.wrapping_offset(k * outer.src), dst.wrapping_offset(k * outer.dst)) }
    }
}

/// Moves rows that follow each other from `dst` on.
///
/// # Safety
/// As for [`run_past`], for one loop.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn follow(elem: usize, rows: Loop, src: *const u8, dst: *mut u8) {
    let ahead = runs_ahead(elem) * rows.src;
    let (mut src, mut dst, mut at) = (src, dst, dst.addr().wrapping_neg() % LINE);
    // SAFETY: by the caller: what is read lies in a row, or is masked; every line that is stored is filled by one row or by two.
    unsafe {
        if rows.count > 0 {
            std::ptr::copy_nonoverlapping(src, dst, at);
            dst = dst.add(at);
        }
        for row in 0..rows.count {
            let asked = src.wrapping_offset(ahead);
            while at + LINE <= elem {
                stream::ask(asked.wrapping_add(at));
                _mm512_stream_si512(dst.cast(), _mm512_loadu_si512(src.add(at).cast()));
                (at, dst) = (at + LINE, dst.add(LINE));
            }
            let left = elem - at;
            let next = src.wrapping_offset(rows.src);
            if left > 0 && row + 1 == rows.count {
                std::ptr::copy_nonoverlapping(src.add(at), dst, left);
            } else if left > 0 {
                stream::ask(asked.wrapping_add(at));
                let mine = (1 << left) - 1;
                let line = _mm512_maskz_loadu_epi8(mine, src.add(at).cast());
                let line = _mm512_mask_loadu_epi8(line, !mine, next.wrapping_sub(left).cast());
                _mm512_stream_si512(dst.cast(), line);
                dst = dst.add(LINE);
            }
            at = (LINE - left) % LINE;
            src = next;
        }
    }
}

/// Moves rows; if `ASKS`, each line is asked for some rows before its turn.
///
/// # Safety
/// As [`Kernel`] says, with elements of 64 bytes and more, on a processor that has these registers.
#[target_feature(enable = "avx512f")]
unsafe fn run<const ASKS: bool>(elem: usize, plane: Plane, src: *const u8, dst: *mut u8) {
    let Plane { outer, inner } = plane;
    let ahead = runs_ahead(elem) * inner.src;
    for k in 0..outer.count as isize {
        let (mut src, mut dst) = (src.wrapping_offset(k * outer.src), dst.wrapping_offset(k * outer.dst));
        for _ in 0..inner.count {
            // SAFETY: by the caller, for this element of the plane.
            unsafe { row::<ASKS>(elem, src, dst, src.wrapping_offset(ahead)) }
            src = src.wrapping_offset(inner.src);
            dst = dst.wrapping_offset(inner.dst);
        }
    }
}

/// Moves one row, and asks for one at `ahead`, which may be any address.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, 64 at least; the two do not overlap.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn row<const ASKS: bool>(len: usize, src: *const u8, dst: *mut u8, ahead: *const u8) {
    let head = dst.addr().wrapping_neg() % LINE;
    let (tail, over) = (len - LINE, (dst.addr() + len) % LINE);
    let (end, mut at) = (len - over, head);
    // SAFETY: by the caller; all that begins at or before `tail` ends inside of the row, and `dst + at` is a multiple of a line's bytes.
    unsafe {
        let (first, last) = (_mm512_loadu_si512(src.cast()), _mm512_loadu_si512(src.add(tail).cast()));
        if ASKS {
            stream::ask(ahead);
        }
        if head > 0 {
            _mm512_storeu_si512(dst.cast(), first);
        }
        // Four loads before four stores: a store and a later load whose addresses differ by a multiple of 4 KiB wait for each other.
        while !ASKS && at + 4 * LINE <= end {
            let (from, to) = (src.add(at), dst.add(at));
            // No array and no closure: these pass registers by way of memory where they are not inlined first.
            let a = _mm512_loadu_si512(from.cast());
            let b = _mm512_loadu_si512(from.add(LINE).cast());
            let c = _mm512_loadu_si512(from.add(2 * LINE).cast());
            let d = _mm512_loadu_si512(from.add(3 * LINE).cast());
            _mm512_store_si512(to.cast(), a);
            _mm512_store_si512(to.add(LINE).cast(), b);
            _mm512_store_si512(to.add(2 * LINE).cast(), c);
            _mm512_store_si512(to.add(3 * LINE).cast(), d);
            at += 4 * LINE;
        }
        while at < end {
            if ASKS {
                stream::ask(ahead.wrapping_add(at));
            }
            _mm512_store_si512(dst.add(at).cast(), _mm512_loadu_si512(src.add(at).cast()));
            at += LINE;
        }
        if over > 0 {
            _mm512_storeu_si512(dst.add(tail).cast(), last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The processor that runs the tests may choose other loops, so these are called by themselves.
    #[test]
    fn rows_of_every_length_move_exactly_wherever_they_begin() {
        if !super::super::wide::available() {
            return;
        }
        let source: Vec<u8> = (0..8192_u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for elem in [64, 65, 100, 127, 128, 191, 256, 320, 449, 512, 777, 1024] {
            for skew in [0, 1, 16, 48, 63] {
                for apart in [0, 1, 40, 64] {
                    let (count, stride) = (3, elem + apart);
                    let mut found = vec![0xEE_u8; skew + 3 * stride];
                    let mut expected = found.clone();
                    for k in 0..count {
                        let at = skew + k * stride;
                        expected[at..at + elem].copy_from_slice(&source[7 + 2 * k * elem..][..elem]);
                    }
                    let one = Loop { count: 1, src: 0, dst: 0 };
                    let inner = Loop { count, src: 2 * elem as isize, dst: stride as isize };
                    let past = (apart == 0).then_some(run_past as Kernel);
                    for run in [run::<false> as Kernel, run::<true>].into_iter().chain(past) {
                        found.fill(0xEE);
                        let (from, to) = (source[7..].as_ptr(), found[skew..].as_mut_ptr());
                        // SAFETY: three rows lie in both buffers, and the registers are there.
                        unsafe { run(elem, Plane { outer: one, inner }, from, to) }
                        assert_eq!(found, expected, "{elem} bytes, {skew} into the buffer, {apart} apart");
                    }
                }
            }
        }
    }
}
