//! Truth values in bytes become bits.

/// Packs 64 bytes of 0 and 1 into a word.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn pack(bytes: &[u8; 64]) -> u64 {
    use std::arch::x86_64::{_mm_movemask_epi8, _mm_set_epi64x, _mm_slli_epi16};

    let (sixteens, _) = bytes.as_chunks::<16>();
    let mut word = 0;
    for (i, bytes) in sixteens.iter().enumerate() {
        let bytes = i128::from_le_bytes(*bytes);
        // SAFETY: every x86-64 processor has these instructions.
        let bits = unsafe {
            // The lowest bit of each byte becomes its highest, which the second instruction collects.
            _mm_movemask_epi8(_mm_slli_epi16::<7>(_mm_set_epi64x((bytes >> 64) as i64, bytes as i64)))
        };
        word |= (bits as u64) << (16 * i);
    }
    word
}

/// Packs 64 bytes of 0 and 1 into a word.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn pack(bytes: &[u8; 64]) -> u64 {
    // The multiplication moves bit 0 of byte i to bit 56 + i.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    let byte =
        |(i, eight): (usize, &[u8; 8])| (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * i);
    eights.iter().enumerate().map(byte).fold(0, |word, bits| word | bits)
}
