//! A read of a far store: requests go out in the order of the plan until its window is full; the threads verify, decode
//! and place replies while other requests are under way.
//!
//! Invariants
//! - requests under way are bounded by the window, not by threads, and their bytes by the window's until they are
//!   placed;
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
use drystone_store::{Arrivals, Reply, Request, Store};

use super::coded::Waiting;
use super::trailers::Needed;
use super::{Buffers, Job, Sources, each_on};
use crate::array::Target;
use crate::base::cpus::threads;
use crate::base::error::must_exist;
use crate::base::sync::lock;
use crate::read::{Prepared, Reading};
use crate::{Error, Result};

/// A longer request is sent as several concurrent ones: one connection is slower than the link.
const LONGEST: u64 = 8 << 20;
/// Buffers kept for later requests.
const SPARE: usize = 64;

/// Requests of one read, numbered in the order in which they go out.
pub(in crate::read) struct Stream<'a> {
    store: &'a dyn Store,
    window: Window,
    requests: Vec<(String, Range<u64>)>,
    arrivals: Arc<Arrivals>,
    state: Mutex<State>,
    /// Outcomes that some thread has awaited, or is about to.
    claimed: AtomicUsize,
}

#[derive(Default)]
struct State {
    next: usize,
    /// Requests under way, and their bytes including those that arrived and are not placed.
    under_way: (u32, u64),
    spare: Vec<Vec<u8>>,
    stopped: bool,
}

impl<'a> Stream<'a> {
    pub(in crate::read) fn new(
        store: &'a dyn Store,
        window: Window,
        requests: Vec<(String, Range<u64>)>,
    ) -> Self {
        let (state, claimed) = (Mutex::default(), AtomicUsize::new(0));
        Stream { store, window, requests, arrivals: Arc::default(), state, claimed }
    }

    /// Submits the requests that the window admits.
    pub(in crate::read) fn fill(&self) {
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

    /// Number and bytes of a request that has arrived, in any order; `None` when all were returned, or after
    /// [`stop`](Self::stop).
    pub(in crate::read) fn next(&self) -> Option<(usize, drystone_store::Result<Vec<u8>>)> {
        if self.claimed.fetch_add(1, Ordering::Relaxed) >= self.requests.len() {
            return None;
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

    /// The bytes of a request were placed: others may go out.
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

/// Replies that arrived before they could be placed.
type Early = Vec<(usize, drystone_store::Result<Vec<u8>>)>;

/// Executes a plan with a window of requests under way.
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
    let stream = Stream::new(reading.inner.store.as_ref(), window, requests);
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

/// Places payloads as they arrive, on several threads; numbers from `first` on are requests of the plan.
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
