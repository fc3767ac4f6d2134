//! Running sums along a row, with wrap-around: each number is replaced by its sum with all numbers before it.
//!
//! Computed one by one, each sum waits for the previous one. With AVX2 the sums within a vector are computed by adding
//! shifted copies of it, and only one addition waits for the previous vector.

/// Defines a function for numbers of one width and their vector type.
macro_rules! sums {
    ($name:ident, $type:ty $(, $vectors:path)?) => {
        #[inline]
        pub(super) fn $name(line: &mut [$type]) {
            let done = 0;
            $(
                #[cfg(target_arch = "x86_64")]
                let done = if is_x86_feature_detected!("avx2") {
                    // SAFETY: the instructions were detected.
                    unsafe { $vectors(line) }
                } else {
                    done
                };
            )?
            let (summed, rest) = line.split_at_mut(done);
            let mut sum = summed.last().copied().unwrap_or_default();
            for x in rest {
                sum = x.wrapping_add(sum);
                *x = sum;
            }
        }
    };
}
sums! { of_u8, u8 }
sums! { of_u16, u16 }
sums! { of_u32, u32, simd::of_u32 }
sums! { of_u64, u64, simd::of_u64 }

#[cfg(target_arch = "x86_64")]
mod simd {
    use std::arch::x86_64::*;

    /// Processes all but the numbers after the last whole vector; returns how many.
    #[target_feature(enable = "avx2")]
    pub(super) fn of_u32(line: &mut [u32]) -> usize {
        let (vectors, _) = line.as_chunks_mut::<8>();
        let last = _mm256_set1_epi32(7);
        let mut before = _mm256_setzero_si256();
        for numbers in &mut *vectors {
            let place: *mut __m256i = numbers.as_mut_ptr().cast();
            // SAFETY: an array of 32 bytes is read whole.
            let mut sums = unsafe { _mm256_loadu_si256(place) };
            sums = _mm256_add_epi32(sums, _mm256_slli_si256::<4>(sums));
            sums = _mm256_add_epi32(sums, _mm256_slli_si256::<8>(sums));
            // The last sum of the lower half is added to all numbers of the upper half.
            let lower = _mm256_shuffle_epi32::<0xFF>(_mm256_permute2x128_si256::<0x08>(sums, sums));
            sums = _mm256_add_epi32(sums, lower);
            // SAFETY: the same array is written whole.
            unsafe { _mm256_storeu_si256(place, _mm256_add_epi32(sums, before)) };
            before = _mm256_add_epi32(before, _mm256_permutevar8x32_epi32(sums, last));
        }
        vectors.len() * 8
    }

    /// Like [`of_u32`].
    #[target_feature(enable = "avx2")]
    pub(super) fn of_u64(line: &mut [u64]) -> usize {
        let (vectors, _) = line.as_chunks_mut::<4>();
        let none = _mm256_setzero_si256();
        let mut before = none;
        for numbers in &mut *vectors {
            let place: *mut __m256i = numbers.as_mut_ptr().cast();
            // SAFETY: an array of 32 bytes is read whole.
            let mut sums = unsafe { _mm256_loadu_si256(place) };
            sums = _mm256_add_epi64(sums, _mm256_slli_si256::<8>(sums));
            let lower = _mm256_permute4x64_epi64::<0x55>(sums);
            sums = _mm256_add_epi64(sums, _mm256_blend_epi32::<0xF0>(none, lower));
            // SAFETY: the same array is written whole.
            unsafe { _mm256_storeu_si256(place, _mm256_add_epi64(sums, before)) };
            before = _mm256_add_epi64(before, _mm256_permute4x64_epi64::<0xFF>(sums));
        }
        vectors.len() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_rows_of_every_length_are_those_made_one_by_one() {
        let numbers: Vec<u64> = (1..70u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        for len in 0..numbers.len() {
            let mut long = numbers[..len].to_vec();
            let mut short: Vec<u32> = long.iter().map(|n| (*n >> 17) as u32).collect();
            let mut least: Vec<u8> = long.iter().map(|n| (*n >> 17) as u8).collect();
            let (given_long, given_short) = (long.clone(), short.clone());
            of_u64(&mut long);
            of_u32(&mut short);
            of_u8(&mut least);
            for at in 0..len {
                let sum = given_long[..=at].iter().fold(0u64, |sum, n| sum.wrapping_add(*n));
                assert_eq!(long[at], sum, "{at} of {len}");
                let sum = given_short[..=at].iter().fold(0u32, |sum, n| sum.wrapping_add(*n));
                assert_eq!(short[at], sum, "{at} of {len}");
                assert_eq!(least[at], sum as u8, "{at} of {len}");
            }
        }
    }
}
