//! The executor: fetch, verify, decode, scatter. It decides nothing: the plan says which bytes, and
//! [`local_read`](mod@drystone_plan::local_read) how many threads, which requests together, and which mode. Here each
//! thread makes one request at a time, which is best for files; [`stream`] keeps a window of requests under way, as the
//! plan of a far store says.
//!
//! Requests run in any order on several threads. The bytes of each are placed at once, and the written cells are
//! disjoint because visible boxes are.

mod apart;
mod coded;
mod io_modes;
mod listed;
mod mapped;
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
use drystone_format::entry::{Encoding, Entry, StoredPiece};
use drystone_format::layout::Order;
use drystone_format::piece::Trailer;
use drystone_plan::clip::within;
use drystone_plan::coalesce::Fetch;
use drystone_plan::form::Form;
use drystone_plan::local_read::{self, Processors};
use drystone_plan::parts::SubchunkPart;
use drystone_plan::read_plan::{IoMode, LocalRead, Work};
use drystone_store::StoreExt;
use drystone_transform::checks::crc_units;
use drystone_transform::{Chain, Logical, Scratch};

use self::trailers::Needed;
use super::prefetch;
use super::published;
use super::{Carried, Prepared, Reading, segment_key};
use crate::base::array::Target;
use crate::base::buffer_pool::{Kept, Lent};
use crate::base::cpus::{idle, threads};
use crate::base::error::must_exist;
use crate::base::error::rule_error;
use crate::base::metrics::add;
use crate::base::span::{self, SpanKind};
use crate::base::sync::lock;
use crate::layout::Table;
use crate::schema::element_type::{MAX_SUBCHUNK, logical};
use crate::schema::member::Column;
use crate::{Error, ErrorKind, Result};
use coded::Waiting;

/// Check units up to this size fill the parts in which a store passes on what it read.
const PARTS_LOG2: u8 = drystone_store::SEEN_LOG2;

/// A request, with the numbers of the works that it serves and which part of their payloads it contains.
type Asked = Fetch<(usize, Range<u64>)>;

pub(crate) use super::sources::Sources;
pub(super) use stream::Stream;
pub(super) use there::decisions;
pub(crate) use there::{Trial, Tried, Way};

/// What every request needs.
pub(super) struct Job<'a> {
    pub(super) reading: &'a Reading,
    pub(super) prepared: &'a Prepared,
    first_step: u64,
    out: &'a Target<'a>,
    pub(super) sources: &'a Sources<'a>,
    /// Trailers by number.
    trailers: Vec<Arc<Trailer>>,
    /// Ranges of encoded works that were read and wait for the other ranges.
    waiting: Waiting,
}

/// Buffers of one thread, reused.
#[derive(Default)]
pub(super) struct Buffers {
    read: Vec<u8>,
    pub(super) decoded: Vec<u8>,
    /// The piece that `decoded` holds completely.
    pub(super) holds: Option<(u32, StoredPiece)>,
    /// Cells of a curve, in row-major order.
    pub(super) unrolled: Vec<u8>,
    /// A payload whose prefix was stored separately.
    joined: Vec<u8>,
    /// The chain that was used last, by its text.
    chain: Option<(String, Chain)>,
    pub(super) scratch: Scratch,
    sums: Vec<u32>,
}

impl Kept for Buffers {
    const MOST: (usize, usize) = (3, 8 << 20);

    fn held(&self) -> usize {
        let cells = self.read.capacity() + self.decoded.capacity() + self.unrolled.capacity();
        cells + self.joined.capacity() + self.scratch.held()
    }

    fn forget(&mut self) {
        (self.holds, self.chain) = (None, None);
    }

    fn spare() -> &'static Mutex<Vec<Self>> {
        static SPARE: Mutex<Vec<Buffers>> = Mutex::new(Vec::new());
        &SPARE
    }
}

impl Buffers {
    /// Keeps a chain for the next work.
    pub(super) fn keep_chain(&mut self, text: &str, chain: Chain) {
        self.chain = Some((text.to_owned(), chain));
    }
}

/// Fills `out` (whose step axis begins at position `first_step` of the whole selection's). If published shards were
/// replaced since the plan was made, or are damaged, the log is read.
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
    let done = attempt(reading, prepared, first_step, out, sources)
        .and_then(|()| shelf.still_there(reading, prepared));
    match done {
        Err(e) if e.kind() != ErrorKind::Cancelled => {
            shelf.give_up(reading, prepared, &e);
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
        // Memory maps supplied some of it.
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

/// How threads execute a plan with a mode, decided from the plan and from present measurements.
fn local_read(prepared: &Prepared, mode: IoMode) -> LocalRead {
    let idle = if local_read::asks_for_idle(&prepared.plan, &prepared.slots) { idle() } else { 0 };
    let processors = Processors { allowed: threads(), idle };
    local_read::local_read(&prepared.plan, &prepared.slots, processors, mode)
}

/// How the plan would be executed now into dense memory; `None` on a far store.
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
    // The caller works too: a processor that is given away comes back late if other programs want it.
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(take)));
        take();
    });
    lock(&failed).take().map_or(Ok(()), Err)
}

impl Job<'_> {
    /// Refuses a read in which a subchunk still waits for a part of it.
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

    /// Where the cells of the subchunk lie. The plan contains only works with a known layout.
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

    /// Writes the fill value to every slot that has cells that need it.
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
            // SAFETY: the target is exclusively ours and no other thread works on it yet; the copy checks its bounds.
            unsafe { copy.run_raw(value.as_ptr(), value.len(), base, len) }.map_err(rule_error)?;
        }
        Ok(())
    }

    pub(super) fn damaged(&self, work: &Work, at: u64, what: &str) -> Error {
        let entry = self.entry(work);
        self.reading.damaged(self.sources, entry.source, entry.step, at, what)
    }

    /// Whether two items of a request are the same cells of adjacent members.
    fn is_beside(
        &self,
        a: &(Range<u64>, (usize, Range<u64>)),
        b: &(Range<u64>, (usize, Range<u64>)),
    ) -> bool {
        let ((range, (n, payload)), (other, (m, also))) = (a, b);
        let (a, b) = (&self.prepared.plan.works[*n], &self.prepared.plan.works[*m]);
        let leaves = self.prepared.columns.len();
        let (first, second) = (&self.entry(a).encoding, &self.entry(b).encoding);
        fn shared(e: &Encoding) -> Option<(u32, &Order)> {
            e.layout.order().map(|order| (e.room(), order)).filter(|(room, _)| *room > e.item)
        }
        (range, payload, a.piece, a.part, a.whole) == (other, also, b.piece, b.part, b.whole)
            && a.prefix.is_none()
            && (a.slot / leaves, &first.chain) == (b.slot / leaves, &second.chain)
            && shared(first).is_some_and(|one| Some(one) == shared(second))
            && (a.whole || first.chain.is_empty())
    }

    /// Executes requests to one source.
    fn fetch(&self, group: &[&Asked], buffers: &mut Buffers) -> Result<()> {
        let Some(&first) = group.first() else { return Ok(()) };
        if let ([_], [(range, (number, payload))]) = (group, first.items.as_slice())
            && self.direct(&self.prepared.plan.works[*number], range, payload, buffers)?
        {
            return Ok(());
        }
        if let [fetch] = group
            && self.apart(fetch, buffers)?
        {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut buffers.read);
        self.reading.read_group(self.sources, group, &mut bytes)?;
        let mut at = 0;
        for fetch in group {
            let end = at + fetch.len() as usize;
            self.place_all(fetch, bytes.get(at..end).unwrap_or_default(), buffers)?;
            at = end;
        }
        buffers.read = bytes;
        Ok(())
    }

    /// Verifies and places the bytes of a request.
    fn place_all(&self, fetch: &Asked, bytes: &[u8], buffers: &mut Buffers) -> Result<()> {
        for items in fetch.items.chunk_by(|a, b| self.is_beside(a, b)) {
            let Some((range, (number, payload))) = items.first() else { continue };
            let work = &self.prepared.plan.works[*number];
            let (alone, beside);
            let works: &[&Work] = if items.len() == 1 {
                alone = [work];
                &alone
            } else {
                beside = items.iter().map(|(_, (n, _))| &self.prepared.plan.works[*n]).collect::<Vec<_>>();
                &beside
            };
            let from = (range.start - fetch.range.start) as usize;
            let item = &bytes[from..from + (range.end - range.start) as usize];
            if work.whole && work.prefix.is_some() {
                self.whole_in_two(work, *number, item, payload, buffers)?;
            } else if work.whole {
                self.whole(works, item, buffers)?;
            } else if self.entry(work).encoding.chain.is_empty() {
                self.part(works, item, payload)?;
            } else {
                match &work.prefix {
                    Some(prefix) if payload.end <= prefix.length => self.verify_prefix(work, prefix, item)?,
                    _ => self.verify_units(work, item, payload)?,
                }
                let arrived = self.waiting.arrived(*number, work.ranges.len(), payload.start, item);
                if let Some(runs) = arrived {
                    self.coded_part(work, &runs.view(item, payload.start), buffers)?;
                }
            }
        }
        Ok(())
    }

    /// Reads many raw bytes directly to their place, if their cells are contiguous there. `false`: they are not.
    fn direct(
        &self,
        work: &Work,
        range: &Range<u64>,
        payload: &Range<u64>,
        buffers: &mut Buffers,
    ) -> Result<bool> {
        // The bytes are checked as they arrive, in parts of whole units.
        let len = payload.end - payload.start;
        let checked = (1..=PARTS_LOG2).contains(&work.piece.unit_log2) && work.piece.trailer > 0;
        let Some(place) = (len > apart::CALL && checked)
            .then(|| self.contiguous_place(work, payload))
            .transpose()?
            .flatten()
        else {
            return Ok(false);
        };
        let (out, _) = self.out.raw();
        // SAFETY: `contiguous_place` found it inside the target; visible boxes are disjoint, so these bytes are this thread's.
        let place = unsafe { std::slice::from_raw_parts_mut(out.add(place.start), place.len()) };
        let source = self.sources.get(self.entry(work).source)?;
        let (store, key) = (&self.reading.inner.store, segment_key(&source));
        let failed = |e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.reading.path));
        buffers.sums.clear();
        let mut check = |part: &[u8]| crc_units(part, 1 << work.piece.unit_log2, &mut buffers.sums);
        store.read_seen(&key, range.start, place, &mut check).map_err(failed)?;
        if work.whole {
            buffers.read.resize((range.end - range.start - len) as usize, 0);
            store.read(&key, range.start + len, &mut buffers.read).map_err(failed)?;
            self.compare_whole(work, &buffers.read, &buffers.sums)?;
        } else {
            let (first, stored) = self.checks(work, payload.start, buffers.sums.len());
            self.compare(work, first, &buffers.sums, stored)?;
        }
        Ok(true)
    }

    /// A whole stored piece, with its trailer, for the works that are adjacent in it.
    fn whole(&self, works: &[&Work], item: &[u8], buffers: &mut Buffers) -> Result<()> {
        let Some(&work) = works.first() else { return Ok(()) };
        let entry = self.entry(work);
        let piece = work.piece;
        let raw = entry.encoding.chain.is_empty();
        let fresh = buffers.holds != Some((entry.source, piece)) || raw;
        let payload = item
            .get(..piece.length as usize)
            .ok_or_else(|| self.damaged(work, piece.position, "a subchunk is longer than what was read"))?;
        let shard = self.sources.shard(entry.source);
        if fresh && shard.is_none() {
            self.verify_whole(work, &item[payload.len()..], payload, &mut buffers.sums)?;
        }
        if raw {
            return self.place_whole(works, payload, &mut buffers.unrolled);
        }
        if fresh {
            self.decode_whole(work, payload, buffers)?;
        }
        self.place_whole(works, &buffers.decoded, &mut buffers.unrolled)
    }

    /// Decodes a whole verified payload, which `buffers` then holds.
    fn decode_whole(&self, work: &Work, payload: &[u8], buffers: &mut Buffers) -> Result<()> {
        let (entry, piece) = (self.entry(work), work.piece);
        buffers.holds = None;
        let len = self.chunk_bytes(work);
        if len > MAX_SUBCHUNK {
            return Err(self.damaged(work, piece.position, "a subchunk claims more than 16 MiB"));
        }
        buffers.decoded.resize(len as usize, 0);
        if let Some(shard) = self.sources.shard(entry.source) {
            shard
                .decode(payload, &mut buffers.decoded, &mut buffers.scratch)
                .map_err(|what| self.damaged(work, piece.position, &what))?;
        } else {
            let logical = self.logical(work)?;
            let chain = self.chain(work, buffers)?;
            chain
                .decode(payload, &logical, &mut buffers.decoded, &mut buffers.scratch)
                .map_err(|e| self.undecodable(work, &e))?;
            buffers.keep_chain(&entry.encoding.chain, chain);
        }
        buffers.holds = Some((entry.source, piece));
        Ok(())
    }

    /// One of the two items of a whole subchunk with a prefix: the prefix, or the rest with its trailer.
    fn whole_in_two(
        &self,
        work: &Work,
        number: usize,
        item: &[u8],
        payload: &Range<u64>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let len = (payload.end - payload.start) as usize;
        let (bytes, rest) = item.split_at_checked(len).ok_or_else(|| {
            self.damaged(work, work.piece.position, "a subchunk is longer than what was read")
        })?;
        match &work.prefix {
            Some(prefix) if payload.end <= prefix.length => self.verify_prefix(work, prefix, bytes)?,
            _ => self.verify_whole(work, rest, bytes, &mut buffers.sums)?,
        }
        let Some(runs) = self.waiting.arrived(number, work.ranges.len(), payload.start, bytes) else {
            return Ok(());
        };
        let mut all = std::mem::take(&mut buffers.joined);
        runs.join(bytes, payload.start, &mut all);
        let decoded = self.decode_whole(work, &all, buffers);
        buffers.joined = all;
        decoded?;
        self.place_whole(&[work], &buffers.decoded, &mut buffers.unrolled)
    }

    /// Places a part of a subchunk that is in memory completely; one along a curve is unrolled first.
    pub(super) fn place_whole(&self, works: &[&Work], cells: &[u8], unrolled: &mut Vec<u8>) -> Result<()> {
        let Some(&first) = works.first() else { return Ok(()) };
        let Some(curve) = self.form(first)?.curve else {
            return self.scatter_all(works, &first.part, cells, 0);
        };
        let shape = &first.part.chunk_shape[..usize::from(self.entry(first).ndim)];
        let table = Table::new(curve, shape)?;
        works.iter().try_for_each(|work| {
            let form = self.form(work)?;
            table.unroll(cells, &form, unrolled).ok_or_else(|| {
                self.damaged(work, work.piece.position, "a subchunk does not fit its curve")
            })?;
            self.scatter(work, &work.part, &form.unrolled(), unrolled, 0)
        })
    }

    /// Copies a part's cells for each of the works that are adjacent in them. Members that are adjacent in the cells
    /// and in the target are copied as one.
    fn scatter_all(&self, works: &[&Work], part: &SubchunkPart, bytes: &[u8], base: u64) -> Result<()> {
        if let [work] = works {
            return self.scatter(work, part, &self.form(work)?, bytes, base);
        }
        let mut runs = works.iter().map(|work| Ok((*work, self.form(work)?))).collect::<Result<Vec<_>>>()?;
        runs.sort_by_key(|(_, form)| form.at);
        let place = |work: &Work, form: &Form| u64::from(self.leaf(work.slot).offset) + form.item;
        runs.dedup_by(|(next, form), (work, run)| {
            let inner = u64::from(self.leaf(next.slot).offset);
            let touches = form.at == run.at + run.item && inner == place(work, run);
            if touches {
                run.item += form.item;
            }
            touches
        });
        runs.iter().try_for_each(|(work, form)| self.scatter(work, part, form, bytes, base))
    }

    /// The chain of a work's block; given back to `buffers` by the caller.
    pub(super) fn chain(&self, work: &Work, buffers: &mut Buffers) -> Result<Chain> {
        let text = &self.entry(work).encoding.chain;
        match buffers.chain.take() {
            Some((known, chain)) if known == *text => Ok(chain),
            _ => Chain::parse(text).map_err(|e| {
                Error::unsupported(format!(
                    "variable \"{}\" was encoded with \"{text}\", which this program cannot decode: {e}",
                    self.reading.path
                ))
            }),
        }
    }

    pub(super) fn logical(&self, work: &Work) -> Result<Logical> {
        let ndim = usize::from(self.entry(work).ndim);
        Ok(self.form(work)?.logical(&logical(self.leaf(work.slot), &work.part.chunk_shape[..ndim])))
    }

    /// A range of a raw piece, at check units: places its cells.
    fn part(&self, works: &[&Work], item: &[u8], payload: &Range<u64>) -> Result<()> {
        let Some(&work) = works.first() else { return Ok(()) };
        self.verify_units(work, item, payload)?;
        if work.ranges.len() == 1 && works.iter().all(|work| work.ranges.len() == 1) {
            return self.scatter_all(works, &work.part, item, payload.start);
        }
        works.iter().try_for_each(|work| {
            let form = self.form(work)?;
            within(&work.part, &form, payload)
                .iter()
                .try_for_each(|part| self.scatter(work, part, &form, item, payload.start))
        })
    }

    /// Copies a part's cells from decoded bytes, whose first byte is number `base`, to their places in the target.
    pub(super) fn scatter(
        &self,
        work: &Work,
        part: &SubchunkPart,
        form: &Form,
        bytes: &[u8],
        base: u64,
    ) -> Result<()> {
        if let Some(cells) = &work.cells {
            return self.scatter_listed(work, cells, form, bytes, base);
        }
        let copy = self.copy(work, part, form, base)?;
        let (out, len) = self.out.raw();
        // SAFETY: visible boxes are disjoint, so no other thread writes these cells; the copy checks its bounds.
        unsafe { copy.run_raw(bytes.as_ptr(), bytes.len(), out, len) }.map_err(rule_error)
    }

    /// The copy of a part's cells, arranged as `form` says, from decoded bytes that begin at `base` to the target.
    fn copy(&self, work: &Work, part: &SubchunkPart, form: &Form, base: u64) -> Result<StridedCopy> {
        let item = form.item;
        let (mut dst, strides) = self.place(work.slot);
        let ndim = strides.len();
        let mut src = form.at as i64;
        let mut dims = Vec::with_capacity(ndim);
        let stored = form.strides(&part.chunk_shape);
        for d in 0..ndim {
            let (first, step, count) = part.chunk[d];
            let apart = stored[d] as i64;
            src += first as i64 * apart;
            dst = (dst as i64 + strides[d] * part.dest[d] as i64) as u64;
            dims.push(Dim::new(count, step * apart, strides[d]));
        }
        let src = u64::try_from(src - base as i64)
            .map_err(|_| Error::corrupt("a plan reaches before its bytes"))?;
        StridedCopy::new(src, dst, item as usize, dims).map_err(rule_error)
    }
}
