//! Conditions tested where the bytes are: programs carry boxes of a variable and a condition to the store, and the
//! cells that satisfy it come back.
//!
//! A query tests many boxes at once, so that boxes of one object become one program. Overlaps are resolved before
//! anything is sent: each program covers only the visible parts of subchunks.
//!
//! Invariants
//! - programs settle a box completely or not at all; an unsettled box is read by the caller;
//! - cells that were never written are in no program, so they never satisfy a condition.

use std::collections::BTreeSet;
use std::time::Instant;

use drystone_plan::programs::{Call, Limits, Programs, calls_where, decide, each_run};
use drystone_plan::read_plan::{self, Options, ReadPlan};
use drystone_plan::selection::Selection;
use drystone_program::{Answer, Condition, Hits, Payload, Reply as Frames};

use super::{Calls, READ_2, Sources, asked, pool};
use crate::Result;
use crate::read::{Prepared, ReadReport, Reading};

/// A box in which a condition is tested.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// The cells of the box. If the variable has steps, the step comes first and is a single one.
    pub(crate) selection: Selection,
}

/// The outcome of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tried {
    /// The number of cells that satisfy the condition.
    pub(crate) count: u64,
    /// A bit for each cell of the box in row-major order, if cells were requested.
    pub(crate) cells: Vec<u64>,
    /// The values of these cells in that order, if values were requested.
    pub(crate) values: Vec<u8>,
}

/// Where the trials of a condition run, and why.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Way {
    /// The number of trials that programs settle, and the number of all trials.
    pub(crate) there: usize,
    pub(crate) of: usize,
    /// Number of programs, bytes transferred for them, and predicted seconds.
    pub(crate) programs: (u64, u64, f64),
    /// Bytes transferred if ranges were read instead, and predicted seconds.
    pub(crate) ranges: (u64, f64),
    /// Why some trials do not run at the store.
    pub(crate) reason: Option<String>,
}

/// Calls that are ready to be sent.
struct Ready {
    prepared: Prepared,
    calls: Vec<Call>,
    /// For each trial, whether the calls settle it.
    settled: Vec<bool>,
    way: Way,
}

impl Reading {
    /// Tests a condition on the values of boxes at the store, if that is cheaper than reading them. Returns `None`
    /// for boxes that must be read. The report has the cost.
    pub(crate) fn try_there(
        &self,
        trials: &[Trial],
        condition: &Condition,
    ) -> Result<(Vec<Option<Tried>>, ReadReport)> {
        let mut out: Vec<Option<Tried>> = vec![None; trials.len()];
        let log = self.clone().from_log();
        let sources = Sources::of(&log);
        let Ok(Ok(ready)) = log.ready(trials, condition, &sources) else {
            return Ok((out, ReadReport::default()));
        };
        let mut found: Vec<Found> = Vec::with_capacity(trials.len());
        for (slot, _) in ready.prepared.slots.iter().zip(trials) {
            let shape = slot.selection.shape();
            let cells = shape.iter().product::<u64>() as usize;
            let words = if condition.answer == Answer::Count { 0 } else { cells.div_ceil(64) };
            found.push(Found {
                shape,
                tried: Tried { cells: vec![0; words], ..Tried::default() },
                at: Vec::new(),
            });
        }
        let began = Instant::now();
        let calls = Calls::new(&log, READ_2, &ready.calls, &sources)?;
        let pool = pool::of(log.inner.store.as_ref());
        let (mut failed, mut report, mut decoded) = (BTreeSet::new(), ReadReport::default(), 0);
        while let Some((call, outcome)) = calls.next() {
            let taken = match &outcome {
                Ok(reply) => {
                    report.read_bytes += (reply.len() + call.bytes.len()) as u64;
                    decoded += call.work;
                    take(call, &ready.prepared.plan, reply, condition, &mut found).is_some()
                }
                Err(error) => {
                    pool.failed(&log.inner, error);
                    false
                }
            };
            calls.placed(call);
            if !taken {
                let works = call.works.iter().filter_map(|work| ready.prepared.plan.works.get(*work));
                failed.extend(works.map(|work| work.slot));
            }
        }
        report.requests = ready.calls.len() as u64;
        if failed.is_empty() {
            pool.took(began.elapsed(), report.read_bytes, decoded, ready.calls.len());
        }
        let size = condition.dtype.size();
        for (trial, (found, is_settled)) in found.into_iter().zip(ready.settled).enumerate() {
            if is_settled && !failed.contains(&trial) {
                out[trial] = Some(found.finish(size));
            }
        }
        Ok((out, report))
    }

    /// Where the trials would run, and why. Nothing is tested.
    pub(crate) fn way_of(&self, trials: &[Trial], condition: &Condition) -> Result<Way> {
        let log = self.clone().from_log();
        let sources = Sources::of(&log);
        Ok(match log.ready(trials, condition, &sources)? {
            Ok(ready) => ready.way,
            Err(reason) => Way { of: trials.len(), reason: Some(reason), ..Way::default() },
        })
    }

    /// The calls for trials, or why there are none.
    fn ready(
        &self,
        trials: &[Trial],
        condition: &Condition,
        sources: &Sources<'_>,
    ) -> Result<std::result::Result<Ready, String>> {
        let inner = &self.inner;
        if inner.window().is_none() {
            return Ok(Err("the container is on this machine".into()));
        }
        if !inner.store.features().exec {
            return Ok(Err("the store runs no read programs".into()));
        }
        if self.programs == Programs::Never {
            return Ok(Err("read programs are switched off".into()));
        }
        if self.item as usize != condition.dtype.size() {
            return Ok(Err("its elements are stored in another type".into()));
        }
        let mut slots = Vec::with_capacity(trials.len());
        let mut columns = Vec::new();
        for trial in trials {
            let (steps, cells) = self.split(&trial.selection);
            let sought = self.sought(&steps, &cells)?;
            let (Ok([slot]), [_]) = (<[_; 1]>::try_from(sought.slots), sought.columns.as_slice()) else {
                return Ok(Err("its elements are stored in parts".into()));
            };
            slots.push(slot);
            columns = sought.columns;
        }
        let slots = read_plan::offered(&slots, 0);
        let fail = |error| self.plan_error(&slots, sources, error);
        let resolved = read_plan::resolve_slots(&slots).map_err(fail)?;
        let tables = self.tables(&slots, &resolved, sources)?;
        let get = |slot, candidate| tables.get(&(slot, candidate)).map_or(&[][..], |t| t.as_slice());
        // Trailers are not requested: the store's program reads their metadata.
        let options = Options { max_request: 16 << 20, ..self.options() };
        let plan = read_plan::plan(&slots, &resolved, get, |_, _| None, &options).map_err(fail)?;
        let prepared = Prepared { columns, slots, listings: Vec::new(), resolved: Vec::new(), plan };
        if prepared.plan.works.is_empty() {
            return Ok(Err("nothing is stored there".into()));
        }
        let rates = match asked(self, &prepared, sources)? {
            Some(Ok(rates)) => rates,
            Some(Err(reason)) => return Ok(Err(reason)),
            None => return Ok(Err("the store runs no read programs for these objects".into())),
        };
        if !pool::of(inner.store.as_ref()).counts() {
            let store = inner.store.describe();
            return Ok(Err(format!("{store} runs read programs of version 1, which send values back")));
        }
        let Prepared { plan, slots, .. } = &prepared;
        let made = calls_where(plan, slots, |_| Some(condition), &Limits::OBJECT_CLASS);
        let decisions = decide(plan, slots, &made, &rates, self.programs);
        let mut way = Way { of: trials.len(), ..Way::default() };
        let chosen: BTreeSet<u32> = decisions.iter().filter(|one| one.chosen).map(|one| one.source).collect();
        for one in &decisions {
            if let (Ok((bytes, seconds, programs)), true) = (&one.programs, one.chosen) {
                way.programs.0 += *programs as u64;
                (way.programs.1, way.programs.2) = (way.programs.1 + bytes, way.programs.2 + seconds);
                (way.ranges.0, way.ranges.1) = (way.ranges.0 + one.ranges.0, way.ranges.1 + one.ranges.1);
            } else {
                way.reason.get_or_insert_with(|| match &one.programs {
                    Err(reason) => reason.clone(),
                    Ok((bytes, seconds, _)) => format!(
                        "programs would take {:.3} ms for {bytes} bytes, ranges {:.3} ms for {} bytes",
                        seconds * 1e3,
                        one.ranges.1 * 1e3,
                        one.ranges.0
                    ),
                });
            }
        }
        let mut settled = vec![true; trials.len()];
        for work in &plan.works {
            let source = slots.get(work.slot).and_then(|slot| slot.candidates.get(work.entry));
            if !source.is_some_and(|candidate| chosen.contains(&candidate.entry.source)) {
                settled[work.slot] = false;
            }
        }
        way.there = settled.iter().filter(|is| **is).count();
        if way.there == 0 || way.programs.0 == 0 {
            return Ok(Err(way.reason.unwrap_or_else(|| "nothing is stored there".into())));
        }
        let works = plan.works.iter().filter(|work| settled[work.slot]).cloned().collect();
        let plan = ReadPlan { works, ..ReadPlan::default() };
        let made = calls_where(&plan, slots, |_| Some(condition), &Limits::OBJECT_CLASS);
        let calls: std::result::Result<Vec<Vec<Call>>, _> = made.into_values().collect();
        let calls = match calls {
            Ok(calls) => calls.into_iter().flatten().collect(),
            Err(reason) => return Ok(Err(reason.to_owned())),
        };
        Ok(Ok(Ready { prepared: Prepared { plan, ..prepared }, calls, settled, way }))
    }
}

/// The hits found in a box so far.
struct Found {
    shape: Vec<u64>,
    tried: Tried,
    /// The cells whose values are present, in the order of the values.
    at: Vec<u32>,
}

impl Found {
    /// Adds the hits of one part of the box. `None` if they do not fit the box.
    fn take(&mut self, part: &drystone_plan::parts::SubchunkPart, hits: &Hits<'_>) -> Option<()> {
        (u64::from(hits.of) == part.cells()).then_some(())?;
        self.tried.count += u64::from(hits.count);
        let Some(cells) = &hits.cells else { return Some(()) };
        let mut rest = cells.iter().peekable();
        let (set, at, has_values) = (&mut self.tried.cells, &mut self.at, !hits.values.is_empty());
        each_run(part, &self.shape, |packed, cell, len| {
            while let Some(hit) = rest.next_if(|hit| u64::from(**hit) < packed + len) {
                let cell = (cell + (u64::from(*hit) - packed)) as usize;
                if let Some(word) = set.get_mut(cell / 64) {
                    *word |= 1 << (cell % 64);
                }
                if has_values {
                    at.push(cell as u32);
                }
            }
        });
        self.tried.values.extend_from_slice(hits.values);
        rest.next().is_none().then_some(())
    }

    /// Sorts the values into the order of cells, since parts arrive in any order.
    fn finish(self, size: usize) -> Tried {
        let Found { mut tried, at, .. } = self;
        if at.windows(2).any(|pair| pair[0] > pair[1]) {
            let mut order: Vec<usize> = (0..at.len()).collect();
            order.sort_unstable_by_key(|n| at[*n]);
            let value = |n: &usize| tried.values.get(n * size..(n + 1) * size).unwrap_or_default();
            tried.values = order.iter().flat_map(value).copied().collect();
        }
        tried
    }
}

/// Adds the content of a reply. `None` if something is missing or damaged.
fn take(
    call: &Call,
    plan: &ReadPlan,
    reply: &[u8],
    condition: &Condition,
    found: &mut [Found],
) -> Option<()> {
    let mut done = vec![false; call.works.len()];
    for frame in Frames::new(reply).ok()? {
        let frame = frame.ok()?;
        let item = frame.item? as usize;
        let work = plan.works.get(*call.works.get(item)?)?;
        let Payload::Hits(bytes) = frame.payload else { return None };
        let hits = Hits::decode(bytes, condition).ok()?;
        if frame.place != 0 || std::mem::replace(done.get_mut(item)?, true) {
            return None;
        }
        found.get_mut(work.slot)?.take(&work.part, &hits)?;
    }
    done.into_iter().all(|done| done).then_some(())
}
