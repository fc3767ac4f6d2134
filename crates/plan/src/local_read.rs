//! How a read of local files is executed: the number of threads, how requests are grouped, and whether bytes
//! come by requests or from mappings.
//!
//! The engine measures processors, load, and the times of earlier reads of the process. This module decides from these
//! values.
//!
//! Invariants
//! - groups are ranges of neighbouring requests to one object, and every request is in one group;
//! - each mode is tried before one is preferred, and the slower one is tried again once in [`AGAIN`] reads;
//! - where requests read bytes directly to their destination, mapping saves no copy and is tried late: measured, it
//!   took between 0.84 and 2.5 times as long.

use std::borrow::Borrow;
use std::ops::Range;

use crate::coalesce::Fetch;
use crate::layout::{CONTENDED_RAW, PARALLEL, read_or_decoded};
use crate::read_plan::{IoMode, LocalRead, ReadPlan, Slot, Work};

/// Memory that the threads of one read may use for buffers.
const BUFFERS: u64 = 28 << 20;
/// Requests of at least this many bytes are executed one by one.
const LARGE: u64 = 64 << 10;
/// Smaller requests to one object are submitted together, up to this many and this many bytes.
const GROUP: usize = 64;
const GROUP_BYTES: u64 = 1 << 20;
/// Raw bytes from which several threads gain where few cells are wanted. Measured: 4.2 MB for a plane took 0.8 to 0.9
/// of the time of one thread, 8.4 MB 0.8 to 1.05, and 2 MB up to 1.5 times.
const READ_FOR_FEW: u64 = 4 << 20;
/// The other mode is tried once in this many reads: speed changes with the load.
pub const AGAIN: u64 = 16;

/// The state of the processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processors {
    /// Threads that a read may use.
    pub allowed: usize,
    /// Idle processors.
    pub idle: usize,
}

/// Measurements of the modes, for reads of similar size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// Least picoseconds per byte of a read, mapped and by requests; 0 before the first one.
    pub least: [u64; 2],
    /// Number of reads.
    pub reads: u64,
}

/// Decides threads and groups; [`mode`] decides the mode.
pub fn local_read(plan: &ReadPlan, slots: &[Slot], processors: Processors, mode: IoMode) -> LocalRead {
    LocalRead { threads: threads(plan, slots, processors), groups: groups(&plan.fetches), mode }
}

/// Whether no block of the plan is encoded.
fn is_raw(plan: &ReadPlan, slots: &[Slot]) -> bool {
    plan.works.iter().all(|work| chain(work, slots).is_none_or(str::is_empty))
}

fn chain<'s>(work: &Work, slots: &'s [Slot]) -> Option<&'s str> {
    let candidate = slots.get(work.slot)?.candidates.get(work.entry)?;
    Some(&candidate.entry.encoding.chain)
}

/// Decoded bytes of the subchunk of a work; 0 if it is raw.
fn decoded(work: &Work, slots: &[Slot]) -> u64 {
    let Some(entry) = slots.get(work.slot).and_then(|s| s.candidates.get(work.entry)).map(|c| &c.entry)
    else {
        return 0;
    };
    if entry.encoding.chain.is_empty() {
        return 0;
    }
    let cell = u64::from(entry.encoding.room()).saturating_mul(entry.encoding.boxes());
    work.part.chunk_shape.iter().fold(cell, |bytes, n| bytes.saturating_mul(*n))
}

/// Bytes of the largest subchunk that is decoded; 0 if all are raw.
pub fn largest_decoded(plan: &ReadPlan, slots: &[Slot]) -> u64 {
    plan.works.iter().map(|work| decoded(work, slots)).max().unwrap_or(0)
}

/// The number of threads that a plan is worth.
pub fn threads(plan: &ReadPlan, slots: &[Slot], processors: Processors) -> usize {
    let decoded = largest_decoded(plan, slots);
    let largest = plan.fetches.iter().map(Fetch::len).max().unwrap_or(0);
    let buffers = largest.saturating_add(decoded.saturating_mul(2));
    let most = processors.allowed.min((BUFFERS / buffers.max(1)).clamp(1, 64) as usize);
    let raw = is_raw(plan, slots);
    match read_or_decoded(plan, slots) {
        ..PARALLEL => 1,
        // Bytes that are read for a few cells stay in a processor's cache; a second thread gains little for small
        // reads.
        ..READ_FOR_FEW if raw && plan.wanted_bytes < PARALLEL => 1,
        ..CONTENDED_RAW if raw => most.min(1 + processors.idle),
        _ => most,
    }
}

/// Whether [`threads`] depends on how many processors are idle, which takes time to find out.
pub fn asks_for_idle(plan: &ReadPlan, slots: &[Slot]) -> bool {
    (PARALLEL..CONTENDED_RAW).contains(&read_or_decoded(plan, slots)) && is_raw(plan, slots)
}

/// Groups of requests that are submitted together: small requests to one object.
pub fn groups<T, F: Borrow<Fetch<T>>>(fetches: &[F]) -> Vec<Range<usize>> {
    let mut groups = Vec::with_capacity(fetches.len());
    let (mut from, mut bytes) = (0, 0);
    for (n, fetch) in fetches.iter().map(F::borrow).enumerate() {
        let joins = fetches.get(from).is_some_and(|first| first.borrow().source == fetch.source)
            && fetch.len() < LARGE
            && bytes + fetch.len() <= GROUP_BYTES
            && n - from < GROUP;
        if n > from && !joins {
            groups.push(from..n);
            (from, bytes) = (n, 0);
        }
        // A large request is a group of its own.
        bytes += if fetch.len() < LARGE { fetch.len() } else { GROUP_BYTES };
    }
    groups.extend((from < fetches.len()).then_some(from..fetches.len()));
    groups
}

/// The mode of a read. `straight`: requests would read bytes directly to their destination.
pub fn mode(known: Modes, straight: bool) -> IoMode {
    let Modes { least, reads } = known;
    match least {
        [_, 0] => IoMode::Requests,
        [0, _] if straight && reads < AGAIN - 1 => IoMode::Requests,
        [0, _] => IoMode::Mapped,
        [mapped, requested] if (mapped <= requested) == (reads % AGAIN != AGAIN - 1) => IoMode::Mapped,
        _ => IoMode::Requests,
    }
}

/// Whether requests read the cells of a plan directly to their places in a dense destination of elements of
/// `item` bytes, judged by the first, the middle and the last request.
pub fn is_straight(plan: &ReadPlan, slots: &[Slot], item: u64) -> bool {
    let (first, middle) = (plan.fetches.first(), plan.fetches.get(plan.fetches.len() / 2));
    let some = [first, middle, plan.fetches.last()].into_iter().flatten();
    let mut items = some.flat_map(|fetch| fetch.items.first().into_iter().chain(fetch.items.last()));
    items.all(|(_, (number, payload))| {
        let work = plan.works.get(*number);
        work.is_some_and(|work| is_one_run(work, payload, slots, item).unwrap_or(false))
    })
}

/// The bytes of the destination that a payload of a raw work fills, if they are one run; `None` where the
/// plan contradicts itself.
fn is_one_run(work: &Work, payload: &Range<u64>, slots: &[Slot], item: u64) -> Option<bool> {
    let slot = slots.get(work.slot)?;
    let entry = &slot.candidates.get(work.entry)?.entry;
    let form = slot.form(entry)?;
    let dense = form.curve.is_none() && form.room == form.item && form.item == item && work.cells.is_none();
    let all = work.part.cells().checked_mul(item) == Some(payload.end - payload.start);
    if !dense || !all || !entry.encoding.chain.is_empty() || work.ranges.len() != 1 {
        return Some(false);
    }
    let stored = form.strides(&work.part.chunk_shape);
    let shape = slot.selection.shape();
    let (mut run, mut apart) = (item, item);
    for d in (0..shape.len()).rev() {
        let (_, step, count) = *work.part.chunk.get(d)?;
        let from = i64::try_from(*stored.get(d)?).ok()?.checked_mul(step)?;
        if count > 1 && (i64::try_from(run).ok()? != from || run != apart) {
            return Some(false);
        }
        run = run.checked_mul(count)?;
        apart = apart.checked_mul(*shape.get(d)?)?;
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(source: u32, range: Range<u64>) -> Fetch<u8> {
        Fetch { source, range, items: Vec::new() }
    }

    #[test]
    fn small_requests_to_one_object_are_a_group() {
        let fetches =
            [fetch(0, 0..10), fetch(0, 20..30), fetch(1, 0..10), fetch(1, 50..60), fetch(1, 100..200_000)];
        assert_eq!(groups(&fetches), [0..2, 2..4, 4..5]);
        assert_eq!(groups::<u8, Fetch<u8>>(&[]), []);
        let many: Vec<_> = (0..130).map(|n| fetch(0, n * 100..n * 100 + 1)).collect();
        assert_eq!(groups(&many), [0..64, 64..128, 128..130]);
        let long: Vec<_> = (0..40).map(|n| fetch(0, n << 16..(n << 16) + (60 << 10))).collect();
        assert_eq!(groups(&long), [0..17, 17..34, 34..40], "a group is at most a MiB");
    }

    #[test]
    fn both_modes_are_tried_and_the_faster_is_taken_but_for_one_read_in_sixteen() {
        let after = |mapped, requested, reads| mode(Modes { least: [mapped, requested], reads }, false);
        assert_eq!(after(0, 0, 0), IoMode::Requests);
        assert_eq!(after(0, 700, 1), IoMode::Mapped);
        assert_eq!((after(500, 700, 2), after(500, 700, 15)), (IoMode::Mapped, IoMode::Requests));
        assert_eq!((after(900, 700, 2), after(900, 700, 15)), (IoMode::Requests, IoMode::Mapped));
    }

    #[test]
    fn what_comes_straight_to_its_place_is_mapped_late() {
        let after = |reads| mode(Modes { least: [0, 700], reads }, true);
        assert_eq!((after(1), after(14), after(15)), (IoMode::Requests, IoMode::Requests, IoMode::Mapped));
    }

    #[test]
    fn a_plan_without_requests_is_done_by_the_caller() {
        let plan = ReadPlan::default();
        let local = local_read(&plan, &[], Processors { allowed: 8, idle: 7 }, IoMode::Requests);
        assert_eq!(local.to_string(), "1 thread, 0 groups of requests, raw cells by requests");
    }

    #[test]
    fn threads_follow_bytes_memory_and_idle_processors() {
        let processors = Processors { allowed: 8, idle: 2 };
        let plan = |requests: u64, each: u64, wanted_bytes| {
            let one = |n| Fetch { source: 0, range: n * each..(n + 1) * each, items: Vec::new() };
            ReadPlan { fetches: (0..requests).map(one).collect(), wanted_bytes, ..ReadPlan::default() }
        };
        let threads = |requests, each, wanted| threads(&plan(requests, each, wanted), &[], processors);
        assert_eq!(threads(1, 1 << 20, 1 << 20), 1, "little");
        assert_eq!(threads(3, 1 << 20, 3 << 20), 3, "contended: idle processors and the caller's");
        assert_eq!(threads(3, 1 << 20, 1 << 10), 1, "few cells");
        assert_eq!(threads(64, 1 << 20, 64 << 20), 8);
        assert_eq!(threads(8, 14 << 20, 100 << 20), 2, "28 MiB of buffers");
        assert!(asks_for_idle(&plan(3, 1 << 20, 0), &[]) && !asks_for_idle(&plan(64, 1 << 20, 0), &[]));
    }
}
