//! The scan loop: blocks that fit in the first-level cache, and independent lanes that become vectors.

use super::{Scalar, Stats};
use drystone_vectorised::vectorised;

/// Number of bytes folded side by side: four 256-bit vectors each of least, greatest and NaN counts.
const STRIDE: usize = 128;
/// So small that a lane's narrowest NaN count cannot overflow, and that a second scan is cheap.
const BLOCK: usize = 16 << 10;

/// Statistics of one payload of `T`.
pub(super) fn scan<T: Scalar>(bytes: &[u8]) -> Stats {
    let mut total: Option<(u64, u64)> = None;
    let (mut nans, count) = (0, (bytes.len() / T::SIZE) as u64);
    for block in bytes.chunks(BLOCK) {
        let (least, greatest, block_nans) = scan_block::<T>(block);
        nans += block_nans;
        if block_nans == (block.len() / T::SIZE) as u64 {
            continue;
        }
        let (low, high) = T::patterns((least, greatest), block);
        total = Some(match total {
            None => (low, high),
            Some((min, max)) => (
                if T::DOMAIN.order(low) < T::DOMAIN.order(min) { low } else { min },
                if T::DOMAIN.order(high) > T::DOMAIN.order(max) { high } else { max },
            ),
        });
    }
    Stats { min: total.map(|t| t.0), max: total.map(|t| t.1), nans, count }
}

vectorised! {
    /// Extremes and NaN count of one block. The extremes have no meaning if all values are NaN, or there are none.
    fn scan_block<T: Scalar>(block: &[u8]) -> (T::Acc, T::Acc, u64) {
        let lanes = STRIDE / T::SIZE;
        let mut least = [T::TOP; STRIDE];
        let mut greatest = [T::BOTTOM; STRIDE];
        let mut nans = [T::Count::default(); STRIDE];
        let mut strides = block.chunks_exact(STRIDE);
        for stride in &mut strides {
            for lane in 0..lanes {
                let at = lane * T::SIZE;
                T::fold(&stride[at..at + T::SIZE], &mut least[lane], &mut greatest[lane], &mut nans[lane]);
            }
        }
        for scalar in strides.remainder().chunks_exact(T::SIZE) {
            T::fold(scalar, &mut least[0], &mut greatest[0], &mut nans[0]);
        }
        let (mut extremes, mut nan_count) = ((T::TOP, T::BOTTOM), 0u64);
        for lane in 0..lanes {
            extremes = T::join(extremes, (least[lane], greatest[lane]));
            nan_count += nans[lane].into();
        }
        (extremes.0, extremes.1, nan_count)
    }
}
