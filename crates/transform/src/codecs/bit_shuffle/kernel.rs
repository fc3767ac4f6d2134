//! The bit loops: from one byte plane to its eight bit planes, and back.
//!
//! With AVX2 or AVX-512 one instruction takes the uppermost bit of each of 32 or 64 bytes; after a shift to the left it
//! takes the next ones. In the inverse, a bit plane is a mask of the bytes that get the bit. Without these
//! instructions, 8 x 8 bits are transposed in words.

/// Writes the eight bit planes of one byte plane, whose length is a multiple of eight. Both slices have this length.
pub(super) fn scatter(from: &[u8], to: &mut [u8]) {
    assert!(from.len() == to.len() && from.len().is_multiple_of(8));
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the instructions were detected; those of AVX-512 F come with them.
            done = unsafe { simd::scatter_widest(from, to) };
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: the instructions were detected.
            done = unsafe { simd::scatter_wide(from, to) };
        }
    }
    scatter_words(from, to, done);
}

/// Writes one byte plane from its eight bit planes. Both slices have the same length, a multiple of eight.
pub(super) fn gather(from: &[u8], to: &mut [u8]) {
    assert!(from.len() == to.len() && from.len().is_multiple_of(8));
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            // SAFETY: the instructions were detected; those of AVX-512 F come with them.
            done = unsafe { simd::gather_widest(from, to) };
        } else if is_x86_feature_detected!("avx2") {
            // SAFETY: the instructions were detected.
            done = unsafe { simd::gather_wide(from, to) };
        }
    }
    gather_words(from, to, done);
}

/// Transposes the 8 x 8 bits of a word: bit j of byte i and bit i of byte j are exchanged.
#[inline(always)]
fn transposed(mut x: u64) -> u64 {
    let mut swap = |shift: u32, mask: u64| {
        let t = (x ^ (x >> shift)) & mask;
        x ^= t ^ (t << shift);
    };
    swap(7, 0x00AA_00AA_00AA_00AA);
    swap(14, 0x0000_CCCC_0000_CCCC);
    swap(28, 0x0000_0000_F0F0_F0F0);
    x
}

/// Processes the bytes from `done` on, word by word.
fn scatter_words(from: &[u8], to: &mut [u8], done: usize) {
    let per_plane = from.len() / 8;
    for (at, bytes) in from.as_chunks::<8>().0.iter().enumerate().skip(done / 8) {
        let word = transposed(u64::from_le_bytes(*bytes)).to_le_bytes();
        for (plane, byte) in word.into_iter().enumerate() {
            to[plane * per_plane + at] = byte;
        }
    }
}

/// Processes the bytes from `done` on, word by word.
fn gather_words(from: &[u8], to: &mut [u8], done: usize) {
    let per_plane = from.len() / 8;
    for (at, bytes) in to.as_chunks_mut::<8>().0.iter_mut().enumerate().skip(done / 8) {
        let word: [u8; 8] = std::array::from_fn(|plane| from[plane * per_plane + at]);
        *bytes = transposed(u64::from_le_bytes(word)).to_le_bytes();
    }
}

#[cfg(target_arch = "x86_64")]
mod simd {
    use std::arch::x86_64::*;

    /// Processes all but the bytes after the last whole vector; returns how many.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn scatter_widest(from: &[u8], to: &mut [u8]) -> usize {
        let per_plane = from.len() / 8;
        let (vectors, _) = from.as_chunks::<64>();
        for (n, bytes) in vectors.iter().enumerate() {
            // SAFETY: an array of 64 bytes is read whole.
            let mut vector = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
            for plane in (0..8).rev() {
                let bits = _mm512_movepi8_mask(vector).to_le_bytes();
                to[plane * per_plane + 8 * n..][..8].copy_from_slice(&bits);
                vector = _mm512_add_epi8(vector, vector);
            }
        }
        vectors.len() * 64
    }

    /// Like [`scatter_widest`], with AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) fn scatter_wide(from: &[u8], to: &mut [u8]) -> usize {
        let per_plane = from.len() / 8;
        let (vectors, _) = from.as_chunks::<32>();
        for (n, bytes) in vectors.iter().enumerate() {
            // SAFETY: an array of 32 bytes is read whole.
            let mut vector = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            for plane in (0..8).rev() {
                let bits = _mm256_movemask_epi8(vector).to_le_bytes();
                to[plane * per_plane + 4 * n..][..4].copy_from_slice(&bits);
                vector = _mm256_add_epi8(vector, vector);
            }
        }
        vectors.len() * 32
    }

    /// The inverse of [`scatter_widest`].
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn gather_widest(from: &[u8], to: &mut [u8]) -> usize {
        let per_plane = from.len() / 8;
        let (vectors, _) = to.as_chunks_mut::<64>();
        let done = vectors.len() * 64;
        for (n, bytes) in vectors.iter_mut().enumerate() {
            let mut vector = _mm512_setzero_si512();
            for plane in 0..8 {
                let mut bits = [0; 8];
                bits.copy_from_slice(&from[plane * per_plane + 8 * n..][..8]);
                let bit = _mm512_set1_epi8((1u8 << plane) as i8);
                vector = _mm512_mask_add_epi8(vector, u64::from_le_bytes(bits), vector, bit);
            }
            // SAFETY: an array of 64 bytes is written whole.
            unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) };
        }
        done
    }

    /// The inverse of [`scatter_wide`].
    #[target_feature(enable = "avx2")]
    pub(super) fn gather_wide(from: &[u8], to: &mut [u8]) -> usize {
        let per_plane = from.len() / 8;
        let (vectors, _) = to.as_chunks_mut::<32>();
        let done = vectors.len() * 32;
        // Byte i of a vector is bit i % 8 of byte i / 8 of the mask; each half of the vector gets all four bytes of the
        // mask.
        let spread =
            _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        for (n, bytes) in vectors.iter_mut().enumerate() {
            let mut vector = _mm256_setzero_si256();
            for plane in 0..8 {
                let mut bits = [0; 4];
                bits.copy_from_slice(&from[plane * per_plane + 4 * n..][..4]);
                let mask = _mm256_shuffle_epi8(_mm256_set1_epi32(i32::from_le_bytes(bits)), spread);
                let set = _mm256_cmpeq_epi8(_mm256_and_si256(mask, own), own);
                let bit = _mm256_set1_epi8((1u8 << plane) as i8);
                vector = _mm256_or_si256(vector, _mm256_and_si256(set, bit));
            }
            // SAFETY: an array of 32 bytes is written whole.
            unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) };
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_either_width_and_words_give_the_same_planes_and_bytes() {
        let bytes: Vec<u8> = (0..1024u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 17) as u8).collect();
        for len in [0, 8, 24, 32, 56, 64, 72, 128, 200, 1024] {
            let bytes = &bytes[..len];
            let mut planes = vec![0; len];
            scatter_words(bytes, &mut planes, 0);
            let check = |scattered: &dyn Fn(&mut [u8]) -> usize, gathered: &dyn Fn(&mut [u8]) -> usize| {
                let mut own = vec![0; len];
                let done = scattered(&mut own);
                scatter_words(bytes, &mut own, done);
                assert!(own == planes, "{len} bytes into planes");
                own.fill(0);
                let done = gathered(&mut own);
                gather_words(&planes, &mut own, done);
                assert!(own == bytes, "{len} bytes from planes");
            };
            check(&|_| 0, &|_| 0);
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx512bw") {
                    // SAFETY: the instructions were detected.
                    unsafe {
                        check(&|to| simd::scatter_widest(bytes, to), &|to| simd::gather_widest(&planes, to));
                    }
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the instructions were detected.
                    unsafe {
                        check(&|to| simd::scatter_wide(bytes, to), &|to| simd::gather_wide(&planes, to))
                    };
                }
            }
        }
    }
}
