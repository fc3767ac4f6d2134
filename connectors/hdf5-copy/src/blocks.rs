//! The values of a dataset, in blocks of bounded size along its chunks.

use crate::api::{DEFAULT, Hdf5, Hid, Id, done};
use crate::references::Values;
use crate::shape::Shape;
use crate::{Failure, Result};

/// Bytes of a block, unless one chunk is larger.
const BLOCK: u64 = 16 << 20;

const LAYOUT_CHUNKED: i32 = 2;
const LAYOUT_VIRTUAL: i32 = 3;
const SIMPLE: i32 = 1;
const NULL: i32 = 2;

/// An open dataset, and the layout of its values.
pub(crate) struct OpenDataset<'h> {
    hdf5: &'h Hdf5,
    pub(crate) set: Id<'h>,
    pub(crate) kind: Id<'h>,
    pub(crate) space: Id<'h>,
    pub(crate) list: Id<'h>,
    pub(crate) shape: Shape,
    extent: Vec<u64>,
    /// Cells of a block along each axis.
    block: Vec<u64>,
    /// Whether it has values of its own.
    pub(crate) has_values: bool,
    chunked: bool,
}

impl<'h> OpenDataset<'h> {
    /// Examines an open dataset.
    pub(crate) fn of(hdf5: &'h Hdf5, set: Id<'h>, path: &str) -> Result<Self> {
        let silent = || format!("the dataset {path} cannot be examined");
        // SAFETY: plain calls with ids of this library; the array is as long as is said.
        unsafe {
            let kind = hdf5.id((hdf5.H5Dget_type)(set.hid), silent)?;
            let space = hdf5.id((hdf5.H5Dget_space)(set.hid), silent)?;
            let list = hdf5.id((hdf5.H5Dget_create_plist)(set.hid), silent)?;
            let shape = Shape::of(hdf5, kind.hid).map_err(|e| Failure(format!("{path}: {e}")))?;
            let extent = if (hdf5.H5Sget_simple_extent_type)(space.hid) == SIMPLE {
                hdf5.extent(space.hid)?
            } else {
                Vec::new()
            };
            let layout = (hdf5.H5Pget_layout)(list.hid);
            let mut chunk = vec![1u64; extent.len()];
            let chunked = layout == LAYOUT_CHUNKED;
            if chunked {
                let ndim = i32::try_from(chunk.len()).map_err(|_| Failure(silent()))?;
                (hdf5.H5Pget_chunk)(list.hid, ndim, chunk.as_mut_ptr());
            }
            let empty = extent.contains(&0) || (hdf5.H5Sget_simple_extent_type)(space.hid) == NULL;
            let block = block_of(&extent, &chunk, shape.size() as u64);
            Ok(OpenDataset {
                hdf5,
                set,
                kind,
                space,
                list,
                shape,
                extent,
                block,
                has_values: !empty && layout != LAYOUT_VIRTUAL,
                chunked,
            })
        }
    }

    /// The value of unwritten cells, if blocks of it need not be written.
    pub(crate) fn fill(&self) -> Option<Vec<u8>> {
        if !self.chunked || !self.shape.is_flat() {
            return None;
        }
        let mut defined = 0;
        let mut value = vec![0; self.shape.size()];
        // SAFETY: the buffer holds one element.
        unsafe {
            if (self.hdf5.H5Pfill_value_defined)(self.list.hid, &mut defined) < 0 || defined <= 0 {
                return None;
            }
            let code = (self.hdf5.H5Pget_fill_value)(self.list.hid, self.kind.hid, value.as_mut_ptr().cast());
            (code >= 0).then_some(value)
        }
    }

    /// Reads the selected cells into memory of that space.
    pub(crate) fn read(&self, memory: Hid, selected: Hid, count: usize, path: &str) -> Result<Values<'h>> {
        let bytes = count.saturating_mul(self.shape.size());
        let mut values = Values::new(self.hdf5, self.kind.hid, memory, bytes, !self.shape.is_flat())?;
        let at = values.at().cast();
        // SAFETY: the memory holds as many cells as the space has.
        let code = unsafe { (self.hdf5.H5Dread)(self.set.hid, self.kind.hid, memory, selected, DEFAULT, at) };
        done(code, || format!("values of {path} cannot be read"))?;
        Ok(values)
    }

    /// Reads block after block; `each` gets its values, their number, and the selection in the file.
    pub(crate) fn each_block(
        &self,
        path: &str,
        mut each: impl FnMut(&mut Values<'h>, usize, Hid) -> Result<()>,
    ) -> Result<()> {
        if !self.has_values {
            return Ok(());
        }
        let mut first = vec![0; self.extent.len()];
        loop {
            let count: Vec<u64> =
                (0..first.len()).map(|d| self.block[d].min(self.extent[d] - first[d])).collect();
            let cells = count.iter().product::<u64>();
            let number = usize::try_from(cells).map_err(|_| Failure(format!("{path} is too large")))?;
            // SAFETY: arrays have as many elements as the space has axes; the memory holds the cells.
            unsafe {
                let selected = self.hdf5.id((self.hdf5.H5Scopy)(self.space.hid), || "no space".into())?;
                if !first.is_empty() {
                    let (start, size, none) = (first.as_ptr(), count.as_ptr(), std::ptr::null());
                    done((self.hdf5.H5Sselect_hyperslab)(selected.hid, 0, start, none, size, none), || {
                        format!("a part of {path} cannot be selected")
                    })?;
                }
                let memory = self
                    .hdf5
                    .id((self.hdf5.H5Screate_simple)(1, &cells, std::ptr::null()), || "no space".into())?;
                let mut values = self.read(memory.hid, selected.hid, number, path)?;
                each(&mut values, number, selected.hid)?;
            }
            // The next block, as an odometer counts.
            let Some(axis) = (0..first.len()).rev().find(|&d| first[d] + self.block[d] < self.extent[d])
            else {
                return Ok(());
            };
            first[axis] += self.block[axis];
            first[axis + 1..].fill(0);
        }
    }
}

/// Whole chunks, as many along the last axes as fit.
fn block_of(extent: &[u64], chunk: &[u64], size: u64) -> Vec<u64> {
    let mut block: Vec<u64> = extent.iter().zip(chunk).map(|(n, c)| (*c).clamp(1, (*n).max(1))).collect();
    for d in (0..block.len()).rev() {
        let others: u64 = block
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != d)
            .map(|(_, n)| *n)
            .fold(size.max(1), u64::saturating_mul);
        let fitting = (BLOCK / others.max(1)) / block[d] * block[d];
        block[d] = fitting.clamp(block[d], extent[d].max(1));
        if block[d] < extent[d] {
            break;
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_chunks_and_not_larger_than_they_may_be() {
        assert_eq!(block_of(&[1000, 1000], &[1, 1], 8), [1000, 1000]);
        assert_eq!(block_of(&[1 << 20, 1024], &[1, 1], 8), [2048, 1024]);
        assert_eq!(block_of(&[100, 1 << 24], &[10, 1 << 20], 1), [10, 1 << 20]);
        assert_eq!(block_of(&[1 << 30], &[1 << 26], 8), [1 << 26], "one chunk, however large");
        assert_eq!(block_of(&[], &[], 8), [0u64; 0]);
        assert_eq!(block_of(&[0, 5], &[4, 2], 8), [1, 5]);
    }
}
