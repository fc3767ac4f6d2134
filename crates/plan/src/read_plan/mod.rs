//! The plan of a read: which bytes in which requests, and where every cell goes.
//!
//! 1. The engine fills a [`Slot`] per step and member with the candidates that [`find`](crate::tree::find) gave.
//! 2. [`resolve_slots`] determines which blocks show; [`needed_tables`] names the cut blocks whose subchunk tables have
//!    to be read.
//! 3. [`plan`] chooses, for each part of a subchunk, between the whole stored piece and the check units that the part
//!    touches, and merges all to requests. It names the encoded pieces whose metadata would allow a smaller read: the
//!    engine loads the metadata and plans again. For listings, [`find`] replaces 2 and [`plan_listings`] replaces 3.
//!
//! Invariants
//! - every covered cell of every slot is in exactly one work, so works may run in any order and in parallel;
//! - a work's ranges begin and end at check units, so what is read can be verified;
//! - works on the same piece are adjacent; works, requests and their order depend only on the arguments.

mod cells;
mod coded;
mod decision;
mod listing;
mod local;
mod piece;
mod replica;
mod show;
#[cfg(test)]
mod tests;

use std::ops::Range;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Entry, StoredPiece};
use drystone_format::table::{Prefix, Subchunk};
use drystone_transform::stats::ScalarKind;
use drystone_transform::{Bound, Logical, Precision};

use crate::ahead::ahead;
use crate::coalesce::{Fetch, coalesce};
use crate::form::Form;
use crate::parts::{SubchunkPart, parts};
use crate::ranges::touched;
use crate::resolve::{Candidate, Resolved, resolve};
use crate::selection::Selection;
use coded::{Chains, Coded};
use piece::{StoredForm, SubchunkLocation, bound};
pub use replica::{BINS, Choice, INDEXES, PUBLISHED, SORTED, numbers, offered};
pub(crate) use replica::{decoded_bytes, decoding, decoding_by_source};

pub use cells::{Cells, Picks};
pub use decision::Decision;
pub use listing::{ListedCells, find, plan_listings};
pub use local::{IoMode, LocalRead};

/// One target: the cells of one member of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The blocks that may show.
    pub candidates: Vec<Candidate>,
    /// The selected cells; its axes are those of the blocks.
    pub selection: Selection,
    /// Bytes per element.
    pub item: u64,
    /// If the element is a part of a member that is an array: the bytes of the member before it.
    pub from: u64,
    /// Bytes of the whole member.
    pub whole: u64,
    /// The scalars that an element consists of, and their bytes; transforms need them.
    pub scalar: u64,
    #[allow(missing_docs)]
    pub kind: ScalarKind,
}

impl Slot {
    /// How the wanted bytes lie in the subchunks of an entry; `None` if its layout is unknown or it does not
    /// hold them.
    pub fn form(&self, entry: &Entry) -> Option<Form> {
        let from = self.from.checked_sub(entry.encoding.part.unwrap_or(0).into())?;
        Form::of(entry)?.within(from, self.item)
    }

    /// The description of a box of elements that a codec gets.
    pub(crate) fn logical(&self, shape: &[u64]) -> Logical {
        let (item, scalar, kind) = (self.item as usize, self.scalar as usize, self.kind);
        Logical { item, scalar, kind, shape: shape.to_vec() }
    }
}

/// Which holes are read, how large a request may be, and how exact the values must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// A request costs about as much as reading this many bytes: holes up to this size are read.
    pub gap: u64,
    /// Requests are not merged beyond this many bytes, and raw pieces are divided into works of about this
    /// size.
    pub max_request: u64,
    /// How much precision transforms may give up to read fewer bytes.
    pub precision: Precision,
}

impl Default for Options {
    /// 64 KiB and 4 MiB, exact.
    fn default() -> Self {
        Options { gap: 64 << 10, max_request: 4 << 20, precision: Precision::Exact }
    }
}

/// Requests and bytes that may be under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Requests, at least one.
    pub requests: u32,
    /// Bytes of these requests together.
    pub bytes: u64,
}

/// One part of one stored subchunk: read, verify, decode, scatter.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Which slot it fills.
    pub slot: usize,
    /// The block, as the number of a candidate of the slot.
    pub entry: usize,
    /// Which cells, and where they go.
    pub part: SubchunkPart,
    /// For a listing, the cells one by one: `part` is then only the box around them.
    pub cells: Option<Box<Cells>>,
    /// Where the subchunk is stored; if it has a prefix, where the rest is stored.
    pub piece: StoredPiece,
    /// The prefix of the payload, if it is stored apart.
    pub prefix: Option<Prefix>,
    /// Bytes of the payload that are read, ascending, at check units.
    pub ranges: Vec<Range<u64>>,
    /// Payload and trailer are read together, in one item of one request; `ranges` is then the payload. A prefix is an
    /// item of its own, and the rest another one.
    pub whole: bool,
    /// The number of the trailer that verifies the ranges; `None` if `whole`, or if only the prefix is read. Works on
    /// the same piece share it.
    pub trailer: Option<usize>,
    /// How exact the transform's values must be, besides the error made when they were written.
    pub precision: Precision,
}

impl ReadPlan {
    /// Bytes of the payloads that are read.
    pub fn payload_bytes(&self) -> u64 {
        self.fetches.iter().fold(0, |sum: u64, fetch| sum.saturating_add(fetch.len()))
    }

    /// The hints to give before the requests are executed: for all payloads, and for the requests for trailers that are
    /// `missing`, which are numbered as in the plan. `slow`: reads may wait for a medium.
    pub fn ahead(&self, missing: impl Fn(usize) -> bool, slow: bool) -> Vec<(u32, Range<u64>)> {
        let payloads = self.fetches.iter().map(|fetch| (fetch.source, fetch.range.clone()));
        let trailers = self.trailers.iter().enumerate().filter(|(number, _)| missing(*number));
        ahead(payloads.chain(trailers.map(|(_, fetch)| (fetch.source, fetch.range.clone()))), slow)
    }
}

impl Work {
    /// The decoded bytes that hold its cells, ascending and disjoint: the ranges that the transform decodes. `form` is
    /// that of its block.
    pub fn wanted(&self, form: &Form) -> Vec<Range<u64>> {
        coded::wanted(&self.part, self.cells.as_deref(), form)
    }
}

/// The purpose of an item of a request: the number of a work, and the bytes of its payload.
pub type Payload = (usize, Range<u64>);

/// A whole read, comparable and printable.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadPlan {
    /// The selected cells as text; empty until the engine sets it.
    pub title: String,
    /// How the bytes are verified, decoded and scattered.
    pub works: Vec<Work>,
    /// Trailers, by number, that verify partial reads; they need not arrive before the other requests.
    pub trailers: Vec<Fetch<usize>>,
    /// Requests for payloads. The bytes of an item that is a whole piece end with padding and trailer, which its
    /// [`Payload`] does not count.
    pub fetches: Vec<Fetch<Payload>>,
    /// Bytes of the cells that some block holds.
    pub wanted_bytes: u64,
    /// Bytes that are read.
    pub read_bytes: u64,
    /// Number of requests.
    pub requests: usize,
    /// Per slot: whether some cells are held by no block and read as the fill value.
    pub fill: Vec<bool>,
    /// Number of blocks that show.
    pub blocks: usize,
    /// Number of subchunks that are touched.
    pub subchunks: usize,
    /// If there are replicas, the cost of each, in the order of their numbers; the one with `chosen` is read.
    pub choices: Vec<Choice>,
    /// The window of requests on a far store; `None` where each thread executes one request at a time.
    pub window: Option<Window>,
    /// How threads execute it on local files; `None` on a far store, and until the engine sets it.
    pub local: Option<LocalRead>,
    /// If the store runs read programs, the decision and the costs for each object.
    pub decisions: Vec<Decision>,
    /// On a far store: the number of round trips one after the other.
    pub rounds: u32,
    /// Predicted seconds on the store, if the engine gave its costs.
    pub predicted: Option<f64>,
    /// Measured seconds, if the plan was executed to measure them.
    pub measured: Option<f64>,
    /// If values are read at reduced precision: bytes and predicted seconds of an exact read.
    pub every_bit: Option<(u64, f64)>,
    /// Bytes of the read that are in the cache folder of the handle, if it has one.
    pub cached: Option<u64>,
    /// Guaranteed largest error of all values, including the error made when they were written.
    pub bound: Bound,
    /// Encoded pieces, with their source, whose metadata was not given and could make the read smaller. They are
    /// planned to be read whole.
    pub unknown: Vec<(u32, StoredPiece)>,
    /// If values are computed: the plan of each input. The numbers above are sums over these plans.
    pub inputs: Vec<ReadPlan>,
}

/// A block that cannot be read. Slot and candidate are numbers in the arguments of [`plan`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PlanError {
    /// Its numbers contradict each other or the selection.
    #[error("block {candidate} of slot {slot} is damaged: {what}")]
    Corrupt { slot: usize, candidate: usize, what: String },
    /// It is stored in a way that this version does not know.
    #[error("block {candidate} of slot {slot} cannot be read by this version: {what}")]
    Unsupported { slot: usize, candidate: usize, what: String },
}

/// Resolves which blocks show in each slot.
pub fn resolve_slots(slots: &[Slot]) -> Result<Vec<Resolved>, PlanError> {
    let one = |(slot, at): (usize, &Slot)| {
        let ndim = at.selection.axes.len();
        let odd = at.candidates.iter().position(|c| usize::from(c.entry.ndim) != ndim || ndim > MAX_NDIM);
        match odd {
            None => Ok(resolve(&at.candidates, &at.selection)),
            Some(candidate) => {
                let found = at.candidates[candidate].entry.ndim;
                let what = format!("it has {found} dimensions where {ndim} are selected");
                Err(PlanError::Corrupt { slot, candidate, what })
            }
        }
    };
    slots.iter().enumerate().map(one).collect()
}

/// The visible blocks that are cut, as (slot, candidate): those whose subchunk table [`plan`] needs.
pub fn needed_tables(slots: &[Slot], resolved: &[Resolved]) -> Vec<(usize, usize)> {
    let mut needed = Vec::new();
    for (number, (slot, resolved)) in slots.iter().zip(resolved).enumerate() {
        for visible in &resolved.visible {
            let cut = slot.candidates.get(visible.candidate).is_some_and(|c| c.entry.subchunks > 1);
            if cut && needed.last() != Some(&(number, visible.candidate)) {
                needed.push((number, visible.candidate));
            }
        }
    }
    needed
}

/// Plans the read of all slots. `resolved` is the result of [`resolve_slots`] for them. `tables` gives, by slot and
/// candidate, the decoded table of each block that [`needed_tables`] named. `metas` gives the metadata of a piece in a
/// source if it is known.
pub fn plan<'t, 'm>(
    slots: &[Slot],
    resolved: &[Resolved],
    tables: impl Fn(usize, usize) -> &'t [Subchunk],
    metas: impl Fn(u32, &StoredPiece) -> Option<&'m [u8]>,
    options: &Options,
) -> Result<ReadPlan, PlanError> {
    let mut planner = Planner::new(options);
    planner.expect(resolved.iter().map(|resolved| resolved.visible.len()).sum());
    let mut chains = Chains::default();
    let mut made: Vec<SubchunkPart> = Vec::new();
    for (number, (slot, resolved)) in slots.iter().zip(resolved).enumerate() {
        planner.plan.fill.push(slot.selection.cells() != Some(resolved.covered));
        let wanted = resolved.covered.saturating_mul(slot.item);
        planner.plan.wanted_bytes = planner.plan.wanted_bytes.saturating_add(wanted);
        for visible in resolved.visible.chunk_by(|a, b| a.candidate == b.candidate) {
            let Some(candidate) = visible.first().map(|visible| visible.candidate) else { continue };
            let Some(Candidate { entry, .. }) = slot.candidates.get(candidate) else { continue };
            let fail = |unfit: piece::Unfit| unfit.at(number, candidate);
            let stored = StoredForm::check(entry, slot).map_err(fail)?;
            let table = if entry.subchunks > 1 { tables(number, candidate) } else { &[] };
            stored.check_table(entry, table).map_err(fail)?;
            made.extend(visible.iter().flat_map(|visible| parts(entry, &slot.selection, visible)));
            if visible.len() > 1 {
                made.sort_by_key(|part| part.subchunk);
            }
            planner.plan.blocks += 1;
            planner.plan.subchunks += made.chunk_by(|a, b| a.subchunk == b.subchunk).count();
            let block = Block { slot: number, candidate, entry, stored };
            let (mut before, alone) = (None, made.len() == 1);
            for part in made.drain(..) {
                let listed = usize::try_from(part.subchunk).ok().and_then(|number| table.get(number));
                let stored = listed.map_or(SubchunkLocation::whole(entry.piece), SubchunkLocation::of);
                block.stored.check_place(&stored, &part).map_err(fail)?;
                let again = before.replace(part.subchunk) == Some(part.subchunk);
                let stats = listed.map_or(&entry.stats, |listed| &listed.stats);
                let shape = part.chunk_shape.get(..usize::from(entry.ndim)).unwrap_or_default();
                planner.lost = chains.loss(entry, (number, slot), shape, stats);
                let precision = options.precision.beside(&planner.lost);
                planner.precision = precision;
                if let Some(prefix) = stored.enough(precision) {
                    planner.add_prefix(&block, (part, None), stored, prefix);
                    continue;
                }
                let unit = block.stored.coded_unit(&stored.piece);
                if unit == 0 || !coded::pays(&stored, &part, None, alone, (options, precision)) {
                    planner.add(&block, part, stored, again);
                    continue;
                }
                match metas(entry.source, &stored.piece) {
                    None => planner.add_unknown(&block, part, None, stored),
                    Some(meta) => {
                        let what = (&part, None);
                        let asked = chains
                            .ask(entry, slot, what, &stored, meta, (options, precision))
                            .map_err(fail)?;
                        planner.add_coded(&block, (part, None), stored, again, asked);
                    }
                }
            }
        }
    }
    Ok(planner.finish())
}

/// A visible block, validated.
struct Block<'a> {
    slot: usize,
    candidate: usize,
    entry: &'a Entry,
    stored: StoredForm,
}

struct Planner<'a> {
    options: &'a Options,
    plan: ReadPlan,
    /// The largest error made when the values of this part were written, and the precision with which they are
    /// therefore read.
    lost: Bound,
    precision: Precision,
    trailers: Vec<(u32, Range<u64>, usize)>,
    payloads: Vec<(u32, Range<u64>, Payload)>,
}

impl<'a> Planner<'a> {
    fn new(options: &'a Options) -> Self {
        Planner {
            options,
            plan: ReadPlan::default(),
            lost: Bound::EXACT,
            precision: options.precision,
            trailers: Vec::new(),
            payloads: Vec::new(),
        }
    }

    /// Records how exact a part will be read.
    fn see(&mut self, read: Bound) {
        self.plan.bound = self.plan.bound.max(read.after(self.lost));
    }

    /// Reserves memory for this many further works.
    fn expect(&mut self, works: usize) {
        self.plan.works.reserve(works);
        self.payloads.reserve(works);
    }

    /// Decides how a part is read. `again` says that the previous part was in the same piece.
    fn add(&mut self, block: &Block<'_>, part: SubchunkPart, place: SubchunkLocation, again: bool) {
        let (gap, most) = (self.options.gap, self.options.max_request);
        let piece = place.piece;
        let stored_len = piece.end() - piece.position;
        let unit = block.stored.unit(&piece);
        let indivisible = unit == 0 || unit >= piece.length;
        if indivisible || (stored_len <= most && part.is_whole()) {
            return self.add_whole(block, part, None, place);
        }
        let touch = |part: &SubchunkPart| touched(part, &block.stored.form, unit, piece.length, gap);
        let ranges = touch(&part);
        // Each request counts as `gap` bytes; the trailer is one more request.
        let read = length(&ranges).saturating_add(piece.trailer);
        let requests = (ranges.len() as u64).saturating_add(1);
        let cost = read.saturating_add(requests.saturating_mul(gap));
        if stored_len <= most && stored_len.saturating_add(gap) <= cost {
            return self.add_whole(block, part, None, place);
        }
        let trailer = Some(self.trailer(block, &piece, again));
        let mut rest = vec![(part, ranges)];
        while let Some((part, ranges)) = rest.pop() {
            // Rounding to check units may add one unit at either end, which is no reason to split again.
            let tolerated = most.saturating_add(unit.saturating_mul(2));
            if length(&ranges) > tolerated
                && let Some((first, second)) = halves(&part, &block.stored.form)
            {
                rest.extend([second, first].map(|half| (half, touch(&half))));
                continue;
            }
            self.add_ranges(block, (part, None), place, ranges, trailer);
        }
    }

    /// Plans to read only the prefix of an encoded piece, which is exact enough.
    fn add_prefix(
        &mut self,
        block: &Block<'_>,
        what: (SubchunkPart, Option<Box<Cells>>),
        place: SubchunkLocation,
        prefix: Prefix,
    ) {
        self.see(bound(&prefix));
        self.add_ranges(block, what, place, vec![0..prefix.length], None);
        // The prefix may be more exact than required. Then its values must be decoded with the precision of its bound.
        if let Some(work) = self.plan.works.last_mut() {
            work.precision = Precision::Level(prefix.level.into());
        }
    }

    /// Plans the read of an encoded piece whose metadata is known: the bytes that its transform needs, or the whole
    /// piece if that is cheaper.
    fn add_coded(
        &mut self,
        block: &Block<'_>,
        what: (SubchunkPart, Option<Box<Cells>>),
        place: SubchunkLocation,
        again: bool,
        asked: Coded,
    ) {
        let trailer = Some(self.trailer(block, &place.piece, again));
        let cost = length(&asked.ranges).saturating_add(self.options.gap * asked.ranges.len() as u64);
        let whole = place.prefix_len().saturating_add(place.piece.end() - place.piece.position);
        if whole.saturating_add(self.options.gap) <= cost {
            return self.add_whole(block, what.0, what.1, place);
        }
        self.see(asked.bound);
        self.add_ranges(block, what, place, asked.ranges, trailer);
    }

    /// Plans to read an encoded piece whole, and reports that its metadata would help.
    fn add_unknown(
        &mut self,
        block: &Block<'_>,
        part: SubchunkPart,
        cells: Option<Box<Cells>>,
        place: SubchunkLocation,
    ) {
        self.plan.unknown.push((block.entry.source, place.piece));
        self.add_whole(block, part, cells, place);
    }

    fn add_whole(
        &mut self,
        block: &Block<'_>,
        part: SubchunkPart,
        cells: Option<Box<Cells>>,
        place: SubchunkLocation,
    ) {
        let (piece, behind) = (place.piece, place.prefix_len());
        let payload = behind..behind.saturating_add(piece.length);
        let mut ranges = Vec::with_capacity(2);
        if let Some(prefix) = place.prefix {
            let range = 0..prefix.length;
            self.payloads.push((
                block.entry.source,
                place.bytes(&range),
                (self.plan.works.len(), range.clone()),
            ));
            ranges.push(range);
        }
        ranges.push(payload.clone());
        let all = piece.position..piece.end();
        self.payloads.push((block.entry.source, all, (self.plan.works.len(), payload)));
        self.push(block, (part, cells), place, (ranges, true), None);
    }

    fn add_ranges(
        &mut self,
        block: &Block<'_>,
        what: (SubchunkPart, Option<Box<Cells>>),
        place: SubchunkLocation,
        ranges: Vec<Range<u64>>,
        trailer: Option<usize>,
    ) {
        for range in &ranges {
            let payload = (self.plan.works.len(), range.clone());
            self.payloads.push((block.entry.source, place.bytes(range), payload));
        }
        self.push(block, what, place, (ranges, false), trailer);
    }

    fn push(
        &mut self,
        block: &Block<'_>,
        (part, cells): (SubchunkPart, Option<Box<Cells>>),
        SubchunkLocation { piece, prefix }: SubchunkLocation,
        (ranges, whole): (Vec<Range<u64>>, bool),
        trailer: Option<usize>,
    ) {
        let (slot, entry) = (block.slot, block.candidate);
        self.see(Bound::EXACT);
        let precision = self.precision;
        self.plan.works.push(Work {
            slot,
            entry,
            part,
            cells,
            piece,
            prefix,
            ranges,
            whole,
            trailer,
            precision,
        });
    }

    /// The number of a piece's trailer: a new one, unless the previous work reads the same trailer.
    fn trailer(&mut self, block: &Block<'_>, piece: &StoredPiece, again: bool) -> usize {
        let last = self.trailers.last().filter(|(source, range, _)| {
            again && (*source, range.start) == (block.entry.source, piece.trailer_position())
        });
        last.map(|(_, _, number)| *number).unwrap_or_else(|| {
            let number = self.trailers.len();
            self.trailers.push((block.entry.source, piece.trailer_position()..piece.end(), number));
            number
        })
    }

    fn finish(self) -> ReadPlan {
        let (gap, most) = (self.options.gap, self.options.max_request);
        let mut plan = self.plan;
        plan.trailers = coalesce(self.trailers, gap, most);
        plan.fetches = coalesce(self.payloads, gap, most);
        plan.requests = plan.trailers.len() + plan.fetches.len();
        plan.read_bytes =
            plan.trailers.iter().fold(plan.payload_bytes(), |sum, fetch| sum.saturating_add(fetch.len()));
        plan
    }
}

fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Divides a part along the slowest dimension, as stored, that has more than one cell.
fn halves(part: &SubchunkPart, form: &Form) -> Option<(SubchunkPart, SubchunkPart)> {
    let d = form.dims().find(|d| part.chunk[*d].2 > 1)?;
    let (first, step, count) = part.chunk[d];
    let taken = count / 2;
    let (mut a, mut b) = (*part, *part);
    a.chunk[d] = (first, step, taken);
    b.chunk[d] = (first.wrapping_add((step as u64).wrapping_mul(taken)), step, count - taken);
    b.dest[d] += taken;
    Some((a, b))
}
