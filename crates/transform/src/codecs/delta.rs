//! Differences: of neighbouring numbers (`delta`), and of neighbouring bytes of a plane (`bytedelta`).
//!
//! Both wrap around in unsigned integers of the given width and treat floats by their bits, so they are exact for every
//! value. The length does not change.

use crate::codecs::same_length::SameLength;
use crate::params::Params;
use crate::{CodecSpec, Logical, Param, Scratch, TransformError};

/// Each scalar minus the same scalar of the previous element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    width: Option<usize>,
}

impl Delta {
    pub(crate) fn from_params(params: &[Param]) -> Result<Delta, TransformError> {
        let width = Params::read("delta", &["width"], params)?.int("width", 1..=8)?;
        match width {
            Some(width @ (3 | 5..=7)) => {
                let problem = format!("width {width} is not a width of integers, allowed are 1, 2, 4 and 8");
                Err(TransformError::bad_parameter("delta", problem))
            }
            width => Ok(Delta { width: width.map(|width| width as usize) }),
        }
    }

    /// Bytes of the integers, and the distance in integers between the two that are subtracted.
    fn width_and_lag(&self, logical: &Logical) -> (usize, usize) {
        let width = self.width.unwrap_or(logical.scalar);
        let width = if matches!(width, 1 | 2 | 4 | 8) { width } else { 1 };
        let lag = if logical.item.is_multiple_of(width) { logical.item / width } else { 1 };
        (width, lag.max(1))
    }
}

macro_rules! with_integer {
    ($width:expr, $function:ident($($argument:expr),*)) => {
        match $width {
            1 => $function::<u8, 1>($($argument),*),
            2 => $function::<u16, 2>($($argument),*),
            4 => $function::<u32, 4>($($argument),*),
            _ => $function::<u64, 8>($($argument),*),
        }
    };
}

/// An unsigned integer of `N` bytes.
trait Integer<const N: usize>: Copy + Default {
    fn read(bytes: &[u8; N]) -> Self;
    fn write(self) -> [u8; N];
    fn minus(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($type:ty, $size:literal;)*) => {$(
        impl Integer<$size> for $type {
            fn read(bytes: &[u8; $size]) -> Self { <$type>::from_le_bytes(*bytes) }
            fn write(self) -> [u8; $size] { self.to_le_bytes() }
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
        }
    )*};
}
integer! { u8, 1; u16, 2; u32, 4; u64, 8; }

fn differences<T: Integer<N>, const N: usize>(data: &[u8], lag: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(data);
    let ((words, _), (places, _)) = (data.as_chunks::<N>(), out[start..].as_chunks_mut::<N>());
    for (place, (x, before)) in places.iter_mut().skip(lag).zip(words.iter().skip(lag).zip(words)) {
        *place = T::read(x).minus(T::read(before)).write();
    }
}

fn sums<T: Integer<N>, const N: usize>(lag: usize, out: &mut [u8]) {
    let (words, _) = out.as_chunks_mut::<N>();
    if lag == 1 {
        let mut sum = T::default();
        for word in words {
            sum = sum.plus(T::read(word));
            *word = sum.write();
        }
        return;
    }
    for at in lag..words.len() {
        words[at] = T::read(&words[at]).plus(T::read(&words[at - lag])).write();
    }
}

impl SameLength for Delta {
    fn spec(&self) -> CodecSpec {
        let params = self.width.iter().map(|&width| Param::Int(width as i64)).collect();
        CodecSpec { name: "delta".into(), params }
    }

    fn apply(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let (width, lag) = self.width_and_lag(logical);
        with_integer!(width, differences(data, lag, out));
        Ok(())
    }

    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], _scratch: &mut Scratch) {
        out.copy_from_slice(encoded);
        let (width, lag) = self.width_and_lag(logical);
        with_integer!(width, sums(lag, out));
    }
}

/// Each byte of a shuffled plane minus the previous byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteDelta {
    item: Option<usize>,
}

impl ByteDelta {
    pub(crate) fn from_params(params: &[Param]) -> Result<ByteDelta, TransformError> {
        Ok(ByteDelta { item: Params::read("bytedelta", &["elementsize"], params)?.element_size()? })
    }

    /// Length of one plane. If an element is larger than all the data, there are no planes.
    fn plane(&self, len: usize, logical: &Logical) -> usize {
        (len / self.item.unwrap_or(logical.item).max(1)).max(1)
    }

    fn planes(&self, len: usize, logical: &Logical) -> usize {
        let item = self.item.unwrap_or(logical.item).max(1);
        if len < item { 0 } else { item }
    }
}

impl SameLength for ByteDelta {
    fn spec(&self) -> CodecSpec {
        let params = self.item.iter().map(|&size| Param::Int(size as i64)).collect();
        CodecSpec { name: "bytedelta".into(), params }
    }

    fn apply(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let plane = self.plane(data.len(), logical);
        let (body, tail) = data.split_at(plane * self.planes(data.len(), logical));
        for plane in body.chunks_exact(plane) {
            let Some(first) = plane.first() else { continue };
            out.push(*first);
            out.extend(plane.array_windows().map(|[before, x]| x.wrapping_sub(*before)));
        }
        out.extend_from_slice(tail);
        Ok(())
    }

    fn alike(&self, len: usize, logical: &Logical) -> Option<usize> {
        Some(self.plane(len, logical))
    }

    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], _scratch: &mut Scratch) {
        let plane = self.plane(out.len(), logical);
        let body = plane * self.planes(out.len(), logical);
        let ((sums, rest), (from, tail)) = (out.split_at_mut(body), encoded.split_at(body));
        for (sums, from) in sums.chunks_exact_mut(plane).zip(from.chunks_exact(plane)) {
            byte_sums(from, sums);
        }
        rest.copy_from_slice(tail);
    }
}

/// Running sums of bytes.
fn byte_sums(from: &[u8], to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the instructions were detected.
        return unsafe { byte_sums_wide(from, to) };
    }
    byte_sums_by_words(from, to, 0);
}

/// Sixteen bytes at a time: four shifted additions within a vector, then the sum so far. Only the sums of vectors
/// depend on the previous vector.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn byte_sums_wide(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::*;
    let ((vectors, rest), (places, ends)) = (from.as_chunks::<16>(), to.as_chunks_mut::<16>());
    let last = _mm_set1_epi8(15);
    let mut sum = _mm_setzero_si128();
    for (vector, place) in vectors.iter().zip(places) {
        // SAFETY: an array of 16 bytes is read whole.
        let mut x = unsafe { _mm_loadu_si128(vector.as_ptr().cast()) };
        x = _mm_add_epi8(x, _mm_slli_si128::<1>(x));
        x = _mm_add_epi8(x, _mm_slli_si128::<2>(x));
        x = _mm_add_epi8(x, _mm_slli_si128::<4>(x));
        x = _mm_add_epi8(x, _mm_slli_si128::<8>(x));
        // SAFETY: an array of 16 bytes is written whole.
        unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), _mm_add_epi8(x, sum)) };
        sum = _mm_add_epi8(sum, _mm_shuffle_epi8(x, last));
    }
    byte_sums_by_words(rest, ends, _mm_extract_epi8::<0>(sum) as u8);
}

/// Eight bytes at a time, without special instructions. `before` is the sum so far.
fn byte_sums_by_words(from: &[u8], to: &mut [u8], before: u8) {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    /// Adds bytes without carries between them.
    fn add(a: u64, b: u64) -> u64 {
        ((a & LOW) + (b & LOW)) ^ ((a ^ b) & !LOW)
    }
    let ((words, rest), (places, ends)) = (from.as_chunks::<8>(), to.as_chunks_mut::<8>());
    let mut sum = u64::from(before) * 0x0101_0101_0101_0101;
    for (word, place) in words.iter().zip(places) {
        let mut x = u64::from_le_bytes(*word);
        x = add(x, x << 8);
        x = add(x, x << 16);
        x = add(x, x << 32);
        x = add(x, sum);
        *place = x.to_le_bytes();
        sum = (x >> 56) * 0x0101_0101_0101_0101;
    }
    let mut last = sum as u8;
    for (byte, place) in rest.iter().zip(ends) {
        last = last.wrapping_add(*byte);
        *place = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_sums_are_the_same_by_vectors_by_words_and_by_bytes() {
        for len in [0, 1, 7, 8, 15, 16, 17, 40, 1000] {
            let data: Vec<u8> =
                (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
            let mut sum = 0u8;
            let expected: Vec<u8> = data
                .iter()
                .map(|x| {
                    sum = sum.wrapping_add(*x);
                    sum
                })
                .collect();
            let (mut best, mut by_words) = (vec![0; len], vec![0; len]);
            byte_sums(&data, &mut best);
            byte_sums_by_words(&data, &mut by_words, 0);
            assert!(best == expected && by_words == expected, "{len} bytes");
        }
    }
}
