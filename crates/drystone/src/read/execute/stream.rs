//! A read of a far store. Requests go out in the order of the plan until its window is full. Threads verify, decode
//! and place replies while other requests are in flight. If the store answers at once, each thread makes its own
//! requests ([`by_threads`](drystone_plan::window::by_threads)).
//!
//! Invariants
//! - the window, not the number of threads, bounds the requests in flight, and their bytes until these are placed;
//! - trailers are requested first and payloads right after them: the round trips overlap, and no payload is placed
//!   before all trailers have arrived;
//! - after a failure no further request goes out, no thread waits, and the first error is returned.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use drystone_plan::coalesce::Fetch;
use drystone_plan::layout;
use drystone_plan::local_read::largest_decoded;
use drystone_plan::window::Window;
use drystone_store::{Arrivals, Reply, Request, Store, StoreExt};

use super::coded::Waiting;
use super::trailers::Needed;
use super::{Buffers, Job, Sources, each_on};
use crate::array::Target;
use crate::base::cpus::threads;
use crate::base::error::must_exist;
use crate::base::sync::lock;
use crate::container::Inner;
use crate::read::{Prepared, Reading};
use crate::{Error, Result};

/// A longer request is sent as several concurrent ones, since one connection is slower than the link.
const LONGEST: u64 = 8 << 20;
/// The most buffers kept for later requests.
const SPARE: usize = 64;

/// Requests of one read, numbered in the order in which they go out.
pub(in crate::read) struct Stream<'a> {
    store: &'a dyn Store,
    window: Window,
    requests: Vec<(String, Range<u64>)>,
    /// Whether the thread that takes the next request also performs it.
    by_threads: bool,
    arrivals: Arc<Arrivals>,
    state: Mutex<State>,
    /// Number of outcomes that a thread has taken or waits for.
    claimed: AtomicUsize,
}

#[derive(Default)]
struct State {
    next: usize,
    /// The number of requests in flight, and their bytes, which include those that arrived and are not placed.
    under_way: (u32, u64),
    spare: Vec<Vec<u8>>,
    stopped: bool,
}

impl<'a> Stream<'a> {
    pub(in crate::read) fn new(
        inner: &'a Inner,
        window: Window,
        requests: Vec<(String, Range<u64>)>,
    ) -> Self {
        let (state, claimed) = (Mutex::default(), AtomicUsize::new(0));
        let bytes = requests.iter().map(|(_, range)| range.end.saturating_sub(range.start)).sum();
        let by_threads = inner.by_threads(requests.len(), bytes);
        let store = inner.store.as_ref();
        Stream { store, window, requests, by_threads, arrivals: Arc::default(), state, claimed }
    }

    /// Submits the requests that the window admits.
    pub(in crate::read) fn fill(&self) {
        if self.by_threads {
            return;
        }
        let mut state = lock(&self.state);
        while let Some((key, range)) = self.requests.get(state.next).filter(|_| !state.stopped) {
            let bytes = range.end.saturating_sub(range.start);
            if !self.window.admits(state.under_way, bytes) {
                return;
            }
            state.under_way.0 += 1;
            state.under_way.1 = state.under_way.1.saturating_add(bytes);
            let number = state.next;
            state.next += 1;
            let ranges: Vec<(u64, usize)> = (range.start..range.end)
                .step_by(LONGEST as usize)
                .map(|at| (at, LONGEST.min(range.end - at) as usize))
                .collect();
            let buffers = match (ranges.len(), state.spare.pop()) {
                (1, Some(buffer)) => vec![buffer],
                _ => Vec::new(),
            };
            let request = Request::ReadMany { key: key.clone(), ranges, buffers };
            self.store.submit(request).deliver_to(&self.arrivals, number);
        }
    }

    /// The number and bytes of a request that has arrived, in any order. `None` when all were returned, or after
    /// [`stop`](Self::stop).
    pub(in crate::read) fn next(&self) -> Option<(usize, drystone_store::Result<Vec<u8>>)> {
        let claimed = self.claimed.fetch_add(1, Ordering::Relaxed);
        let (key, range) = self.requests.get(claimed)?;
        if self.by_threads {
            return Some((claimed, self.here(key, range)?));
        }
        let (number, outcome) = self.arrivals.wait()?;
        lock(&self.state).under_way.0 -= 1;
        // Its bytes still count; a request that was waiting for its turn may not count.
        self.fill();
        let bytes = outcome.map(Reply::into_buffers).map(|mut parts| match parts.len() {
            1 => parts.pop().unwrap_or_default(),
            _ => parts.concat(),
        });
        Some((number, bytes))
    }

    /// Performs a request in this thread. `None` after [`stop`](Self::stop).
    fn here(&self, key: &str, range: &Range<u64>) -> Option<drystone_store::Result<Vec<u8>>> {
        let mut state = lock(&self.state);
        if state.stopped {
            return None;
        }
        let mut bytes = state.spare.pop().unwrap_or_default();
        drop(state);
        let len = range.end.saturating_sub(range.start) as usize;
        // An index may state any length, so memory is allocated only for bytes that exist.
        let earned = if len > bytes.capacity().max(LONGEST as usize) {
            self.store.expect_range(key, range.start, len)
        } else {
            Ok(())
        };
        Some(earned.and_then(|()| {
            match bytes.capacity() < len {
                // The system zeroes fresh memory page by page, when it is first written.
                true => bytes = vec![0; len],
                false => bytes.resize(len, 0),
            }
            self.store.read(key, range.start, &mut bytes)?;
            Ok(bytes)
        }))
    }

    /// Releases the bytes of a request that was placed, so that others may go out.
    pub(in crate::read) fn placed(&self, number: usize, buffer: Vec<u8>) {
        let bytes = self.requests.get(number).map_or(0, |(_, range)| range.end.saturating_sub(range.start));
        let mut state = lock(&self.state);
        state.under_way.1 = state.under_way.1.saturating_sub(bytes);
        if state.spare.len() < SPARE && buffer.capacity() as u64 <= LONGEST {
            state.spare.push(buffer);
        }
        drop(state);
        self.fill();
    }

    /// Stops further requests, and wakes waiting threads.
    pub(in crate::read) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.arrivals.close();
    }
}

/// Replies that arrived before the bytes could be placed.
type Early = Vec<(usize, drystone_store::Result<Vec<u8>>)>;

/// Executes a plan with a window of requests in flight.
pub(super) fn attempt(
    reading: &Reading,
    prepared: &Prepared,
    first_step: u64,
    out: &Target<'_>,
    sources: &Sources<'_>,
    mut needed: Needed<'_>,
    window: Window,
) -> Result<()> {
    let plan = &prepared.plan;
    let failed = |e| must_exist(e).while_doing(format!("reading variable \"{}\"", reading.path));
    let missing: Vec<&Fetch<usize>> =
        needed.missing().iter().filter_map(|&request| plan.trailers.get(request)).collect();
    let mut requests = Vec::with_capacity(missing.len() + plan.fetches.len());
    for (source, range) in missing
        .iter()
        .map(|fetch| (fetch.source, &fetch.range))
        .chain(plan.fetches.iter().map(|fetch| (fetch.source, &fetch.range)))
    {
        requests.push((sources.key(source)?, range.clone()));
    }
    let mut job = Job {
        reading,
        prepared,
        first_step,
        out,
        sources,
        trailers: Vec::new(),
        waiting: Waiting::default(),
    };
    let decoded = largest_decoded(plan, &prepared.slots);
    let largest = requests.iter().map(|(_, range)| range.end.saturating_sub(range.start)).max().unwrap_or(0);
    let threads = match layout::read_or_decoded(plan, &prepared.slots) {
        ..layout::PARALLEL => 1,
        _ => threads(),
    };
    let window = window.beside(threads, decoded.saturating_mul(2), largest);
    let stream = Stream::new(&reading.inner, window, requests);
    stream.fill();
    let mut early = Early::new();
    let mut left = missing.len();
    while left > 0 {
        let Some((number, bytes)) = stream.next() else { break };
        let Some(fetch) = missing.get(number) else {
            early.push((number, bytes));
            continue;
        };
        left -= 1;
        let taken = bytes.map_err(failed).and_then(|bytes| {
            needed.take(reading, prepared, sources, fetch, &bytes)?;
            stream.placed(number, bytes);
            Ok(())
        });
        if let Err(error) = taken {
            stream.stop();
            return Err(error);
        }
    }
    job.trailers = needed.all();
    let done = job.fill().and_then(|()| place_all(&job, &stream, missing.len(), early, threads, &failed));
    if done.is_err() {
        stream.stop();
    }
    done?;
    job.complete()
}

/// Places payloads as they arrive, on several threads. Request numbers from `first` on belong to the plan.
fn place_all(
    job: &Job<'_>,
    stream: &Stream<'_>,
    first: usize,
    early: Early,
    threads: usize,
    failed: &(dyn Fn(drystone_store::StoreError) -> Error + Sync),
) -> Result<()> {
    let early = Mutex::new(early);
    let place = |_: usize, buffers: &mut Buffers| -> Result<()> {
        loop {
            let waiting = lock(&early).pop();
            let Some((number, bytes)) = waiting.or_else(|| stream.next()) else { return Ok(()) };
            let placed = bytes.map_err(failed).and_then(|bytes| {
                if let Some(fetch) = job.prepared.plan.fetches.get(number - first) {
                    job.place_all(fetch, &bytes, buffers)?;
                }
                Ok(bytes)
            });
            match placed {
                Ok(bytes) => stream.placed(number, bytes),
                Err(error) => {
                    stream.stop();
                    return Err(error);
                }
            }
        }
    };
    each_on(threads, threads, &place)
}
