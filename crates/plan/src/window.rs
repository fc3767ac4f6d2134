//! How many requests of a read are under way at once on a far store.
//!
//! For local files, every thread executes its own requests, one at a time: the kernel reads ahead, and a waiting thread
//! costs little. A far store answers after milliseconds, however many requests there are. So requests are submitted in
//! the order of the plan until the window is full, and threads verify, decode and scatter what has arrived while others
//! are under way.
//!
//! Invariants
//! - a window is chosen from the store's features and from measurements, never from a clock or the load;
//! - its bytes bound the memory of requests under way, except that a single larger request goes out alone.

use std::fmt;

use crate::layout::{Device, Profile};
use crate::read_plan::Options;
pub use crate::read_plan::Window;

/// Bytes of requests that are under way, or have arrived and are not scattered yet. So a read needs the caller's
/// buffers and 32 MiB.
pub const MOST_BYTES: u64 = 28 << 20;
/// No store gains from more requests than this, whatever its features say.
const MOST_REQUESTS: u32 = 512;
/// The window is the least depth at which requests take at most this multiple of the time at the best depth.
const GOOD_ENOUGH: f64 = 1.05;
/// Bytes per second of a far store that was not measured: a link of 1 Gbit/s.
const LINK: f64 = 125e6;
/// A window holds at least this many of the largest requests: one connection of an object store is slower
/// than the link.
const SPREAD: u64 = 16;
/// Processor seconds per request on both sides together, however many requests are under way.
const OWN: f64 = 5e-4;
/// Least and greatest size of holes that are read: at least as on local files, at most what costs as much as a megabyte
/// on a fast link.
const GAPS: (u64, u64) = (16 << 10, 1 << 20);

impl Window {
    /// The window of a store that reports how many requests are useful, and may have been measured.
    pub fn choose(requests: u32, measured: Option<&Profile>) -> Window {
        let most = requests.clamp(1, MOST_REQUESTS);
        let requests = measured.and_then(deep_enough).map_or(most, |depth| depth.clamp(1, most));
        Window { requests, bytes: MOST_BYTES }
    }

    /// The window without the memory for the threads' buffers, `each` bytes for each of `threads`. At least the
    /// `largest` request fits.
    #[must_use]
    pub fn beside(self, threads: usize, each: u64, largest: u64) -> Window {
        let taken = each.saturating_mul(threads as u64);
        Window { bytes: self.bytes.saturating_sub(taken).max(largest), ..self }
    }

    /// Whether a request of `bytes` may go out beside this many others.
    pub fn admits(&self, under_way: (u32, u64), bytes: u64) -> bool {
        let (requests, held) = under_way;
        requests < self.requests && (held == 0 || held.saturating_add(bytes) <= self.bytes)
    }

    /// How requests are merged for a device. Holes that cost less than a request are read, and the largest requests are
    /// small enough that a window holds many.
    pub fn options(&self, device: &Device, options: Options) -> Options {
        let gap = device.request_bytes().max(device.bandwidth * OWN) as u64;
        let gap = gap.clamp(GAPS.0, GAPS.1);
        Options { gap, max_request: (self.bytes / SPREAD).max(options.max_request), ..options }
    }
}

/// If a store answers within this many seconds, threads execute requests by themselves: passing a request to another
/// thread and its reply back takes a part of this time.
const AT_ONCE: f64 = 1e-3;
/// A request with at least this many bytes is long. Shorter ones, if submitted, travel several in one message.
const LONG: u64 = 64 << 10;
/// At most this many requests are few.
const FEW: usize = 2;

/// Whether each thread executes one request at a time by itself, rather than keeping a window of requests under way: if
/// the store has answered within `seen` seconds, and the requests are few or long.
pub fn by_threads(seen: Option<f64>, requests: usize, bytes: u64) -> bool {
    seen.is_some_and(|seen| seen < AT_ONCE) && (requests <= FEW || bytes / LONG >= requests as u64)
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window: {} requests, {} MiB under way", self.requests, self.bytes >> 20)
    }
}

/// The least depth at which requests take hardly longer than at the best depth.
fn deep_enough(profile: &Profile) -> Option<u32> {
    let best = profile.reads.iter().map(|at| at.request).min_by(f64::total_cmp)?;
    profile.reads.iter().find(|at| at.request <= best * GOOD_ENOUGH).map(|at| at.depth)
}

impl Device {
    /// The assumed costs of a far store that was not measured: this many requests under way, each of which takes
    /// `latency` seconds.
    pub fn far(latency: f64, requests: u32) -> Device {
        Device { bandwidth: LINK, request: latency.max(1e-6) / f64::from(requests.max(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{AtDepth, Doubt};

    fn measured(requests: &[(u32, f64)]) -> Profile {
        let reads = requests.iter().map(|&(depth, request)| AtDepth { depth, bandwidth: 1e8, request });
        let reads = reads.collect();
        Profile { reads, write: 1e8, sync: 1e-3, cold: None, probed: 1, time: 0, doubt: Doubt::NONE }
    }

    #[test]
    fn a_window_is_as_deep_as_the_store_says_or_as_more_gained_when_it_was_measured() {
        assert_eq!(Window::choose(128, None), Window { requests: 128, bytes: MOST_BYTES });
        assert_eq!(Window::choose(0, None).requests, 1);
        assert_eq!(Window::choose(u32::MAX, None).requests, MOST_REQUESTS);
        let gains_up_to_64 = measured(&[(1, 3e-2), (16, 2e-3), (64, 5e-4), (128, 4.9e-4)]);
        assert_eq!(Window::choose(128, Some(&gains_up_to_64)).requests, 64);
        assert_eq!(Window::choose(32, Some(&gains_up_to_64)).requests, 32, "no more than the store says");
        assert_eq!(Window::choose(9, Some(&measured(&[]))).requests, 9);
    }

    #[test]
    fn requests_go_out_until_either_bound_is_reached_and_a_long_one_alone() {
        let window = Window { requests: 2, bytes: 100 };
        assert!(window.admits((0, 0), 1000), "a request larger than the window goes out alone");
        assert!(!window.admits((1, 1000), 1));
        assert!(window.admits((1, 60), 40) && !window.admits((1, 60), 41));
        assert!(!window.admits((2, 2), 1));
        assert_eq!(window.beside(2, 30, 10).bytes, 40);
        assert_eq!(window.beside(9, 30, 10).bytes, 10);
    }

    #[test]
    fn holes_that_cost_less_than_a_request_are_read() {
        let window = Window::choose(100, None);
        let options = window.options(&Device::far(30e-3, 100), Options::default());
        assert_eq!(options.gap, 62_500, "0.5 ms of 125 MB/s");
        let few = Window::choose(10, None).options(&Device::far(30e-3, 10), Options::default());
        assert_eq!(few.gap, 375_000, "3 ms of it: a tenth of a round trip");
        assert_eq!(options.max_request, 4 << 20);
        let slow = Device { bandwidth: 1e6, ..Device::far(1e-3, 100) };
        assert_eq!(window.options(&slow, Options::default()).gap, GAPS.0);
    }

    #[test]
    fn threads_do_long_requests_and_few_by_themselves_where_the_store_answers_at_once() {
        let near = Some(2e-4);
        assert!(by_threads(near, 1, 100) && by_threads(near, 2, 100), "few");
        assert!(by_threads(near, 40, 40 * LONG) && !by_threads(near, 40, 40 * LONG - 1), "long");
        assert!(!by_threads(Some(AT_ONCE), 1, 100) && !by_threads(None, 1, 100), "not known to be near");
    }

    #[test]
    fn a_window_is_shown() {
        assert_eq!(Window::choose(64, None).to_string(), "window: 64 requests, 28 MiB under way");
    }
}
