//! What a store costs: bytes per second, and time per request.

use std::fmt;

use super::bytes;

/// The two numbers that decide how large a chunk should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// Bytes per second of large reads.
    pub bandwidth: f64,
    /// Seconds per request besides its bytes, at the number of requests that a reader keeps under way.
    pub request: f64,
}

impl Device {
    /// The default for a store that was not measured: a local solid-state disk.
    pub const ASSUMED: Device = Device { bandwidth: 1e9, request: 2e-4 };

    /// The bytes that take as long as one request: reading over a smaller hole is cheaper than skipping it.
    pub fn request_bytes(&self) -> f64 {
        self.bandwidth * self.request
    }

    /// The optimal chunk size in bytes, of blocks that are cut along `split` axes.
    ///
    /// A block of V bytes cut n ways along each of two axes: a plane across one of them touches n chunks, which takes
    /// V/(n·B) + n·τ. That is least where a chunk has V/n² = B·τ bytes. For blocks cut along m axes the optimum is
    /// (m-1)·B·τ.
    pub fn optimal_chunk(&self, split: u32) -> f64 {
        self.request_bytes() * f64::from(split.max(2) - 1)
    }

    /// Seconds for this many requests and bytes.
    pub fn seconds(&self, requests: f64, bytes: f64) -> f64 {
        requests * self.request + bytes / self.bandwidth
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/s, {:.3} ms per request, which is worth {}",
            bytes(self.bandwidth),
            self.request * 1e3,
            bytes(self.request_bytes()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_is_cut_into_49() {
        // 256^3 doubles per process, 250 MB/s, 10 ms: 7 x 7 subchunks.
        let device = Device { bandwidth: 250e6, request: 10e-3 };
        let block = 256f64.powi(3) * 8.0;
        let per_axis = (block / device.optimal_chunk(2)).sqrt().round();
        assert_eq!(per_axis, 7.0);
        assert_eq!(device.optimal_chunk(3), 2.0 * device.optimal_chunk(2));
    }

    #[test]
    fn the_optimal_chunk_is_where_a_plane_costs_least() {
        let device = Device { bandwidth: 250e6, request: 10e-3 };
        let block = 256f64.powi(3) * 8.0;
        let plane = |n: f64| device.seconds(n, block / n);
        let best = (1..64).map(f64::from).min_by(|a, b| plane(*a).total_cmp(&plane(*b))).unwrap();
        assert_eq!(best, 7.0);
    }
}
