//! Boxes of cells as dense bytes, row by row.

use drystone_plan::selection::Selection;

use super::nodes::Array;
use crate::base::array::Target as Memory;
use crate::published::grid::Box;
use crate::read::Reading;
use crate::{Error, Result};

/// Reads a box of cells densely.
pub(super) fn read(array: &Array, reading: &Reading, cells: &Box, out: &mut Vec<u8>) -> Result<()> {
    let len = cells.cells().saturating_mul(array.item);
    let len = usize::try_from(len).map_err(|_| Error::invalid("the shard does not fit into memory"))?;
    out.clear();
    out.resize(len, 0);
    let counts = cells.counts();
    let memory = Memory::dense(out, &counts, array.item as usize)?;
    reading.read(&Selection::boxed(&cells.lo, &counts), &memory).map(drop)
}
