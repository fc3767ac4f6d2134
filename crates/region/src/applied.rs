//! The results of registered functions for a release: neighbours are read, tiles are computed before a deadline.
//!
//! Invariant: nothing is written here, so a function that fails, hangs or does not fit leaves the container as it was.

use std::sync::Arc;

use drystone::{Reading, Result};
use drystone_function::{Aligned, Declared, Function, Job};

use super::boxes::{Bounds, meet, outside};
use super::error::invalid;
use super::lease::Cells;
use super::operation::Computed;
use super::stencil::{Dense, common, computable, copy, grown, repeat_edges, surroundings, tiles, volume};
use super::stored::{of, read};

/// Bytes of a tile's output, at most; one cell at least.
const TILE: u64 = 4 << 20;

/// The part of the source, outside the released box, that the results of a function depend on: whether there is one,
/// and its frame.
pub(super) fn neighbours(function: &Function, cells: &Cells, shape: &[u64]) -> Option<Cells> {
    let released = (cells.offset.clone(), cells.count.clone());
    let around = surroundings(&released, &function.declared().halo, shape);
    (around != released).then(|| of(&cells.variable, cells.step, around))
}

/// The cells of a function's result that a release changes. `reading` has all that was released before in
/// [`neighbours`].
pub(super) fn results(
    function: &Arc<Function>,
    reading: &Reading,
    cells: &Cells,
    bytes: &[u8],
) -> Result<Vec<Computed>> {
    let declared = function.declared();
    let (shape, halo) = (&reading.variable().shape, &declared.halo);
    let released: Bounds = (cells.offset.clone(), cells.count.clone());
    let around = surroundings(&released, halo, shape);
    let mut written: Vec<Bounds> = Vec::new();
    if let Some(step) =
        cells.step.filter(|step| around != released && reading.snapshot().steps.contains(*step))
    {
        let blocks = reading.blocks(Some(step))?;
        written.extend(blocks.iter().map(|block| (block.offset.clone(), block.count.clone())));
        written.retain(|block| meet(block, &around));
    }
    let boxes = computable(&released, &written, halo, shape);
    let size = u64::from(declared.output.size());
    let made = boxes.iter().fold(0_u64, |all, part| all.saturating_add(volume(part).saturating_mul(size)));
    accept(declared, bytes.len() as u64, made)?;
    let all: Vec<Bounds> = boxes.iter().flat_map(|part| tiles(part, (TILE / size.max(1)).max(1))).collect();
    let gather = Gather { reading, cells, bytes, released };
    let mut out = Vec::with_capacity(all.len());
    let mut input = |number: usize| gather.tile(function, &all[number]);
    function.run(all.len(), &mut input, &mut |number, job| {
        let (offset, count) = all[number].clone();
        out.push(Computed { offset, count, bytes: job.made().to_vec() });
    })?;
    Ok(out)
}

/// Fails if a release and its results are beyond the memory of the function.
pub(super) fn accept(declared: &Declared, released: u64, made: u64) -> Result<()> {
    if released.saturating_add(made) <= declared.memory {
        return Ok(());
    }
    Err(invalid(format!(
        "function {:?}: a release of {released} bytes with results of {made} bytes is beyond its memory of {} bytes: \
         release smaller boxes, or raise `memory` of the function",
        declared.name, declared.memory
    )))
}

/// Where the input of a tile comes from.
struct Gather<'a> {
    reading: &'a Reading,
    cells: &'a Cells,
    bytes: &'a [u8],
    released: Bounds,
}

impl Gather<'_> {
    /// The input of a tile, with its halo.
    fn tile(&self, function: &Function, tile: &Bounds) -> Result<Job> {
        let variable = self.reading.variable();
        let (halo, item) = (&function.declared().halo, variable.dtype.item_size() as usize);
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let origin: Vec<i64> =
            tile.0.iter().zip(halo).map(|(at, halo)| signed(*at) - signed(*halo)).collect();
        let count: Vec<u64> = tile.1.iter().zip(halo).map(|(n, halo)| n.saturating_add(2 * halo)).collect();
        let inside = grown(tile, halo, &variable.shape);
        let len =
            usize::try_from(volume(&(Vec::new(), count.clone()))).ok().and_then(|n| n.checked_mul(item));
        let input = len.and_then(Aligned::zeros);
        let mut input = input.ok_or_else(|| invalid("a tile does not fit into memory"))?;
        let mut to = Dense { origin: &origin, count: &count, item, bytes: input.bytes_mut() };
        let at = |offset: &[u64]| offset.iter().map(|n| signed(*n)).collect::<Vec<i64>>();
        if let Some(part) = common(&inside, &self.released) {
            let origin = at(&self.released.0);
            let from = Dense { origin: &origin, count: &self.released.1, item, bytes: self.bytes };
            copy(&part, &from, &mut to);
        }
        for part in outside(&inside, &self.released) {
            let cells = of(&self.cells.variable, self.cells.step, part.clone());
            let bytes = read(self.reading, self.cells.step, &cells)?;
            let origin = at(&part.0);
            copy(&part, &Dense { origin: &origin, count: &part.1, item, bytes: bytes.as_slice() }, &mut to);
        }
        repeat_edges(&inside, &mut to);
        let output = Aligned::default();
        Ok(Job { step: self.cells.step, offset: tile.0.clone(), count: tile.1.clone(), input, output })
    }
}
