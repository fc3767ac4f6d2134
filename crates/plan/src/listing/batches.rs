//! Cuts a listing to batches that one plan can hold: bounded lists, divided by step.
//!
//! Listed cells are sorted by step and then along a space-filling curve, so that the cells of a batch lie
//! close together and two batches share few subchunks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Leg, Listing};
use crate::selection::Axis;

/// Cuts a listing so that no list has more than `most` cells. Places remain those in the whole result. `steps` says
/// that axis 0 is the step axis.
pub fn batches(listing: &Listing, steps: bool, most: usize) -> Vec<Listing> {
    let long = listing.legs.iter().enumerate().max_by_key(|(_, leg)| match &***leg {
        Leg::List { places, .. } => places.len(),
        Leg::Axis { .. } => 0,
    });
    let Some((number, leg)) = long else { return vec![listing.clone()] };
    let Leg::List { axes, cells, places } = &**leg else { return vec![listing.clone()] };
    if places.len() <= most.max(1) {
        return vec![listing.clone()];
    }
    let order = along_curve(axes, cells, places.len(), steps);
    order
        .chunks(most.max(1))
        .flat_map(|taken| {
            let mut part = listing.clone();
            part.legs[number] = Arc::new(taking(axes, cells, places, taken));
            batches(&part, steps, most) // another list may be too long as well
        })
        .collect()
}

fn taking(axes: &[usize], cells: &[u64], places: &[u64], taken: &[usize]) -> Leg {
    let width = axes.len();
    Leg::List {
        axes: axes.to_vec(),
        cells: taken.iter().flat_map(|&k| cells[k * width..(k + 1) * width].iter().copied()).collect(),
        places: taken.iter().map(|&k| places[k]).collect(),
    }
}

/// The numbers of the cells, sorted by step if the leg has that axis, then in Z-order of the other axes.
fn along_curve(axes: &[usize], cells: &[u64], count: usize, steps: bool) -> Vec<usize> {
    let width = axes.len();
    let first = usize::from(steps && axes.first() == Some(&0) && width > 1);
    let bits = 64u32.checked_div((width - first) as u32).unwrap_or(64).min(16);
    let mut scale = Vec::with_capacity(width);
    for at in first..width {
        let along = || cells.iter().skip(at).step_by(width).copied();
        let (lo, hi) = (along().min().unwrap_or(0), along().max().unwrap_or(0));
        let used = 64 - (hi - lo).leading_zeros();
        scale.push((lo, used.saturating_sub(bits)));
    }
    let key = |k: usize| {
        let cell = &cells[k * width..(k + 1) * width];
        let mut z = 0u64;
        for bit in (0..bits).rev() {
            for (c, (lo, shift)) in cell[first..].iter().zip(&scale) {
                z = z << 1 | ((c - lo) >> shift >> bit & 1);
            }
        }
        (if first > 0 { cell[0] } else { 0 }, z)
    };
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_cached_key(|&k| key(k));
    order
}

/// A listing divided by the steps of its cells. Axis 0 of the array is the step axis.
#[derive(Debug, Clone)]
pub struct AtSteps {
    /// The legs of every step. Their axes are counted without the step axis. The leg that names the steps is replaced
    /// for each step.
    legs: Vec<Arc<Leg>>,
    /// Index of the leg that names the steps, and the original leg.
    leg: usize,
    naming: Arc<Leg>,
    /// Per step, ascending: the positions in that leg.
    steps: Vec<(u64, Vec<usize>)>,
}

impl AtSteps {
    /// Divides a listing for an array with steps; [`Listing::check`] must have accepted it.
    pub fn new(listing: &Listing) -> AtSteps {
        let leg = listing.legs.iter().position(|leg| leg.axes().first() == Some(&0)).unwrap_or(0);
        let naming = listing.legs.get(leg).cloned().unwrap_or_else(|| Arc::new(Leg::list(vec![], vec![])));
        let mut found: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        match &*naming {
            Leg::Axis { cells, .. } => {
                for i in 0..cells.count {
                    found.entry(cells.cell(i)).or_default().push(i as usize);
                }
            }
            Leg::List { axes, cells, .. } => {
                for (i, step) in cells.iter().step_by(axes.len().max(1)).enumerate() {
                    found.entry(*step).or_default().push(i);
                }
            }
        }
        let shifted = |leg: &Arc<Leg>| match &**leg {
            Leg::Axis { axis, cells } => Leg::Axis { axis: axis.saturating_sub(1), cells: *cells },
            Leg::List { axes, cells, places } => Leg::List {
                axes: axes.iter().map(|axis| axis.saturating_sub(1)).collect(),
                cells: cells.clone(),
                places: places.clone(),
            },
        };
        let legs = listing.legs.iter().map(|leg| Arc::new(shifted(leg))).collect();
        AtSteps { legs, leg, naming, steps: found.into_iter().collect() }
    }

    /// The steps, ascending.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.steps.iter().map(|(step, _)| *step)
    }

    /// The listing within the `number`th step. Its places are those in the whole result.
    pub fn at(&self, number: usize) -> Listing {
        let mut legs = self.legs.clone();
        if let Some(leg) = legs.get_mut(self.leg) {
            *leg = Arc::new(self.within(number));
        }
        Listing { legs }
    }

    fn within(&self, number: usize) -> Leg {
        let taken = self.steps.get(number).map_or(&[][..], |(_, taken)| taken);
        match &*self.naming {
            Leg::Axis { .. } => Leg::List {
                axes: Vec::new(),
                cells: Vec::new(),
                places: taken.iter().map(|&i| i as u64).collect(),
            },
            Leg::List { axes, cells, places } => {
                let width = axes.len();
                Leg::List {
                    axes: axes.iter().skip(1).map(|axis| axis - 1).collect(),
                    cells: taken
                        .iter()
                        .flat_map(|&k| cells[k * width + 1..(k + 1) * width].iter().copied())
                        .collect(),
                    places: taken.iter().map(|&k| places[k]).collect(),
                }
            }
        }
    }
}

/// Ascending numbers, as few progressions.
pub fn progressions(numbers: &[u64]) -> Vec<Axis> {
    let mut runs: Vec<Axis> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some(run) if run.count == 1 => {
                if let Ok(step) = i64::try_from(number.saturating_sub(run.start).max(1)) {
                    (run.step, run.count) = (step, 2);
                } else {
                    runs.push(Axis { start: number, step: 1, count: 1 });
                }
            }
            Some(run) if run.cell(run.count) == number => run.count += 1,
            _ => runs.push(Axis { start: number, step: 1, count: 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// (coordinates, place) of every cell of a list.
    fn listed(leg: &Leg) -> Vec<(Vec<u64>, u64)> {
        let Leg::List { axes, cells, places } = leg else { panic!("not a list") };
        let coordinates = |k: usize| cells[k * axes.len()..(k + 1) * axes.len()].to_vec();
        places.iter().enumerate().map(|(k, place)| (coordinates(k), *place)).collect()
    }

    #[test]
    fn batches_together_hold_every_point_at_its_place() {
        let mut random = Random(5);
        let cells: Vec<u64> = (0..3 * 500).map(|i| random.below(1 << (i % 40))).collect();
        let whole = Listing::points(3, cells);
        for steps in [false, true] {
            let cut = batches(&whole, steps, 64);
            assert_eq!(cut.len(), 8);
            let mut found: Vec<_> = cut.iter().flat_map(|part| listed(&part.legs[0])).collect();
            found.sort_by_key(|(_, place)| *place);
            assert_eq!(found, listed(&whole.legs[0]));
        }
        assert_eq!(batches(&whole, true, 500), [whole]);
    }

    #[test]
    fn two_long_lists_are_both_cut() {
        let whole =
            Listing::new(vec![Leg::list(vec![0], (0..10).collect()), Leg::list(vec![1], (0..7).collect())]);
        let cut = batches(&whole, false, 4);
        assert_eq!(cut.len(), 3 * 2);
        assert_eq!(cut.iter().map(|part| part.cells().unwrap()).sum::<u64>(), 70);
    }

    #[test]
    fn points_are_divided_by_the_step_they_lie_in() {
        let divided = AtSteps::new(&Listing::points(2, vec![5, 1, 2, 7, 5, 0]));
        assert_eq!(divided.steps().collect::<Vec<_>>(), [2, 5]);
        assert_eq!(listed(&divided.at(0).legs[0]), [(vec![7], 1)]);
        assert_eq!(listed(&divided.at(1).legs[0]), [(vec![1], 0), (vec![0], 2)]);
        assert!(divided.at(1).check(&[8]));
    }

    #[test]
    fn ascending_numbers_become_progressions() {
        let numbers = [0, 3, 6, 9, 10, 11, 40];
        let runs = progressions(&numbers);
        let back: Vec<u64> = runs.iter().flat_map(|run| (0..run.count).map(|i| run.cell(i))).collect();
        assert_eq!((back, runs.len()), (numbers.to_vec(), 3));
        assert_eq!(progressions(&[]), []);
    }

    #[test]
    fn a_progression_of_steps_becomes_places() {
        let back = Leg::Axis { axis: 0, cells: Axis { start: 6, step: -3, count: 3 } };
        let divided = AtSteps::new(&Listing::new(vec![Leg::list(vec![1], vec![4, 4]), back]));
        assert_eq!(divided.steps().collect::<Vec<_>>(), [0, 3, 6]);
        let at = divided.at(2);
        assert_eq!(listed(&at.legs[0]), [(vec![4], 0), (vec![4], 1)]);
        assert_eq!(listed(&at.legs[1]), [(vec![], 0)]);
        assert!(at.check(&[5]));
    }
}
