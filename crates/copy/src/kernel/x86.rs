//! Square transposes in registers, for x86-64.
//!
//! Each kernel turns `side` rows of one cache line, or part of it, into as many columns. SSE2 is part of the
//! architecture; AVX2 is detected at run time.

use std::arch::x86_64::*;

/// Transposes one square: reads `side` elements from each of `side` rows, which lie the first stride apart, and writes
/// them as columns of rows that lie the second stride apart.
pub(super) type Square = unsafe fn(*const u8, isize, *mut u8, isize);

/// The square kernel for elements of `elem` bytes, with its side.
pub(super) fn square(elem: usize) -> Option<(usize, Square)> {
    match elem {
        1 => Some((16, square_1)),
        2 => Some((8, square_2)),
        4 if is_x86_feature_detected!("avx2") => Some((8, square_4_avx2)),
        4 => Some((4, square_4)),
        8 if is_x86_feature_detected!("avx2") => Some((8, square_8_avx2)),
        8 => Some((2, square_8)),
        _ => None,
    }
}

/// Reads `N` rows of 16 bytes.
///
/// # Safety
/// 16 bytes are readable at each row.
#[inline(always)]
unsafe fn rows<const N: usize>(src: *const u8, pitch: isize) -> [__m128i; N] {
    // SAFETY: the caller's guarantee.
    std::array::from_fn(|k| unsafe { _mm_loadu_si128(src.wrapping_offset(k as isize * pitch).cast()) })
}

/// Writes rows of 16 bytes.
///
/// # Safety
/// 16 bytes are writable at each row.
#[inline(always)]
unsafe fn put<const N: usize>(rows: [__m128i; N], dst: *mut u8, pitch: isize) {
    for (k, row) in rows.into_iter().enumerate() {
        // SAFETY: the caller's guarantee.
        unsafe { _mm_storeu_si128(dst.wrapping_offset(k as isize * pitch).cast(), row) }
    }
}

/// One round of interleaving: pairs each row of the upper half with one of the lower half. A square is transposed by as
/// many rounds as its side has bits.
macro_rules! interleave {
    ($rows:expr, $low:ident, $high:ident) => {{
        let rows = $rows;
        let half = rows.len() / 2;
        let mut paired = rows;
        // A loop over places is unrolled; closures that fill an array may remain calls, with rows in memory.
        for k in 0..half {
            // SAFETY: the instructions are part of x86-64.
            unsafe {
                paired[2 * k] = $low(rows[k], rows[k + half]);
                paired[2 * k + 1] = $high(rows[k], rows[k + half]);
            }
        }
        paired
    }};
}

/// 16 x 16 single bytes.
///
/// # Safety
/// As for [`Square`]: every row of both squares is accessible, and they do not overlap.
unsafe fn square_1(src: *const u8, src_pitch: isize, dst: *mut u8, dst_pitch: isize) {
    // SAFETY: the caller's guarantee.
    let mut square: [__m128i; 16] = unsafe { rows(src, src_pitch) };
    for _ in 0..4 {
        square = interleave!(square, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
    }
    // SAFETY: the caller's guarantee.
    unsafe { put(square, dst, dst_pitch) }
}

/// 8 x 8 pairs of bytes.
///
/// # Safety
/// As for [`square_1`].
unsafe fn square_2(src: *const u8, src_pitch: isize, dst: *mut u8, dst_pitch: isize) {
    // SAFETY: the caller's guarantee.
    let mut square: [__m128i; 8] = unsafe { rows(src, src_pitch) };
    for _ in 0..3 {
        square = interleave!(square, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
    }
    // SAFETY: the caller's guarantee.
    unsafe { put(square, dst, dst_pitch) }
}

/// 4 x 4 four-byte elements.
///
/// # Safety
/// As for [`square_1`].
unsafe fn square_4(src: *const u8, src_pitch: isize, dst: *mut u8, dst_pitch: isize) {
    // SAFETY: the caller's guarantee.
    let mut square: [__m128i; 4] = unsafe { rows(src, src_pitch) };
    for _ in 0..2 {
        square = interleave!(square, _mm_unpacklo_epi32, _mm_unpackhi_epi32);
    }
    // SAFETY: the caller's guarantee.
    unsafe { put(square, dst, dst_pitch) }
}

/// 2 x 2 eight-byte elements.
///
/// # Safety
/// As for [`square_1`].
unsafe fn square_8(src: *const u8, src_pitch: isize, dst: *mut u8, dst_pitch: isize) {
    // SAFETY: the caller's guarantee.
    let square: [__m128i; 2] = unsafe { rows(src, src_pitch) };
    let square: [__m128i; 2] = interleave!(square, _mm_unpacklo_epi64, _mm_unpackhi_epi64);
    // SAFETY: the caller's guarantee.
    unsafe { put(square, dst, dst_pitch) }
}

/// 8 x 8 eight-byte elements: a whole line of every row.
///
/// # Safety
/// As for [`square_1`]; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn square_8_avx2(src: *const u8, src_pitch: isize, dst: *mut u8, dst_pitch: isize) {
    for (row, col) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let from = src.wrapping_offset(4 * row * src_pitch + 32 * col);
        let to = dst.wrapping_offset(4 * col * dst_pitch + 32 * row);
        // SAFETY: the caller's guarantee; this is one of the four quarters.
        unsafe {
            let at = |k: isize| _mm256_loadu_si256(from.wrapping_offset(k * src_pitch).cast());
            let (a, b, c, d) = (at(0), at(1), at(2), at(3));
            let (ab_even, ab_odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            let (cd_even, cd_odd) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
            let put = |k: isize, v| _mm256_storeu_si256(to.wrapping_offset(k * dst_pitch).cast(), v);
            put(0, _mm256_permute2x128_si256::<0x20>(ab_even, cd_even));
            put(1, _mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd));
            put(2, _mm256_permute2x128_si256::<0x31>(ab_even, cd_even));
            put(3, _mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd));
        }
    }
}

/// 8 x 8 four-byte elements.
///
/// # Safety
/// As for [`square_1`]; the processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn square_4_avx2(src: *const u8, src_pitch: isize, dst: *mut u8, dst_pitch: isize) {
    // SAFETY: the caller's guarantee. Row `k` of the first four holds its left half in the lower part and that of row
    // `k + 4` in the upper part; the other rows hold the right halves.
    unsafe {
        let half =
            |row: isize, col: isize| _mm_loadu_si128(src.wrapping_offset(row * src_pitch + 16 * col).cast());
        let mut square: [__m256i; 8] = std::array::from_fn(|k| {
            let (row, col) = (k as isize % 4, k as isize / 4);
            _mm256_set_m128i(half(row + 4, col), half(row, col))
        });
        for quarter in square.chunks_exact_mut(4) {
            let (a, b, c, d) = (quarter[0], quarter[1], quarter[2], quarter[3]);
            let (ac, bd) = (_mm256_unpacklo_epi32(a, c), _mm256_unpacklo_epi32(b, d));
            let (ac_high, bd_high) = (_mm256_unpackhi_epi32(a, c), _mm256_unpackhi_epi32(b, d));
            quarter[0] = _mm256_unpacklo_epi32(ac, bd);
            quarter[1] = _mm256_unpackhi_epi32(ac, bd);
            quarter[2] = _mm256_unpacklo_epi32(ac_high, bd_high);
            quarter[3] = _mm256_unpackhi_epi32(ac_high, bd_high);
        }
        for (k, row) in square.into_iter().enumerate() {
            _mm256_storeu_si256(dst.wrapping_offset(k as isize * dst_pitch).cast(), row);
        }
    }
}
