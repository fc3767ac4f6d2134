//! The executor: fetch, verify, decode, scatter. It decides nothing. The plan chooses the bytes, and
//! [`local_read`](mod@drystone_plan::local_read) chooses the number of threads, the grouping of requests and the
//! mode. In this file each thread makes one request at a time, which is best for files. [`stream`] keeps a window of
//! requests in flight, as the plan of a far store demands.
//!
//! Requests run in any order on several threads. The bytes of each are placed at once, and the written cells are
//! disjoint because visible boxes are.

mod apart;
mod buffers;
mod coded;
mod io_modes;
mod listed;
mod mapped;
mod placing;
mod stream;
mod there;
pub(crate) mod trailers;
mod verified;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use drystone_copy::{Dim, StridedCopy};
use drystone_format::dtype::Leaf;
use drystone_format::entry::Entry;
use drystone_format::piece::Trailer;
use drystone_plan::coalesce::Fetch;
use drystone_plan::form::Form;
use drystone_plan::local_read::{self, Processors};
use drystone_plan::read_plan::{IoMode, LocalRead, Work};
use drystone_transform::Logical;

use self::trailers::Needed;
use super::prefetch;
use super::published;
use super::{Carried, Prepared, Reading};
use crate::base::array::Target;
use crate::base::buffer_pool::Lent;
use crate::base::cpus::{idle, threads};
use crate::base::error::rule_error;
use crate::base::metrics::add;
use crate::base::span::{self, SpanKind};
use crate::base::sync::lock;
use crate::schema::element_type::logical;
use crate::schema::member::Column;
use crate::{Error, ErrorKind, Result};
use buffers::Buffers;
use coded::Waiting;

/// A request, with the numbers of the works that it serves and the part of their payloads that it contains.
type Asked = Fetch<(usize, Range<u64>)>;

pub(crate) use super::sources::Sources;
pub(super) use stream::Stream;
pub(super) use there::decisions;
pub(crate) use there::{Trial, Tried, Way};

/// State shared by all requests of a read.
pub(super) struct Job<'a> {
    pub(super) reading: &'a Reading,
    pub(super) prepared: &'a Prepared,
    first_step: u64,
    out: &'a Target<'a>,
    pub(super) sources: &'a Sources<'a>,
    /// Trailers by number.
    trailers: Vec<Arc<Trailer>>,
    /// Ranges of encoded works that have arrived and wait for the other ranges.
    waiting: Waiting,
}

/// Fills `out`, whose step axis begins at position `first_step` of that of the whole selection. If published shards
/// were replaced since the plan was made, or are damaged, reads the log instead.
pub(super) fn run(
    reading: &Reading,
    prepared: &Prepared,
    first_step: u64,
    out: &Target<'_>,
    sources: &Sources<'_>,
) -> Result<Carried> {
    let begun = span::begin(SpanKind::Read);
    let carried = carry_out(reading, prepared, first_step, out, sources)?;
    let values = span::Values {
        wanted_bytes: prepared.plan.wanted_bytes,
        bytes: carried.read_bytes,
        requests: carried.requests,
        rounds: reading.inner.window().map_or(0, |_| published::rounds(prepared).into()),
        blocks: prepared.plan.blocks as u64,
    };
    let tally = &reading.inner.tally;
    add(&tally.reads, 1);
    add(&tally.read_wanted_bytes, values.wanted_bytes);
    add(&tally.read_bytes, values.bytes);
    add(&tally.read_requests, values.requests);
    add(&tally.read_rounds, values.rounds);
    add(&tally.read_blocks, values.blocks);
    begun.end(SpanKind::Read, || reading.inner.store.describe(), &reading.path, values);
    Ok(carried)
}

fn carry_out(
    reading: &Reading,
    prepared: &Prepared,
    first_step: u64,
    out: &Target<'_>,
    sources: &Sources<'_>,
) -> Result<Carried> {
    reading.require_precision(&prepared.plan.bound)?;
    let as_planned = Carried::of(&prepared.plan);
    let Some(shelf) = reading.shelf.as_deref().filter(|_| published::is_used(prepared)) else {
        if let Some(carried) = there::run(reading, prepared, first_step, out, sources)? {
            return Ok(carried);
        }
        return attempt(reading, prepared, first_step, out, sources).map(|()| as_planned);
    };
    let read = attempt(reading, prepared, first_step, out, sources);
    let was_read = read.is_ok();
    match read.and_then(|()| shelf.still_there(reading, prepared)) {
        Err(e) if e.kind() != ErrorKind::Cancelled => {
            shelf.give_up(reading, prepared, (!was_read).then_some(&e));
            let log = reading.without_replicas(prepared)?;
            attempt(reading, &log, first_step, out, sources).map(|()| as_planned)
        }
        other => other.map(|()| as_planned),
    }
}

fn attempt(
    reading: &Reading,
    prepared: &Prepared,
    first_step: u64,
    out: &Target<'_>,
    sources: &Sources<'_>,
) -> Result<()> {
    let plan = &prepared.plan;
    let mut needed = Needed::of_plan(reading, prepared, sources)?;
    if let Some(window) = reading.inner.window() {
        return stream::attempt(reading, prepared, first_step, out, sources, needed, window);
    }
    let slow = prefetch::may_wait(reading);
    let ranges = plan.ahead(|request| needed.is_missing(request), slow);
    prefetch::now(reading, &ranges, slow, sources);
    needed.load(reading, prepared, sources)?;
    let trailers = needed.all();
    let waiting = Waiting::default();
    let job = Job { reading, prepared, first_step, out, sources, trailers, waiting };
    job.fill()?;
    let trial = mapped::begin(reading, prepared, out.is_dense());
    let mode = trial.as_ref().map_or(IoMode::Requests, |trial| trial.mode);
    let LocalRead { threads, groups, .. } = local_read(prepared, mode);
    let began = Instant::now();
    let (open, trial) = job.take_mapped(plan, threads, trial)?;
    if open.iter().all(|open| *open) {
        let all: Vec<&Asked> = plan.fetches.iter().collect();
        each_on(threads, groups.len(), &|n, buffers| job.fetch(&all[groups[n].clone()], buffers))?;
    } else {
        // Memory maps already supplied some of the works.
        let is_open = |fetch: &&Asked| fetch.items.iter().any(|(_, (number, _))| open[*number]);
        let left: Vec<&Asked> = plan.fetches.iter().filter(is_open).collect();
        let groups = local_read::groups(&left);
        each_on(threads, groups.len(), &|n, buffers| job.fetch(&left[groups[n].clone()], buffers))?;
    }
    if let Some(trial) = trial {
        trial.took(began.elapsed());
    }
    job.complete()
}

/// How threads execute a plan in a mode, decided from the plan and current measurements.
fn local_read(prepared: &Prepared, mode: IoMode) -> LocalRead {
    let idle = if local_read::asks_for_idle(&prepared.plan, &prepared.slots) { idle() } else { 0 };
    let processors = Processors { allowed: threads(), idle };
    local_read::local_read(&prepared.plan, &prepared.slots, processors, mode)
}

/// How the plan would be executed now into dense memory. `None` on a far store.
pub(super) fn explained(reading: &Reading, prepared: &Prepared) -> Option<LocalRead> {
    let near = reading.inner.window().is_none();
    near.then(|| local_read(prepared, mapped::next_mode(reading, prepared)))
}

/// Runs `count` jobs on this many threads.
fn each_on(
    threads: usize,
    count: usize,
    work: &(dyn Fn(usize, &mut Buffers) -> Result<()> + Sync),
) -> Result<()> {
    let threads = threads.min(count);
    if threads < 2 {
        let mut buffers = Lent::<Buffers>::take();
        return (0..count).try_for_each(|n| work(n, &mut buffers));
    }
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let take = || {
        let mut buffers = Lent::<Buffers>::take();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return;
            }
            if let Err(error) = work(n, &mut buffers) {
                lock(&failed).get_or_insert(error);
                next.store(usize::MAX / 2, Ordering::Relaxed);
            }
        }
    };
    // The caller works too: if it waits, other programs may take its processor for a while.
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(take)));
        take();
    });
    lock(&failed).take().map_or(Ok(()), Err)
}

impl Job<'_> {
    /// Fails if a subchunk still waits for one of its parts.
    fn complete(&self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        Err(Error::corrupt(format!("parts of a subchunk of \"{}\" were not read", self.reading.path)))
    }

    pub(super) fn entry(&self, work: &Work) -> &Entry {
        &self.prepared.slots[work.slot].candidates[work.entry].entry
    }

    pub(super) fn leaf(&self, slot: usize) -> &Leaf {
        &self.column(slot).leaf
    }

    fn column(&self, slot: usize) -> &Column {
        &self.prepared.columns[slot % self.prepared.columns.len()]
    }

    pub(super) fn chunk_bytes(&self, work: &Work) -> u64 {
        let room = u64::from(self.entry(work).encoding.room());
        let boxes = self.entry(work).encoding.boxes();
        work.part.chunk_shape.iter().fold(room.saturating_mul(boxes), |b, n| b.saturating_mul(*n))
    }

    /// The arrangement of the subchunk's cells. The plan contains only works with a known layout.
    pub(super) fn form(&self, work: &Work) -> Result<Form> {
        self.prepared.slots[work.slot]
            .form(self.entry(work))
            .ok_or_else(|| Error::unsupported("a layout that this program does not know"))
    }

    /// Offset of a slot's first element in the target's bytes, and the strides of its axes.
    fn place(&self, slot: usize) -> (u64, &[i64]) {
        if !self.prepared.listings.is_empty() {
            // The cells of a listing state their positions along all axes.
            return ((self.out.start() as u64) + u64::from(self.leaf(slot).offset), self.out.strides());
        }
        let steps = self.reading.variable.steps;
        let step = self.first_step as i64 + (slot / self.prepared.columns.len()) as i64;
        let strides = self.out.strides();
        let along = if steps { strides[0] * step } else { 0 };
        let at = self.out.start() as i64 + along + i64::from(self.leaf(slot).offset);
        (at as u64, if steps { &strides[1..] } else { strides })
    }

    /// Writes the fill value to every slot in which some cells need it.
    fn fill(&self) -> Result<()> {
        let default = vec![0u8; self.reading.item as usize];
        let whole = self.reading.variable.fill.as_deref();
        for (slot, _) in self.prepared.plan.fill.iter().enumerate().filter(|(_, needed)| **needed) {
            let Column { number, leaf, from, .. } = self.column(slot);
            let value: &[u8] = match whole {
                None => &default[..leaf.size as usize],
                Some(fill) => {
                    // `leaf.offset` is relative to the member that is read; the fill value is a whole element.
                    let leaves = self.reading.variable.dtype.leaves();
                    let at = (leaves[*number as usize].offset + from) as usize;
                    fill.get(at..at + leaf.size as usize).ok_or_else(|| {
                        Error::corrupt(format!("\"{}\": the fill value is too short", self.reading.path))
                    })?
                }
            };
            if let Some(listing) = self.prepared.listings.get(slot) {
                self.fill_listed(slot, listing, value)?;
                continue;
            }
            let (at, strides) = self.place(slot);
            let counts = self.prepared.slots[slot].selection.shape();
            let dims = counts.iter().zip(strides).map(|(n, s)| Dim::new(*n, 0, *s)).collect();
            let copy = StridedCopy::new(0, at, value.len(), dims).map_err(rule_error)?;
            let (base, len) = self.out.raw();
            // SAFETY: this read borrows the target exclusively, and no other thread works on it yet; the copy checks
            // its bounds.
            unsafe { copy.run_raw(value.as_ptr(), value.len(), base, len) }.map_err(rule_error)?;
        }
        Ok(())
    }

    pub(super) fn damaged(&self, work: &Work, at: u64, what: &str) -> Error {
        let entry = self.entry(work);
        self.reading.damaged(self.sources, entry.source, entry.step, at, what)
    }

    pub(super) fn logical(&self, work: &Work) -> Result<Logical> {
        let ndim = usize::from(self.entry(work).ndim);
        Ok(self.form(work)?.logical(&logical(self.leaf(work.slot), &work.part.chunk_shape[..ndim])))
    }
}
