//! Differences: of neighbouring numbers (`delta`), and of neighbouring bytes of a plane (`bytedelta`).
//!
//! Both wrap around in unsigned integers of the width at hand, floats by their
//! bits, so they are exact for every value. The length does not change.

use crate::params::Params;
use crate::same_length::SameLength;
use crate::{CodecSpec, Logical, Param, Scratch, TransformError};

/// Each scalar minus the one an element before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    width: Option<usize>,
}

impl Delta {
    pub(crate) fn from_params(params: &[Param]) -> Result<Delta, TransformError> {
        let width = Params::read("delta", &["width"], params)?.int("width", 1..=8)?;
        match width {
            Some(width @ (3 | 5..=7)) => {
                let problem = format!("width {width} is no width of integers, allowed are 1, 2, 4 and 8");
                Err(TransformError::bad_parameter("delta", problem))
            }
            width => Ok(Delta { width: width.map(|width| width as usize) }),
        }
    }

    /// Bytes of the integers, and how many of them lie between neighbours.
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
    let (words, tail) = data.as_chunks::<N>();
    let (head, rest) = words.split_at(lag.min(words.len()));
    out.extend_from_slice(head.as_flattened());
    out.extend(rest.iter().zip(words).flat_map(|(x, before)| T::read(x).minus(T::read(before)).write()));
    out.extend_from_slice(tail);
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

/// Each byte of a shuffled plane minus the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteDelta {
    item: Option<usize>,
}

impl ByteDelta {
    pub(crate) fn from_params(params: &[Param]) -> Result<ByteDelta, TransformError> {
        Ok(ByteDelta { item: Params::read("bytedelta", &["elementsize"], params)?.element_size()? })
    }

    /// Length of one plane; nothing is planar where an element is larger than all the data.
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
            differences::<u8, 1>(plane, 1, out);
        }
        out.extend_from_slice(tail);
        Ok(())
    }

    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], _scratch: &mut Scratch) {
        out.copy_from_slice(encoded);
        let plane = self.plane(out.len(), logical);
        let body = plane * self.planes(out.len(), logical);
        for plane in out[..body].chunks_exact_mut(plane) {
            byte_sums(plane);
        }
    }
}

/// Running sums of bytes, eight at a time: three shifted additions within a word, then the sum so far.
fn byte_sums(plane: &mut [u8]) {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    /// Adds bytes without carries between them.
    fn add(a: u64, b: u64) -> u64 {
        ((a & LOW) + (b & LOW)) ^ ((a ^ b) & !LOW)
    }
    let (words, tail) = plane.as_chunks_mut::<8>();
    let mut sum = 0u64;
    for word in words {
        let mut x = u64::from_le_bytes(*word);
        x = add(x, x << 8);
        x = add(x, x << 16);
        x = add(x, x << 32);
        x = add(x, sum);
        *word = x.to_le_bytes();
        sum = (x >> 56) * 0x0101_0101_0101_0101;
    }
    let mut last = sum as u8;
    for byte in tail {
        last = last.wrapping_add(*byte);
        *byte = last;
    }
}
