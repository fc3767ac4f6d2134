//! Conversion of numbers, in blocks that stay in the first-level cache.
//!
//! A block is loaded (and turned to native byte order), converted, and stored: three loops that each
//! do one thing, so that the middle one, over plain arrays, is vectorised for every pair of types.

use super::each;
use crate::copy::Dim;
use crate::dtype::{Dtype, Kind, Narrowing};

/// Numbers per block.
const BLOCK: usize = 256;

/// A number that can be loaded and stored.
trait Number: Copy + Default {
    fn swapped(self) -> Self;
}

/// Conversions; where nothing can be lost both are the same.
trait Cast<D> {
    fn saturate(self) -> D;
    fn wrap(self) -> D;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Number for $int {
            fn swapped(self) -> Self { self.swap_bytes() }
        }
        integers!(@to $int => u8, u16, u32, u64, i8, i16, i32, i64);
        plain!($int => f32, f64);
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
    )*};
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);
floats!(f32, f64);

/// One loop of numbers: how many, both strides, and whether each side is in foreign byte order.
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
    // SAFETY: rows of the loops.
    each(outer, src, dst, &mut |src, dst| unsafe { convert(row, src, dst) });
}

fn convert_from(from: Kind, to: Kind, wrap: bool) -> Convert {
    match from {
        Kind::U8 => convert_to::<u8>(to, wrap),
        Kind::U16 => convert_to::<u16>(to, wrap),
        Kind::U32 => convert_to::<u32>(to, wrap),
        Kind::U64 => convert_to::<u64>(to, wrap),
        Kind::I8 => convert_to::<i8>(to, wrap),
        Kind::I16 => convert_to::<i16>(to, wrap),
        Kind::I32 => convert_to::<i32>(to, wrap),
        Kind::I64 => convert_to::<i64>(to, wrap),
        Kind::F32 => convert_to::<f32>(to, wrap),
        Kind::F64 => convert_to::<f64>(to, wrap),
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
{
}

fn convert_to<S: CastAll>(to: Kind, wrap: bool) -> Convert {
    fn pick<S: Number + Cast<D>, D: Number>(wrap: bool) -> Convert {
        if wrap { row::<S, D, true> } else { row::<S, D, false> }
    }
    match to {
        Kind::U8 => pick::<S, u8>(wrap),
        Kind::U16 => pick::<S, u16>(wrap),
        Kind::U32 => pick::<S, u32>(wrap),
        Kind::U64 => pick::<S, u64>(wrap),
        Kind::I8 => pick::<S, i8>(wrap),
        Kind::I16 => pick::<S, i16>(wrap),
        Kind::I32 => pick::<S, i32>(wrap),
        Kind::I64 => pick::<S, i64>(wrap),
        Kind::F32 => pick::<S, f32>(wrap),
        Kind::F64 => pick::<S, f64>(wrap),
    }
}

/// A [`Convert`].
///
/// # Safety
/// As [`Convert`] says.
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
