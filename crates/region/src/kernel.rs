//! The loops of operations over values that lie in the processor's cache. Pure.
//!
//! Loops have independent lanes, so that the compiler makes vectors of them.

use drystone_vectorised::vectorised;

/// Independent lanes of an extreme value.
const LANES: usize = 16;
/// Values whose bins are found before they are counted.
const FOUND: usize = 512;
/// Added to a small whole number, and taken away, it rounds to the nearest whole number; the lower bits of the sum are
/// that number.
const WHOLE: f64 = (1_u64 << 52) as f64;
/// Histograms with at most this many bins are counted in several tables, so that equal neighbours do not wait for each
/// other.
const FEW: usize = 4096;
/// Tables of such a histogram.
const TABLES: usize = 4;

vectorised! {
    /// The least value, and whether there is a NaN.
    fn least(values: &[f64]) -> (f64, bool) {
        let mut lanes = [f64::INFINITY; LANES];
        let mut nans = [false; LANES];
        let (blocks, rest) = values.as_chunks::<LANES>();
        for block in blocks {
            for ((lane, nan), x) in lanes.iter_mut().zip(&mut nans).zip(block) {
                *lane = if *x < *lane { *x } else { *lane };
                *nan |= x.is_nan();
            }
        }
        let tail = rest.iter().chain(&lanes).fold(f64::INFINITY, |kept, x| if *x < kept { *x } else { kept });
        (tail, nans.contains(&true) || rest.iter().any(|x| x.is_nan()))
    }
}

vectorised! {
    /// The greatest value, and whether there is a NaN.
    fn greatest(values: &[f64]) -> (f64, bool) {
        let mut lanes = [f64::NEG_INFINITY; LANES];
        let mut nans = [false; LANES];
        let (blocks, rest) = values.as_chunks::<LANES>();
        for block in blocks {
            for ((lane, nan), x) in lanes.iter_mut().zip(&mut nans).zip(block) {
                *lane = if *x > *lane { *x } else { *lane };
                *nan |= x.is_nan();
            }
        }
        let tail =
            rest.iter().chain(&lanes).fold(f64::NEG_INFINITY, |kept, x| if *x > kept { *x } else { kept });
        (tail, nans.contains(&true) || rest.iter().any(|x| x.is_nan()))
    }
}

/// The least value; -0 lies below 0, and a NaN is the result if there is one.
pub(super) fn min(values: &[f64]) -> f64 {
    match least(values) {
        (_, true) => f64::NAN,
        (0.0, _) if values.iter().any(|x| *x == 0.0 && x.is_sign_negative()) => -0.0,
        (0.0, _) => 0.0,
        (least, _) => least,
    }
}

/// The greatest value; 0 lies above -0, and a NaN is the result if there is one.
pub(super) fn max(values: &[f64]) -> f64 {
    match greatest(values) {
        (_, true) => f64::NAN,
        (0.0, _) if values.iter().any(|x| *x == 0.0 && x.is_sign_positive()) => 0.0,
        (0.0, _) => -0.0,
        (greatest, _) => greatest,
    }
}

vectorised! {
    /// The bin of each value; `bins` for values outside. Ends of intervals decide, not the quotient: the nearest whole
    /// number to the quotient is the bin or the next one, and is corrected.
    fn find_bins(values: &[f64], found: &mut [u32; FOUND], bins: f64, low: f64, high: f64) {
        let width = (high - low) / bins;
        for (found, x) in found.iter_mut().zip(values) {
            let quotient = (x - low) / (high - low) * bins;
            let near = (quotient + WHOLE) - WHOLE;
            let near = if near < bins - 1.0 { near } else { bins - 1.0 };
            let near = if near > 0.0 { near } else { 0.0 };
            let is_below = *x < near * width + low;
            let next = near + 1.0;
            let is_above = (next < bins) & (*x >= next * width + low);
            let bin = if is_above { next } else { near };
            let bin = if is_below { near - 1.0 } else { bin };
            let bin = if bin > 0.0 { bin } else { 0.0 };
            let bin = if (*x >= low) & (*x <= high) { bin } else { bins };
            *found = (bin + WHOLE).to_bits() as u32;
        }
    }
}

/// The tables in which values are counted.
#[derive(Clone, Debug)]
pub(super) struct Counting {
    bins: u64,
    low: f64,
    high: f64,
    /// Tables one after the other, each with a place for values outside.
    tables: Vec<u64>,
}

impl Counting {
    /// No value yet. `low` lies below `high`.
    pub(super) fn new(bins: u64, low: f64, high: f64) -> Self {
        let places = usize::try_from(bins).unwrap_or(0) + 1;
        let tables = vec![0; if places <= FEW { TABLES * places } else { places }];
        Counting { bins, low, high, tables }
    }

    /// Counts values as NumPy's `histogram` does.
    pub(super) fn add(&mut self, values: &[f64]) {
        let places = usize::try_from(self.bins).unwrap_or(0) + 1;
        let mut found = [0; FOUND];
        for some in values.chunks(FOUND) {
            find_bins(some, &mut found, self.bins as f64, self.low, self.high);
            let bins = found.get(..some.len()).unwrap_or_default();
            if self.tables.len() > places {
                for four in bins.chunks(TABLES) {
                    for (table, bin) in four.iter().enumerate() {
                        if let Some(count) = self.tables.get_mut(table * places + *bin as usize) {
                            *count += 1;
                        }
                    }
                }
            } else {
                for bin in bins {
                    if let Some(count) = self.tables.get_mut(*bin as usize) {
                        *count += 1;
                    }
                }
            }
        }
    }

    /// The number of values in each bin.
    pub(super) fn counts(&self) -> Vec<u64> {
        let bins = usize::try_from(self.bins).unwrap_or(0);
        let mut counts = vec![0; bins];
        for table in self.tables.chunks(bins + 1) {
            counts.iter_mut().zip(table).for_each(|(all, n)| *all += n);
        }
        counts
    }
}

/// Adds the values of a row to the sums of blocks of `by` cells, each in the order of its cells. The row begins in the
/// first block, `within` cells behind its beginning.
pub(super) fn add_row(sums: &mut [f64], row: &[f64], within: usize, by: usize) {
    let (begun, rest) = row.split_at(((by - within) % by).min(row.len()));
    let mut sums = sums.iter_mut();
    if !begun.is_empty()
        && let Some(sum) = sums.next()
    {
        *sum = begun.iter().fold(*sum, |sum, x| sum + x);
    }
    let fixed = |sum: &mut f64, block: &[f64]| *sum = block.iter().fold(*sum, |sum, x| sum + x);
    match by {
        // The compiler unrolls what has a fixed length.
        8 => {
            let (blocks, rest) = rest.as_chunks::<8>();
            for block in blocks {
                if let Some(sum) = sums.next() {
                    *sum = block.iter().fold(*sum, |sum, x| sum + x);
                }
            }
            if let (false, Some(sum)) = (rest.is_empty(), sums.next()) {
                fixed(sum, rest);
            }
        }
        _ => sums.zip(rest.chunks(by)).for_each(|(sum, block)| fixed(sum, block)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_those_of_every_order() {
        let mut values: Vec<f64> = (0..100).map(|n| f64::from((n * 37) % 101) - 40.0).collect();
        for len in [1, 15, 16, 17, 100] {
            let some = &values[..len];
            assert_eq!(min(some), some.iter().copied().fold(f64::INFINITY, f64::min));
            assert_eq!(max(some), some.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
        for at in [0, 40, 99] {
            let kept = std::mem::replace(&mut values[at], f64::NAN);
            assert!(min(&values).is_nan() && max(&values).is_nan(), "{at}");
            values[at] = kept;
        }
        let zeros = [[0.0, -0.0], [-0.0, 0.0]];
        assert!(zeros.iter().all(|z| min(z).is_sign_negative() && max(z).is_sign_positive()));
        assert!(min(&[0.0]).is_sign_positive() && max(&[-0.0]).is_sign_negative());
        assert_eq!((min(&[]), max(&[])), (f64::INFINITY, f64::NEG_INFINITY));
    }

    /// The definition, value by value.
    fn counted(values: &[f64], bins: u64, low: f64, high: f64) -> Vec<u64> {
        let width = (high - low) / bins as f64;
        let end = |n: u64| if n == bins { high } else { n as f64 * width + low };
        let mut counts = vec![0; bins as usize];
        for value in values.iter().filter(|x| (low..=high).contains(*x)) {
            let bin = (0..bins).find(|bin| bin + 1 == bins || *value < end(bin + 1)).unwrap();
            counts[bin as usize] += 1;
        }
        counts
    }

    #[test]
    fn values_are_counted_by_the_ends_of_their_bins() {
        for (bins, low, high) in
            [(1, 0.0, 1.0), (7, -40.0, 60.0), (10, 0.0, 1.0), (64, 0.1, 0.7), (5000, -3.0, 3.0)]
        {
            let width = (high - low) / bins as f64;
            let ends = (0..=bins).map(|n| n as f64 * width + low);
            let near = ends.flat_map(|x| [x.next_down(), x, x.next_up(), x + width / 3.0]);
            let odd =
                [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -f64::MAX, low, high, -0.0, 5e-324];
            let values: Vec<f64> = near.chain(odd).collect();
            let mut counting = Counting::new(bins, low, high);
            let (a, b) = values.split_at(values.len() / 3);
            counting.add(a);
            counting.add(b);
            assert_eq!(counting.counts(), counted(&values, bins, low, high), "{bins} from {low} to {high}");
        }
    }

    #[test]
    fn a_row_is_added_to_the_blocks_that_it_meets() {
        let row: Vec<f64> = (0..21).map(f64::from).collect();
        for by in [1, 2, 3, 8, 30] {
            for within in 0..by {
                let mut sums = vec![0.0; 22];
                add_row(&mut sums, &row, within, by);
                let mut expected = vec![0.0; 22];
                row.iter().enumerate().for_each(|(n, x)| expected[(n + within) / by] += x);
                assert_eq!(sums, expected, "{by} {within}");
            }
        }
    }
}
