//! Texts of a published array: as `vlen-utf8` for Zarr, and as heap values for HDF5.

use drystone_format::dtype::Scalar;
use drystone_plan::selection::Selection;

use super::dense;
use super::element::utf8;
use super::nodes::Array;
use crate::published::grid::{Box, place};
use crate::read::Reading;
use crate::{Error, Result};

/// The texts of a box in row-major order, in UTF-8 without padding. They are stored with any length, or as UTF-32.
pub(super) fn read(reading: &Reading, array: &Array, cells: &Box) -> Result<Vec<Vec<u8>>> {
    if array.element.is_text() {
        let (texts, _) = reading.read_strings(&Selection::boxed(&cells.lo, &cells.counts()))?;
        return Ok(texts);
    }
    let mut slab = Vec::new();
    dense::read(array, reading, cells, &mut slab)?;
    let size = (Scalar::U32.size() as usize) * array.element.characters().unwrap_or(1) as usize;
    slab.chunks_exact(size.max(1))
        .map(|text| {
            utf8(text).ok_or_else(|| {
                Error::invalid(format!("\"{}\" holds a text that is not valid Unicode", array.variable))
            })
        })
        .collect()
}

/// Encodes texts of a box as a chunk of Zarr's `vlen-utf8`: their number, then each text after its length. Cells of
/// the chunk outside the box are empty.
pub(super) fn vlen(texts: &[Vec<u8>], counts: &[u64], chunk: &[u64]) -> Result<Vec<u8>> {
    let long = |n: usize| u32::try_from(n).map_err(|_| Error::unsupported("a string of 4 GiB or more"));
    let many: u64 = chunk.iter().product();
    let mut out = long(usize::try_from(many).unwrap_or(usize::MAX))?.to_le_bytes().to_vec();
    for number in 0..many {
        let text = inside(number, counts, chunk).and_then(|at| texts.get(at)).map_or(&[][..], Vec::as_slice);
        out.extend_from_slice(&long(text.len())?.to_le_bytes());
        out.extend_from_slice(text);
    }
    Ok(out)
}

/// The number, in a box, of a cell of the chunk that begins at the same cell. `None` outside the box.
pub(super) fn inside(number: u64, counts: &[u64], chunk: &[u64]) -> Option<usize> {
    let index = place(number, chunk);
    let is_inside = index.iter().zip(counts).all(|(i, n)| i < n);
    is_inside.then(|| index.iter().zip(counts).fold(0, |at, (i, n)| at * n + i) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_beyond_the_edge_of_an_array_has_empty_texts_there() {
        let texts = [b"a".to_vec(), b"".to_vec()];
        let chunk = vlen(&texts, &[2, 1], &[2, 2]).unwrap();
        assert_eq!(chunk, [4, 0, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(inside(2, &[2, 1], &[2, 2]), Some(1));
        assert_eq!(inside(1, &[2, 1], &[2, 2]), None);
        assert_eq!(vlen(&texts[..1], &[], &[]).unwrap(), [1, 0, 0, 0, 1, 0, 0, 0, b'a']);
    }
}
