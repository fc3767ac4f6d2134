//! Searches the chunk shape for which a mix of reads costs least.

use std::cell::RefCell;
use std::collections::HashMap;

use super::{Device, Layout, Order, Pattern, bytes_of, predict};

/// The array to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array<'a> {
    /// Extents in cells, the step axis first if there is one.
    pub shape: &'a [u64],
    /// Bytes per cell.
    pub item: u64,
    /// Whether the first axis is that of steps, which will grow.
    pub steps: bool,
}

/// Bounds of the result, in bytes, decoded. A smaller array is one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Smallest chunk: a reader that decodes in an interpreter has a cost per chunk.
    pub min_chunk: u64,
    /// Largest chunk.
    pub max_chunk: u64,
    /// A shard is not larger than this, unless one chunk is.
    pub max_shard: u64,
    /// A shard holds several steps up to this size. It is rewritten when the next step is published.
    pub max_steps: u64,
}

impl Bounds {
    /// Sizes with which common Zarr readers are fast.
    pub const PORTABLE: Bounds =
        Bounds { min_chunk: 128 << 10, max_chunk: 1 << 20, max_shard: 64 << 20, max_steps: 16 << 20 };
}

/// The step axis is assumed to be at least this long: it grows.
const STEPS_AHEAD: u64 = 1 << 16;
/// Most chunks in a shard: their index is read with them.
const MOST_CHUNKS: u64 = 1 << 14;
/// Most moves of the search; a few dozen are usual.
const MOST_MOVES: usize = 400;

/// The layout for which the mix costs least: chunk shape, shard shape, order.
///
/// Extents of chunks are halves, quarters, … of the array's, or powers of two: the curve of cost over size is
/// flat near its minimum, so finer choices gain nothing.
pub fn choose(array: Array<'_>, mix: &[Pattern], device: &Device, bounds: &Bounds) -> Layout {
    let reach: Vec<u64> = reach(array);
    let step_bytes = bytes_of(&reach[usize::from(array.steps)..], array.item);
    let candidates: Vec<Vec<u64>> = reach
        .iter()
        .enumerate()
        .map(|(axis, &n)| {
            let alone = axis == 0 && array.steps && step_bytes >= bounds.min_chunk;
            if alone { vec![1] } else { edges(n) }
        })
        .collect();
    let score = |at: &[usize]| {
        let chunk: Vec<u64> = at.iter().zip(&candidates).map(|(&i, edges)| edges[i]).collect();
        let size = bytes_of(&chunk, array.item) as f64;
        let least = bounds.min_chunk.min(bytes_of(&reach, array.item)) as f64;
        let outside = (least / size).max(size / bounds.max_chunk.max(1) as f64).max(1.0);
        let seconds: f64 = mix
            .iter()
            .map(|p| p.weight * predict(array.shape, array.item, &chunk, &p.count, device).seconds)
            .sum();
        (outside, seconds)
    };
    let at = cheapest_at(&candidates, &score);
    let chunk: Vec<u64> = at.iter().zip(&candidates).map(|(&i, edges)| edges[i]).collect();
    let shard = shard_of(array, &chunk, bounds);
    let weighed =
        mix.iter().map(|p| (p.clone(), predict(array.shape, array.item, &chunk, &p.count, device))).collect();
    Layout {
        chunk,
        shard,
        order: Order::Hilbert,
        item: array.item,
        device: *device,
        weighed,
        as_stored: None,
    }
}

/// Chunks that need not be re-encoded are taken if reads take at most this many times as long as with the cheapest
/// chunks.
const FAIR: f64 = 1.1;

/// [`choose`], but prefers the given chunk, in which the array is stored already, if reads cost hardly more
/// with it and its size keeps the bounds.
pub fn choose_as_stored(
    array: Array<'_>,
    mix: &[Pattern],
    device: &Device,
    bounds: &Bounds,
    stored: &[u64],
) -> Layout {
    let best = choose(array, mix, device, bounds);
    let size = bytes_of(stored, array.item);
    let sizes = bounds.min_chunk.min(best.chunk_bytes())..=bounds.max_chunk.max(best.chunk_bytes());
    if stored.len() != array.shape.len() || !sizes.contains(&size) || stored.contains(&0) {
        return best;
    }
    let cost = |p: &Pattern| predict(array.shape, array.item, stored, &p.count, device);
    let weighed: Vec<_> = mix.iter().map(|p| (p.clone(), cost(p))).collect();
    let seconds =
        |of: &[(Pattern, super::Cost)]| of.iter().map(|(p, cost)| p.weight * cost.seconds).sum::<f64>();
    let ratio = seconds(&weighed) / seconds(&best.weighed).max(f64::MIN_POSITIVE);
    if ratio > FAIR {
        return best;
    }
    let shard = shard_of(array, stored, bounds);
    Layout { chunk: stored.to_vec(), shard, weighed, as_stored: Some(ratio), ..best }
}

/// The shape, with an extent from the candidates of each axis, that scores least: first by how far it exceeds the
/// bounds, then by seconds.
pub(super) fn cheapest(candidates: &[Vec<u64>], score: impl Fn(&[u64]) -> (f64, f64)) -> Vec<u64> {
    let edges =
        |at: &[usize]| -> Vec<u64> { at.iter().zip(candidates).map(|(&i, edges)| edges[i]).collect() };
    edges(&cheapest_at(candidates, &|at| score(&edges(at))))
}

/// The shape near one of `starts` that scores least, with extents from finer candidates.
pub(super) fn cheaper(
    candidates: &[Vec<u64>],
    starts: &[Vec<u64>],
    score: impl Fn(&[u64]) -> (f64, f64),
) -> Vec<u64> {
    let edges =
        |at: &[usize]| -> Vec<u64> { at.iter().zip(candidates).map(|(&i, edges)| edges[i]).collect() };
    let ends: Vec<usize> = candidates.iter().map(|edges| edges.len() - 1).collect();
    let near = |(edges, from): (&Vec<u64>, &u64)| edges.partition_point(|edge| edge < from);
    let place = |from: &Vec<u64>| -> Vec<usize> {
        candidates.iter().zip(from).map(near).zip(&ends).map(|(n, &end)| n.min(end)).collect()
    };
    let score = remembered(&ends, |at| score(&edges(at)));
    let found = starts.iter().map(|from| descend(place(from), &ends, &[1, 3], &score));
    let least = found.reduce(|least, next| if better(next.1, least.1) { next } else { least });
    edges(&least.map(|(at, _)| at).unwrap_or(ends.clone()))
}

/// Whether a score is less than another by more than rounding error.
pub(super) fn better(a: (f64, f64), b: (f64, f64)) -> bool {
    a.0 < b.0 * 0.999 || a.0 <= b.0 && a.1 < b.1 * 0.9999
}

/// Caches the score of each shape: most neighbours of a shape are also neighbours of the one before it, and descents
/// meet.
fn remembered(ends: &[usize], score: impl Fn(&[usize]) -> (f64, f64)) -> impl Fn(&[usize]) -> (f64, f64) {
    let known: RefCell<HashMap<u128, (f64, f64)>> = RefCell::default();
    move |at| {
        let number = |number: u128, (&at, &end): (&usize, &usize)| number * (end as u128 + 1) + at as u128;
        let number = at.iter().zip(ends).fold(0, number);
        if let Some(score) = known.borrow().get(&number) {
            return *score;
        }
        let score = score(at);
        known.borrow_mut().insert(number, score);
        score
    }
}

fn cheapest_at(candidates: &[Vec<u64>], score: &dyn Fn(&[usize]) -> (f64, f64)) -> Vec<usize> {
    let ends: Vec<usize> = candidates.iter().map(|edges| edges.len() - 1).collect();
    let score = &remembered(&ends, score);
    let starts = [vec![0; ends.len()], ends.clone(), ends.iter().map(|&e| e / 2).collect()];
    let mut best: Option<(Vec<usize>, (f64, f64))> = None;
    for start in starts {
        let found = descend(start, &ends, &[1], score);
        if best.as_ref().is_none_or(|b| better(found.1, b.1)) {
            best = Some(found);
        }
    }
    best.map(|b| b.0).unwrap_or_default()
}

/// The shard around a chunk: grown along the axis of which it holds the smallest part until it holds whole steps, then
/// along steps.
pub fn shard_of(array: Array<'_>, chunk: &[u64], bounds: &Bounds) -> Vec<u64> {
    let reach = reach(array);
    let first = usize::from(array.steps);
    let mut grid: Vec<u64> = vec![1; chunk.len()];
    let most: Vec<u64> = reach.iter().zip(chunk).map(|(n, c)| n.div_ceil((*c).max(1))).collect();
    let size = |grid: &[u64]| {
        let shard: Vec<u64> = grid.iter().zip(chunk).map(|(g, c)| g.saturating_mul(*c)).collect();
        bytes_of(&shard, array.item)
    };
    let mut grow = |axes: std::ops::Range<usize>, limit: u64| {
        let mut open: Vec<usize> = axes.collect();
        while let Some(&axis) = open.iter().min_by_key(|&&a| grid[a].saturating_mul(1 << 20) / most[a].max(1))
        {
            let before = grid[axis];
            grid[axis] = before.saturating_mul(2).min(most[axis]);
            let fits = size(&grid) <= limit && grid.iter().product::<u64>() <= MOST_CHUNKS;
            if !fits {
                grid[axis] = before;
            }
            if !fits || grid[axis] == most[axis] {
                open.retain(|&a| a != axis);
            }
        }
    };
    grow(first..chunk.len(), bounds.max_shard);
    grow(0..first, bounds.max_steps);
    grid.iter().zip(chunk).map(|(g, c)| g.saturating_mul(*c)).collect()
}

/// Extents, with the step axis as long as it may become.
fn reach(array: Array<'_>) -> Vec<u64> {
    let mut reach: Vec<u64> = array.shape.iter().map(|&n| n.max(1)).collect();
    if array.steps
        && let Some(steps) = reach.first_mut()
    {
        *steps = (*steps).max(STEPS_AHEAD);
    }
    reach
}

/// Extents that a chunk may have along an axis of n cells, ascending.
fn edges(n: u64) -> Vec<u64> {
    let halves = (0..u64::BITS).map(|k| n.div_ceil(1 << k));
    let powers = (0..u64::BITS).map(|k| 1 << k).take_while(|&p| p < n);
    let mut all: Vec<u64> = halves.chain(powers).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Moves to the best neighbour until there is none: one or two axes further up or down, each by one of
/// `steps` candidates.
fn descend(
    mut at: Vec<usize>,
    ends: &[usize],
    steps: &[isize],
    score: &dyn Fn(&[usize]) -> (f64, f64),
) -> (Vec<usize>, (f64, f64)) {
    let mut now = score(&at);
    for _ in 0..MOST_MOVES {
        let mut step: Option<(Vec<usize>, (f64, f64))> = None;
        let mut attempt = |next: &[usize]| {
            let cost = score(next);
            if better(cost, step.as_ref().map_or(now, |s| s.1)) {
                step = Some((next.to_vec(), cost));
            }
        };
        let moved =
            |from: &[usize], axis: usize, by: isize| from[axis].saturating_add_signed(by).min(ends[axis]);
        let mut next = at.clone();
        for one in 0..at.len() {
            for by in steps.iter().flat_map(|&step| [step, -step]) {
                next[one] = moved(&at, one, by);
                for other in 0..one {
                    for by in steps.iter().flat_map(|&step| [step, -step]) {
                        next[other] = moved(&at, other, by);
                        attempt(&next);
                    }
                    next[other] = at[other];
                }
                attempt(&next);
            }
            next[one] = at[one];
        }
        match step {
            Some((next, cost)) => (at, now) = (next, cost),
            None => break,
        }
    }
    (at, now)
}

#[cfg(test)]
mod tests {
    #[test]
    fn stored_chunks_are_kept_where_they_cost_hardly_more() {
        let shape = [256, 256, 256];
        let array = Array { shape: &shape, item: 4, steps: false };
        let mix = crate::layout::standard_mix(&shape, false);
        let chosen =
            |stored: &[u64]| choose_as_stored(array, &mix, &Device::ASSUMED, &Bounds::PORTABLE, stored);
        let best = choose(array, &mix, &Device::ASSUMED, &Bounds::PORTABLE);
        let near: Vec<u64> = best.chunk.clone();
        assert_eq!((chosen(&near).chunk, chosen(&near).as_stored), (near, Some(1.0)));
        for unfit in [&[256, 256, 4][..], &[4, 4, 4], &[256, 256, 256], &[64, 64], &[0, 64, 64]] {
            assert_eq!(chosen(unfit), best, "{unfit:?}");
        }
    }

    use super::super::standard_mix;
    use super::*;

    fn layout(shape: &[u64], item: u64, steps: bool) -> Layout {
        let array = Array { shape, item, steps };
        choose(array, &standard_mix(shape, steps), &Device::ASSUMED, &Bounds::PORTABLE)
    }

    #[test]
    fn every_axis_of_a_cube_is_read_at_about_the_same_speed() {
        for steps in [false, true] {
            let shape = if steps { vec![3, 512, 512, 512] } else { vec![512, 512, 512] };
            let layout = layout(&shape, 4, steps);
            let planes = layout.weighed.iter().filter(|(p, _)| p.name.starts_with("plane"));
            let times: Vec<f64> = planes.map(|(_, cost)| cost.seconds).collect();
            assert_eq!(times.len(), 3);
            let worst = times.iter().copied().fold(0.0, f64::max);
            assert!(times.iter().all(|t| worst < 2.0 * t), "{layout}");
        }
    }

    #[test]
    fn layouts_keep_their_bounds_for_any_array() {
        let shapes: [(&[u64], u64, bool); 12] = [
            (&[], 8, false),
            (&[0], 8, true),
            (&[10], 8, true),
            (&[0, 0], 4, false),
            (&[5, 7], 4, true),
            (&[1 << 40], 1, false),
            (&[100, 1000, 1000], 4, true),
            (&[1, 300, 300, 300], 8, true),
            (&[7; 8], 2, false),
            (&[3, 1], 65_536, true),
            (&[u64::MAX >> 1, u64::MAX >> 1], 16, false),
            (&[20, 3, 100_000], 4, true),
        ];
        for (shape, item, steps) in shapes {
            let layout = layout(shape, item, steps);
            let reach = reach(Array { shape, item, steps });
            let all = bytes_of(&reach, item);
            assert_eq!(layout.chunk.len(), shape.len());
            assert!(layout.chunk_bytes() <= 1 << 20 || layout.chunk.iter().all(|&c| c == 1), "{layout}");
            assert!(layout.chunk_bytes() >= all.min(128 << 10), "{shape:?} {layout}");
            assert!(layout.shard_bytes() <= 64 << 20, "{layout}");
            assert!(layout.chunk.iter().zip(&layout.shard).all(|(c, s)| *c > 0 && s % c == 0), "{layout}");
            assert!(layout.grid().iter().product::<u64>() <= MOST_CHUNKS);
        }
    }

    #[test]
    fn a_step_that_fills_a_chunk_has_chunks_of_its_own_and_small_steps_share_them() {
        let large = layout(&[4, 256, 256], 4, true);
        assert_eq!(large.chunk[0], 1, "{large}");
        assert!(large.shard[0] > 1 && large.shard[0] <= 64, "{large}");
        let huge = layout(&[4, 512, 512, 512], 4, true);
        assert_eq!((huge.chunk[0], huge.shard[0]), (1, 1), "{huge}");
        let scalar = layout(&[4], 8, true);
        assert!(scalar.chunk_bytes() >= 128 << 10, "{scalar}");
    }

    #[test]
    fn a_slower_request_makes_larger_chunks() {
        let shape = [1024, 1024, 1024];
        let array = Array { shape: &shape, item: 4, steps: false };
        let bounds = Bounds { min_chunk: 1, max_chunk: 1 << 30, ..Bounds::PORTABLE };
        let mut sizes = Vec::new();
        for request in [1e-5, 1e-4, 1e-3, 1e-2] {
            let device = Device { bandwidth: 1e9, request };
            let planes: Vec<Pattern> =
                standard_mix(&shape, false).into_iter().filter(|p| p.name.starts_with("plane")).collect();
            let layout = choose(array, &planes, &device, &bounds);
            let wanted = device.optimal_chunk(3);
            let size = layout.chunk_bytes() as f64;
            assert!(size > wanted / 3.0 && size < wanted * 3.0, "{request}: {layout}");
            sizes.push(layout.chunk_bytes());
        }
        assert!(sizes.is_sorted(), "{sizes:?}");
    }

    #[test]
    fn the_text_says_what_was_weighed() {
        let text = layout(&[2, 200, 200], 4, true).to_string();
        assert!(text.starts_with("chunk 1x"), "{text}");
        for part in ["Hilbert order", "per request", "plane across axis 1", "one cell through 2 steps"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_search_computes_the_score_of_each_shape_once() {
        let axis: Vec<u64> = (1..=40).collect();
        let asked = RefCell::new(Vec::new());
        let score = |edges: &[u64]| {
            asked.borrow_mut().push(edges.to_vec());
            (1.0, edges.iter().zip([7.0, 19.0, 30.0]).map(|(&e, best)| (e as f64 - best).abs()).sum())
        };
        let candidates = [axis.clone(), axis.clone(), axis];
        assert_eq!(cheapest(&candidates, score), [7, 19, 30]);
        let first = asked.take();
        assert_eq!(cheaper(&candidates, &[vec![1, 1, 1], vec![9, 16, 31]], score), [7, 19, 30]);
        for mut places in [first, asked.take()] {
            let times = places.len();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), times);
        }
    }
}
