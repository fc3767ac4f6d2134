//! The interface of a scalar type to the scan loops.

use super::Domain;

/// A scalar type; `Acc` is the type in which extremes are kept.
pub(crate) trait Scalar {
    const SIZE: usize;
    /// How its 8-byte patterns are read.
    const DOMAIN: Domain;
    type Acc: Copy;
    /// Counts NaN within a block. It is as wide as `Acc`, so that the loop stays in full vectors.
    type Count: Copy + Default + Into<u64>;
    /// Bounds of all values: `TOP` is not below any, and the other one not above any.
    const TOP: Self::Acc;
    const BOTTOM: Self::Acc;

    /// Folds one scalar, of `SIZE` bytes, into the extremes of its lane.
    fn fold(bytes: &[u8], least: &mut Self::Acc, greatest: &mut Self::Acc, nans: &mut Self::Count);
    /// Joins two lanes.
    fn join(a: (Self::Acc, Self::Acc), b: (Self::Acc, Self::Acc)) -> (Self::Acc, Self::Acc);
    /// The 8-byte patterns of a block's extremes. The block is examined to determine the sign of a zero.
    fn patterns(extremes: (Self::Acc, Self::Acc), block: &[u8]) -> (u64, u64);
}

macro_rules! integers {
    ($($t:ty as $wide:ty, $domain:ident);*) => {$(
        impl Scalar for $t {
            const SIZE: usize = size_of::<$t>();
            const DOMAIN: Domain = Domain::$domain;
            type Acc = $t;
            type Count = u8;
            const TOP: $t = <$t>::MAX;
            const BOTTOM: $t = <$t>::MIN;

            #[inline(always)]
            fn fold(bytes: &[u8], least: &mut $t, greatest: &mut $t, _: &mut u8) {
                let x = read::<{ size_of::<$t>() }>(bytes).map_or(0, <$t>::from_le_bytes);
                *least = x.min(*least);
                *greatest = x.max(*greatest);
            }

            #[inline(always)]
            fn join(a: ($t, $t), b: ($t, $t)) -> ($t, $t) {
                (a.0.min(b.0), a.1.max(b.1))
            }

            fn patterns((least, greatest): ($t, $t), _: &[u8]) -> (u64, u64) {
                (<$wide>::from(least) as u64, <$wide>::from(greatest) as u64)
            }
        }
    )*};
}
integers!(
    i8 as i64, Signed; i16 as i64, Signed; i32 as i64, Signed; i64 as i64, Signed;
    u8 as u64, Unsigned; u16 as u64, Unsigned; u32 as u64, Unsigned; u64 as u64, Unsigned
);

macro_rules! floats {
    ($($t:ident counted $count:ty),*) => {$(
        impl Scalar for $t {
            const SIZE: usize = size_of::<$t>();
            const DOMAIN: Domain = Domain::Float;
            type Acc = $t;
            type Count = $count;
            const TOP: $t = $t::INFINITY;
            const BOTTOM: $t = $t::NEG_INFINITY;

            #[inline(always)]
            fn fold(bytes: &[u8], least: &mut $t, greatest: &mut $t, nans: &mut $count) {
                let x = read::<{ size_of::<$t>() }>(bytes).map_or(0.0, $t::from_le_bytes);
                // A comparison with NaN is false and keeps the old value.
                *least = if x < *least { x } else { *least };
                *greatest = if x > *greatest { x } else { *greatest };
                *nans += <$count>::from(x.is_nan());
            }

            #[inline(always)]
            fn join(a: ($t, $t), b: ($t, $t)) -> ($t, $t) {
                (if b.0 < a.0 { b.0 } else { a.0 }, if b.1 > a.1 { b.1 } else { a.1 })
            }

            fn patterns((mut least, mut greatest): ($t, $t), block: &[u8]) -> (u64, u64) {
                // Comparisons do not distinguish the two zeros; the bytes of the block, which are still in the cache,
                // do.
                let holds = |zero: $t| block.chunks_exact(Self::SIZE).any(|x| x == zero.to_le_bytes());
                if least == 0.0 {
                    least = if holds(-0.0) { -0.0 } else { 0.0 };
                }
                if greatest == 0.0 {
                    greatest = if holds(0.0) { 0.0 } else { -0.0 };
                }
                (f64::from(least).to_bits(), f64::from(greatest).to_bits())
            }
        }
    )*};
}
floats!(f32 counted u32, f64 counted u64);

/// IEEE half precision; extremes are kept as integers in the order of the values.
pub(crate) struct F16;
/// The upper half of an `f32`; extremes are kept as integers in the order of the values.
pub(crate) struct Bf16;

impl F16 {
    /// The conversion is exact; NaN and infinities are unchanged.
    #[inline(always)]
    pub(crate) fn widen(bits: u16) -> f32 {
        let magnitude = u32::from(bits & 0x7FFF) << 13;
        // Multiplying by 2^112 rebases the exponent and normalises subnormals.
        let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
        let special = magnitude | 0x7F80_0000;
        let sign = u32::from(bits & 0x8000) << 16;
        f32::from_bits(sign | if bits & 0x7C00 == 0x7C00 { special } else { finite })
    }
}

impl Bf16 {
    /// The conversion is exact.
    #[inline(always)]
    pub(crate) fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }
}

macro_rules! short_floats {
    ($($t:ty: infinity $infinity:literal),*) => {$(
        impl Scalar for $t {
            const SIZE: usize = 2;
            const DOMAIN: Domain = Domain::Float;
            type Acc = i16;
            type Count = u16;
            const TOP: i16 = $infinity;
            const BOTTOM: i16 = !$infinity;

            #[inline(always)]
            fn fold(bytes: &[u8], least: &mut i16, greatest: &mut i16, nans: &mut u16) {
                let bits = read::<2>(bytes).map_or(0, i16::from_le_bytes);
                // Flipping the magnitude of negatives puts all values in integer order.
                let key = bits ^ ((bits >> 15) & 0x7FFF);
                let nan = bits & 0x7FFF > $infinity;
                *least = (*least).min(if nan { Self::TOP } else { key });
                *greatest = (*greatest).max(if nan { Self::BOTTOM } else { key });
                *nans += u16::from(nan);
            }

            #[inline(always)]
            fn join(a: (i16, i16), b: (i16, i16)) -> (i16, i16) {
                (a.0.min(b.0), a.1.max(b.1))
            }

            fn patterns((least, greatest): (i16, i16), _: &[u8]) -> (u64, u64) {
                let value = |key: i16| f64::from(<$t>::widen((key ^ ((key >> 15) & 0x7FFF)) as u16)).to_bits();
                (value(least), value(greatest))
            }
        }
    )*};
}
short_floats!(F16: infinity 0x7C00, Bf16: infinity 0x7F80);

#[inline(always)]
fn read<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.first_chunk::<N>().copied()
}
