//! Read programs for a read plan: which objects the storage servers read, decode and gather, and with which program.
//!
//! [`calls`] makes the programs of a plan, object by object. [`decide`] compares the cost of programs and of ranges for
//! each object. [`ReadPlan::divided`] takes the objects that are read by programs out of the plan. A program returns
//! packed cells, and [`packed`] says where they go. [`calls_where`] makes programs that return the cells which satisfy
//! conditions; [`hits`] says where these go.
//!
//! Invariants
//! - either all works of an object are read by programs, or none is;
//! - every program is within the limits of its object's server.

mod decision;
mod gather;
mod hits;

use std::collections::{BTreeMap, BTreeSet};

use drystone_format::piece::StoredPiece;
use drystone_program::{Arrangement, Condition, Cost, Curved, Item, MAX_ITEMS, Mode, Program};
use drystone_transform::Precision;

use crate::form::{self, Form};
use crate::parts::SubchunkPart;
use crate::read_plan::{PUBLISHED, ReadPlan, Slot, Work};

pub use decision::{Programs, Rates, decide};
pub use gather::packed;
pub use hits::{each_run, expected};

/// Limits of one call: a larger program is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the results of a call that has more than one item.
    pub result: u64,
    /// Bytes read and decoded in a call that has more than one item.
    pub decoded: u64,
    /// Items of a call; an encoded item has about 112 bytes.
    pub items: usize,
}

impl Limits {
    /// The work of some tens of milliseconds of a storage daemon.
    pub const OBJECT_CLASS: Limits = Limits { result: 8 << 20, decoded: 16 << 20, items: 1500 };
}

/// One program for one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The object, as a source of the plan.
    pub source: u32,
    /// The works whose cells the program's items return, by their numbers in the plan.
    pub works: Vec<usize>,
    /// The program; its items are in the order of the works.
    pub program: Program,
    /// The encoded program, as it is sent.
    pub bytes: Vec<u8>,
    /// Its cost on the server.
    pub cost: Cost,
    /// Bytes of the returned cells; where conditions decide, the expected number.
    pub result: u64,
    /// The most bytes of the returned cells.
    pub most: u64,
    /// Bytes that the object's keeper reads or decodes, whichever are more. Only those units of raw pieces count that
    /// hold wanted cells.
    pub work: u64,
}

/// The programs of each object, or why there are none.
pub type Calls = BTreeMap<u32, Result<Vec<Call>, &'static str>>;

/// The programs of each object of a plan, or the reason why no program can read it. `narrow`: cells are float64 and are
/// wanted as float32.
pub fn calls(plan: &ReadPlan, slots: &[Slot], limits: &Limits, narrow: bool) -> Calls {
    made(plan, slots, |_| None, (limits, narrow))
}

/// Like [`calls`], where slots may have a condition: only cells that satisfy it are returned.
pub fn calls_where<'c>(
    plan: &ReadPlan,
    slots: &[Slot],
    conditions: impl Fn(usize) -> Option<&'c Condition>,
    limits: &Limits,
) -> Calls {
    made(plan, slots, conditions, (limits, false))
}

fn made<'c>(
    plan: &ReadPlan,
    slots: &[Slot],
    conditions: impl Fn(usize) -> Option<&'c Condition>,
    (limits, narrow): (&Limits, bool),
) -> Calls {
    let mut made: BTreeMap<u32, Result<Making, &'static str>> = BTreeMap::new();
    for (number, work) in plan.works.iter().enumerate() {
        let Some((slot, entry)) =
            slots.get(work.slot).and_then(|slot| Some((slot, &slot.candidates.get(work.entry)?.entry)))
        else {
            continue;
        };
        let of_source = made.entry(entry.source).or_insert_with(|| Ok(Making::default()));
        let Ok(making) = of_source else { continue };
        if let Err(reason) = making.add((number, work), slot, conditions(work.slot), (limits, narrow)) {
            *of_source = Err(reason);
        }
    }
    let finished = |(source, making): (u32, Result<Making, &'static str>)| {
        (source, making.and_then(|m| m.finish(source)))
    };
    made.into_iter().map(finished).collect()
}

#[derive(Default)]
struct Making {
    done: Vec<Made>,
    at: Made,
    before: Option<StoredPiece>,
}

/// A call under construction.
#[derive(Default)]
struct Made {
    program: Program,
    works: Vec<usize>,
    result: u64,
    most: u64,
    work: u64,
}

const TOO_MANY: &str = "too many cells that form no box";

impl Making {
    fn add(
        &mut self,
        (number, work): (usize, &Work),
        slot: &Slot,
        condition: Option<&Condition>,
        (limits, narrow): (&Limits, bool),
    ) -> Result<(), &'static str> {
        let entry = &slot.candidates.get(work.entry).ok_or("a block that is not there")?.entry;
        if entry.encoding.replica == PUBLISHED {
            return Err("published chunks are read by their own codecs");
        }
        let form = slot.form(entry).ok_or("a layout that is not known")?;
        let ndim = usize::from(entry.ndim);
        let shape = work.part.chunk_shape.get(..ndim).unwrap_or_default();
        let logical = form.logical(&slot.logical(shape));
        let room = u64::from(entry.encoding.room()).saturating_mul(entry.encoding.boxes());
        let decoded = shape.iter().fold(room, |bytes, n| bytes.saturating_mul(*n));
        let decoded = u32::try_from(decoded).map_err(|_| "a subchunk of 4 GiB")?;
        let curve = curved(&form, shape)?;
        let source_len = match &curve {
            Some(curved) => curved.cells().saturating_mul(curved.item.into()),
            None => decoded.into(),
        };
        let rule = gather::rule(work, &form, source_len, narrow).ok_or(TOO_MANY)?;
        let again = self.before == Some(work.piece);
        let (result, most) = match condition {
            None => (rule.dst_len(), rule.dst_len()),
            Some(condition) => {
                hits::expected(rule.dst_len(), condition.dtype.size() as u64, condition.answer)
            }
        };
        let is_raw_part = !work.whole && entry.encoding.chain.is_empty() && curve.is_none();
        let stored = work.piece.end().saturating_sub(work.piece.position);
        let bytes = match (is_raw_part, again) {
            (true, _) => work.ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum(),
            (false, true) => 0,
            (false, false) => stored.max(u64::from(decoded)),
        };
        let full = self.at.most.saturating_add(most) > limits.result
            || self.at.work.saturating_add(bytes) > limits.decoded
            || self.at.works.len() >= limits.items.min(MAX_ITEMS);
        if full && !self.at.works.is_empty() {
            self.done.push(std::mem::take(&mut self.at));
        }
        let at = &mut self.at;
        at.result = at.result.saturating_add(result);
        at.most = at.most.saturating_add(most);
        at.work = at.work.saturating_add(bytes);
        let full = "too many forms of subchunks";
        let chain = at.program.chain(&entry.encoding.chain).ok_or(full)?;
        let arrangement =
            at.program.arrangement(Arrangement { chain, decoded, logical, curve }).ok_or(full)?;
        let rule = at.program.rule(rule).ok_or(full)?;
        let condition = match condition {
            Some(condition) => Some(at.program.condition(condition.clone()).ok_or(full)?),
            None => None,
        };
        let (mode, precision) = match (&work.prefix, work.trailer) {
            _ if work.whole => (Mode::Whole, Precision::Exact),
            (Some(_), None) => (Mode::Prefix, work.precision),
            _ => (Mode::Part, work.precision),
        };
        let prefix = work.prefix.map(|prefix| prefix.piece());
        let piece = work.piece;
        at.program.items.push(Item { arrangement, rule, condition, mode, precision, piece, prefix });
        at.works.push(number);
        self.before = Some(piece);
        Ok(())
    }

    fn finish(mut self, source: u32) -> Result<Vec<Call>, &'static str> {
        if !self.at.works.is_empty() {
            self.done.push(self.at);
        }
        let finish = |Made { program, works, result, most, work }: Made| {
            let bytes = program.encode().map_err(|_| "a program that is too long")?;
            let cost = program.cost();
            Ok(Call { source, works, bytes, cost, result, most, work, program })
        };
        self.done.into_iter().map(finish).collect()
    }
}

fn curved(form: &Form, shape: &[u64]) -> Result<Option<Curved>, &'static str> {
    let curve = match form.curve {
        None => return Ok(None),
        Some(form::Curve::Morton) => drystone_curve::Curve::Morton,
        Some(form::Curve::Hilbert) => drystone_curve::Curve::Hilbert,
    };
    let short = |n: u64| u32::try_from(n).map_err(|_| "a subchunk of 4 GiB");
    let shape = shape.iter().map(|n| short(*n)).collect::<Result<_, _>>()?;
    let (room, at, item) = (short(form.room)?, short(form.at)?, short(form.item)?);
    Ok(Some(Curved { curve, room, at, item, shape }))
}

impl ReadPlan {
    /// Divides the plan into the reads of other objects and the reads of these. Works are renumbered in both plans;
    /// slots are unchanged. The first plan fills the cells that no block holds.
    pub fn divided(&self, slots: &[Slot], sources: &BTreeSet<u32>) -> (ReadPlan, ReadPlan) {
        let is_theirs = |work: &Work| {
            let entry = slots.get(work.slot).and_then(|slot| slot.candidates.get(work.entry));
            entry.is_some_and(|candidate| sources.contains(&candidate.entry.source))
        };
        let part = |theirs: bool| {
            let mut new = vec![None; self.works.len()];
            let mut works = Vec::new();
            for (number, work) in self.works.iter().enumerate().filter(|(_, work)| is_theirs(work) == theirs)
            {
                if let Some(place) = new.get_mut(number) {
                    *place = Some(works.len());
                }
                works.push(work.clone());
            }
            let mut fetches: Vec<_> = self
                .fetches
                .iter()
                .filter(|fetch| sources.contains(&fetch.source) == theirs)
                .cloned()
                .collect();
            for (_, (number, _)) in fetches.iter_mut().flat_map(|fetch| &mut fetch.items) {
                *number = new.get(*number).copied().flatten().unwrap_or(usize::MAX);
            }
            let trailers = self.trailers.iter().filter(|fetch| sources.contains(&fetch.source) == theirs);
            let trailers: Vec<_> = trailers.cloned().collect();
            let read_bytes = trailers.iter().map(|t| t.len()).chain(fetches.iter().map(|f| f.len()));
            let read_bytes = read_bytes.fold(0, u64::saturating_add);
            let requests = trailers.len() + fetches.len();
            let fill = if theirs { vec![false; self.fill.len()] } else { self.fill.clone() };
            ReadPlan { works, trailers, fetches, read_bytes, requests, fill, ..self.clone() }
        };
        (part(false), part(true))
    }
}

/// The part of a work as its cells are packed: a whole subchunk of its own.
fn packed_part(part: &SubchunkPart) -> SubchunkPart {
    let counts = part.chunk.map(|(_, _, count)| count);
    SubchunkPart { chunk_shape: counts, chunk: counts.map(|count| (0, 1, count)), ..*part }
}
