//! Conversion of numbers, in blocks that stay in the first-level cache.
//!
//! Each block is loaded (and converted to native byte order), converted, and stored. Each of the three loops does one
//! thing, so the middle one, over plain arrays, is vectorised for every pair of types.

use super::each;
use crate::dim::Dim;
use crate::dtype::{Dtype, Narrowing, NumberKind};
use crate::number::{Bf16, Complex, F16, traced};

/// Numbers in a block.
const BLOCK: usize = 256;

/// A number that can be loaded and stored.
trait Number: Copy + Default {
    fn swapped(self) -> Self;
}

/// Conversions. If nothing can be lost, both are the same.
trait Cast<D> {
    fn saturate(self) -> D;
    fn wrap(self) -> D;
}

/// A conversion without a policy: an expression of the value.
macro_rules! through {
    ($from:ty => $to:ty, $convert:expr) => {
        impl Cast<$to> for $from {
            fn saturate(self) -> $to {
                $convert(self)
            }
            fn wrap(self) -> $to {
                $convert(self)
            }
        }
    };
}

/// To complex numbers: the imaginary part is 0.
macro_rules! complex {
    ($from:ty) => {
        through!($from => Complex<f32>, |value: $from| Complex(Cast::<f32>::saturate(value), 0.0));
        through!($from => Complex<f64>, |value: $from| Complex(Cast::<f64>::saturate(value), 0.0));
    };
}

/// Short floats are converted by way of a binary32, which represents all of them.
macro_rules! short {
    ($($short:ty),*) => {$(
        impl Number for $short {
            fn swapped(self) -> Self { Self(self.0.swap_bytes()) }
        }
        short!(@to $short => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
        complex!($short);
    )*};
    (@to $from:ty => $($to:ty),*) => {$(
        through!($from => $to, |value: $from| value.to_f32() as $to);
    )*};
}

/// From complex numbers: the real part, except to other complex ones.
macro_rules! from_complex {
    ($($part:ty),*) => {$(
        impl Number for Complex<$part> {
            fn swapped(self) -> Self { Complex(self.0.swapped(), self.1.swapped()) }
        }
        from_complex!(@to $part => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, F16, Bf16);
        through!(Complex<$part> => Complex<f32>, |value: Complex<$part>| Complex(value.0 as f32, value.1 as f32));
        through!(Complex<$part> => Complex<f64>, |value: Complex<$part>| Complex(value.0 as f64, value.1 as f64));
    )*};
    (@to $part:ty => $($to:ty),*) => {$(
        through!(Complex<$part> => $to, |value: Complex<$part>| Cast::<$to>::saturate(value.0));
    )*};
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Number for $int {
            fn swapped(self) -> Self { self.swap_bytes() }
        }
        integers!(@to $int => u8, u16, u32, u64, i8, i16, i32, i64);
        plain!($int => f32, f64);
        through!($int => F16, |value: $int| F16::from_f64(traced(i128::from(value))));
        through!($int => Bf16, |value: $int| Bf16::from_f64(traced(i128::from(value))));
        complex!($int);
    )*};
    (@to $from:ty => $($to:ty),*) => {$(
        impl Cast<$to> for $from {
            fn saturate(self) -> $to {
                i128::from(self).clamp(i128::from(<$to>::MIN), i128::from(<$to>::MAX)) as $to
            }
            fn wrap(self) -> $to { self as $to }
        }
    )*};
}

macro_rules! plain {
    ($from:ty => $($to:ty),*) => {$(
        impl Cast<$to> for $from {
            fn saturate(self) -> $to { self as $to }
            fn wrap(self) -> $to { self as $to }
        }
    )*};
}

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Number for $float {
            fn swapped(self) -> Self { Self::from_bits(self.to_bits().swap_bytes()) }
        }
        plain!($float => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
        through!($float => F16, |value: $float| F16::from_f64(f64::from(value)));
        complex!($float);
    )*};
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);
floats!(f32, f64);
short!(F16, Bf16);
from_complex!(f32, f64);
through!(f32 => Bf16, Bf16::from_f32);
through!(f64 => Bf16, Bf16::from_f64);
through!(F16 => F16, |value: F16| value);
through!(Bf16 => Bf16, |value: Bf16| value);
through!(F16 => Bf16, |value: F16| Bf16::from_f32(value.to_f32()));
through!(Bf16 => F16, |value: Bf16| F16::from_f64(f64::from(value.to_f32())));

/// One row of numbers: their count, both strides, and whether each side is in foreign byte order.
#[derive(Clone, Copy)]
struct Row {
    count: usize,
    src_stride: isize,
    dst_stride: isize,
    swap_src: bool,
    swap_dst: bool,
}

/// Converts one row.
///
/// # Safety
/// Every number of the row is readable from the source and writable from the destination pointer.
type Convert = unsafe fn(Row, *const u8, *mut u8);

/// Converts every element of the loops.
///
/// # Safety
/// Every element is readable from `src` and writable from `dst`; the two do not overlap.
pub(crate) unsafe fn convert(
    (from, to): (Dtype, Dtype),
    narrowing: Narrowing,
    dims: &[Dim],
    src: *const u8,
    dst: *mut u8,
) {
    let foreign = |dtype: Dtype| dtype.big_endian != cfg!(target_endian = "big");
    let (inner, outer) = dims.split_last().map_or((Dim::new(1, 0, 0), dims), |(dim, outer)| (*dim, outer));
    let row = Row {
        count: inner.count as usize,
        src_stride: inner.src_stride as isize,
        dst_stride: inner.dst_stride as isize,
        swap_src: foreign(from),
        swap_dst: foreign(to),
    };
    let convert = convert_from(from.kind, to.kind, narrowing == Narrowing::Wrap);
    // SAFETY: these are rows of the loops.
    each(outer, src, dst, &mut |src, dst| unsafe { convert(row, src, dst) });
}

fn convert_from(from: NumberKind, to: NumberKind, wrap: bool) -> Convert {
    match from {
        NumberKind::U8 => convert_to::<u8>(to, wrap),
        NumberKind::U16 => convert_to::<u16>(to, wrap),
        NumberKind::U32 => convert_to::<u32>(to, wrap),
        NumberKind::U64 => convert_to::<u64>(to, wrap),
        NumberKind::I8 => convert_to::<i8>(to, wrap),
        NumberKind::I16 => convert_to::<i16>(to, wrap),
        NumberKind::I32 => convert_to::<i32>(to, wrap),
        NumberKind::I64 => convert_to::<i64>(to, wrap),
        NumberKind::F32 => convert_to::<f32>(to, wrap),
        NumberKind::F64 => convert_to::<f64>(to, wrap),
        NumberKind::F16 => convert_to::<F16>(to, wrap),
        NumberKind::BF16 => convert_to::<Bf16>(to, wrap),
        NumberKind::C64 => convert_to::<Complex<f32>>(to, wrap),
        NumberKind::C128 => convert_to::<Complex<f64>>(to, wrap),
    }
}

/// All conversions from one type.
trait CastAll:
    Number
    + Cast<u8>
    + Cast<u16>
    + Cast<u32>
    + Cast<u64>
    + Cast<i8>
    + Cast<i16>
    + Cast<i32>
    + Cast<i64>
    + Cast<f32>
    + Cast<f64>
    + Cast<F16>
    + Cast<Bf16>
    + Cast<Complex<f32>>
    + Cast<Complex<f64>>
{
}
impl<S> CastAll for S where
    S: Number
        + Cast<u8>
        + Cast<u16>
        + Cast<u32>
        + Cast<u64>
        + Cast<i8>
        + Cast<i16>
        + Cast<i32>
        + Cast<i64>
        + Cast<f32>
        + Cast<f64>
        + Cast<F16>
        + Cast<Bf16>
        + Cast<Complex<f32>>
        + Cast<Complex<f64>>
{
}

fn convert_to<S: CastAll>(to: NumberKind, wrap: bool) -> Convert {
    fn pick<S: Number + Cast<D>, D: Number>(wrap: bool) -> Convert {
        if wrap { row::<S, D, true> } else { row::<S, D, false> }
    }
    match to {
        NumberKind::U8 => pick::<S, u8>(wrap),
        NumberKind::U16 => pick::<S, u16>(wrap),
        NumberKind::U32 => pick::<S, u32>(wrap),
        NumberKind::U64 => pick::<S, u64>(wrap),
        NumberKind::I8 => pick::<S, i8>(wrap),
        NumberKind::I16 => pick::<S, i16>(wrap),
        NumberKind::I32 => pick::<S, i32>(wrap),
        NumberKind::I64 => pick::<S, i64>(wrap),
        NumberKind::F32 => pick::<S, f32>(wrap),
        NumberKind::F64 => pick::<S, f64>(wrap),
        NumberKind::F16 => pick::<S, F16>(wrap),
        NumberKind::BF16 => pick::<S, Bf16>(wrap),
        NumberKind::C64 => pick::<S, Complex<f32>>(wrap),
        NumberKind::C128 => pick::<S, Complex<f64>>(wrap),
    }
}

/// Implements [`Convert`].
///
/// # Safety
/// As for [`Convert`].
unsafe fn row<S: Number + Cast<D>, D: Number, const WRAP: bool>(row: Row, src: *const u8, dst: *mut u8) {
    let mut loaded = [S::default(); BLOCK];
    let mut converted = [D::default(); BLOCK];
    let (mut src, mut dst) = (src, dst);
    let mut left = row.count;
    while left > 0 {
        let n = left.min(BLOCK);
        let (loaded, converted) = (&mut loaded[..n], &mut converted[..n]);
        for number in loaded.iter_mut() {
            // SAFETY: the next number of the row.
            *number = unsafe { src.cast::<S>().read_unaligned() };
            src = src.wrapping_offset(row.src_stride);
        }
        if row.swap_src {
            loaded.iter_mut().for_each(|number| *number = number.swapped());
        }
        for (from, to) in loaded.iter().zip(converted.iter_mut()) {
            *to = if WRAP { from.wrap() } else { from.saturate() };
        }
        if row.swap_dst {
            converted.iter_mut().for_each(|number| *number = number.swapped());
        }
        for number in converted.iter() {
            // SAFETY: the next number of the row.
            unsafe { dst.cast::<D>().write_unaligned(*number) };
            dst = dst.wrapping_offset(row.dst_stride);
        }
        left -= n;
    }
}
