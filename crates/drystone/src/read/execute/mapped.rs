//! Raw cells read through memory maps. Each check unit is verified, and its rows are copied to their places while it
//! is in the processor's cache. The parts of a row that lie in neighbouring subchunks are written together.
//!
//! Invariants
//! - mapped bytes are only checksummed and copied, never decoded: trailers are copied before they are decoded;
//! - no byte is placed before its unit was verified;
//! - cells that this module cannot read are left to the requests of the plan, which report errors.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use drystone_copy::{Abreast, LaneBytes};
use drystone_plan::local_read;
use drystone_plan::read_plan::{IoMode, ReadPlan, Work};
use drystone_store::{LocalFiles, Mapped};
use drystone_transform::checks::crc32c;

use super::io_modes::{IoModes, Trial};
use super::{Job, each_on, trailers};
use crate::Result;
use crate::base::error::rule_error;
use crate::read::{Prepared, Reading};

/// Observations of reads that could be mapped, in this process.
static MODES: IoModes = IoModes::new();
/// Approximate bytes that are mapped together: the maximum, and the value if several threads share a read.
const WINDOWS: (u64, u64) = (4 << 20, 1 << 20);
/// Ranges of a file that lie no farther apart are mapped as one.
const HOLE: u64 = 16 << 10;
/// Shorter runs are scattered by kernels for short runs.
const SHORTEST: usize = 64;
/// Narrower rows begin and end inside cache lines too often.
const NARROW: u64 = 512;
/// Runs of at least this many bytes gain nothing from being written together with their neighbours.
const WIDE: u64 = 16 << 10;
/// The most subchunks side by side: each is one stream of rows.
const LANES: usize = 48;
/// About how much of each subchunk is copied before the next one is verified; also the prefetch distance in bytes.
const STEP: u64 = 16 << 10;

/// Rows of subchunks that lie side by side.
struct Strip {
    /// The numbers of the works, one for each lane.
    works: Vec<usize>,
    abreast: Abreast,
    rows: Range<u64>,
    /// Ranges of the file, ascending in each lane.
    ranges: Vec<Range<u64>>,
}

/// Strips whose bytes are mapped together.
struct Share {
    source: u32,
    strips: Vec<Strip>,
}

/// The mapped part of a lane.
struct Lane<'a> {
    work: &'a Work,
    bytes: &'a [u8],
    /// The position of `bytes` in the payload, at a unit.
    start: u64,
    unit: u64,
    /// The checksums of the units.
    checks: Vec<u32>,
    /// The number of verified units.
    verified: usize,
}

/// The bytes of a plan that the store maps in a mode chosen from observations; `None` if it maps none. The second
/// value is true if the store always maps them.
fn mappable(reading: &Reading, plan: &ReadPlan) -> Option<(u64, bool)> {
    let least = reading.inner.store.local().and_then(LocalFiles::maps_from)?;
    let bytes = plan.payload_bytes();
    // For a destination that stays in the caches, reading into it is as fast as mapping.
    (bytes.min(plan.wanted_bytes) >= least).then_some((bytes, least == 0))
}

/// Begins a read of a plan: chooses its mode, and the trial to which its time belongs. `None` if the store maps none
/// of it.
pub(super) fn begin(reading: &Reading, prepared: &Prepared, dense: bool) -> Option<Trial<'static>> {
    let (bytes, always) = mappable(reading, &prepared.plan)?;
    Some(if always { Trial::mapped() } else { MODES.begin(bytes, is_straight(reading, prepared, dense)) })
}

/// The mode that a read of a plan would have now.
pub(super) fn next_mode(reading: &Reading, prepared: &Prepared) -> IoMode {
    match mappable(reading, &prepared.plan) {
        None => IoMode::Requests,
        Some((_, true)) => IoMode::Mapped,
        Some((bytes, false)) => MODES.next(bytes, is_straight(reading, prepared, true)),
    }
}

fn is_straight(reading: &Reading, prepared: &Prepared, dense: bool) -> bool {
    dense
        && prepared.listings.is_empty()
        && local_read::is_straight(&prepared.plan, &prepared.slots, reading.item.into())
}

impl Job<'_> {
    /// Reads the works that the store maps. Returns which works are left, and the trial if its time shows which mode
    /// is faster.
    pub(super) fn take_mapped(
        &self,
        plan: &ReadPlan,
        threads: usize,
        trial: Option<Trial<'static>>,
    ) -> Result<(Vec<bool>, Option<Trial<'static>>)> {
        let mut open = vec![true; plan.works.len()];
        let Some(trial) = trial else { return Ok((open, None)) };
        if trial.mode == IoMode::Requests {
            // Only bytes in memory show which mode is faster. A first time that includes the device would mislead.
            let says = !trial.first || self.seem_in_memory(plan);
            return Ok((open, says.then_some(trial)));
        }
        let shares = self.shares(plan, threads)?;
        let taken: Vec<AtomicBool> = shares.iter().map(|_| AtomicBool::new(false)).collect();
        // If one share is not in memory, others will not be. Asking for each would disturb the kernel's read-ahead.
        let all_mapped = AtomicBool::new(true);
        each_on(threads, shares.len(), &|n, _| {
            let done = all_mapped.load(Ordering::Relaxed) && self.take(&shares[n])?;
            taken[n].store(done, Ordering::Relaxed);
            all_mapped.fetch_and(done, Ordering::Relaxed);
            Ok(())
        })?;
        // A work may have strips in several shares. It is done when all of them were copied.
        for state in [true, false] {
            let shares =
                shares.iter().zip(&taken).filter(|(_, taken)| taken.load(Ordering::Relaxed) == state);
            for number in shares.flat_map(|(share, _)| &share.strips).flat_map(|strip| &strip.works) {
                open[*number] = !state;
            }
        }
        let all = !shares.is_empty() && all_mapped.load(Ordering::Relaxed);
        Ok((open, all.then_some(trial)))
    }

    /// Whether the store would map the beginnings of the first and of the last request.
    fn seem_in_memory(&self, plan: &ReadPlan) -> bool {
        [plan.fetches.first(), plan.fetches.last()].into_iter().flatten().all(|fetch| {
            let begin = fetch.range.start..fetch.range.end.min(fetch.range.start + STEP);
            let files = self.reading.inner.store.local();
            let mapped = self.sources.key(fetch.source).map(|key| files.and_then(|f| f.map(&key, &[begin])));
            matches!(mapped, Ok(Some(_)))
        })
    }

    /// The shares of the plan that can be mapped, for this many threads.
    fn shares(&self, plan: &ReadPlan, threads: usize) -> Result<Vec<Share>> {
        let bytes = plan.payload_bytes();
        let (most, least) = WINDOWS;
        let window = if threads < 2 { most } else { (bytes / threads as u64).clamp(least, most) };
        let mut copies = Vec::new();
        for (number, work) in plan.works.iter().enumerate().filter(|(_, work)| self.suits(work)) {
            let form = self.form(work)?;
            let copy = self.copy(work, &work.part, &form, 0)?;
            if form.curve.is_none() && form.room == form.item && copy.elem_bytes() >= SHORTEST {
                copies.push((work.slot, self.entry(work).source, copy, number));
            }
        }
        copies.sort_by_key(|(slot, source, copy, _)| (*slot, *source, copy.dst_offset()));
        let mut strips = Vec::new();
        let mut rest = copies.as_slice();
        while let Some((slot, source, first, _)) = rest.first() {
            let mut end = first.dst_offset() + first.elem_bytes() as u64;
            let beside = rest[1..].iter().take(LANES - 1).take_while(|(of, from, copy, _)| {
                let like = copy.dims().iter().map(|d| (d.count, d.dst_stride));
                let fits = (of, from, copy.dst_offset()) == (slot, source, end)
                    && like.eq(first.dims().iter().map(|d| (d.count, d.dst_stride)))
                    && (copy.elem_bytes() as u64) < WIDE;
                end += copy.elem_bytes() as u64;
                fits
            });
            let many = if (first.elem_bytes() as u64) < WIDE { 1 + beside.count() } else { 1 };
            let (side_by_side, behind) = rest.split_at(many);
            self.strips(*source, side_by_side, window, &mut strips);
            rest = behind;
        }
        strips.sort_by_key(|(source, strip)| (*source, strip.ranges.first().map(|range| range.start)));
        let mut shares: Vec<Share> = Vec::new();
        let mut bytes = 0;
        for (source, strip) in strips {
            let len = strip.ranges.iter().map(|range| range.end - range.start).sum::<u64>();
            match shares.last_mut().filter(|share| share.source == source && bytes + len <= window) {
                Some(share) => share.strips.push(strip),
                None => {
                    bytes = 0;
                    shares.push(Share { source, strips: vec![strip] });
                }
            }
            bytes += len;
        }
        Ok(shares)
    }

    /// Whether a work's bytes are raw and lie in a log, with checksums that can be compared individually.
    fn suits(&self, work: &Work) -> bool {
        let entry = self.entry(work);
        let in_units =
            if work.piece.trailer == 0 { work.whole } else { (12..=20).contains(&work.piece.unit_log2) };
        entry.encoding.chain.is_empty()
            && work.prefix.is_none()
            && work.cells.is_none()
            && in_units
            && work.piece.length > 0
            && (work.whole || work.trailer.is_some())
            && self.sources.shard(entry.source).is_none()
    }

    /// Cuts copies that lie side by side into strips that can be mapped at once.
    fn strips(
        &self,
        source: u32,
        copies: &[(usize, u32, drystone_copy::StridedCopy, usize)],
        window: u64,
        out: &mut Vec<(u32, Strip)>,
    ) {
        let all: Vec<_> = copies.iter().map(|(_, _, copy, _)| copy.clone()).collect();
        let Some(abreast) = Abreast::new(&all) else { return };
        let dense = all.first().is_some_and(|copy| copy.dims().is_empty());
        if abreast.row_bytes() < NARROW && !dense {
            return;
        }
        let many = (window / abreast.row_bytes()).max(1);
        let mut from = 0;
        while from < abreast.rows() {
            let rows = from..(from + many).min(abreast.rows());
            from = rows.end;
            let works: Vec<usize> = copies.iter().map(|(_, _, _, number)| *number).collect();
            let mut ranges = Vec::with_capacity(works.len());
            for (lane, number) in works.iter().enumerate() {
                let work = &self.prepared.plan.works[*number];
                let Some(payload) = units(work, &abreast.reach(lane, &rows)) else { return };
                ranges.push(work.piece.position + payload.start..work.piece.position + payload.end);
                if work.whole && work.piece.trailer > 0 {
                    ranges.push(work.piece.trailer_position()..work.piece.end());
                }
            }
            ranges.sort_by_key(|range| range.start);
            out.push((source, Strip { works, abreast: abreast.clone(), rows, ranges }));
        }
    }

    /// The bytes of a share, if the store maps them.
    fn mapped(&self, share: &Share) -> Result<Option<Mapped>> {
        let mut ranges: Vec<Range<u64>> =
            share.strips.iter().flat_map(|strip| strip.ranges.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, run| {
            let joins = next.start <= run.end.saturating_add(HOLE);
            if joins {
                run.end = run.end.max(next.end);
            }
            joins
        });
        let key = self.sources.key(share.source)?;
        Ok(self.reading.inner.store.local().and_then(|files| files.map(&key, &ranges)))
    }

    /// Copies a share. Returns `false` if its bytes are not mapped.
    fn take(&self, share: &Share) -> Result<bool> {
        let Some(mapped) = self.mapped(share)? else { return Ok(false) };
        for strip in &share.strips {
            if !self.strip(strip, &mapped)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn strip(&self, strip: &Strip, mapped: &Mapped) -> Result<bool> {
        let mut lanes = Vec::with_capacity(strip.works.len());
        for (n, number) in strip.works.iter().enumerate() {
            let work = &self.prepared.plan.works[*number];
            let Some(lane) = self.lane(work, &strip.abreast.reach(n, &strip.rows), mapped)? else {
                return Ok(false);
            };
            lanes.push(lane);
        }
        let sources: Vec<LaneBytes> = lanes
            .iter()
            .map(|lane| LaneBytes {
                bytes: lane.bytes.as_ptr(),
                start: lane.start,
                len: lane.bytes.len() as u64,
            })
            .collect();
        let abreast = &strip.abreast;
        let step = (STEP * lanes.len() as u64 / abreast.row_bytes()).max(1);
        let (out, len) = self.out.raw();
        let mut from = strip.rows.start;
        while from < strip.rows.end {
            let rows = from..(from + step).min(strip.rows.end);
            for (n, lane) in lanes.iter_mut().enumerate() {
                self.verify_to(lane, abreast.reach(n, &rows).end)?;
            }
            from = rows.end;
            // SAFETY: visible boxes are disjoint, so no other thread uses these cells. The lanes stay mapped as long
            // as `mapped` lives, and the copy checks its bounds.
            unsafe { abreast.run_raw(rows, &sources, out, len, STEP as usize) }.map_err(rule_error)?;
        }
        Ok(true)
    }

    /// The units of a work that contain the range `reach` of its payload, and their checksums.
    fn lane<'a>(
        &'a self,
        work: &'a Work,
        reach: &Range<u64>,
        mapped: &'a Mapped,
    ) -> Result<Option<Lane<'a>>> {
        let piece = &work.piece;
        let Some(payload) = units(work, reach) else { return Ok(None) };
        let file = piece.position + payload.start..piece.position + payload.end;
        // SAFETY: the mapped bytes are only checksummed and copied, as the module's invariants state.
        let Some(bytes) = (unsafe { mapped.bytes(&file) }) else { return Ok(None) };
        let unit = unit(work);
        let (first, count) = ((payload.start / unit) as usize, (bytes.len() as u64).div_ceil(unit) as usize);
        let checks = if piece.trailer == 0 {
            vec![piece.check]
        } else if work.whole {
            // SAFETY: as above; the bytes are copied before they are decoded.
            let Some(found) = (unsafe { mapped.bytes(&(piece.trailer_position()..piece.end())) }) else {
                return Ok(None);
            };
            let copied = found.to_vec();
            let decoded = trailers::decode(piece, &copied)
                .ok_or_else(|| self.damaged(work, piece.position + piece.length, trailers::DAMAGED))?;
            decoded.checks.get(first..first + count).unwrap_or_default().to_vec()
        } else {
            self.checks(work, payload.start, count).1.to_vec()
        };
        Ok(Some(Lane { work, bytes, start: payload.start, unit, checks, verified: 0 }))
    }

    /// Verifies the part of a lane before byte `end` of its payload that was not verified yet.
    fn verify_to(&self, lane: &mut Lane<'_>, end: u64) -> Result<()> {
        while lane.start + lane.verified as u64 * lane.unit < end {
            let from = lane.verified * lane.unit as usize;
            let bytes = lane.bytes.get(from..).unwrap_or_default();
            let bytes = &bytes[..bytes.len().min(lane.unit as usize)];
            if lane.checks.get(lane.verified) != Some(&crc32c(bytes)) {
                if lane.work.piece.trailer == 0 {
                    return Err(self.damaged(
                        lane.work,
                        lane.work.piece.position,
                        "a subchunk fails its checksum",
                    ));
                }
                return Err(self.fails_checksum(lane.work, (lane.start / lane.unit) as usize + lane.verified));
            }
            lane.verified += 1;
        }
        Ok(())
    }
}

fn unit(work: &Work) -> u64 {
    if work.piece.trailer == 0 { work.piece.length } else { 1 << work.piece.unit_log2 }
}

/// The units that contain a range of a payload; `None` if the range exceeds it.
fn units(work: &Work, reach: &Range<u64>) -> Option<Range<u64>> {
    let (unit, len) = (unit(work), work.piece.length);
    (reach.end <= len).then(|| reach.start / unit * unit..reach.end.next_multiple_of(unit).min(len))
}
