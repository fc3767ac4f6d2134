//! The cost of reading a box from an array that is cut into chunks, each read whole by one request.

use std::fmt;

use super::{Device, bytes};

/// One kind of read in a mix: a box of these extents, anywhere in the array.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// Its name in reports.
    pub name: String,
    /// How often it occurs, in any unit.
    pub weight: f64,
    /// Extents of the box in cells.
    pub count: Vec<u64>,
}

/// A predicted cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Chunks touched, averaged over all positions of the box.
    pub requests: f64,
    /// Bytes read for them, decoded.
    pub bytes: f64,
    /// Seconds on the device.
    pub seconds: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} chunks, {}, {:.3} ms", self.requests, bytes(self.bytes), self.seconds * 1e3)
    }
}

/// The cost of reading a box of `count` cells in an array of `shape` cut into `chunk`s.
///
/// Along an axis of which q cells are read, 1 + (q-1)/c chunks of c cells are touched on average; a read of the whole
/// axis touches every chunk.
pub fn predict(shape: &[u64], item: u64, chunk: &[u64], count: &[u64], device: &Device) -> Cost {
    let mut requests = 1.0;
    let mut bytes = item as f64;
    for ((&n, &c), &q) in shape.iter().zip(chunk).zip(count) {
        let (n, c, q) = (n.max(1), c.max(1), q.clamp(1, n.max(1)));
        let all = n.div_ceil(c) as f64;
        let touched = if q == n { all } else { (1.0 + (q - 1) as f64 / c as f64).min(all) };
        requests *= touched;
        bytes *= touched * c as f64;
    }
    Cost { requests, bytes, seconds: device.seconds(requests, bytes) }
}

/// The default mix, used when none is declared: a plane across each axis, a box, and everything, each of one
/// step; and, with steps, one cell through `steps` of them. All equally often.
pub fn standard_mix(shape: &[u64], steps: bool) -> Vec<Pattern> {
    const BOX: u64 = 64;
    let first = usize::from(steps);
    let shape: Vec<u64> = shape.iter().map(|n| (*n).max(1)).collect();
    let one_step = |mut count: Vec<u64>| {
        if steps && let Some(step) = count.first_mut() {
            *step = 1;
        }
        count
    };
    let pattern = |name: String, count: Vec<u64>| Pattern { name, weight: 1.0, count };
    let mut mix = Vec::new();
    for axis in first..shape.len() {
        if shape[axis] > 1 && shape.len() - first > 1 {
            let mut count = shape.clone();
            count[axis] = 1;
            mix.push(pattern(format!("plane across axis {axis}"), one_step(count)));
        }
    }
    if shape.len() > first {
        let edges = shape.iter().map(|&n| n.clamp(1, BOX)).collect();
        mix.push(pattern(format!("box of {BOX} cells a side"), one_step(edges)));
        mix.push(pattern(if steps { "one step" } else { "everything" }.into(), one_step(shape.clone())));
    }
    if steps {
        let mut count = vec![1; shape.len()];
        count[0] = shape[0];
        mix.push(pattern(format!("one cell through {} steps", shape[0]), count));
    }
    mix
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks that a box at an offset touches, counted.
    fn counted(n: u64, c: u64, q: u64) -> f64 {
        let places = n - q + 1;
        let touched: u64 = (0..places).map(|at| (at + q - 1) / c - at / c + 1).sum();
        touched as f64 / places as f64
    }

    #[test]
    fn the_prediction_is_the_mean_over_all_places() {
        let device = Device::ASSUMED;
        for (n, c, q) in [(512, 32, 1), (512, 32, 33), (512, 64, 64), (512, 512, 7), (1000, 10, 500)] {
            let cost = predict(&[n], 4, &[c], &[q], &device);
            let mean = counted(n, c, q);
            assert!((cost.requests - mean).abs() / mean < 0.05, "{n} {c} {q}: {} {mean}", cost.requests);
            assert_eq!(cost.bytes, cost.requests * (c * 4) as f64);
        }
        assert_eq!(predict(&[500, 500], 8, &[64, 64], &[500, 1], &device).requests, 8.0);
    }

    #[test]
    fn the_standard_mix_reads_across_every_axis_of_one_step() {
        let mix = standard_mix(&[10, 100, 200], true);
        let counts: Vec<&[u64]> = mix.iter().map(|p| p.count.as_slice()).collect();
        assert_eq!(counts, [&[1, 1, 200][..], &[1, 100, 1], &[1, 64, 64], &[1, 100, 200], &[10, 1, 1]]);
        assert!(standard_mix(&[], false).is_empty());
    }
}
