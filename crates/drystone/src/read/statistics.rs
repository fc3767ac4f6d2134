//! Stored statistics of the values of a step: extremes, NaNs and histograms, summed without reading values.
//!
//! Blocks store extremes and NaN counts; encoded subchunks of 4096 elements or more also store a histogram
//! (docs/decisions/003). Overlapping blocks all count as they were written, so the extremes may be wider than those
//! of the visible values.

use drystone_format::MAX_NDIM;
use drystone_format::entry::{self, Entry, StoredPiece};
use drystone_format::layout::Layout;
use drystone_plan::parts::parts;
use drystone_plan::resolve::Visible;
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::histogram::Histogram;
use drystone_transform::stats::{ScalarKind, Stats};

use super::Reading;
use super::execute::trailers;
use super::sources::Sources;
use crate::schema::element_type::kind_of;
use crate::schema::member::Column;
use crate::{Error, Result};

/// Sums over the blocks of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredStatistics {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of their cells, including overwritten ones.
    pub cells: u64,
    /// Number of NaNs in them.
    pub nans: u64,
    /// Least and greatest value as 64-bit patterns of the kind; `None` if values have no order, or no block has a
    /// value.
    pub min_max: Option<(u64, u64)>,
    /// The merged histograms of subchunks; `None` if not every subchunk has one.
    pub histogram: Option<Histogram>,
}

/// The most subchunks whose histograms are read. With more, there is no histogram.
const MOST: usize = 1 << 16;

/// The part of a block in a selection of unit steps; `None` if it has none.
fn met(entry: &Entry, cells: &Selection) -> Option<Visible> {
    let mut visible = Visible { candidate: 0, lo: [0; MAX_NDIM], hi: [1; MAX_NDIM] };
    for (d, axis) in cells.axes.iter().enumerate() {
        let end = entry.offset[d].saturating_add(entry.count[d]).min(axis.start.saturating_add(axis.count));
        visible.lo[d] = entry.offset[d].max(axis.start).saturating_sub(axis.start);
        visible.hi[d] = end.checked_sub(axis.start)?;
        if visible.lo[d] >= visible.hi[d] {
            return None;
        }
    }
    Some(visible)
}

impl Reading {
    /// Stored statistics of the values of a step (`None` for a variable without steps), of a primitive or one member of
    /// a record. A derived variable has statistics of a step where its stored values, or their bounds, are current in
    /// all cells.
    pub fn statistics(&self, step: Option<u64>) -> Result<StoredStatistics> {
        self.stored_about(step, None).map_err(|e| self.reason(e))
    }

    /// The same of those blocks and subchunks that meet a box of cells (a selection without the step axis). They count
    /// as a whole: every value in the box is within the extremes, and cells beside it may count too.
    pub fn statistics_within(&self, step: Option<u64>, cells: &Selection) -> Result<StoredStatistics> {
        let steps = usize::from(self.variable.steps);
        let mut whole = cells.clone();
        if self.variable.steps {
            whole.axes.insert(0, Axis { start: step.unwrap_or(0), step: 1, count: 1 });
        }
        self.check_selection(&whole)?;
        let Some((lo, hi)) = whole.bounds() else { return Ok(StoredStatistics::default()) };
        let along = |d: usize| Axis { start: lo[d], step: 1, count: hi[d].saturating_sub(lo[d]) };
        let axes = (steps..whole.axes.len()).map(along).collect();
        self.stored_about(step, Some(&Selection { axes })).map_err(|e| self.reason(e))
    }

    /// The stored values of a derived variable, if those of a box of a step, by default all, are current.
    fn all_current(&self, step: Option<u64>, within: Option<&Selection>) -> Result<Option<Reading>> {
        let is_there = step.is_none_or(|step| self.snapshot.steps.contains(step));
        if !self.is_derived() || self.variable.steps != step.is_some() || !is_there {
            return Ok(None);
        }
        let all = || Selection { axes: self.variable.shape.iter().map(|&n| Axis::full(n)).collect() };
        self.current(step.unwrap_or(0), &within.cloned().unwrap_or_else(all))
    }

    fn stored_about(&self, step: Option<u64>, within: Option<&Selection>) -> Result<StoredStatistics> {
        // Blocks store statistics of whole columns that were put, not of parts.
        let [Column { leaf, .. }] = self.leaves.iter().filter(|c| !c.is_part()).collect::<Vec<_>>()[..]
        else {
            return Err(Error::invalid(format!("\"{}\" holds records: name a whole member", self.path)));
        };
        if let Some(stored) = self.all_current(step, within)? {
            return stored.stored_about(step, within);
        }
        let kind = kind_of(&leaf.dtype);
        let sources = Sources::of(self);
        let mut out = StoredStatistics::default();
        let mut all = Stats::default();
        let mut pieces: Option<Vec<(u32, StoredPiece)>> = kind.domain().map(|_| Vec::new());
        for entry in self.block_entries(step)?.iter().flatten() {
            let visible = match within.map(|cells| (cells, met(entry, cells))) {
                None => None,
                Some((_, None)) => continue,
                Some((cells, Some(visible))) => Some((cells, visible)),
            };
            out.blocks += 1;
            let mut add = |cells: u64, stats: &entry::Stats| {
                out.cells = out.cells.saturating_add(cells);
                let (min, max) = stats.min_max.unzip();
                all.merge(kind, &Stats { min, max, nans: stats.nans, count: 0 });
            };
            if let Some((cells, visible)) = visible.filter(|_| entry.subchunks > 1) {
                let table = self.table(entry, &sources)?;
                for part in parts(entry, cells, &visible) {
                    let one = usize::try_from(part.subchunk).ok().and_then(|number| table.get(number));
                    let Some(one) = one else { continue };
                    let ndim = usize::from(entry.ndim);
                    let extents = part.chunk_shape.iter().take(ndim);
                    add(extents.fold(1, |cells, n| cells.saturating_mul(*n)), &one.stats);
                    let Some(found) = &mut pieces else { continue };
                    found.push((entry.source, one.piece));
                    let is_without = entry.encoding.layout != Layout::Dense || one.piece.trailer == 0;
                    if found.len() > MOST || is_without {
                        pieces = None;
                    }
                }
                continue;
            }
            add(entry.cells().unwrap_or(u64::MAX), &entry.stats);
            let Some(found) = &mut pieces else { continue };
            let table;
            let of_entry: &[_] = match entry.subchunks {
                0 => &[],
                // Values that are stored beside other members, or padded, have no statistics per cell.
                _ if entry.encoding.layout != Layout::Dense => {
                    pieces = None;
                    continue;
                }
                1 => &[entry.piece],
                _ => {
                    table = self.table(entry, &sources)?.iter().map(|s| s.piece).collect::<Vec<_>>();
                    &table
                }
            };
            found.extend(of_entry.iter().map(|piece| (entry.source, *piece)));
            if found.len() > MOST || of_entry.iter().any(|piece| piece.trailer == 0) {
                pieces = None;
            }
        }
        (out.nans, out.min_max) = (all.nans, all.min.zip(all.max));
        if let Some(pieces) = pieces.filter(|pieces| !pieces.is_empty()) {
            out.histogram = self.merged(kind, &sources, &pieces)?;
        }
        Ok(out)
    }

    /// The merged histograms of pieces. `None` if one of the pieces has no histogram.
    fn merged(
        &self,
        kind: ScalarKind,
        sources: &Sources<'_>,
        pieces: &[(u32, StoredPiece)],
    ) -> Result<Option<Histogram>> {
        let known = trailers::for_plan(self, sources, pieces)?;
        let mut sum: Option<Histogram> = None;
        for (source, piece) in pieces {
            let Some(trailer) = known.get(*source, piece).filter(|t| !t.histogram.is_empty()) else {
                return Ok(None);
            };
            let one = Histogram::decode(&trailer.histogram).map_err(|e| {
                let at = piece.trailer_position();
                self.damaged(sources, *source, 0, at, &format!("a histogram: {e}"))
            })?;
            let same = Some(one.domain()) == kind.domain();
            match &mut sum {
                _ if !same => return Ok(None),
                None => sum = Some(one),
                Some(sum) => {
                    if sum.merge(&one).is_err() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(sum)
    }
}
