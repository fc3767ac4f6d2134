//! Chooses the bins from the statistics, and counts the values.

use super::{Histogram, MAX_BINS, least_exponent};
use crate::stats::{Bf16, Domain, F16, ScalarKind, Stats};
use drystone_vectorised::vectorised;

/// Bin indices are computed for this many values, then counted.
const BATCH: usize = 4096;
/// The index of values outside all bins; its count is dropped.
const OUTSIDE: u8 = MAX_BINS as u8;
/// Number of values counted side by side: one 256-bit vector of bytes.
const LANES: usize = 32;
/// Number of bins counted in one pass over a batch, so that the counts stay in registers.
const GROUP: usize = 8;

pub(super) fn count(kind: ScalarKind, domain: Domain, bytes: &[u8], stats: &Stats) -> Histogram {
    let mut histogram = Histogram::empty(domain);
    let (Some(mut min), Some(mut max)) = (stats.min, stats.max) else { return histogram };
    if domain == Domain::Float && !(f64::from_bits(min).is_finite() && f64::from_bits(max).is_finite()) {
        match finite(kind, bytes, &mut histogram) {
            Some((low, high)) => (min, max) = (low.to_bits(), high.to_bits()),
            None => return histogram,
        }
    }
    let (exponent, first, last) = bins(domain, min, max);
    let used = (last - first) as usize + 1;
    let counts = match kind {
        ScalarKind::Bool => counted(bytes, used, Integer::<Bool>::new(exponent, first)),
        ScalarKind::I8 => counted(bytes, used, Integer::<i8>::new(exponent, first)),
        ScalarKind::I16 => counted(bytes, used, Integer::<i16>::new(exponent, first)),
        ScalarKind::I32 => counted(bytes, used, Integer::<i32>::new(exponent, first)),
        ScalarKind::I64 => counted(bytes, used, Integer::<i64>::new(exponent, first)),
        ScalarKind::U8 => counted(bytes, used, Integer::<u8>::new(exponent, first)),
        ScalarKind::U16 => counted(bytes, used, Integer::<u16>::new(exponent, first)),
        ScalarKind::U32 => counted(bytes, used, Integer::<u32>::new(exponent, first)),
        ScalarKind::U64 => counted(bytes, used, Integer::<u64>::new(exponent, first)),
        ScalarKind::F16 => counted(bytes, used, Real::<F16>::new(exponent, first)),
        ScalarKind::BF16 => counted(bytes, used, Real::<Bf16>::new(exponent, first)),
        ScalarKind::F32 => match Single::new(exponent, first) {
            Some(binner) => counted(bytes, used, binner),
            None => counted(bytes, used, Real::<f32>::new(exponent, first)),
        },
        ScalarKind::F64 => counted(bytes, used, Real::<f64>::new(exponent, first)),
        ScalarKind::Other => return histogram,
    };
    // With correct statistics the end bins are not empty. With others, empty end bins are removed.
    let used = counts.get(..used).unwrap_or_default();
    let Some(head) = used.iter().position(|&n| n > 0) else { return histogram };
    let tail = used.iter().rposition(|&n| n > 0).unwrap_or(head);
    histogram.exponent = exponent;
    histogram.first = first + head as i128;
    histogram.counts = used[head..=tail].to_vec();
    histogram
}

/// The smallest exponent for which `min` to `max` fit, and the first and last bin.
fn bins(domain: Domain, min: u64, max: u64) -> (i16, i128, i128) {
    let (low, high) = (f64::from_bits(min), f64::from_bits(max));
    let mut exponent = least_exponent(domain, low.abs().max(high.abs()));
    loop {
        let bin = |bits: u64| match domain {
            Domain::Signed => i128::from(bits as i64) >> exponent,
            Domain::Unsigned => i128::from(bits) >> exponent,
            Domain::Float => floor_bin(f64::from_bits(bits), power_of_two(-exponent)) as i128,
        };
        let (first, last) = (bin(min), bin(max));
        if last - first < MAX_BINS as i128 {
            // The second maximum guards against statistics with min above max.
            return (exponent, first, last.max(first));
        }
        exponent += 1;
    }
}

/// 2^n for n in -1022..=1023.
fn power_of_two(n: i16) -> f64 {
    f64::from_bits(((i64::from(n) + 1023) as u64) << 52)
}

/// Floor of value * scale; exact even if the product is too small for an `f64`.
#[inline(always)]
fn floor_bin(value: f64, scale: f64) -> f64 {
    let bin = (value * scale).floor();
    if value < 0.0 && bin > -1.0 { -1.0 } else { bin }
}

/// Counts infinities; returns the least and greatest finite value.
fn finite(kind: ScalarKind, bytes: &[u8], histogram: &mut Histogram) -> Option<(f64, f64)> {
    let mut range: Option<(f64, f64)> = None;
    let mut see = |value: f64| {
        if value == f64::NEG_INFINITY {
            histogram.below += 1;
        } else if value == f64::INFINITY {
            histogram.above += 1;
        } else if !value.is_nan() {
            let (low, high) = range.unwrap_or((value, value));
            range = Some((low.min(value), high.max(value)));
        }
    };
    match kind {
        ScalarKind::F16 => values::<F16>(bytes).for_each(&mut see),
        ScalarKind::BF16 => values::<Bf16>(bytes).for_each(&mut see),
        ScalarKind::F32 => values::<f32>(bytes).for_each(&mut see),
        _ => values::<f64>(bytes).for_each(&mut see),
    }
    range
}

fn values<T: Value<Wide = f64>>(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(T::SIZE).map(T::read)
}

/// Reads a scalar from its bytes into the widest type of its domain.
trait Value {
    const SIZE: usize;
    type Wide;
    fn read(bytes: &[u8]) -> Self::Wide;
}

macro_rules! value {
    ($($t:ty, $size:literal, $wide:ty: $read:expr;)*) => {$(
        impl Value for $t {
            const SIZE: usize = $size;
            type Wide = $wide;
            #[inline(always)]
            fn read(bytes: &[u8]) -> $wide {
                bytes.first_chunk().map_or(<$wide>::default(), |raw: &[u8; $size]| $read(*raw))
            }
        }
    )*};
}

struct Bool;

value! {
    Bool, 1, u64: |raw: [u8; 1]| u64::from(raw[0] != 0);
    i8, 1, i64: |raw| i64::from(i8::from_le_bytes(raw));
    i16, 2, i64: |raw| i64::from(i16::from_le_bytes(raw));
    i32, 4, i64: |raw| i64::from(i32::from_le_bytes(raw));
    i64, 8, i64: i64::from_le_bytes;
    u8, 1, u64: |raw| u64::from(u8::from_le_bytes(raw));
    u16, 2, u64: |raw| u64::from(u16::from_le_bytes(raw));
    u32, 4, u64: |raw| u64::from(u32::from_le_bytes(raw));
    u64, 8, u64: u64::from_le_bytes;
    F16, 2, f64: |raw| f64::from(F16::widen(u16::from_le_bytes(raw)));
    Bf16, 2, f64: |raw| f64::from(Bf16::widen(u16::from_le_bytes(raw)));
    f32, 4, f64: |raw| f64::from(f32::from_le_bytes(raw));
    f64, 8, f64: f64::from_le_bytes;
}

/// Computes a scalar's bin, counted from the first; [`OUTSIDE`] if it has none.
trait Binner: Copy {
    const SIZE: usize;
    fn bin(self, bytes: &[u8]) -> u8;
}

struct Integer<T> {
    shift: u32,
    first: u64,
    kind: std::marker::PhantomData<T>,
}

struct Real<T> {
    scale: f64,
    first: f64,
    kind: std::marker::PhantomData<T>,
}

impl<T> Clone for Integer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Integer<T> {}
impl<T> Clone for Real<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Real<T> {}

impl<T> Integer<T> {
    fn new(exponent: i16, first: i128) -> Integer<T> {
        Integer { shift: exponent as u32 & 63, first: first as u64, kind: std::marker::PhantomData }
    }
}

impl<T> Real<T> {
    fn new(exponent: i16, first: i128) -> Real<T> {
        Real { scale: power_of_two(-exponent), first: first as f64, kind: std::marker::PhantomData }
    }
}

/// A right shift that preserves the order of the type.
trait Shifted {
    fn shifted(self, by: u32) -> u64;
}
impl Shifted for i64 {
    #[inline(always)]
    fn shifted(self, by: u32) -> u64 {
        (self >> by) as u64
    }
}
impl Shifted for u64 {
    #[inline(always)]
    fn shifted(self, by: u32) -> u64 {
        self >> by
    }
}

impl<T: Value<Wide: Shifted>> Binner for Integer<T> {
    const SIZE: usize = T::SIZE;

    #[inline(always)]
    fn bin(self, bytes: &[u8]) -> u8 {
        // Values below the first bin wrap to very large ones.
        T::read(bytes).shifted(self.shift).wrapping_sub(self.first).min(u64::from(OUTSIDE)) as u8
    }
}

impl<T: Value<Wide = f64>> Binner for Real<T> {
    const SIZE: usize = T::SIZE;

    #[inline(always)]
    fn bin(self, bytes: &[u8]) -> u8 {
        let bin = floor_bin(T::read(bytes), self.scale) - self.first;
        let bin = if bin >= 0.0 && bin < MAX_BINS as f64 { bin } else { f64::from(OUTSIDE) };
        // SAFETY: 0 <= bin <= 32, and it is not NaN, for which the comparisons are false.
        unsafe { bin.to_int_unchecked::<i32>() as u8 }
    }
}

/// float32 without wider numbers: floor(x * 2^-k) is a float32 again, and so is its distance to a bin near it.
#[derive(Clone, Copy)]
struct Single {
    scale: f32,
    first: f32,
}

impl Single {
    /// `None` if the scale or the first bin is not a float32.
    fn new(exponent: i16, first: i128) -> Option<Single> {
        let first_bin = first as f32;
        let exact = (-120..=120).contains(&exponent) && first_bin as i128 == first;
        exact.then(|| Single { scale: power_of_two(-exponent) as f32, first: first_bin })
    }
}

impl Binner for Single {
    const SIZE: usize = 4;

    #[inline(always)]
    fn bin(self, bytes: &[u8]) -> u8 {
        let value = bytes.first_chunk().map_or(0.0, |raw| f32::from_le_bytes(*raw));
        let bin = (value * self.scale).floor();
        let bin = if value < 0.0 && bin > -1.0 { -1.0 } else { bin } - self.first;
        let bin = if bin >= 0.0 && bin < MAX_BINS as f32 { bin } else { f32::from(OUTSIDE) };
        // SAFETY: 0 <= bin <= 32, and it is not NaN, for which the comparisons are false.
        unsafe { bin.to_int_unchecked::<i32>() as u8 }
    }
}

/// Counts per bin, of which the first `used` matter. Values outside are dropped.
fn counted<B: Binner>(bytes: &[u8], used: usize, binner: B) -> [u64; MAX_BINS] {
    let groups = used.div_ceil(GROUP);
    let mut totals = [0u64; MAX_BINS];
    let mut found = [OUTSIDE; BATCH];
    for batch in bytes.chunks(BATCH * B::SIZE) {
        let len = find_bins::<B>(batch, binner, &mut found);
        found[len..].fill(OUTSIDE);
        count_batch::<B>(&found, groups, &mut totals);
    }
    totals
}

vectorised! {
    /// Counts by comparing all values with each bin in turn, in whole vectors. Unlike in a table, no two increments of
    /// one counter wait for each other, so the speed does not depend on the data.
    fn count_batch<B: Binner>(found: &[u8; BATCH], groups: usize, totals: &mut [u64; MAX_BINS]) {
        for (group, totals) in totals.chunks_exact_mut(GROUP).take(groups).enumerate() {
            // A lane sees BATCH / LANES = 128 values, which a byte can count.
            let mut lanes = [[0u8; LANES]; GROUP];
            for vector in found.chunks_exact(LANES) {
                for (i, counts) in lanes.iter_mut().enumerate() {
                    let bin = (group * GROUP + i) as u8;
                    for (count, &value) in counts.iter_mut().zip(vector) {
                        *count += u8::from(value == bin);
                    }
                }
            }
            for (total, counts) in totals.iter_mut().zip(&lanes) {
                *total += u64::from(counts.iter().map(|&n| u16::from(n)).sum::<u16>());
            }
        }
    }
}

vectorised! {
    /// Writes the bin of each whole scalar of `batch`, and returns how many there are.
    fn find_bins<B: Binner>(batch: &[u8], binner: B, found: &mut [u8; BATCH]) -> usize {
        let len = (batch.len() / B::SIZE).min(BATCH);
        let whole = &batch[..len * B::SIZE];
        for (i, slot) in found[..len].iter_mut().enumerate() {
            *slot = binner.bin(&whole[i * B::SIZE..(i + 1) * B::SIZE]);
        }
        len
    }
}
