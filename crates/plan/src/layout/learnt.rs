//! From observed reads to the mix that the model weighs.
//!
//! A read is recorded by its rounded extents alone, so that few kinds represent all reads.

use super::{Pattern, standard_mix};

/// This many reads weigh as much as the standard mix. With fewer reads nothing is learnt; with many more the standard
/// mix hardly counts.
pub const PRIOR: u64 = 16;

/// The kind of a read of `count` cells along each axis of `shape`: 0 is the whole axis, other extents are
/// powers of two.
pub fn kind_of(count: &[u64], shape: &[u64], steps: bool) -> Vec<u64> {
    let one = |(d, (&count, &n)): (usize, (&u64, &u64))| match count {
        // A single step says nothing about reads along steps.
        0 | 1 if n > 1 || (d == 0 && steps) => 1,
        // Nearly all counts as all: a read of every second cell ends one cell before the end of the axis.
        count if u128::from(count) * 8 >= u128::from(n) * 7 => 0,
        count => {
            let below = 1u64 << count.ilog2();
            // Rounds to the power of two that is nearer in ratio.
            if u128::from(count).pow(2) > 2 * u128::from(below).pow(2) {
                below.checked_mul(2).unwrap_or(below)
            } else {
                below
            }
        }
    };
    count.iter().zip(shape).enumerate().map(one).collect()
}

/// The mix of an array of `shape` (the step axis first if there is one) with these observed reads, and with
/// the standard mix as if it had been read [`PRIOR`] times; also the number of reads. `None` if too few were
/// observed.
pub fn learnt_mix(kinds: &[(u64, Vec<u64>)], shape: &[u64], steps: bool) -> Option<(Vec<Pattern>, u64)> {
    let fitting = || kinds.iter().filter(|(weight, extents)| *weight > 0 && extents.len() == shape.len());
    let total = fitting().fold(0u64, |sum, (weight, _)| sum.saturating_add(*weight));
    if total < PRIOR {
        return None;
    }
    let standard = standard_mix(shape, steps);
    let share = PRIOR as f64 / standard.len().max(1) as f64;
    let mut mix: Vec<Pattern> = fitting()
        .map(|(weight, extents)| {
            let count: Vec<u64> = extents
                .iter()
                .zip(shape)
                .map(|(&extent, &n)| if extent == 0 { n.max(1) } else { extent.min(n.max(1)) })
                .collect();
            Pattern { name: format!("seen: {}", text(extents)), weight: *weight as f64, count }
        })
        .collect();
    mix.extend(standard.into_iter().map(|p| Pattern { weight: share, ..p }));
    Some((mix, total))
}

/// The name of a kind of read in reports.
fn text(extents: &[u64]) -> String {
    let one = |&n: &u64| if n == 0 { "all".to_owned() } else { n.to_string() };
    extents.iter().map(one).collect::<Vec<_>>().join(" x ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Array, Bounds, Device, choose};

    #[test]
    fn reads_that_differ_little_are_of_one_kind() {
        let shape = [9, 500, 300, 1];
        assert_eq!(kind_of(&[1, 500, 1, 1], &shape, true), [1, 0, 1, 0]);
        assert_eq!(kind_of(&[9, 60, 70, 1], &shape, true), [0, 64, 64, 0]);
        assert_eq!(kind_of(&[9, 45, 46, 1], &shape, true), [0, 32, 64, 0]);
        assert_eq!(kind_of(&[1], &[1], true), [1]);
        assert_eq!(kind_of(&[1], &[1], false), [0]);
        assert_eq!(kind_of(&[u64::MAX / 2], &[u64::MAX], false), [1 << 63]);
        assert_eq!(kind_of(&[63], &[64], false), [0]);
    }

    #[test]
    fn few_reads_teach_nothing_and_many_shape_the_chunks() {
        let shape = [512, 512, 512];
        let seen = |times: u64| learnt_mix(&[(times, vec![1, 0, 0]), (1 << 20, vec![1, 1])], &shape, false);
        assert!(seen(PRIOR - 1).is_none());
        let (mix, total) = seen(100_000).unwrap();
        assert_eq!(total, 100_000, "reads of another number of axes are of another variable");
        let array = Array { shape: &shape, item: 4, steps: false };
        let chunk = choose(array, &mix, &Device::ASSUMED, &Bounds::PORTABLE).chunk;
        assert_eq!(chunk[0], 1, "{chunk:?}");
        let even = choose(array, &seen(PRIOR).unwrap().0, &Device::ASSUMED, &Bounds::PORTABLE).chunk;
        assert!(even[0] >= chunk[0]);
        assert!((mix.iter().map(|p| p.weight).sum::<f64>() - 100_016.0).abs() < 1e-6);
    }
}
