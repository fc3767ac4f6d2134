//! Published statistics of a step, from sidecars beside its shards, without reading values.
//!
//! The statistics describe the cells that were visible at the time of the publication, not everything that was ever
//! written. Unwritten cells count with the fill value that they read as.

use drystone_format::published::Array;
use drystone_format::statistics::Chunk;
use drystone_plan::parts::SubchunkPart;
use drystone_transform::stats::{ScalarKind, Stats};
use drystone_transform::{Limit, meets};

use super::Reading;
use super::published::record;
use crate::published::grid::{Box, Grid};
use crate::published::sidecar;
use crate::schema::element_type::kind_of;
use crate::schema::member::Column;
use crate::{Error, Result};

/// The most shards of a step whose statistics are read. A step with more has none.
const MOST_SHARDS: u64 = 1024;

/// Sums over the published chunks of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublishedStatistics {
    /// The snapshot that was published.
    pub version: u64,
    /// Number of chunks that have cells.
    pub chunks: u64,
    /// Number of values; a cell may have several.
    pub values: u64,
    /// Number of values that are NaN.
    pub nans: u64,
    /// Number of cells that hold the fill value; `None` where chunks were copied from the log undecoded.
    pub fills: Option<u64>,
    /// Least and greatest value as 64-bit patterns of the kind; `None` if values have no order, or all are NaN.
    pub min_max: Option<(u64, u64)>,
}

/// The chunks of a step with their statistics; the step axis is removed.
pub(super) struct Known {
    pub(super) version: u64,
    chunks: Vec<(Box, Chunk)>,
}

impl Reading {
    /// Published statistics of a step (`None` for a variable without steps), of a primitive or one member of a
    /// record. They describe the cells when they were published; later commits may have changed them. `None` if the
    /// snapshot knows of no publication, or if a chunk holds several steps.
    pub fn published_statistics(&self, step: Option<u64>) -> Result<Option<PublishedStatistics>> {
        self.published_about(step).map_err(|e| self.reason(e))
    }

    fn published_about(&self, step: Option<u64>) -> Result<Option<PublishedStatistics>> {
        let [Column { leaf, .. }] = self.leaves.iter().filter(|c| !c.is_part()).collect::<Vec<_>>()[..]
        else {
            return Err(Error::invalid(format!("\"{}\" holds records: name a whole member", self.path)));
        };
        let kind = kind_of(&leaf.dtype);
        let Some(known) = self.known_chunks(step)? else { return Ok(None) };
        let mut out = PublishedStatistics { version: known.version, fills: Some(0), ..Default::default() };
        let mut all = Stats::default();
        for (_, chunk) in &known.chunks {
            let (min, max) = chunk.stats.min_max.unzip();
            all.merge(kind, &Stats { min, max, nans: chunk.stats.nans, count: 0 });
            out.chunks += 1;
            out.values = out.values.saturating_add(chunk.values);
            out.fills = out.fills.zip(chunk.fills).map(|(a, b)| a.saturating_add(b));
        }
        (out.nans, out.min_max) = (all.nans, all.min.zip(all.max));
        Ok(Some(out))
    }

    /// The published chunks of a step; `None` unless all their statistics exist and each chunk belongs to this step
    /// alone.
    pub(super) fn known_chunks(&self, step: Option<u64>) -> Result<Option<Known>> {
        let Some(shelf) = &self.shelf else { return Ok(None) };
        let [column] = self.leaves.as_slice() else { return Ok(None) };
        let Some((array, grid, _)) = shelf.arrays.get(&column.number) else { return Ok(None) };
        let steps = usize::from(self.variable.steps);
        let mut wanted = Box { lo: vec![0; array.shape.len()], hi: array.shape.clone() };
        if let (Some(step), true) = (step, self.variable.steps) {
            let hidden = array.version < self.snapshot.steps.hidden_below(step);
            if hidden || step >= array.shape[0] || array.chunk[0] != 1 {
                return Ok(None);
            }
            (wanted.lo[0], wanted.hi[0]) = (step, step + 1);
        }
        let Some(shards) = grid.meeting(&wanted, MOST_SHARDS) else { return Ok(None) };
        let mut chunks = Vec::new();
        for number in shards {
            let Some(found) = self.chunks_of(array, grid, number)? else { return Ok(None) };
            let within = |cells: &Box| steps == 0 || cells.lo[0] == wanted.lo[0];
            chunks.extend(found.into_iter().filter(|(cells, _)| within(cells)).map(|(mut cells, chunk)| {
                cells.lo.drain(..steps);
                cells.hi.drain(..steps);
                (cells, chunk)
            }));
        }
        Ok(Some(Known { version: array.version, chunks }))
    }

    /// The chunks of a shard that contain cells.
    fn chunks_of(&self, array: &Array, grid: &Grid, number: u64) -> Result<Option<Vec<(Box, Chunk)>>> {
        let Some(shard) = record(self, array, number)? else { return Ok(None) };
        let found = sidecar::of_record(self.inner.store.as_ref(), array, grid, &shard)?;
        let boxed = |(at, chunk): (u64, Chunk)| {
            let cells = grid.chunk_of(number, at);
            (!cells.is_empty()).then_some((cells, chunk))
        };
        Ok(found.map(|found| (0..).zip(found.chunks).filter_map(boxed).collect()))
    }
}

impl Known {
    /// Boxes (first cell, extents) of a part of a block where values of a range may lie. The block must be older than
    /// the publication. `None` if that is all of the part.
    pub(super) fn narrowed(
        &self,
        part: &SubchunkPart,
        ndim: usize,
        (kind, low, high): (ScalarKind, Limit, Limit),
    ) -> Option<Vec<(Vec<u64>, Vec<u64>)>> {
        let lo = part.dest[..ndim].to_vec();
        let hi: Vec<u64> = lo.iter().zip(&part.chunk).map(|(l, (_, _, n))| l.saturating_add(*n)).collect();
        let part = Box { lo, hi };
        let (mut boxes, mut covered, mut left) = (Vec::new(), 0u64, 0u64);
        for (cells, chunk) in self.chunks.iter().filter(|(cells, _)| cells.meets(&part)) {
            let lo: Vec<u64> = cells.lo.iter().zip(&part.lo).map(|(a, b)| *a.max(b)).collect();
            let counts: Vec<u64> =
                cells.hi.iter().zip(&part.hi).zip(&lo).map(|((a, b), l)| a.min(b) - l).collect();
            let many = counts.iter().product::<u64>();
            covered = covered.saturating_add(many);
            if chunk.stats.min_max.is_some_and(|extremes| meets(kind, extremes, low, high)) {
                left = left.saturating_add(many);
                boxes.push((lo, counts));
            }
        }
        (covered == part.cells() && left < covered).then_some(boxes)
    }
}
