//! Differences of rows, with the operations of `numpy.gradient` in the same order.

use super::stages::Edge;
use crate::tree::Stencil;

/// A float element of a row.
pub(super) trait Float: Copy + Default + 'static {
    fn wide(self) -> f64;
    fn narrow(value: f64) -> Self;
    fn minus(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// For a power of two: its inverse. Multiplying by the inverse gives the same bits as dividing.
    fn exact_inverse(self) -> Option<Self>;
    fn twice(self) -> Self;
}

macro_rules! float {
    ($t:ty) => {
        impl Float for $t {
            fn wide(self) -> f64 {
                self.into()
            }
            fn narrow(value: f64) -> Self {
                value as $t
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn over(self, other: Self) -> Self {
                self / other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn exact_inverse(self) -> Option<Self> {
                // Both round the same number. The inverse of a power of two is exact, unless it is out of range.
                const FRACTION: u32 = <$t>::MANTISSA_DIGITS - 1;
                let is_power = self.is_normal() && self.to_bits() & ((1 << FRACTION) - 1) == 0;
                (is_power && (1.0 / self).is_normal()).then(|| 1.0 / self)
            }
            fn twice(self) -> Self {
                2.0 * self
            }
        }
    };
}

float!(f32);
float!(f64);

/// How a difference is computed from cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weights {
    /// The sum of the differences, divided in the type of the values by a number from the text.
    Own(f64),
    /// Divided in f8 by a distance from coordinates.
    Wide(f64),
    /// Three cells, each with a weight.
    Three(f64, f64, f64),
}

/// The stencil at one position: the cells before, at and behind it, and their weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tap {
    pub(super) before: i64,
    pub(super) at: i64,
    pub(super) behind: i64,
    pub(super) weights: Weights,
}

/// Distances of cells along an axis.
#[derive(Debug, Clone)]
pub(super) enum Distances {
    Number(f64),
    Uniform(f64),
    /// The distance from each cell to the next.
    Each(Vec<f64>),
}

impl Distances {
    /// Distances from coordinates.
    pub(super) fn of(places: &[f64]) -> Distances {
        let each: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        match each.first() {
            None => Distances::Number(1.0),
            Some(&first) if each.iter().all(|d| *d == first) => Distances::Uniform(first),
            _ => Distances::Each(each),
        }
    }

    /// Distances from the coordinates of a periodic dimension. They are even if the coordinates are those of an even
    /// grid up to the rounding of an f4.
    pub(super) fn of_periodic(places: &[f64]) -> Distances {
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Distances::Number(1.0);
        };
        let mean = (last - first) / places.len().saturating_sub(1).max(1) as f64;
        let largest = first.abs().max(last.abs());
        let is_even = |(n, place): (usize, &f64)| {
            (place - (first + n as f64 * mean)).abs() <= f64::from(f32::EPSILON) * largest
        };
        match Distances::of(places) {
            Distances::Each(_) if mean != 0.0 && places.iter().enumerate().all(is_even) => {
                Distances::Uniform(mean)
            }
            found => found,
        }
    }

    /// The stencil at a position of a domain of `n` cells.
    pub(super) fn tap(&self, op: Stencil, edge: Edge, place: i64, n: i64) -> Tap {
        let one_sided = edge == Edge::OneSided;
        let (first, last) = (place <= 0, place >= n - 1);
        match op {
            Stencil::Diff => {
                let (before, behind) = match (one_sided && first, one_sided && last) {
                    (true, _) => (0, 1),
                    (_, true) => (n - 2, n - 1),
                    _ => (place - 1, place + 1),
                };
                let whole = behind - before == 2;
                let divisor = |h: f64| if whole { 2.0 * h } else { h };
                let weights = match self {
                    Distances::Number(h) => Weights::Own(divisor(*h)),
                    Distances::Uniform(h) => Weights::Wide(divisor(*h)),
                    Distances::Each(each) if !whole => Weights::Wide(at(each, before)),
                    Distances::Each(each) => {
                        let (d1, d2) = (at(each, place - 1), at(each, place));
                        let a = -d2 / (d1 * (d1 + d2));
                        let b = (d2 - d1) / (d1 * d2);
                        let c = d1 / (d2 * (d1 + d2));
                        Weights::Three(a, b, c)
                    }
                };
                Tap { before, at: place, behind, weights }
            }
            Stencil::Second => {
                let place = if one_sided { place.clamp(1, (n - 2).max(1)) } else { place };
                let weights = match self {
                    Distances::Number(h) => Weights::Own(h * h),
                    Distances::Uniform(h) => Weights::Wide(h * h),
                    Distances::Each(each) => {
                        let (d1, d2) = (at(each, place - 1), at(each, place));
                        let sum = d1 + d2;
                        Weights::Three(2.0 / (d1 * sum), -2.0 / (d1 * d2), 2.0 / (d2 * sum))
                    }
                };
                Tap { before: place - 1, at: place, behind: place + 1, weights }
            }
        }
    }
}

/// The distance behind a cell; beyond the edges, that of the outermost cells.
fn at(each: &[f64], place: i64) -> f64 {
    let last = each.len() as i64 - 1;
    each.get(place.clamp(0, last.max(0)) as usize).copied().unwrap_or(1.0)
}

/// Differences of a row whose cells have the same weights.
pub(super) fn row<T: Float>(
    op: Stencil,
    weights: Weights,
    before: &[T],
    here: &[T],
    behind: &[T],
    out: &mut [T],
) {
    let cells = out.iter_mut().zip(before).zip(here).zip(behind);
    match (op, weights) {
        (Stencil::Diff, Weights::Own(h)) => {
            let h = T::narrow(h);
            match h.exact_inverse() {
                Some(h) => cells.for_each(|(((out, a), _), c)| *out = c.minus(*a).times(h)),
                None => cells.for_each(|(((out, a), _), c)| *out = c.minus(*a).over(h)),
            }
        }
        (Stencil::Diff, Weights::Wide(h)) => match h.exact_inverse() {
            Some(h) => cells.for_each(|(((out, a), _), c)| *out = T::narrow(c.minus(*a).wide() * h)),
            None => cells.for_each(|(((out, a), _), c)| *out = T::narrow(c.minus(*a).wide() / h)),
        },
        (Stencil::Second, Weights::Own(h)) => {
            let h = T::narrow(h);
            match h.exact_inverse() {
                Some(h) => {
                    cells.for_each(|(((out, a), b), c)| *out = c.minus(b.twice()).plus(*a).times(h));
                }
                None => cells.for_each(|(((out, a), b), c)| *out = c.minus(b.twice()).plus(*a).over(h)),
            }
        }
        (Stencil::Second, Weights::Wide(h)) => {
            let sum = |a: &T, b: &T, c: &T| c.wide() - 2.0 * b.wide() + a.wide();
            match h.exact_inverse() {
                Some(h) => cells.for_each(|(((out, a), b), c)| *out = T::narrow(sum(a, b, c) * h)),
                None => cells.for_each(|(((out, a), b), c)| *out = T::narrow(sum(a, b, c) / h)),
            }
        }
        (_, Weights::Three(x, y, z)) => {
            cells.for_each(|(((out, a), b), c)| {
                *out = T::narrow(x * a.wide() + y * b.wide() + z * c.wide());
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_multiplied_with_the_bits_of_the_division() {
        let powers = [1.0, 2.0, 0.5, -4.0, f32::MIN_POSITIVE, 2f32.powi(126), 2f32.powi(-120)];
        let values = [1.5, -0.0, f32::MIN_POSITIVE, 1e-45, f32::MAX, f32::INFINITY, 3e-39, -7.1e30, f32::NAN];
        for h in powers {
            let inverse = h.exact_inverse().expect("its inverse is a number");
            for x in values {
                assert_eq!((x * inverse).to_bits(), (x / h).to_bits(), "{x} / {h}");
            }
        }
        for other in [0.0, 3.0, 0.1, f32::INFINITY, f32::NAN, 1e-45, 2f32.powi(127)] {
            assert_eq!(other.exact_inverse(), None);
        }
        assert_eq!((0.25f64.exact_inverse(), 0.3f64.exact_inverse()), (Some(4.0), None));
    }
}
