//! Reads at the store: some objects are read by programs that the store runs, others by ranges.
//!
//! The plan by ranges is made first. If the store can run programs, a second plan, with requests as large as
//! subchunks, is turned into programs, and each object is read in the cheaper way ([`drystone_plan::programs`]).
//! Whatever a program does not return is read by ranges: a store that cannot run programs, refuses, or fails costs
//! only time.
//!
//! Invariants
//! - every byte of a reply is verified by its frame before it is placed; the store has verified it against the checksum
//!   of its piece;
//! - the window bounds the calls in flight and their replies.

mod hits;
mod pool;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use drystone_format::entry::StoredPiece;
use drystone_plan::form::Form;
use drystone_plan::programs::{Call, Limits, Programs, Rates, calls, decide, packed};
use drystone_plan::read_plan::{self, Decision, Options, ReadPlan};
use drystone_plan::window::Window;
use drystone_program::{FRAME_OVERHEAD, Payload, REPLY_HEADER, Reply as Frames};
use drystone_store::{Arrivals, Reply, Request, StoreError};

use super::coded::Waiting;
use super::trailers;
use super::{Buffers, Job, Sources, attempt, each_on};
use crate::Result;
use crate::base::array::Target;
use crate::base::cpus::threads;
use crate::base::sync::lock;
use crate::read::{Carried, Prepared, Reading};

pub(crate) use hits::{Trial, Tried, Way};

/// Methods of the store: run a program, run a program of version 2, report the supported versions.
pub(crate) const READ: &str = "dry.read.1";
pub(crate) const READ_2: &str = "dry.read.2";
pub(crate) const VERSION: &str = "dry.version";
/// Bytes of a reply in addition to results: its header, frames, and messages of refusals.
const BESIDE: u64 = 64 << 10;

/// A read that is divided between programs and ranges.
struct Divided {
    /// The part that is read by ranges whatever the programs return.
    rest: Prepared,
    /// The part that is read by programs: works, with their calls.
    there: Prepared,
    calls: Vec<Call>,
    /// The same part, planned by ranges.
    instead: Prepared,
    decisions: Vec<Decision>,
}

/// The decision for each object of a plan. Empty if the store runs no programs, or none are to be sent.
pub(in crate::read) fn decisions(reading: &Reading, prepared: &Prepared) -> Result<Vec<Decision>> {
    let sources = Sources::of(reading);
    match asked(reading, prepared, &sources)? {
        None => Ok(Vec::new()),
        Some(Err(reason)) => {
            let device = reading.inner.device();
            let (there, threads, narrow) = (Rates::THERE, threads(), reading.narrow);
            let rates = Rates { device, there, here: 1.0, threads, trial: false, narrow };
            let mut decided =
                decide(&prepared.plan, &prepared.slots, &BTreeMap::new(), &rates, Programs::Never);
            decided.iter_mut().for_each(|decision| decision.programs = Err(reason.clone()));
            Ok(decided)
        }
        Some(Ok(_)) => {
            Ok(consider(reading, prepared, &sources)?.map_or_else(Vec::new, |divided| divided.decisions))
        }
    }
}

/// The cost of programs and of ranges on the store of a read, or why it runs no programs. `None` if the store is not
/// asked.
fn asked(
    reading: &Reading,
    prepared: &Prepared,
    sources: &Sources<'_>,
) -> Result<Option<std::result::Result<Rates, String>>> {
    let inner = &reading.inner;
    let able = inner.store.features().exec && inner.window().is_some();
    if !able || reading.programs == Programs::Never || prepared.plan.works.is_empty() {
        return Ok(None);
    }
    let longest = prepared.plan.fetches.iter().rev().max_by_key(|fetch| fetch.len());
    let Some(first) = longest.filter(|fetch| sources.shard(fetch.source).is_none()) else { return Ok(None) };
    let pool = pool::of(inner.store.as_ref());
    let (key, at) = sources.place(first.source)?;
    let range = first.range.start.saturating_add(at)..first.range.end.saturating_add(at);
    Ok(Some(pool.rates(inner, &key, &range, reading.programs)))
}

/// Reads the objects that are cheaper to read by programs. `None` if there are none; then nothing was done.
pub(super) fn run(
    reading: &Reading,
    prepared: &Prepared,
    first_step: u64,
    out: &Target<'_>,
    sources: &Sources<'_>,
) -> Result<Option<Carried>> {
    let Some(divided) = consider(reading, prepared, sources)? else { return Ok(None) };
    if divided.calls.is_empty() {
        let began = Instant::now();
        attempt(reading, prepared, first_step, out, sources)?;
        let predicted = divided.decisions.iter().map(|decision| decision.ranges.1).sum();
        let pool = pool::of(reading.inner.store.as_ref());
        pool.ranges_took(began.elapsed(), predicted, prepared.plan.read_bytes);
        return Ok(Some(Carried::of(&prepared.plan)));
    }
    attempt(reading, &divided.rest, first_step, out, sources)?;
    let mut carried = Carried::of(&divided.rest.plan);
    let failed = divided.carry_out(reading, first_step, out, sources, &mut carried)?;
    if !failed.is_empty() {
        let (_, again) = divided.instead.plan.divided(&divided.instead.slots, &failed);
        let instead = Prepared { plan: again, ..divided.instead };
        attempt(reading, &instead, first_step, out, sources)?;
        carried.add(&Carried::of(&instead.plan));
    }
    Ok(Some(carried))
}

/// Divides a plan, if the store runs programs and has not refused them.
fn consider(reading: &Reading, prepared: &Prepared, sources: &Sources<'_>) -> Result<Option<Divided>> {
    let Some(Ok(rates)) = asked(reading, prepared, sources)? else { return Ok(None) };
    let large = Options { max_request: 16 << 20, ..reading.options() };
    let plan = replanned(reading, prepared, sources, &large)?;
    let made = calls(&plan, &prepared.slots, &Limits::OBJECT_CLASS, reading.narrow);
    let rates = Rates { narrow: reading.narrow, ..rates };
    let decisions = decide(&prepared.plan, &prepared.slots, &made, &rates, reading.programs);
    let chosen: BTreeSet<u32> = decisions.iter().filter(|d| d.chosen).map(|d| d.source).collect();
    let with = |plan: ReadPlan| Prepared {
        columns: prepared.columns.clone(),
        slots: prepared.slots.clone(),
        listings: prepared.listings.clone(),
        resolved: Vec::new(),
        plan,
    };
    let (rest, instead) = prepared.plan.divided(&prepared.slots, &chosen);
    let calls = made.into_iter().filter(|(source, _)| chosen.contains(source));
    let calls = calls.filter_map(|(_, calls)| calls.ok()).flatten().collect();
    Ok(Some(Divided { rest: with(rest), there: with(plan), calls, instead: with(instead), decisions }))
}

/// The plan of the same read with other options. Tables and trailers are cached already.
fn replanned(
    reading: &Reading,
    prepared: &Prepared,
    sources: &Sources<'_>,
    options: &Options,
) -> Result<ReadPlan> {
    if prepared.plan.read_bytes <= reading.options().max_request {
        // No request was cut, so the plan stays as it is.
        return Ok(prepared.plan.clone());
    }
    let (slots, listings) = (&prepared.slots, &prepared.listings);
    let fail = |error| reading.plan_error(slots, sources, error);
    let found = match listings.is_empty() {
        true => None,
        false => Some(read_plan::find(slots, listings).map_err(fail)?),
    };
    let resolved = found.as_ref().map_or(&prepared.resolved, |found| &found.resolved);
    let tables = reading.tables(slots, resolved, sources)?;
    let get = |slot, candidate| tables.get(&(slot, candidate)).map_or(&[][..], |t| t.as_slice());
    let mut known = trailers::Known::default();
    loop {
        let meta = |source: u32, piece: &StoredPiece| Some(known.get(source, piece)?.meta.as_slice());
        let plan = match &found {
            None => read_plan::plan(slots, resolved, get, meta, options),
            Some(found) => read_plan::plan_listings(slots, listings, found, get, meta, options),
        };
        let plan = plan.map_err(fail)?;
        if plan.unknown.is_empty() || known.requests > 0 {
            return Ok(plan);
        }
        known = trailers::for_plan(reading, sources, &plan.unknown)?;
        if known.requests == 0 {
            return Ok(plan);
        }
    }
}

/// The calls of one read, as they are sent.
struct Calls<'a> {
    reading: &'a Reading,
    method: &'static str,
    calls: &'a [Call],
    /// The object of each call, and the encoded program for it.
    placed: Vec<(String, Cow<'a, [u8]>)>,
    window: Window,
    /// Whether the thread that takes the next call also performs it.
    by_threads: bool,
    arrivals: Arc<Arrivals>,
    /// Number of the next call; number of calls in flight, and the bytes of their replies.
    state: Mutex<(usize, (u32, u64))>,
    claimed: AtomicUsize,
}

impl<'a> Calls<'a> {
    /// Calls of a method. The window decides how many are sent at once.
    fn new(
        reading: &'a Reading,
        method: &'static str,
        calls: &'a [Call],
        sources: &Sources<'_>,
    ) -> Result<Calls<'a>> {
        let mut placed = Vec::with_capacity(calls.len());
        for call in calls {
            let (key, at) = sources.place(call.source)?;
            // A program that is too long as shifted is refused as it is, and its object is read by ranges.
            let shifted = if at == 0 { None } else { call.program.shifted(at).encode().ok() };
            placed.push((key, shifted.map_or(Cow::Borrowed(call.bytes.as_slice()), Cow::Owned)));
        }
        let window = reading.inner.window().unwrap_or(Window { requests: 1, bytes: 0 });
        let largest = calls.iter().map(Calls::limit).max().unwrap_or(0);
        let calls = Calls {
            reading,
            method,
            calls,
            placed,
            window: window.beside(0, 0, largest),
            by_threads: reading.inner.by_threads(calls.len(), calls.iter().map(|call| call.result).sum()),
            arrivals: Arc::default(),
            state: Mutex::default(),
            claimed: AtomicUsize::new(0),
        };
        calls.fill();
        Ok(calls)
    }

    fn limit(call: &Call) -> u64 {
        let frames = call.works.len() * FRAME_OVERHEAD + REPLY_HEADER;
        call.most.saturating_add(frames as u64).saturating_add(BESIDE)
    }

    fn fill(&self) {
        if self.by_threads {
            return;
        }
        let mut state = lock(&self.state);
        while let Some((call, (key, bytes))) = self.calls.get(state.0).zip(self.placed.get(state.0)) {
            let limit = Calls::limit(call);
            if !self.window.admits(state.1, limit) {
                return;
            }
            (state.1.0, state.1.1) = (state.1.0 + 1, state.1.1.saturating_add(limit));
            let number = state.0;
            state.0 += 1;
            let (key, method, input) = (key.clone(), self.method.to_owned(), bytes.to_vec());
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let request = Request::Exec { key, method, input, limit };
            self.reading.inner.store.submit(request).deliver_to(&self.arrivals, number);
        }
    }

    fn next(&self) -> Option<(&Call, std::result::Result<Vec<u8>, StoreError>)> {
        let claimed = self.claimed.fetch_add(1, Ordering::Relaxed);
        let (call, (key, bytes)) = self.calls.get(claimed).zip(self.placed.get(claimed))?;
        if self.by_threads {
            return Some((call, self.reading.inner.store.exec(key, self.method, bytes)));
        }
        let (number, outcome) = self.arrivals.wait()?;
        let call = self.calls.get(number)?;
        Some((
            call,
            outcome.map(|reply| match reply {
                Reply::Executed { output } => output,
                _ => Vec::new(),
            }),
        ))
    }

    /// Sends nothing more, and wakes waiting threads.
    fn stop(&self) {
        self.claimed.store(usize::MAX / 2, Ordering::Relaxed);
        self.arrivals.close();
    }

    fn placed(&self, call: &Call) {
        let mut state = lock(&self.state);
        let (many, bytes) = state.1;
        state.1 = (many.saturating_sub(1), bytes.saturating_sub(Calls::limit(call)));
        drop(state);
        self.fill();
    }
}

impl Divided {
    /// Sends the calls and places the replies. Returns the objects with missing parts.
    fn carry_out(
        &self,
        reading: &Reading,
        first_step: u64,
        out: &Target<'_>,
        sources: &Sources<'_>,
        carried: &mut Carried,
    ) -> Result<BTreeSet<u32>> {
        let prepared = &self.there;
        let waiting = Waiting::default();
        let job = Job { reading, prepared, first_step, out, sources, trailers: Vec::new(), waiting };
        let threads = threads();
        let began = Instant::now();
        let calls = Calls::new(reading, READ, &self.calls, sources)?;
        let (failed, pool) = (Mutex::new(BTreeSet::new()), pool::of(reading.inner.store.as_ref()));
        let received = Mutex::new((0u64, 0u64));
        let place = |_: usize, _: &mut Buffers| -> Result<()> {
            while let Some((call, outcome)) = calls.next() {
                let placed = match &outcome {
                    Ok(reply) => {
                        let mut received = lock(&received);
                        received.0 += (reply.len() + call.bytes.len()) as u64;
                        received.1 += call.work;
                        drop(received);
                        job.place_reply(call, reply)
                    }
                    Err(error) => {
                        pool.failed(&reading.inner, error);
                        Ok(false)
                    }
                };
                calls.placed(call);
                match placed {
                    Ok(true) => {}
                    Ok(false) => drop(lock(&failed).insert(call.source)),
                    Err(error) => {
                        calls.stop();
                        return Err(error);
                    }
                }
            }
            Ok(())
        };
        let placed = each_on(threads, threads.min(self.calls.len()), &place);
        placed?;
        let (bytes, decoded) = *lock(&received);
        let failed = failed.into_inner().unwrap_or_default();
        if failed.is_empty() {
            pool.took(began.elapsed(), bytes, decoded, self.calls.len());
        }
        carried.read_bytes += bytes;
        carried.requests += self.calls.len() as u64;
        Ok(failed)
    }
}

impl Job<'_> {
    /// Places the content of a reply. Returns `false` if something is missing or damaged.
    fn place_reply(&self, call: &Call, reply: &[u8]) -> Result<bool> {
        let Ok(frames) = Frames::new(reply) else { return Ok(false) };
        let mut done = vec![false; call.works.len()];
        for frame in frames {
            let Ok(frame) = frame else { return Ok(false) };
            let item = frame.item.map(|item| item as usize);
            let Some((item, work)) = item.and_then(|item| Some((item, *call.works.get(item)?))) else {
                return Ok(false);
            };
            let (Payload::Values(bytes), Some(work)) = (frame.payload, self.prepared.plan.works.get(work))
            else {
                return Ok(false);
            };
            let expected = call.program.items.get(item).map(|item| call.program.result_len(item));
            if frame.place != 0 || expected != Some(bytes.len() as u64) {
                return Ok(false);
            }
            let form = Form::dense(self.entry(work).ndim.into(), self.form(work)?.item);
            let packed = packed(work);
            let wide;
            let bytes = match self.reading.narrow {
                true => {
                    wide = widened(bytes);
                    &wide[..]
                }
                false => bytes,
            };
            self.scatter(&packed, &packed.part, &form, bytes, 0)?;
            if let Some(done) = done.get_mut(item) {
                *done = true;
            }
        }
        Ok(done.into_iter().all(|done| done))
    }
}

/// Converts values that were transferred as float32 to the float64 values that they represent.
fn widened(bytes: &[u8]) -> Vec<u8> {
    let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    values.flat_map(|value| f64::from(value).to_le_bytes()).collect()
}
