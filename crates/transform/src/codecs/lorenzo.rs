//! Lorenzo prediction: each number minus its prediction from its neighbours along all axes, which is small for smooth
//! fields.
//!
//! Numbers are mapped to integers of their width in the same order (floats by their bits). These are differenced,
//! modulo 2^w, along one axis after the other, and the differences are folded so that small ones of either sign have
//! small codes. This is exact for every value. A compressor follows: `lorenzo,shuffle,zstd:1`. The length does not
//! change.

mod sums;

use crate::codecs::same_length::SameLength;
use crate::params::Params;
use crate::stats::Domain;
use crate::{CodecSpec, Logical, Param, Scratch, TransformError};

const MAX_AXES: usize = 3;

/// The Lorenzo codec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lorenzo {
    /// The number of fastest axes along which numbers are predicted; up to three by default.
    axes: Option<usize>,
}

/// The data as a grid of integers.
#[derive(Debug)]
struct Grid {
    /// Bytes of an integer: 1, 2, 4 or 8.
    width: usize,
    /// For each predicted axis, fastest first: the distance between neighbours in integers, and the extent of the axis.
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
trait Word<const N: usize>: Copy + Default {
    fn read(bytes: [u8; N]) -> Self;
    fn write(self) -> [u8; N];
    fn minus(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    /// Float bits to integers in the order of the floats.
    fn ordered(self) -> Self;
    fn unordered(self) -> Self;
    /// Maps 0, -1, 1, -2, 2, ... to 0, 1, 2, 3, 4, ...
    fn folded(self) -> Self;
    fn unfolded(self) -> Self;
    /// Replaces each number by its sum with all numbers before it.
    fn sum_up(line: &mut [Self]);
}

macro_rules! word {
    ($($type:ty, $signed:ty, $size:literal, $sums:path;)*) => {$(
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
            #[inline(always)]
            fn sum_up(line: &mut [Self]) { $sums(line) }
        }
    )*};
}
word! {
    u8, i8, 1, sums::of_u8;
    u16, i16, 2, sums::of_u16;
    u32, i32, 4, sums::of_u32;
    u64, i64, 8, sums::of_u64;
}

/// A row of integers along the fastest axis, and its neighbouring rows.
struct Row<'a, const N: usize> {
    here: &'a [[u8; N]],
    /// The previous row along the second axis, the one along the third axis, and the one along both.
    beside: Option<&'a [[u8; N]]>,
    behind: Option<&'a [[u8; N]]>,
    both: Option<&'a [[u8; N]]>,
}

/// How the numbers are divided into rows.
struct Rows {
    /// Integers in a row, and the distance between neighbours in it.
    len: usize,
    lag: usize,
    /// Number of rows along the second axis, and along the third; 1 for an axis that is not predicted.
    second: usize,
    third: usize,
}

impl Rows {
    fn of(grid: &Grid, words: usize) -> Rows {
        let extent = |axis: usize| grid.axes.get(axis).map_or(1, |(_, extent)| *extent);
        let (len, lag) = grid.axes.first().map_or((words, words), |(lag, extent)| (lag * extent, *lag));
        Rows { len: len.max(1), lag, second: extent(1), third: extent(2) }
    }

    /// Row `n` at the end of `words`; empty if it does not exist.
    fn row<'a, const N: usize>(&self, words: &'a [[u8; N]], n: usize) -> Row<'a, N> {
        let at = |n: usize| words.get(n * self.len..(n + 1) * self.len);
        let (beside, behind) =
            (!n.is_multiple_of(self.second), !(n / self.second).is_multiple_of(self.third));
        Row {
            here: at(n).unwrap_or_default(),
            beside: if beside { at(n - 1) } else { None },
            behind: if behind { at(n - self.second) } else { None },
            both: if beside && behind { at(n - self.second - 1) } else { None },
        }
    }
}

/// The integer that represents a number.
#[inline(always)]
fn integer<T: Word<N>, const N: usize, const FLOAT: bool>(word: &[u8; N]) -> T {
    if FLOAT { T::read(*word).ordered() } else { T::read(*word) }
}

#[inline(always)]
fn predict<T: Word<N>, const N: usize, const FLOAT: bool>(data: &[u8], grid: &Grid, out: &mut Vec<u8>) {
    let (words, tail) = data.as_chunks::<N>();
    let rows = Rows::of(grid, words.len());
    let start = out.len();
    out.resize(start + words.len() * N, 0);
    let (places, _) = out[start..].as_chunks_mut::<N>();
    // In place: the vectorised loop is a separate function, which is compiled for several processors.
    let mut line = vec![T::default(); rows.len];
    let see = integer::<T, N, FLOAT>;
    let mut targets = places.chunks_exact_mut(rows.len);
    for (n, target) in (&mut targets).enumerate() {
        let row = rows.row(words, n);
        let here = line.iter_mut().zip(row.here);
        match (row.beside, row.behind, row.both) {
            (Some(beside), Some(behind), Some(both)) => {
                for ((place, x), ((a, b), c)) in here.zip(beside.iter().zip(behind).zip(both)) {
                    *place = see(x).minus(see(a)).minus(see(b)).plus(see(c));
                }
            }
            (Some(other), ..) | (None, Some(other), _) => {
                for ((place, x), a) in here.zip(other) {
                    *place = see(x).minus(see(a));
                }
            }
            (None, None, _) => {
                for (place, x) in here {
                    *place = see(x);
                }
            }
        }
        let (first, others) = target.split_at_mut(rows.lag);
        first.iter_mut().zip(&line).for_each(|(place, x)| *place = x.folded().write());
        for (place, (x, before)) in others.iter_mut().zip(line[rows.lag..].iter().zip(&line)) {
            *place = x.minus(*before).folded().write();
        }
    }
    let whole = words.len() / rows.len * rows.len;
    for (place, word) in targets.into_remainder().iter_mut().zip(&words[whole..]) {
        *place = see(word).folded().write();
    }
    out.extend_from_slice(tail);
}

#[inline(always)]
fn restore<T: Word<N>, const N: usize, const FLOAT: bool>(encoded: &[u8], grid: &Grid, out: &mut [u8]) {
    let (words, tail) = encoded.as_chunks::<N>();
    let (places, rest) = out.as_chunks_mut::<N>();
    rest.copy_from_slice(tail);
    let rows = Rows::of(grid, words.len());
    let mut line = vec![T::default(); rows.len];
    let see = integer::<T, N, FLOAT>;
    let write = |value: T| if FLOAT { value.unordered() } else { value }.write();
    let mut sources = words.chunks_exact(rows.len);
    for (n, source) in (&mut sources).enumerate() {
        for (x, word) in line.iter_mut().zip(source) {
            *x = T::read(*word).unfolded();
        }
        if rows.lag == 1 {
            T::sum_up(&mut line);
        } else {
            for at in rows.lag..line.len() {
                line[at] = line[at].plus(line[at - rows.lag]);
            }
        }
        let (done, target) = places.split_at_mut(n * rows.len);
        let row = rows.row(done, n);
        let target = target.iter_mut().zip(&line);
        match (row.beside, row.behind, row.both) {
            (Some(beside), Some(behind), Some(both)) => {
                for ((place, x), ((a, b), c)) in target.zip(beside.iter().zip(behind).zip(both)) {
                    *place = write(x.plus(see(a)).plus(see(b)).minus(see(c)));
                }
            }
            (Some(other), ..) | (None, Some(other), _) => {
                target.zip(other).for_each(|((place, x), a)| *place = write(x.plus(see(a))));
            }
            (None, None, _) => target.for_each(|(place, x)| *place = write(*x)),
        }
    }
    let whole = words.len() / rows.len * rows.len;
    for (place, word) in places[whole..].iter_mut().zip(sources.remainder()) {
        *place = write(T::read(*word).unfolded());
    }
}

/// Defines a function that calls one of the above for the given width and kind, compiled a second time for AVX2.
macro_rules! dispatched {
    ($name:ident, $loop:ident, $out:ty) => {
        fn $name(data: &[u8], grid: &Grid, out: $out) {
            #[inline(always)]
            fn plain(data: &[u8], grid: &Grid, out: $out) {
                match (grid.width, grid.float) {
                    (2, true) => $loop::<u16, 2, true>(data, grid, out),
                    (4, true) => $loop::<u32, 4, true>(data, grid, out),
                    (8, true) => $loop::<u64, 8, true>(data, grid, out),
                    (2, false) => $loop::<u16, 2, false>(data, grid, out),
                    (4, false) => $loop::<u32, 4, false>(data, grid, out),
                    (8, false) => $loop::<u64, 8, false>(data, grid, out),
                    _ => $loop::<u8, 1, false>(data, grid, out),
                }
            }

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide(data: &[u8], grid: &Grid, out: $out) {
                    plain(data, grid, out)
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the instructions were detected.
                    return unsafe { wide(data, grid, out) };
                }
            }
            plain(data, grid, out)
        }
    };
}
dispatched! { predict_all, predict, &mut Vec<u8> }
dispatched! { restore_all, restore, &mut [u8] }

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
        predict_all(data, &self.grid(data.len(), logical), out);
        Ok(())
    }

    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], _scratch: &mut Scratch) {
        restore_all(encoded, &self.grid(out.len(), logical), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;
    use crate::stats::ScalarKind;

    /// The definition of the codec: differences along one axis after the other, of all integers at once.
    fn expected(values: &[u32], shape: &[usize], lag: usize, axes: usize) -> Vec<u32> {
        let mut all = values.to_vec();
        let mut stride = lag;
        let long = shape.iter().rev().filter(|extent| **extent > 1);
        for &extent in long.take(axes) {
            for at in (0..shape.iter().product::<usize>() * lag).rev() {
                if !(at / stride).is_multiple_of(extent) {
                    all[at] = all[at].wrapping_sub(all[at - stride]);
                }
            }
            stride *= extent;
        }
        all.iter().map(|x| (x << 1) ^ (((*x as i32) >> 31) as u32)).collect()
    }

    #[test]
    fn rows_in_one_pass_give_what_the_definition_gives_axis_by_axis() {
        let shapes: [&[usize]; 8] =
            [&[1], &[50], &[1, 7], &[5, 9], &[4, 1, 6], &[3, 5, 33], &[2, 3, 4, 5], &[6, 2, 1, 3]];
        for shape in shapes {
            for (lag, over) in [(1, 0), (1, 3), (2, 0), (3, 0)] {
                let elements: usize = shape.iter().product();
                let count = elements * lag;
                let values: Vec<u32> =
                    (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) >> (i % 9)).collect();
                let mut data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                data.extend(vec![7; over]);
                let mut logical = Logical::scalars(4, elements as u64);
                logical.shape = shape.iter().map(|extent| *extent as u64).collect();
                (logical.item, logical.scalar, logical.kind) = (4 * lag, 4, ScalarKind::U32);
                for axes in 1..=3 {
                    let codec = Lorenzo { axes: Some(axes) };
                    let mut stored = vec![9];
                    codec.encode(&data, &logical, &mut stored, &mut Scratch::new()).unwrap();
                    let found: Vec<u32> =
                        stored[1..].as_chunks::<4>().0.iter().map(|x| u32::from_le_bytes(*x)).collect();
                    assert_eq!(
                        found,
                        expected(&values, shape, lag, axes),
                        "{shape:?}, lag {lag}, {axes} axes"
                    );
                    let mut back = vec![0; data.len()];
                    codec.decode(&stored[1..], &logical, &mut back, &mut Scratch::new()).unwrap();
                    assert_eq!(back, data, "{shape:?}, lag {lag}, {axes} axes");
                }
            }
        }
    }
}
