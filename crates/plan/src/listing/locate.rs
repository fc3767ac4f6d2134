//! Finds which of many boxes hold which of many points.
//!
//! Space is halved along the axis of widest spread, until few points or few boxes are left: n points in m
//! boxes cost about n log n + m, not n·m. Boxes may overlap, as the projections of disjoint ones do.

/// `lo..hi` along each axis of the points.
pub(crate) type Bounds<'a> = (&'a [u64], &'a [u64]);

/// With this few points or boxes, each is compared with each.
const FEW: usize = 6;

/// All pairs (box, point), sorted. `points` holds `width` coordinates for each; each box has as many axes.
pub(crate) fn locate(points: &[u64], width: usize, boxes: &[Bounds<'_>]) -> Vec<(u32, u32)> {
    let count = points.len().checked_div(width).unwrap_or(0);
    let mut locator = Locator { points, width, boxes, found: Vec::with_capacity(count) };
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    let all: Vec<u32> = (0..boxes.len() as u32).collect();
    locator.descend(&mut numbers, &all);
    locator.found.sort_unstable();
    locator.found
}

struct Locator<'a> {
    points: &'a [u64],
    width: usize,
    boxes: &'a [Bounds<'a>],
    found: Vec<(u32, u32)>,
}

impl Locator<'_> {
    fn point(&self, number: u32) -> &[u64] {
        &self.points[number as usize * self.width..][..self.width]
    }

    fn descend(&mut self, numbers: &mut [u32], among: &[u32]) {
        if numbers.len() <= FEW || among.len() <= FEW {
            return self.compare(numbers, among);
        }
        let (mut lo, mut hi) = (vec![u64::MAX; self.width], vec![0; self.width]);
        for &number in numbers.iter() {
            for ((lo, hi), &c) in lo.iter_mut().zip(&mut hi).zip(self.point(number)) {
                (*lo, *hi) = ((*lo).min(c), (*hi).max(c));
            }
        }
        let (mut cut, mut holding) = (Vec::new(), Vec::new());
        for &b in among {
            let (from, to) = self.boxes[b as usize];
            let axes = || (0..self.width).map(|d| (lo[d], hi[d], from[d], to[d]));
            if axes().all(|(lo, hi, from, to)| from <= lo && hi < to) {
                holding.push(b);
            } else if axes().all(|(lo, hi, from, to)| lo < to && from <= hi) {
                cut.push(b);
            }
        }
        for &b in &holding {
            self.found.extend(numbers.iter().map(|&number| (b, number)));
        }
        let widest = (0..self.width).max_by_key(|&d| hi[d] - lo[d]);
        let Some(d) = widest.filter(|&d| lo[d] < hi[d]) else {
            return; // all points at one place: no line divides them
        };
        if cut.is_empty() {
            return;
        }
        let middle = lo[d] + (hi[d] - lo[d]).div_ceil(2);
        let split = partition(numbers, |number| self.point(number)[d] < middle);
        let (below, above) = numbers.split_at_mut(split);
        self.descend(below, &cut);
        self.descend(above, &cut);
    }

    fn compare(&mut self, numbers: &[u32], among: &[u32]) {
        for &b in among {
            let (from, to) = self.boxes[b as usize];
            for &number in numbers {
                let point = self.point(number);
                if point.iter().zip(from).zip(to).all(|((c, from), to)| from <= c && c < to) {
                    self.found.push((b, number));
                }
            }
        }
    }
}

/// Moves the items for which the condition holds to the front; returns how many.
fn partition(numbers: &mut [u32], holds: impl Fn(u32) -> bool) -> usize {
    let mut end = 0;
    for i in 0..numbers.len() {
        if holds(numbers[i]) {
            numbers.swap(i, end);
            end += 1;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn every_pair_that_a_scan_finds_is_found_once() {
        let mut random = Random(3);
        for _ in 0..400 {
            let width = 1 + random.below(3) as usize;
            let wide = 1 + random.below(40);
            let points: Vec<u64> =
                (0..random.below(120) * width as u64).map(|_| random.below(wide)).collect();
            let owned: Vec<(Vec<u64>, Vec<u64>)> = (0..random.below(60))
                .map(|_| {
                    let lo: Vec<u64> = (0..width).map(|_| random.below(wide)).collect();
                    let hi = lo.iter().map(|l| l + random.below(12)).collect();
                    (lo, hi)
                })
                .collect();
            let boxes: Vec<Bounds<'_>> = owned.iter().map(|(lo, hi)| (&lo[..], &hi[..])).collect();
            let mut scanned = Vec::new();
            for (b, (lo, hi)) in owned.iter().enumerate() {
                for (p, point) in points.chunks(width).enumerate() {
                    if (0..width).all(|d| lo[d] <= point[d] && point[d] < hi[d]) {
                        scanned.push((b as u32, p as u32));
                    }
                }
            }
            assert_eq!(locate(&points, width, &boxes), scanned);
        }
    }
}
