//! Truth values as bits: 64 cells to a word, the first in the lowest bit.

use super::pack::pack;

/// One bit per element. One value, for a constant, is used for all.
#[inline(always)]
pub(super) fn test<T: Copy>(a: &[T], out: &mut [u64], test: impl Fn(T) -> bool) {
    if let &[x] = a {
        return out.fill(if test(x) { u64::MAX } else { 0 });
    }
    for (word, a) in out.iter_mut().zip(a.chunks(64)) {
        let mut bytes = [0; 64];
        for (byte, &x) in bytes.iter_mut().zip(a) {
            *byte = u8::from(test(x));
        }
        *word = pack(&bytes);
    }
}

/// One bit per pair of elements. One value, for a constant, is used for all.
#[inline(always)]
pub(super) fn compare<T: Copy, U: Copy>(a: &[T], b: &[U], out: &mut [u64], holds: impl Fn(T, U) -> bool) {
    match (a, b) {
        (&[x], _) => test(b, out, |y| holds(x, y)),
        (_, &[y]) => test(a, out, |x| holds(x, y)),
        _ => {
            for ((word, a), b) in out.iter_mut().zip(a.chunks(64)).zip(b.chunks(64)) {
                let mut bytes = [0; 64];
                for ((byte, &x), &y) in bytes.iter_mut().zip(a).zip(b) {
                    *byte = u8::from(holds(x, y));
                }
                *word = pack(&bytes);
            }
        }
    }
}

/// Selects each element from one side or the other. One value, for a constant, is used for all.
#[inline(always)]
pub(super) fn choose<T: Copy + Default>(condition: &[u64], a: &[T], b: &[T], out: &mut [T]) {
    for (n, (&word, out)) in condition.iter().zip(out.chunks_mut(64)).enumerate() {
        let (a, b) = (sixty_four(a, n), sixty_four(b, n));
        let mut chosen = [T::default(); 64];
        for (i, ((chosen, &x), &y)) in chosen.iter_mut().zip(&a).zip(&b).enumerate() {
            *chosen = if word >> i & 1 == 1 { x } else { y };
        }
        out.copy_from_slice(&chosen[..out.len()]);
    }
}

/// The elements of a word of bits; fewer are filled up.
#[inline(always)]
fn sixty_four<T: Copy + Default>(values: &[T], word: usize) -> [T; 64] {
    if let &[x] = values {
        return [x; 64];
    }
    let from = values.get(64 * word..).unwrap_or_default();
    from.first_chunk().copied().unwrap_or_else(|| {
        let mut out = [T::default(); 64];
        out.iter_mut().zip(from).for_each(|(out, x)| *out = *x);
        out
    })
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
