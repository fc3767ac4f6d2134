//! Stored subchunks that are completely visible, and their bytes: verified, not decoded.
//!
//! Publishing uses them where a block is cut and encoded as the replica will be. This saves decoding, cutting and
//! encoding the cells again.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Stats, StoredPiece};
use drystone_format::layout::Layout;
use drystone_format::table::{Prefix, Subchunk};
use drystone_plan::coalesce::coalesce;
use drystone_plan::read_plan::{self, Slot};
use drystone_plan::resolve::Visible;
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::checks::verify_units;

use super::execute::trailers;
use super::sources::Sources;
use super::{Reading, Sought};
use crate::Result;
use crate::base::checksum::crc32;

/// A subchunk whose cells are all visible: dense, row-major, one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its first cell; if there are steps, the step comes first.
    pub(crate) first: Vec<u64>,
    /// Extents; the step axis has extent 1.
    pub(crate) count: Vec<u64>,
    /// Its codec chain.
    pub(crate) chain: String,
    /// Statistics of its values.
    pub(crate) stats: Stats,
    step: u64,
    source: u32,
    piece: StoredPiece,
    prefix: Option<Prefix>,
}

impl Reading {
    /// The completely visible subchunks of the log within a box of cells, for a reading of one member.
    pub(crate) fn shown_whole(&self, cells: &Selection) -> Result<Vec<Stored>> {
        let mut out = Vec::new();
        if cells.is_empty() || self.leaves.len() != 1 {
            return Ok(out);
        }
        let (steps, inner) = self.split(cells);
        let Sought { columns, mut slots } = self.sought(&steps, &inner)?;
        if columns.len() != 1 {
            return Ok(out);
        }
        for slot in &mut slots {
            slot.candidates.retain(|candidate| candidate.entry.encoding.replica == 0);
        }
        let sources = Sources::of(self);
        let resolved = read_plan::resolve_slots(&slots).map_err(|e| self.plan_error(&slots, &sources, e))?;
        for (slot, resolved) in slots.iter().zip(&resolved) {
            for shown in resolved.visible.chunk_by(|a, b| a.candidate == b.candidate) {
                self.whole_in(slot, shown, &sources, &mut out)?;
            }
        }
        Ok(out)
    }

    /// The subchunks of one block whose cells are all visible in the selection.
    fn whole_in(
        &self,
        slot: &Slot,
        shown: &[Visible],
        sources: &Sources<'_>,
        out: &mut Vec<Stored>,
    ) -> Result<()> {
        let candidate = shown.first().and_then(|first| slot.candidates.get(first.candidate));
        let Some(entry) = candidate.map(|candidate| &candidate.entry) else { return Ok(()) };
        let ndim = usize::from(entry.ndim).min(MAX_NDIM);
        let whole = entry.encoding.part.is_none() && u64::from(entry.encoding.item) == slot.item;
        let dense = entry.encoding.layout == Layout::Dense && whole;
        let straight = slot.selection.axes.iter().all(|axis| axis.step == 1 || axis.count == 1);
        if !dense || !straight || slot.selection.axes.len() != ndim || entry.cut[..ndim].contains(&0) {
            return Ok(());
        }
        // The number of visible cells of each subchunk, by position in the grid.
        let mut showing: BTreeMap<[u64; MAX_NDIM], u64> = BTreeMap::new();
        for part in shown {
            // The part's cells, counted from the first cell of the block.
            let inside: Vec<Range<u64>> = (0..ndim)
                .map(|d| {
                    let from = slot.selection.axes[d].start.saturating_sub(entry.offset[d]);
                    from.saturating_add(part.lo[d])..from.saturating_add(part.hi[d])
                })
                .collect();
            let rows: Vec<Range<u64>> = inside
                .iter()
                .zip(&entry.cut)
                .map(|(cells, cut)| cells.start / cut..cells.end.div_ceil(*cut))
                .collect();
            if rows.iter().any(Range::is_empty) {
                continue;
            }
            let mut place: [u64; MAX_NDIM] = std::array::from_fn(|d| rows.get(d).map_or(0, |row| row.start));
            loop {
                let cells = (0..ndim).fold(1u64, |cells, d| {
                    let (from, to) = (place[d] * entry.cut[d], (place[d] + 1) * entry.cut[d]);
                    cells.saturating_mul(inside[d].end.min(to).saturating_sub(inside[d].start.max(from)))
                });
                *showing.entry(place).or_default() += cells;
                let Some(d) = (0..ndim).rev().find(|&d| place[d] + 1 < rows[d].end) else { break };
                place[d] += 1;
                (d + 1..ndim).for_each(|after| place[after] = rows[after].start);
            }
        }
        let grid = entry.grid();
        let mut table = None;
        for (place, cells) in showing {
            let (low, count) = entry.subchunk_box(&place);
            if count[..ndim].iter().fold(1u64, |n, c| n.saturating_mul(*c)) != cells {
                continue;
            }
            let mut found = Some(Subchunk { piece: entry.piece, stats: entry.stats, prefix: None });
            if entry.subchunks > 1 {
                if table.is_none() {
                    table = Some(self.table(entry, sources)?);
                }
                let number = place.iter().zip(&grid).fold(0u64, |n, (at, many)| n.saturating_mul(*many) + at);
                let listed = table.as_ref().zip(usize::try_from(number).ok());
                found = listed.and_then(|(table, number)| table.get(number)).copied();
            }
            let Some(Subchunk { piece, stats, prefix }) = found else { continue };
            let first = low.iter().zip(&entry.offset).take(ndim).map(|(l, o)| o.saturating_add(*l));
            let mut stored = Stored {
                first: first.collect(),
                count: count[..ndim].to_vec(),
                chain: entry.encoding.chain.clone(),
                stats,
                step: entry.step,
                source: entry.source,
                piece,
                prefix,
            };
            if self.variable.steps {
                stored.first.insert(0, entry.step.saturating_sub(1));
                stored.count.insert(0, 1);
            }
            out.push(stored);
        }
        Ok(())
    }

    /// Passes on the stored bytes of each subchunk after comparing their checksums. The order is any; neighbours are
    /// read together.
    pub(crate) fn payloads(
        &self,
        stored: &[Stored],
        act: &mut dyn FnMut(&Stored, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let sources = Sources::of(self);
        let prefixes = stored.iter().enumerate().filter_map(|(n, one)| Some((n, one, one.prefix?.piece())));
        let rests = stored.iter().enumerate().map(|(n, one)| (n, one, one.piece));
        let wanted = prefixes
            .chain(rests)
            .map(|(n, one, piece)| (one.source, piece.position..piece.end(), (n, one, piece)));
        // Prefixes and rests that wait for their other half. Only a few wait, since bytes are read in order.
        let mut halves: HashMap<usize, Vec<u8>> = HashMap::new();
        let options = self.options();
        let fetches = coalesce(wanted.collect(), options.gap, options.max_request);
        self.fetch_all(&sources, &fetches, &mut |fetch, bytes| {
            for (range, (number, one, piece)) in &fetch.items {
                let from = (range.start - fetch.range.start) as usize;
                let item = bytes.get(from..from + (range.end - range.start) as usize).unwrap_or_default();
                let (payload, rest) = item.split_at(item.len().min(piece.length as usize));
                if !is_sound(piece, payload, rest) {
                    let what = "a subchunk fails its checksum";
                    return Err(self.damaged(&sources, one.source, one.step, piece.position, what));
                }
                if one.prefix.is_none() {
                    act(one, payload)?;
                } else if let Some(half) = halves.remove(number) {
                    let is_rest = *piece == one.piece;
                    let (first, second) = if is_rest { (&half[..], payload) } else { (payload, &half[..]) };
                    act(one, &[first, second].concat())?;
                } else {
                    halves.insert(*number, payload.to_vec());
                }
            }
            Ok(())
        })
    }

    /// The cut and codec chain of the newest block of the log, if its cut begins at multiples of itself. Without
    /// steps.
    pub(crate) fn cut_of_log(&self) -> Result<Option<(Vec<u64>, String)>> {
        let mut axes: Vec<Axis> =
            self.shape().iter().map(|&count| Axis { start: 0, step: 1, count }).collect();
        if axes.iter().any(|axis| axis.count == 0) || self.leaves.len() != 1 {
            return Ok(None);
        }
        if let Some(steps) = axes.first_mut().filter(|_| self.variable.steps) {
            *steps = Axis { start: steps.count - 1, step: 1, count: 1 };
        }
        let (steps, inner) = self.split(&Selection { axes });
        let found = self.entries(&steps, inner.bounds())?.into_values().flatten();
        let newest = found
            .filter(|entry| entry.encoding.replica == 0 && entry.encoding.part.is_none())
            .filter(|entry| entry.encoding.layout == Layout::Dense)
            .max_by(drystone_format::entry::newest_cmp);
        Ok(newest.and_then(|entry| {
            let ndim = usize::from(entry.ndim).min(MAX_NDIM);
            let cut = entry.cut[..ndim].to_vec();
            let aligned = cut.iter().zip(&entry.offset).all(|(cut, at)| *cut > 0 && at % cut == 0);
            (aligned && ndim > 0).then(|| (cut, entry.encoding.chain.clone()))
        }))
    }
}

/// Whether a payload matches its checksums. `rest` holds the bytes that follow it: padding and trailer.
fn is_sound(piece: &StoredPiece, payload: &[u8], rest: &[u8]) -> bool {
    if payload.len() as u64 != piece.length {
        return false;
    }
    if piece.trailer == 0 {
        return crc32(payload) == piece.check;
    }
    let unit = if piece.unit_log2 == 0 { payload.len().max(1) } else { 1 << piece.unit_log2.min(40) };
    trailers::decode(piece, rest).is_some_and(|trailer| verify_units(payload, unit, &trailer.checks).is_ok())
}
