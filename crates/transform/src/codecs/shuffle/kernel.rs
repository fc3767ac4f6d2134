//! The shuffle loops: a vectorised one for 2, 4, 8 and 16 bytes and, word by word, for multiples of these; a
//! tiled one for the rest.
//!
//! Shuffling 16 elements of S = 2^s bytes moves the byte whose index has the bits (element: 4, place: s) to (place,
//! element): a rotation by four bits. Interleaving the first and the second half of all vectors rotates by one bit. So
//! four rounds shuffle and s rounds unshuffle, for every S. 256-bit vectors hold two such groups, one in each half.

/// Appends the shuffled form of `data` to `out`.
pub(crate) fn shuffle(data: &[u8], item: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.reserve(data.len());
    let count = data.len() / item;
    let body = count * item;
    if item == 1 || count < 2 {
        out.extend_from_slice(data);
        return;
    }
    let target = &mut out.spare_capacity_mut()[..body];
    // SAFETY: `target` has space for `body` bytes and is not read before it is written; `data` holds at least `body`
    // bytes; the two do not overlap, since one is borrowed mutably.
    unsafe {
        let (source, target) = (data.as_ptr(), target.as_mut_ptr().cast::<u8>());
        let done = match word(item) {
            Some(word) if word < item => columns_to_planes(source, target, count, item, word),
            _ => simd::shuffle(source, target, count, item, count),
        };
        planes_from_elements(source, target, count, item, done);
    }
    // SAFETY: the loops above wrote each of the `body` bytes after `start`.
    unsafe { out.set_len(start + body) };
    out.extend_from_slice(&data[body..]);
}

/// Writes to `out` the data whose shuffled form, of the same length, is `shuffled`.
pub(crate) fn unshuffle(shuffled: &[u8], item: usize, out: &mut [u8]) {
    assert_eq!(shuffled.len(), out.len());
    let count = shuffled.len() / item;
    let body = count * item;
    if item == 1 || count < 2 {
        out.copy_from_slice(shuffled);
        return;
    }
    // SAFETY: both slices hold `body` bytes and do not overlap, since one is borrowed mutably.
    unsafe {
        let (source, target) = (shuffled.as_ptr(), out.as_mut_ptr());
        let done = match word(item) {
            Some(word) if word < item => planes_to_columns(source, target, count, item, word),
            _ => simd::unshuffle(source, target, count, item, count),
        };
        elements_from_planes(source, target, count, item, done);
    }
    out[body..].copy_from_slice(&shuffled[body..]);
}

/// The word size into which the vector loops can split an element of `item` bytes, if any.
fn word(item: usize) -> Option<usize> {
    match item {
        16 => Some(16),
        _ => [8, 4, 2].into_iter().find(|&word| item.is_multiple_of(word)),
    }
}

/// Number of elements whose words of one column are gathered at a time, in a buffer that fits in the first-level cache.
const COLUMN_COUNT: usize = 256;
const COLUMN_LEN: usize = COLUMN_COUNT * 8;

/// Shuffles elements of several words: the words of one column are gathered, then shuffled. Returns the number of
/// elements.
///
/// # Safety
/// As for [`planes_from_elements`]; `word` divides `item` and is 2, 4 or 8.
unsafe fn columns_to_planes(
    source: *const u8,
    target: *mut u8,
    count: usize,
    item: usize,
    word: usize,
) -> usize {
    let done = count - count % 32;
    let mut column = [0u8; COLUMN_LEN];
    for first in (0..done).step_by(COLUMN_COUNT) {
        let len = COLUMN_COUNT.min(done - first);
        for at in (0..item).step_by(word) {
            // SAFETY: first + len <= count and at + word <= item, so the words and the planes lie within
            // count * item; `column` holds len words; len is a multiple of 32.
            unsafe {
                let (from, to) = (source.add(first * item + at), column.as_mut_ptr());
                match word {
                    8 => copy_words::<8>(from, item, to, 8, len),
                    4 => copy_words::<4>(from, item, to, 4, len),
                    _ => copy_words::<2>(from, item, to, 2, len),
                }
                if simd::shuffle(to, target.add(at * count + first), len, word, count) < len {
                    return 0;
                }
            }
        }
    }
    done
}

/// Undoes [`columns_to_planes`].
///
/// # Safety
/// As for [`columns_to_planes`].
unsafe fn planes_to_columns(
    source: *const u8,
    target: *mut u8,
    count: usize,
    item: usize,
    word: usize,
) -> usize {
    let done = count - count % 32;
    let mut column = [0u8; COLUMN_LEN];
    for first in (0..done).step_by(COLUMN_COUNT) {
        let len = COLUMN_COUNT.min(done - first);
        for at in (0..item).step_by(word) {
            // SAFETY: as in `columns_to_planes`.
            unsafe {
                let (from, to) = (column.as_mut_ptr(), target.add(first * item + at));
                if simd::unshuffle(source.add(at * count + first), from, len, word, count) < len {
                    return 0;
                }
                match word {
                    8 => copy_words::<8>(from, 8, to, item, len),
                    4 => copy_words::<4>(from, 4, to, item, len),
                    _ => copy_words::<2>(from, 2, to, item, len),
                }
            }
        }
    }
    done
}

/// Copies `count` words of `W` bytes from one stride to another.
///
/// # Safety
/// `from` and `to` are valid for `count` words at their strides, without overlap.
unsafe fn copy_words<const W: usize>(
    from: *const u8,
    from_stride: usize,
    to: *mut u8,
    to_stride: usize,
    count: usize,
) {
    for i in 0..count {
        // SAFETY: the caller's guarantee, as i < count; an array of bytes has no alignment.
        unsafe { *to.add(i * to_stride).cast::<[u8; W]>() = *from.add(i * from_stride).cast::<[u8; W]>() };
    }
}

/// Number of elements of a tile, whose bytes fit in the first-level cache.
fn tile(item: usize) -> usize {
    (8192 / item).max(16)
}

/// Shuffles elements from `first` on.
///
/// # Safety
/// Both pointers are valid for `count * item` bytes, without overlap.
unsafe fn planes_from_elements(source: *const u8, target: *mut u8, count: usize, item: usize, first: usize) {
    let mut at = first;
    while at < count {
        let end = (at + tile(item)).min(count);
        for place in 0..item {
            for element in at..end {
                // SAFETY: element < count and place < item, so both places lie within count * item.
                unsafe { *target.add(place * count + element) = *source.add(element * item + place) };
            }
        }
        at = end;
    }
}

/// Unshuffles elements from `first` on.
///
/// # Safety
/// As for [`planes_from_elements`].
unsafe fn elements_from_planes(source: *const u8, target: *mut u8, count: usize, item: usize, first: usize) {
    let mut at = first;
    while at < count {
        let end = (at + tile(item)).min(count);
        for place in 0..item {
            for element in at..end {
                // SAFETY: element < count and place < item, so both places lie within count * item.
                unsafe { *target.add(element * item + place) = *source.add(place * count + element) };
            }
        }
        at = end;
    }
}

#[cfg(target_arch = "x86_64")]
mod simd {
    use std::arch::x86_64::*;

    /// Shuffles a multiple of 32 elements and returns how many; 0 if there is no vector loop.
    ///
    /// # Safety
    /// The elements are `count * item` bytes; plane j is the `count` bytes at `j * stride`, with `count <= stride`.
    /// Both pointers are valid for these bytes, without overlap.
    pub(super) unsafe fn shuffle(
        source: *const u8,
        target: *mut u8,
        count: usize,
        item: usize,
        stride: usize,
    ) -> usize {
        // SAFETY: the caller's guarantee, and the instructions were detected.
        unsafe {
            match (item, is_x86_feature_detected!("avx2")) {
                (2, true) => shuffle_wide::<2>(source, target, count, stride),
                (4, true) => shuffle_wide::<4>(source, target, count, stride),
                (8, true) => shuffle_wide::<8>(source, target, count, stride),
                (16, true) => shuffle_in_runs::<16>(source, target, count, stride),
                (2, false) => shuffle_narrow::<2>(source, target, count, stride),
                (4, false) => shuffle_narrow::<4>(source, target, count, stride),
                (8, false) => shuffle_narrow::<8>(source, target, count, stride),
                (16, false) => shuffle_narrow::<16>(source, target, count, stride),
                _ => 0,
            }
        }
    }

    /// Unshuffles a multiple of 32 elements and returns how many; 0 if there is no vector loop.
    ///
    /// # Safety
    /// The elements are `count * item` bytes; plane j is the `count` bytes at `j * stride`, with `count <= stride`.
    /// Both pointers are valid for these bytes, without overlap.
    pub(super) unsafe fn unshuffle(
        source: *const u8,
        target: *mut u8,
        count: usize,
        item: usize,
        stride: usize,
    ) -> usize {
        // SAFETY: the caller's guarantee, and the instructions were detected.
        unsafe {
            match (item, is_x86_feature_detected!("avx2")) {
                (2, true) => unshuffle_wide::<2>(source, target, count, stride),
                (4, true) => unshuffle_wide::<4>(source, target, count, stride),
                (8, true) => unshuffle_wide::<8>(source, target, count, stride),
                (16, true) => unshuffle_wide::<16>(source, target, count, stride),
                (2, false) => unshuffle_narrow::<2>(source, target, count, stride),
                (4, false) => unshuffle_narrow::<4>(source, target, count, stride),
                (8, false) => unshuffle_narrow::<8>(source, target, count, stride),
                (16, false) => unshuffle_narrow::<16>(source, target, count, stride),
                _ => 0,
            }
        }
    }

    /// One rotation of the index bits, in both halves of 256-bit vectors.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn rotate_wide<const S: usize>(v: [__m256i; S]) -> [__m256i; S] {
        let mut r = v;
        for k in 0..S / 2 {
            r[2 * k] = _mm256_unpacklo_epi8(v[k], v[k + S / 2]);
            r[2 * k + 1] = _mm256_unpackhi_epi8(v[k], v[k + S / 2]);
        }
        r
    }

    #[target_feature(enable = "avx2")]
    unsafe fn shuffle_wide<const S: usize>(
        source: *const u8,
        target: *mut u8,
        count: usize,
        stride: usize,
    ) -> usize {
        let done = count - count % 32;
        for first in (0..done).step_by(32) {
            let mut v = [_mm256_setzero_si256(); S];
            for (k, slot) in v.iter_mut().enumerate() {
                // SAFETY: elements first .. first + 32 lie within count, and two groups of 16 * S bytes are read.
                *slot = unsafe {
                    let low = source.add(first * S + 16 * k);
                    _mm256_loadu2_m128i(low.add(16 * S).cast(), low.cast())
                };
            }
            for _ in 0..4 {
                v = rotate_wide(v);
            }
            for (place, vector) in v.into_iter().enumerate() {
                // SAFETY: first + 32 <= count, so these 32 bytes lie within plane `place` < S.
                unsafe { _mm256_storeu_si256(target.add(place * stride + first).cast(), vector) };
            }
        }
        done
    }

    /// [`shuffle_wide`] through a buffer, so that a plane is written in runs of several cache lines. Planes a power of
    /// two apart share cache sets, so sixteen of them written side by side would evict each other.
    #[target_feature(enable = "avx2")]
    unsafe fn shuffle_in_runs<const S: usize>(
        source: *const u8,
        target: *mut u8,
        count: usize,
        stride: usize,
    ) -> usize {
        const RUN: usize = 256;
        let mut planes = [[0u8; RUN]; S];
        let done = count - count % 32;
        for first in (0..done).step_by(RUN) {
            let len = RUN.min(done - first);
            // SAFETY: elements first .. first + len lie within count; `planes` holds S planes of RUN >= len bytes.
            unsafe { shuffle_wide::<S>(source.add(first * S), planes.as_mut_ptr().cast(), len, RUN) };
            for (place, plane) in planes.iter().enumerate() {
                // SAFETY: first + len <= count, so these bytes lie within plane `place` < S.
                unsafe { target.add(place * stride + first).copy_from_nonoverlapping(plane.as_ptr(), len) };
            }
        }
        done
    }

    #[target_feature(enable = "avx2")]
    unsafe fn unshuffle_wide<const S: usize>(
        source: *const u8,
        target: *mut u8,
        count: usize,
        stride: usize,
    ) -> usize {
        let done = count - count % 32;
        for first in (0..done).step_by(32) {
            let mut v = [_mm256_setzero_si256(); S];
            for (place, slot) in v.iter_mut().enumerate() {
                // SAFETY: first + 32 <= count, so these 32 bytes lie within plane `place` < S.
                *slot = unsafe { _mm256_loadu_si256(source.add(place * stride + first).cast()) };
            }
            for _ in 0..S.trailing_zeros() {
                v = rotate_wide(v);
            }
            for (k, vector) in v.into_iter().enumerate() {
                // SAFETY: elements first .. first + 32 lie within count, and two groups of 16 * S bytes are written.
                unsafe {
                    let low = target.add(first * S + 16 * k);
                    _mm256_storeu2_m128i(low.add(16 * S).cast(), low.cast(), vector);
                }
            }
        }
        done
    }

    /// One rotation of the index bits in 128-bit vectors.
    #[inline(always)]
    fn rotate_narrow<const S: usize>(v: [__m128i; S]) -> [__m128i; S] {
        let mut r = v;
        for k in 0..S / 2 {
            // SAFETY: SSE2 is part of x86-64.
            unsafe {
                r[2 * k] = _mm_unpacklo_epi8(v[k], v[k + S / 2]);
                r[2 * k + 1] = _mm_unpackhi_epi8(v[k], v[k + S / 2]);
            }
        }
        r
    }

    pub(super) unsafe fn shuffle_narrow<const S: usize>(
        source: *const u8,
        target: *mut u8,
        count: usize,
        stride: usize,
    ) -> usize {
        let done = count - count % 32;
        for first in (0..done).step_by(16) {
            // SAFETY: any bits are a vector of bytes.
            let mut v: [__m128i; S] = unsafe { std::mem::zeroed() };
            for (k, slot) in v.iter_mut().enumerate() {
                // SAFETY: elements first .. first + 16 lie within count, and their 16 * S bytes are read.
                *slot = unsafe { _mm_loadu_si128(source.add(first * S + 16 * k).cast()) };
            }
            for _ in 0..4 {
                v = rotate_narrow(v);
            }
            for (place, vector) in v.into_iter().enumerate() {
                // SAFETY: first + 16 <= count, so these 16 bytes lie within plane `place` < S.
                unsafe { _mm_storeu_si128(target.add(place * stride + first).cast(), vector) };
            }
        }
        done
    }

    pub(super) unsafe fn unshuffle_narrow<const S: usize>(
        source: *const u8,
        target: *mut u8,
        count: usize,
        stride: usize,
    ) -> usize {
        let done = count - count % 32;
        for first in (0..done).step_by(16) {
            // SAFETY: any bits are a vector of bytes.
            let mut v: [__m128i; S] = unsafe { std::mem::zeroed() };
            for (place, slot) in v.iter_mut().enumerate() {
                // SAFETY: first + 16 <= count, so these 16 bytes lie within plane `place` < S.
                *slot = unsafe { _mm_loadu_si128(source.add(place * stride + first).cast()) };
            }
            for _ in 0..S.trailing_zeros() {
                v = rotate_narrow(v);
            }
            for (k, vector) in v.into_iter().enumerate() {
                // SAFETY: elements first .. first + 16 lie within count, and their 16 * S bytes are written.
                unsafe { _mm_storeu_si128(target.add(first * S + 16 * k).cast(), vector) };
            }
        }
        done
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod simd {
    /// There is no vector loop: the tiled loops process all elements.
    pub(super) unsafe fn shuffle(_: *const u8, _: *mut u8, _: usize, _: usize, _: usize) -> usize {
        0
    }

    /// There is no vector loop: the tiled loops process all elements.
    pub(super) unsafe fn unshuffle(_: *const u8, _: *mut u8, _: usize, _: usize, _: usize) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plainly_shuffled(data: &[u8], item: usize) -> Vec<u8> {
        let body = data.len() / item * item;
        let planes = (0..item).flat_map(|j| data[..body].iter().skip(j).step_by(item));
        planes.chain(&data[body..]).copied().collect()
    }

    #[test]
    fn every_element_size_and_length_agrees_with_the_definition() {
        let data: Vec<u8> = (0..9000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for item in (1..=66).chain([255, 300, 8999]) {
            for len in [0, 1, item - 1, item, item + 1, 31 * item, 32 * item + 1, 67 * item + item / 2, 9000]
            {
                let data = &data[..len.min(9000)];
                let mut shuffled = vec![7];
                shuffle(data, item, &mut shuffled);
                assert_eq!(shuffled[1..], plainly_shuffled(data, item), "item {item}, length {len}");
                let mut back = vec![0; data.len()];
                unshuffle(&shuffled[1..], item, &mut back);
                assert_eq!(back, data, "item {item}, length {len}");
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_narrow_loops_agree_with_the_definition_too() {
        fn check<const S: usize>() {
            let data: Vec<u8> = (0..96 * S).map(|i| (i * 7 + i / 256) as u8).collect();
            let (mut there, mut back) = (vec![0; 96 * S], vec![0; 96 * S]);
            // SAFETY: all three hold 96 elements of S bytes.
            let done = unsafe {
                simd::shuffle_narrow::<S>(data.as_ptr(), there.as_mut_ptr(), 96, 96)
                    + simd::unshuffle_narrow::<S>(there.as_ptr(), back.as_mut_ptr(), 96, 96)
            };
            assert_eq!((done, &there, &back), (192, &plainly_shuffled(&data, S), &data));
        }
        check::<2>();
        check::<4>();
        check::<8>();
        check::<16>();
    }
}
