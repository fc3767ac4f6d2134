//! Truth values as bits: 64 cells to a word, the first in the lowest bit.

/// Packs 64 bytes of 0 and 1 into a word.
fn pack(bytes: &[u8; 64]) -> u64 {
    // The multiplication moves bit 0 of byte i to bit 56 + i.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    let byte =
        |(i, eight): (usize, &[u8; 8])| (u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56) << (8 * i);
    eights.iter().enumerate().map(byte).fold(0, |word, bits| word | bits)
}

/// One bit per element.
pub(super) fn test<T: Copy>(a: &[T], out: &mut [u64], test: impl Fn(T) -> bool) {
    for (word, a) in out.iter_mut().zip(a.chunks(64)) {
        let mut bytes = [0; 64];
        for (byte, &x) in bytes.iter_mut().zip(a) {
            *byte = u8::from(test(x));
        }
        *word = pack(&bytes);
    }
}

/// One bit per pair of elements.
pub(super) fn compare<T: Copy, U: Copy>(a: &[T], b: &[U], out: &mut [u64], test: impl Fn(T, U) -> bool) {
    for ((word, a), b) in out.iter_mut().zip(a.chunks(64)).zip(b.chunks(64)) {
        let mut bytes = [0; 64];
        for ((byte, &x), &y) in bytes.iter_mut().zip(a).zip(b) {
            *byte = u8::from(test(x, y));
        }
        *word = pack(&bytes);
    }
}

/// Selects each element from one side or the other.
pub(super) fn choose<T: Copy>(condition: &[u64], a: &[T], b: &[T], out: &mut [T]) {
    for (((&word, a), b), out) in condition.iter().zip(a.chunks(64)).zip(b.chunks(64)).zip(out.chunks_mut(64))
    {
        for (i, ((out, &x), &y)) in out.iter_mut().zip(a).zip(b).enumerate() {
            *out = if word >> i & 1 == 1 { x } else { y };
        }
    }
}

/// A value per bit.
pub(super) fn spread<T: Copy>(bits: &[u64], out: &mut [T], no: T, yes: T) {
    for (&word, out) in bits.iter().zip(out.chunks_mut(64)) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = if word >> i & 1 == 1 { yes } else { no };
        }
    }
}

/// Clears the bits beyond `cells`.
pub(super) fn cut(words: &mut [u64], cells: usize) {
    if let Some(last) = words.get_mut(cells / 64) {
        *last &= (1 << (cells % 64)) - 1;
    }
}
