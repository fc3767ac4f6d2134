//! Lorenzo prediction: each number minus what its neighbours along all axes predict, small for smooth fields.
//!
//! Numbers become integers of their width in the same order (floats by their
//! bits), are differenced, modulo 2^w, along one axis after the other, and the
//! differences are folded so that small ones of either sign have small codes.
//! That is exact for every value. A compressor does the rest:
//! `lorenzo,shuffle,zstd:1`. The length does not change.

use crate::params::Params;
use crate::same_length::SameLength;
use crate::stats::Domain;
use crate::{CodecSpec, Logical, Param, Scratch, TransformError};

const MAX_AXES: usize = 3;

/// The Lorenzo codec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lorenzo {
    /// How many of the fastest axes take part; all up to three if none.
    axes: Option<usize>,
}

/// How the bytes are seen.
struct Grid {
    /// Bytes of an integer: 1, 2, 4 or 8.
    width: usize,
    /// Integers from one neighbour to the next along each axis that takes part, fastest first, with the extent of the axis.
    axes: Vec<(usize, usize)>,
    float: bool,
}

impl Lorenzo {
    pub(crate) fn from_params(params: &[Param]) -> Result<Lorenzo, TransformError> {
        let axes = Params::read("lorenzo", &["axes"], params)?.int("axes", 1..=MAX_AXES as i64)?;
        Ok(Lorenzo { axes: axes.map(|axes| axes as usize) })
    }

    fn grid(&self, len: usize, logical: &Logical) -> Grid {
        let width = if matches!(logical.scalar, 1 | 2 | 4 | 8) { logical.scalar } else { 1 };
        let lag = if logical.item.is_multiple_of(width) { (logical.item / width).max(1) } else { 1 };
        let elements = len / width / lag;
        let told = logical.shape.iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
        let shape = if told == Some(elements as u64) { logical.shape.as_slice() } else { &[elements as u64] };
        let mut stride = lag;
        let mut axes = Vec::new();
        for &extent in shape.iter().rev().filter(|extent| **extent > 1) {
            if axes.len() == self.axes.unwrap_or(MAX_AXES) {
                break;
            }
            axes.push((stride, extent as usize));
            stride *= extent as usize;
        }
        Grid { width, axes, float: logical.kind.domain() == Some(Domain::Float) }
    }
}

/// An unsigned integer of `N` bytes.
trait Word<const N: usize>: Copy {
    fn read(bytes: [u8; N]) -> Self;
    fn write(self) -> [u8; N];
    fn minus(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    /// Float bits to integers in the order of the floats.
    fn ordered(self) -> Self;
    fn unordered(self) -> Self;
    /// 0, -1, 1, -2, 2 ... to 0, 1, 2, 3, 4 ...
    fn folded(self) -> Self;
    fn unfolded(self) -> Self;
}

macro_rules! word {
    ($($type:ty, $signed:ty, $size:literal;)*) => {$(
        impl Word<$size> for $type {
            #[inline(always)]
            fn read(bytes: [u8; $size]) -> Self { <$type>::from_le_bytes(bytes) }
            #[inline(always)]
            fn write(self) -> [u8; $size] { self.to_le_bytes() }
            #[inline(always)]
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn ordered(self) -> Self {
                let negative = ((self as $signed) >> (<$type>::BITS - 1)) as $type;
                self ^ (negative | (1 << (<$type>::BITS - 1)))
            }
            #[inline(always)]
            fn unordered(self) -> Self {
                let positive = ((self as $signed) >> (<$type>::BITS - 1)) as $type;
                self ^ (!positive | (1 << (<$type>::BITS - 1)))
            }
            #[inline(always)]
            fn folded(self) -> Self { (self << 1) ^ (((self as $signed) >> (<$type>::BITS - 1)) as $type) }
            #[inline(always)]
            fn unfolded(self) -> Self { (self >> 1) ^ (self & 1).wrapping_neg() }
        }
    )*};
}
word! { u8, i8, 1; u16, i16, 2; u32, i32, 4; u64, i64, 8; }

fn predict<T: Word<N>, const N: usize>(data: &[u8], grid: &Grid, out: &mut Vec<u8>) {
    let (words, tail) = data.as_chunks::<N>();
    let read = |word: &[u8; N]| if grid.float { T::read(*word).ordered() } else { T::read(*word) };
    let mut values: Vec<T> = Vec::with_capacity(words.len());
    // Along the fastest axis as they are read.
    let (stride, extent) = grid.axes.first().copied().unwrap_or((1, 1));
    let mut lines = words.chunks_exact(stride * extent);
    for line in &mut lines {
        values.extend(line[..stride].iter().map(read));
        values.extend(line[stride..].iter().zip(line).map(|(here, before)| read(here).minus(read(before))));
    }
    values.extend(lines.remainder().iter().map(read));
    for &(stride, extent) in grid.axes.iter().skip(1) {
        for line in values.chunks_exact_mut(stride * extent) {
            // From the end backwards, so that each sees its neighbour as it was.
            for at in (1..extent).rev() {
                let (before, here) = line.split_at_mut(at * stride);
                let before = &before[(at - 1) * stride..];
                here.iter_mut().zip(before).for_each(|(x, y)| *x = x.minus(*y));
            }
        }
    }
    let start = out.len();
    out.resize(start + words.len() * N, 0);
    let (places, _) = out[start..].as_chunks_mut::<N>();
    places.iter_mut().zip(&values).for_each(|(place, value)| *place = value.folded().write());
    out.extend_from_slice(tail);
}

fn restore<T: Word<N>, const N: usize>(grid: &Grid, encoded: &[u8], out: &mut [u8]) {
    let (words, tail) = encoded.as_chunks::<N>();
    let mut values: Vec<T> = words.iter().map(|word| T::read(*word).unfolded()).collect();
    for &(stride, extent) in grid.axes.iter().skip(1).rev() {
        for line in values.chunks_exact_mut(stride * extent) {
            for at in 1..extent {
                let (before, here) = line.split_at_mut(at * stride);
                let before = &before[(at - 1) * stride..];
                here.iter_mut().zip(before).for_each(|(x, y)| *x = x.plus(*y));
            }
        }
    }
    let (places, rest) = out.as_chunks_mut::<N>();
    rest.copy_from_slice(tail);
    let write = |value: T| if grid.float { value.unordered() } else { value }.write();
    // Along the fastest axis as they are written.
    let (stride, extent) = grid.axes.first().copied().unwrap_or((1, 1));
    let whole = values.len() / (stride * extent) * (stride * extent);
    for (places, line) in
        places.chunks_exact_mut(stride * extent).zip(values.chunks_exact_mut(stride * extent))
    {
        if stride == 1 {
            let mut sum: Option<T> = None;
            for (place, value) in places.iter_mut().zip(line) {
                let value = sum.map_or(*value, |sum| value.plus(sum));
                *place = write(value);
                sum = Some(value);
            }
            continue;
        }
        for at in stride..line.len() {
            line[at] = line[at].plus(line[at - stride]);
        }
        places.iter_mut().zip(line).for_each(|(place, value)| *place = write(*value));
    }
    places.iter_mut().zip(&values).skip(whole).for_each(|(place, value)| *place = write(*value));
}

impl SameLength for Lorenzo {
    fn spec(&self) -> CodecSpec {
        let params = self.axes.iter().map(|&axes| Param::Int(axes as i64)).collect();
        CodecSpec { name: "lorenzo".into(), params }
    }

    fn apply(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let grid = self.grid(data.len(), logical);
        match grid.width {
            1 => predict::<u8, 1>(data, &grid, out),
            2 => predict::<u16, 2>(data, &grid, out),
            4 => predict::<u32, 4>(data, &grid, out),
            _ => predict::<u64, 8>(data, &grid, out),
        }
        Ok(())
    }

    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], _scratch: &mut Scratch) {
        let grid = self.grid(out.len(), logical);
        match grid.width {
            1 => restore::<u8, 1>(&grid, encoded, out),
            2 => restore::<u16, 2>(&grid, encoded, out),
            4 => restore::<u32, 4>(&grid, encoded, out),
            _ => restore::<u64, 8>(&grid, encoded, out),
        }
    }
}
