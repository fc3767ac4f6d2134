//! The cost of a mix of reads in which planes across all axes are weighted towards the slowest.
//!
//! A plain sum lets one axis be cheap at another's expense: it accepts double the time for one axis if the other two
//! become a third faster. The default promises about the same speed in every direction. So planes that are expected
//! equally often across every axis are combined by a power mean, which weighs the slowest most. An axis that is fast
//! for other reasons is not made slower, which would help no reader.

use super::Pattern;

/// The exponent of the power mean is two to this power, so its root is taken by this many square roots. If one of three
/// planes takes twice as long as the others, the mean is 0.88 of the slowest. The maximum instead would give a search
/// no direction where two planes are equally slow.
const ROOTS: u32 = 3;

/// A mix of reads, and which of them are the planes across all axes.
pub(super) struct Even<'a> {
    mix: &'a [Pattern],
    /// Indices of planes that are expected equally often, one across every axis.
    groups: Vec<Vec<usize>>,
}

impl<'a> Even<'a> {
    /// The mix of reads of a box of these extents.
    pub(super) fn of(mix: &'a [Pattern], count: &[u64]) -> Self {
        let axes: Vec<usize> = (0..count.len()).filter(|&axis| count[axis] > 1).collect();
        let across = |pattern: &Pattern| {
            let wanted = |axis: usize| pattern.count.get(axis).copied().unwrap_or(1);
            let mut cut = axes.iter().copied().filter(|&axis| wanted(axis) < count[axis]);
            let first = cut.next()?;
            (wanted(first) <= 1 && cut.next().is_none()).then_some(first)
        };
        let mut planes: Vec<(usize, usize)> =
            mix.iter().enumerate().filter_map(|(n, pattern)| Some((n, across(pattern)?))).collect();
        let mut groups = Vec::new();
        while let Some(&(first, _)) = planes.first() {
            let weight = mix[first].weight;
            let alike = |n: usize| (mix[n].weight - weight).abs() <= 1e-9 * weight.abs();
            let one = |axis: &usize| planes.iter().find(|(n, a)| a == axis && alike(*n)).map(|(n, _)| *n);
            let group: Vec<usize> = axes.iter().filter_map(one).collect();
            planes.retain(|(n, _)| !group.contains(n));
            if group.len() == axes.len() && group.len() > 1 {
                groups.push(group);
            }
        }
        Even { mix, groups }
    }

    /// The cost of the mix: the `cost` of each of its reads times its frequency.
    pub(super) fn sum(&self, cost: impl Fn(&Pattern) -> f64) -> f64 {
        self.mix.iter().map(|pattern| pattern.weight * cost(pattern)).sum()
    }

    /// [`Self::sum`], with the planes across all axes combined by the power mean.
    pub(super) fn leaning(&self, cost: impl Fn(&Pattern) -> f64) -> f64 {
        let each: Vec<f64> = self.mix.iter().map(|pattern| pattern.weight * cost(pattern)).collect();
        let more = |group: &Vec<usize>| {
            let of = || group.iter().filter_map(|&n| each.get(n).copied());
            let (many, slowest) = (group.len() as f64, of().fold(f64::MIN_POSITIVE, f64::max));
            let mean = of().map(|seconds| (seconds / slowest).powi(1 << ROOTS)).sum::<f64>() / many;
            slowest * (0..ROOTS).fold(mean, |mean, _| mean.sqrt()) * many - of().sum::<f64>()
        };
        each.iter().sum::<f64>() + self.groups.iter().map(more).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::standard_mix;
    use super::*;

    fn plane(axis: usize, count: &[u64], weight: f64) -> Pattern {
        let mut wanted = count.to_vec();
        wanted[axis] = 1;
        Pattern { name: "plane".into(), weight, count: wanted }
    }

    #[test]
    fn planes_across_all_axes_are_known_by_their_extents_and_by_being_as_frequent() {
        let count = [30, 1, 40, 50];
        let planes = |mix: &[Pattern]| Even::of(mix, &count).groups;
        assert_eq!(planes(&standard_mix(&count, false)), [[0, 1, 2]]);
        // A block is read through planes of the array that contains it.
        assert_eq!(planes(&standard_mix(&[90, 1, 80, 100], false)), [[0, 1, 2]]);
        let mut mix = vec![plane(0, &count, 7.0)];
        mix.extend(standard_mix(&count, false));
        assert_eq!(planes(&mix), [[1, 2, 3]], "one that is read more often has been asked for");
        assert!(planes(&mix[..3]).is_empty(), "across every axis, or it is no promise");
        assert!(Even::of(&standard_mix(&[9], false), &[9]).groups.is_empty());
        assert!(Even::of(&[], &count).groups.is_empty());
    }

    #[test]
    fn the_slowest_plane_leads_and_equal_ones_cost_their_sum() {
        let count = [8, 8, 8];
        let mix: Vec<Pattern> = (0..3).map(|axis| plane(axis, &count, 2.0)).collect();
        let even = Even::of(&mix, &count);
        let leaning =
            |times: [f64; 3]| even.leaning(|p| times[p.count.iter().position(|&n| n == 1).unwrap()]);
        assert!((leaning([3.0; 3]) - 18.0).abs() < 1e-9);
        let (uneven, slowest) = (leaning([1.0, 1.0, 2.0]), 12.0);
        assert!(uneven > 0.85 * slowest && uneven < slowest, "{uneven}");
        assert!(leaning([2.0, 2.0, 2.0]) < leaning([1.0, 1.0, 2.5]), "though the sum is more");
        assert!(leaning([0.1, 2.0, 2.0]) < leaning([0.5, 2.0, 2.0]), "a quick one may be quick");
        assert_eq!(leaning([0.0; 3]), 0.0);
    }
}
