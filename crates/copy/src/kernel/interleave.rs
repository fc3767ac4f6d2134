//! Interleaves columns to records, and splits records, in registers for x86-64: 16 bytes of every column at a time.
//!
//! Elements have 4 or 8 bytes; `16 / W` records are processed at a time. Only SSE2 is used, which is part of the
//! architecture.

use std::arch::x86_64::*;

use super::element::exactly;
use super::stream;

/// The most members of a record.
pub(super) const MOST: usize = 8;

/// Whether records of this many adjacent elements are joined and split as whole registers.
pub(super) const fn fills(elem: usize, members: usize) -> bool {
    matches!((elem, members), (8, 2..=MOST) | (4, 2 | 3 | 4 | 6 | 8))
}

/// Reads 16 bytes of column `k`.
///
/// # Safety
/// 16 bytes are readable there.
#[inline(always)]
unsafe fn load(src: *const u8, column: isize, k: usize) -> __m128i {
    // SAFETY: the caller's guarantee.
    unsafe { _mm_loadu_si128(src.wrapping_offset(k as isize * column).cast()) }
}

/// Joins 16 bytes of each of `M` columns to adjacent records, past the caches if `PAST`.
///
/// # Safety
/// 16 bytes of each column are readable, `M` times 16 bytes writable at `dst`, which is aligned to 16 bytes if `PAST`;
/// [`fills`] is true for `W` and `M`.
#[inline(always)]
pub(super) unsafe fn dense<const W: usize, const M: usize, const PAST: bool>(
    src: *const u8,
    column: isize,
    dst: *mut u8,
) {
    // SAFETY: the caller's guarantee.
    unsafe {
        let columns: [__m128i; M] = std::array::from_fn(|k| load(src, column, k));
        let put = |k: usize, found| match PAST {
            true => stream::put(found, dst.add(16 * k)),
            false => _mm_storeu_si128(dst.add(16 * k).cast(), found),
        };
        match (W, M) {
            (8, _) => eights(M, |k| columns[k], put),
            (4, 3) => three_fours([columns[0], columns[1], columns[2]], put),
            _ => {
                // Two adjacent elements of 4 bytes are treated as one of 8.
                let pairs = M / 2;
                eights(pairs, |k| _mm_unpacklo_epi32(columns[2 * k], columns[2 * k + 1]), put);
                let high = |k: usize| _mm_unpackhi_epi32(columns[2 * k], columns[2 * k + 1]);
                eights(pairs, high, |k, found| put(pairs + k, found));
            }
        }
    }
}

/// Joins two records of `n` elements of 8 bytes from as many registers of two, into as many registers.
#[inline(always)]
fn eights(n: usize, column: impl Fn(usize) -> __m128i, put: impl Fn(usize, __m128i)) {
    // SAFETY: the instructions are part of x86-64.
    unsafe {
        if n == 1 {
            return put(0, column(0));
        }
        for k in 0..n / 2 {
            put(k, _mm_unpacklo_epi64(column(2 * k), column(2 * k + 1)));
        }
        let odd = n % 2;
        if odd == 1 {
            let (last, first) = (_mm_castsi128_pd(column(n - 1)), _mm_castsi128_pd(column(0)));
            put(n / 2, _mm_castpd_si128(_mm_shuffle_pd::<0b10>(last, first)));
        }
        for k in 0..n / 2 {
            put(n / 2 + odd + k, _mm_unpackhi_epi64(column(2 * k + odd), column(2 * k + odd + 1)));
        }
    }
}

/// Joins four records of three elements of 4 bytes.
#[inline(always)]
fn three_fours(columns: [__m128i; 3], put: impl Fn(usize, __m128i)) {
    // SAFETY: the instructions are part of x86-64.
    unsafe {
        let [a, b, c] = columns;
        let (low, high) =
            (_mm_castsi128_ps(_mm_unpacklo_epi32(a, b)), _mm_castsi128_ps(_mm_unpackhi_epi32(a, b)));
        let c = _mm_castsi128_ps(c);
        // c0 and a1, b1 and c1, c2 and a3, b3 and c3; each twice.
        let ca = _mm_shuffle_ps::<0b10_10_00_00>(c, low);
        let bc = _mm_shuffle_ps::<0b01_01_11_11>(low, c);
        let ca_high = _mm_shuffle_ps::<0b10_10_10_10>(c, high);
        let bc_high = _mm_shuffle_ps::<0b11_11_11_11>(high, c);
        put(0, _mm_castps_si128(_mm_shuffle_ps::<0b10_00_01_00>(low, ca)));
        put(1, _mm_castps_si128(_mm_shuffle_ps::<0b01_00_10_00>(bc, high)));
        put(2, _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(ca_high, bc_high)));
    }
}

/// Splits adjacent records into 16 bytes of each of `M` columns, past the caches if `PAST`.
///
/// # Safety
/// `M` times 16 bytes are readable at `src`, 16 bytes of each column are writable, at a multiple of 16 bytes if `PAST`;
/// [`fills`] is true for `W` and `M`.
#[inline(always)]
pub(super) unsafe fn split<const W: usize, const M: usize, const PAST: bool>(
    src: *const u8,
    dst: *mut u8,
    column: isize,
) {
    // SAFETY: the caller's guarantee.
    unsafe {
        let found: [__m128i; M] = std::array::from_fn(|k| load(src, 16, k));
        let put = |k: usize, found| {
            let to = dst.wrapping_offset(k as isize * column);
            match PAST {
                true => stream::put(found, to),
                false => _mm_storeu_si128(to.cast(), found),
            }
        };
        match (W, M) {
            (8, _) => (0..M).for_each(|k| put(k, eight_of(M, k, |k| found[k]))),
            (4, 3) => {
                let [a, b, c] = three_fours_of([found[0], found[1], found[2]]);
                put(0, a);
                put(1, b);
                put(2, c);
            }
            _ => {
                // Two adjacent elements of 4 bytes are treated as one of 8.
                let pairs = M / 2;
                for k in 0..pairs {
                    let low = _mm_castsi128_ps(eight_of(pairs, k, |k| found[k]));
                    let high = _mm_castsi128_ps(eight_of(pairs, k, |k| found[pairs + k]));
                    put(2 * k, _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(low, high)));
                    put(2 * k + 1, _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(low, high)));
                }
            }
        }
    }
}

/// Element `k` of two records of `n` elements of 8 bytes, from as many registers.
#[inline(always)]
fn eight_of(n: usize, k: usize, register: impl Fn(usize) -> __m128i) -> __m128i {
    // SAFETY: the instructions are part of x86-64.
    unsafe {
        let (a, b) = (register(k / 2), register((n + k) / 2));
        match (k % 2, (n + k) % 2) {
            _ if n == 1 => a,
            (0, 0) => _mm_unpacklo_epi64(a, b),
            (0, _) => _mm_castpd_si128(_mm_shuffle_pd::<0b10>(_mm_castsi128_pd(a), _mm_castsi128_pd(b))),
            (_, 0) => _mm_castpd_si128(_mm_shuffle_pd::<0b01>(_mm_castsi128_pd(a), _mm_castsi128_pd(b))),
            _ => _mm_unpackhi_epi64(a, b),
        }
    }
}

/// The three columns of four records of elements of 4 bytes.
#[inline(always)]
fn three_fours_of(records: [__m128i; 3]) -> [__m128i; 3] {
    // SAFETY: the instructions are part of x86-64.
    unsafe {
        // a0 b0 c0 a1, b1 c1 a2 b2, c2 a3 b3 c3
        let [x, y, z] = records.map(|found| _mm_castsi128_ps(found));
        let a_high = _mm_shuffle_ps::<0b01_01_10_10>(y, z);
        let (b_low, b_high) = (_mm_shuffle_ps::<0b00_00_01_01>(x, y), _mm_shuffle_ps::<0b10_10_11_11>(y, z));
        let c_low = _mm_shuffle_ps::<0b01_01_10_10>(x, y);
        [
            _mm_castps_si128(_mm_shuffle_ps::<0b10_00_11_00>(x, a_high)),
            _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(b_low, b_high)),
            _mm_castps_si128(_mm_shuffle_ps::<0b11_00_10_00>(c_low, z)),
        ]
    }
}

/// Joins 16 bytes of each of `M` columns to records that lie `record` bytes apart; nothing is written between them.
///
/// # Safety
/// 16 bytes of each column are readable, `16 / W` records of `M` elements writable.
#[inline(always)]
pub(super) unsafe fn apart<const W: usize, const M: usize>(
    src: *const u8,
    column: isize,
    dst: *mut u8,
    record: isize,
) {
    // SAFETY: the caller's guarantee, for columns below `M` and the members with the same numbers.
    unsafe {
        let load = |k: usize| load(src, column, k);
        let to =
            |row: usize, member: usize| dst.wrapping_offset(row as isize * record).wrapping_add(member * W);
        let put = |row: usize, member: usize, found: __m128i| _mm_storeu_si128(to(row, member).cast(), found);
        let put_halves = |row: usize, member: usize, found: __m128i| {
            // Neither address needs to be aligned, as other stores of half a register require.
            _mm_storel_epi64(to(row, member).cast(), found);
            _mm_storel_epi64(to(row + 1, member).cast(), _mm_unpackhi_epi64(found, found));
        };
        let whole = M / (16 / W) * (16 / W);
        for k in (0..whole).step_by(16 / W) {
            let (a, b) = (load(k), load(k + 1));
            if W == 8 {
                put(0, k, _mm_unpacklo_epi64(a, b));
                put(1, k, _mm_unpackhi_epi64(a, b));
                continue;
            }
            let (c, d) = (load(k + 2), load(k + 3));
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            put(0, k, _mm_unpacklo_epi64(ab, cd));
            put(1, k, _mm_unpackhi_epi64(ab, cd));
            let (ab, cd) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            put(2, k, _mm_unpacklo_epi64(ab, cd));
            put(3, k, _mm_unpackhi_epi64(ab, cd));
        }
        match W {
            8 if M > whole => put_halves(0, whole, load(whole)),
            4 => {
                if M >= whole + 2 {
                    let (a, b) = (load(whole), load(whole + 1));
                    put_halves(0, whole, _mm_unpacklo_epi32(a, b));
                    put_halves(2, whole, _mm_unpackhi_epi32(a, b));
                }
                if M % 2 == 1 {
                    let last = src.wrapping_offset((M - 1) as isize * column);
                    (0..4).for_each(|row| exactly::<4>(last.wrapping_add(4 * row), to(row, M - 1)));
                }
            }
            _ => (),
        }
    }
}
