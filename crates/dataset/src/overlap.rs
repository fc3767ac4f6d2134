//! Whether a fragment may be written: only if no two of its elements are the same element of the dataset.
//!
//! The test is exact for affine and periodic maps: the elements of a leaf are a product of arithmetic progressions, and
//! the extended gcd gives the intersection of two progressions. Leaves of one column are swept along the axis on which
//! the fewest overlap, so that many disjoint slices take little time.

use std::collections::HashMap;
use std::sync::Arc;

use crate::fragment::Fragment;
use crate::index_map::{Image, div_floor, gcd, inverse};
use crate::lowered::{Leaf, TooManyLeaves};

/// Most pairs of leaves that are compared; beyond that, the answer is "not proven".
const MAX_PAIRS: u64 = 1 << 20;

/// Whether a fragment may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writable {
    /// Every element of the dataset occurs at most once.
    Yes,
    /// Some element of the dataset occurs twice.
    No {
        /// The numbers of the fragment's variables in which it occurs; equal if it is one variable.
        vars: (usize, usize),
        /// The column of the element: the variable's name and the path.
        column: String,
    },
    /// The test would take too long, or the maps have a divisor that depends on the index.
    NotProven {
        /// The numbers of the variables that may share an element.
        vars: (usize, usize),
        /// The column in which they may share one.
        column: String,
    },
}

/// A leaf's part of its column, for each dimension. There is none for a leaf without elements.
struct Reach<'l> {
    leaf: &'l Leaf,
    images: Vec<Image>,
}

impl<'l> Reach<'l> {
    fn of(leaf: &'l Leaf) -> Option<Self> {
        let mut images = Vec::new();
        for dim in &leaf.dims {
            let run = match dim.map.source {
                crate::Source::Binder(n) => *leaf.runs.get(n)?,
                crate::Source::Constant => crate::Run { start: 0, count: 1 },
            };
            let image = dim.map.image(run, dim.extent);
            if image == Image::Empty {
                return None;
            }
            images.push(image);
        }
        Some(Self { leaf, images })
    }

    /// Whether two elements of the leaf itself are the same element of the dataset.
    fn repeats(&self) -> bool {
        let used = |n: usize| self.leaf.dims.iter().any(|d| d.map.source == crate::Source::Binder(n));
        let unused = self.leaf.runs.iter().enumerate().any(|(n, run)| run.count > 1 && !used(n));
        unused || self.images.iter().any(|i| matches!(i, Image::Steps { repeats, .. } if *repeats > 1))
    }

    /// The first and last index on an axis.
    fn bounds(&self, axis: usize) -> (i128, i128) {
        match self.images.get(axis) {
            Some(Image::Steps { first, last, .. }) => (*first, *last),
            _ => (0, i128::from(i64::MAX)),
        }
    }

    fn column(&self) -> (&Arc<str>, &Arc<str>) {
        (&self.leaf.variable.name, &self.leaf.column)
    }

    fn shown(&self) -> String {
        let (variable, column) = self.column();
        crate::lowered::join(variable, column).to_string()
    }
}

impl Fragment {
    /// Decides whether the fragment may be written.
    pub fn writable(&self) -> Result<Writable, TooManyLeaves> {
        Ok(decide(&self.lower()?))
    }
}

/// See [`Fragment::writable`].
pub(crate) fn decide(leaves: &[Leaf]) -> Writable {
    let reaches: Vec<Reach> = leaves.iter().filter_map(Reach::of).collect();
    if let Some(reach) = reaches.iter().find(|r| r.repeats()) {
        return Writable::No { vars: (reach.leaf.var, reach.leaf.var), column: reach.shown() };
    }
    let mut columns: HashMap<_, Vec<&Reach>> = HashMap::new();
    for reach in &reaches {
        columns.entry(reach.column()).or_default().push(reach);
    }
    let mut columns: Vec<Vec<&Reach>> = columns.into_values().collect();
    columns.sort_by_key(|c| c.first().map(|r| (r.leaf.var, Arc::clone(&r.leaf.column))));
    let mut pairs = MAX_PAIRS;
    let mut unproven = None;
    for column in &mut columns {
        match sweep(column, &mut pairs) {
            Writable::Yes => {}
            no @ Writable::No { .. } => return no,
            not_proven => unproven = unproven.or(Some(not_proven)),
        }
    }
    unproven.unwrap_or(Writable::Yes)
}

fn sweep(column: &mut [&Reach], pairs: &mut u64) -> Writable {
    let axes = column.first().map_or(0, |r| r.images.len());
    let axis = (0..axes).min_by_key(|&axis| overlapping_pairs(column, axis)).unwrap_or(0);
    column.sort_by_key(|r| r.bounds(axis));
    let mut unproven = None;
    let mut active: Vec<&Reach> = Vec::new();
    for &reach in column.iter() {
        let (start, _) = reach.bounds(axis);
        active.retain(|a| a.bounds(axis).1 >= start);
        for &other in &active {
            let vars = (other.leaf.var.min(reach.leaf.var), other.leaf.var.max(reach.leaf.var));
            let met = if *pairs == 0 { None } else { meet(other, reach) };
            match met {
                Some(false) => {}
                Some(true) => return Writable::No { vars, column: reach.shown() },
                None if *pairs == 0 => return Writable::NotProven { vars, column: reach.shown() },
                None => unproven = Some(Writable::NotProven { vars, column: reach.shown() }),
            }
            *pairs -= 1;
        }
        active.push(reach);
    }
    unproven.unwrap_or(Writable::Yes)
}

/// The number of pairs whose bounds overlap on an axis.
fn overlapping_pairs(column: &[&Reach], axis: usize) -> u64 {
    let mut starts: Vec<i128> = column.iter().map(|r| r.bounds(axis).0).collect();
    let mut ends: Vec<i128> = column.iter().map(|r| r.bounds(axis).1).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let mut ended = 0;
    starts
        .iter()
        .enumerate()
        .map(|(before, start)| {
            ended += ends.iter().skip(ended).take_while(|end| *end < start).count();
            (before - ended) as u64
        })
        .sum()
}

/// Whether two leaves of a column share an element; `None` if unknown.
fn meet(a: &Reach, b: &Reach) -> Option<bool> {
    let mut known = true;
    for (p, q) in a.images.iter().zip(&b.images) {
        match progressions_meet(p, q) {
            Some(false) => return Some(false),
            Some(true) => {}
            None => known = false,
        }
    }
    known.then_some(true)
}

fn progressions_meet(a: &Image, b: &Image) -> Option<bool> {
    let (
        Image::Steps { first: p, last: p_end, step: s, .. },
        Image::Steps { first: q, last: q_end, step: t, .. },
    ) = (a, b)
    else {
        return None;
    };
    let (low, high) = ((*p).max(*q), (*p_end).min(*q_end));
    if low > high {
        return Some(false);
    }
    let common = gcd(*s, *t);
    if (q - p) % common != 0 {
        return Some(false);
    }
    // The smallest y >= p with y = p mod s and y = q mod t, then the first such y >= low.
    let turn = t / common;
    let k = ((q - p) / common).rem_euclid(turn) * inverse((s / common).rem_euclid(turn), turn) % turn;
    let meeting = p + k * s;
    // Beyond 2^126 the period is longer than any range of indices.
    let Some(period) = s.checked_mul(turn) else { return Some((low..=high).contains(&meeting)) };
    let y = meeting + div_floor(low - meeting + period - 1, period) * period;
    Some(y <= high)
}

/// The number of elements of each column in the leaves, each leaf counted separately; `None` if unknown.
pub(crate) fn reached(leaves: &[Leaf]) -> HashMap<(Arc<str>, Arc<str>), Option<u128>> {
    let mut counts = HashMap::new();
    for reach in leaves.iter().filter_map(Reach::of) {
        let (variable, column) = reach.column();
        let cells = reach.images.iter().try_fold(1_u128, |product, image| match image {
            Image::Steps { count, .. } => product.checked_mul(u128::try_from(*count).ok()?),
            _ => None,
        });
        let sum = counts.entry((Arc::clone(variable), Arc::clone(column))).or_insert(Some(0_u128));
        *sum = sum.and_then(|s| s.checked_add(cells?));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(first: i128, step: i128, count: i128) -> Image {
        Image::Steps { first, last: first + step * (count - 1), step, count, repeats: 1 }
    }

    #[test]
    fn progressions_meet_exactly_where_listing_them_says() {
        for s in 1..6 {
            for t in 1..6 {
                for q in 0..9 {
                    for n in 1..6 {
                        let list = |first: i128, step: i128| (0..n).map(move |k| first + k * step);
                        let expected = list(3, s).any(|y| list(q, t).any(|z| y == z));
                        let got = progressions_meet(&steps(3, s, n), &steps(q, t, n));
                        assert_eq!(got, Some(expected), "3+{s}k and {q}+{t}k, {n} each");
                    }
                }
            }
        }
    }

    #[test]
    fn steps_near_the_largest_integer_do_not_overflow() {
        let large = i128::from(i64::MAX);
        assert_eq!(progressions_meet(&steps(0, large, 2), &steps(1, large - 1, 2)), Some(true));
        assert_eq!(progressions_meet(&steps(0, large, 2), &steps(2, large - 3, 2)), Some(false));
    }
}
