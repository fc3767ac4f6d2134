//! Variable-length strings: first the 16-byte references, then the blobs they name (docs/format/log.md, "Blobs").

use std::collections::BTreeMap;

use drystone_plan::coalesce::{Fetch, coalesce};
use drystone_plan::selection::{Axis, Selection};

use super::execute;
use super::sources::Sources;
use super::{Prepared, ReadReport, Reading, segment_key};
use crate::base::array::Target;
use crate::base::checksum::crc32;
use crate::base::error::must_exist;
use crate::{Error, Result};

/// Gaps between blobs up to this size are read.
const GAP: u64 = 64 << 10;
/// Requests for blobs are merged up to this size.
const MAX_REQUEST: u64 = 4 << 20;

impl Reading {
    pub(super) fn strings_in(&self, selection: &Selection) -> Result<(Vec<Vec<u8>>, ReadReport)> {
        self.check_selection(selection)?;
        let mut out = self.no_strings(selection.cells())?;
        let cells = out.len();
        let mut report = ReadReport::default();
        if cells == 0 {
            return Ok((out, report));
        }
        let (steps, rest) = self.split(selection);
        let per_step = cells / steps.count as usize;
        for i in 0..steps.count {
            let one = Axis { start: steps.cell(i), step: 1, count: 1 };
            let prepared = self.plan(self.sought(&one, &rest)?)?;
            report.add(&prepared.plan);
            let from = i as usize * per_step;
            self.strings_of(&prepared, &mut out[from..from + per_step])?;
        }
        Ok((out, report))
    }

    /// This many empty strings; refused if the variable does not hold strings.
    pub(super) fn no_strings(&self, cells: Option<u64>) -> Result<Vec<Vec<u8>>> {
        if !self.variable.dtype.is_blob() {
            return Err(Error::invalid(format!(
                "\"{}\" holds {}, not strings",
                self.path, self.variable.dtype
            )));
        }
        empty_strings(&self.path, cells)
    }

    /// Resolves the strings of one slot into `out` (row-major).
    pub(super) fn strings_of(&self, prepared: &Prepared, out: &mut [Vec<u8>]) -> Result<()> {
        let sources = Sources::of(self);
        let slot = &prepared.slots[0];
        let shape = slot.selection.shape();
        let mut refs = vec![0u8; out.len() * 16];
        {
            let mut full = shape.clone();
            if self.variable.steps {
                full.insert(0, 1);
            }
            let target = Target::dense(&mut refs, &full, 16)?;
            execute::run(self, prepared, 0, &target, &sources)?;
        }
        let mut held: Vec<(usize, u32)> = Vec::new();
        for visible in &prepared.resolved[0].visible {
            let entry = &slot.candidates[visible.candidate].entry;
            let cells = cells_of(&visible.lo[..shape.len()], &visible.hi[..shape.len()], &shape);
            held.extend(cells.map(|cell| (cell, entry.source)));
        }
        self.texts(&refs, held, out)
    }

    /// Resolves the strings of a listing of this shape into `out` (row-major).
    pub(super) fn strings_of_listed(
        &self,
        prepared: &Prepared,
        shape: &[u64],
        out: &mut [Vec<u8>],
    ) -> Result<()> {
        let sources = Sources::of(self);
        let mut refs = vec![0u8; out.len() * 16];
        execute::run(self, prepared, 0, &Target::dense(&mut refs, shape, 16)?, &sources)?;
        let mut held: Vec<(usize, u32)> = Vec::new();
        for work in &prepared.plan.works {
            let source = prepared.slots[work.slot].candidates[work.entry].entry.source;
            let mut places = vec![0u64];
            for (picks, n) in work.cells.iter().flat_map(|cells| &cells.legs).zip(shape) {
                let along = |at: &u64| {
                    let at = *at;
                    (0..picks.count()).filter_map(|i| picks.get(i)).map(move |(_, place)| at * n + place)
                };
                places = places.iter().flat_map(along).collect();
            }
            held.extend(places.into_iter().map(|place| (place as usize, source)));
        }
        self.texts(&refs, held, out)
    }

    /// Reads the strings that references name. `held`: cells, each with the source its string lies in.
    fn texts(&self, refs: &[u8], held: Vec<(usize, u32)>, out: &mut [Vec<u8>]) -> Result<()> {
        let sources = Sources::of(self);
        let mut wanted: Vec<(u32, std::ops::Range<u64>, (usize, u32))> = Vec::new();
        for (cell, source) in held {
            let r = &refs[cell * 16..cell * 16 + 16];
            let position = u64::from_le_bytes([r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]]);
            let len = u32::from_le_bytes([r[8], r[9], r[10], r[11]]);
            let check = u32::from_le_bytes([r[12], r[13], r[14], r[15]]);
            if len > 0 {
                let end = position.checked_add(u64::from(len)).ok_or_else(|| {
                    Error::corrupt(format!("variable \"{}\": a string's place is out of range", self.path))
                })?;
                wanted.push((source, position..end, (cell, check)));
            }
        }
        let fetches = coalesce(wanted, GAP, MAX_REQUEST);
        let mut take = |fetch: &Fetch<(usize, u32)>, bytes: &[u8]| {
            for (range, (cell, check)) in &fetch.items {
                let at = (range.start - fetch.range.start) as usize;
                let value = bytes.get(at..at + (range.end - range.start) as usize).unwrap_or_default();
                if crc32(value) != *check {
                    let key = sources.key(fetch.source)?;
                    return Err(Error::corrupt(format!(
                        "{key} is damaged at byte {}: a string fails its checksum (variable \"{}\")",
                        range.start, self.path
                    )));
                }
                out[*cell] = value.to_vec();
            }
            Ok(())
        };
        // A far store reports a range beyond the end of its object; asking for the length first would take as long.
        let long = fetches.iter().any(|fetch| fetch.len() > MAX_REQUEST);
        if self.inner.window().is_some() && !long {
            return self.fetch_all(&sources, &fetches, &mut take);
        }
        let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
        for fetch in fetches {
            let source = sources.get(fetch.source)?;
            let key = segment_key(&source);
            let known = match lengths.get(&fetch.source) {
                Some(n) => *n,
                None => {
                    let n = self.inner.store.len(&key).map_err(must_exist)?;
                    lengths.insert(fetch.source, n);
                    n
                }
            };
            if fetch.range.end > known {
                return Err(Error::corrupt(format!(
                    "{key} is damaged: it ends at byte {known}, a string of variable \"{}\" lies at {}..{}",
                    self.path, fetch.range.start, fetch.range.end
                )));
            }
            let mut bytes = vec![0; (fetch.range.end - fetch.range.start) as usize];
            self.inner
                .store
                .read(&key, fetch.range.start, &mut bytes)
                .map_err(|e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.path)))?;
            take(&fetch, &bytes)?;
        }
        Ok(())
    }
}

/// This many empty strings, if memory suffices: a stored shape may state any number.
pub(super) fn empty_strings(path: &str, cells: Option<u64>) -> Result<Vec<Vec<u8>>> {
    let mut out: Vec<Vec<u8>> = Vec::new();
    let room = cells.and_then(|n| usize::try_from(n).ok()).filter(|n| out.try_reserve_exact(*n).is_ok());
    let cells = room.ok_or_else(|| {
        Error::invalid(format!("the strings of \"{path}\" do not fit into memory; read a part"))
    })?;
    out.resize(cells, Vec::new());
    Ok(out)
}

/// Row-major numbers of the cells of a box.
fn cells_of(lo: &[u64], hi: &[u64], shape: &[u64]) -> impl Iterator<Item = usize> {
    let count: u64 = lo.iter().zip(hi).map(|(l, h)| h - l).product();
    let (lo, hi, shape) = (lo.to_vec(), hi.to_vec(), shape.to_vec());
    (0..count).map(move |mut i| {
        let mut at = 0u64;
        let mut stride = 1u64;
        for d in (0..shape.len()).rev() {
            let extent = hi[d] - lo[d];
            at += (lo[d] + i % extent) * stride;
            i /= extent;
            stride *= shape[d];
        }
        at as usize
    })
}
