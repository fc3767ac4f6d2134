//! Copies of listed elements: a product of lists of (source, destination) offsets, with a strided part at each.
//!
//! Reads of points, index lists and masks end here. Regular parts are inner loops, which the strided kernels run; only
//! the lists are processed element by element.
//!
//! Invariant: offsets are checked against both buffers, for all combinations at once, before the first byte is moved.

use crate::copy::StridedCopy;
use crate::dim::Dim;
use crate::error::{CopyError, Side};

/// Copies `elem_bytes` from `src + Σ source` to `dst + Σ destination` for every combination of one pair from each list
/// and, within each, for every step of the loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCopy {
    /// Byte offsets in the source and the destination; an empty list makes the copy empty.
    lists: Vec<Vec<(i64, i64)>>,
    /// The loops, relative to their lowest bytes.
    inner: StridedCopy,
    /// Where the lowest bytes lie.
    base: (i64, i64),
    /// The range from the lowest to the highest byte that is touched, on each side.
    touched: [(i64, i64); 2],
}

impl ListedCopy {
    /// A copy that begins at these byte offsets of the buffers. Elements of 0 bytes, loops whose destinations overlap,
    /// and numbers that do not fit in 63 bits are refused. The caller guarantees that the lists give every element a
    /// destination of its own.
    pub fn new(
        src_offset: i64,
        dst_offset: i64,
        elem_bytes: usize,
        mut lists: Vec<Vec<(i64, i64)>>,
        dims: Vec<Dim>,
    ) -> Result<Self, CopyError> {
        let overflow = || CopyError::Overflow { what: "the offsets of listed elements" };
        let add = |a: i64, b: i64| a.checked_add(b).ok_or_else(overflow);
        // Number of bytes before the first element that loops with negative strides visit.
        let mut below = (0i64, 0i64);
        for dim in dims.iter().filter(|dim| dim.count > 1) {
            let reach = |stride: i64| {
                i64::try_from(dim.count - 1).ok().and_then(|n| n.checked_mul(stride)).ok_or_else(overflow)
            };
            below.0 = add(below.0, reach(dim.src_stride)?.min(0))?;
            below.1 = add(below.1, reach(dim.dst_stride)?.min(0))?;
        }
        let unsigned = |n: i64| n.unsigned_abs();
        let inner = StridedCopy::new(unsigned(below.0), unsigned(below.1), elem_bytes, dims)?;
        let base = (add(src_offset, below.0)?, add(dst_offset, below.1)?);
        let mut touched = [
            (base.0, add(base.0, inner.src_span().end as i64)?),
            (base.1, add(base.1, inner.dst_span().end as i64)?),
        ];
        for list in &lists {
            let ends = |side: fn(&(i64, i64)) -> i64| {
                (list.iter().map(side).min().unwrap_or(0), list.iter().map(side).max().unwrap_or(0))
            };
            for (touched, (least, greatest)) in touched.iter_mut().zip([ends(|p| p.0), ends(|p| p.1)]) {
                *touched = (add(touched.0, least)?, add(touched.1, greatest)?);
            }
        }
        lists.sort_by_key(Vec::len);
        Ok(ListedCopy { lists, inner, base, touched })
    }

    /// Whether there is nothing to copy.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty() || self.lists.iter().any(Vec::is_empty)
    }

    /// Executes it on raw buffers, for destinations that several threads fill at once.
    ///
    /// # Safety
    /// As for [`StridedCopy::run_raw`]: `src` is readable for `src_len` bytes and `dst` writable for
    /// `dst_len`, they do not overlap, and no other thread touches the destination elements or writes the
    /// source elements of this copy.
    pub unsafe fn run_raw(
        &self,
        src: *const u8,
        src_len: usize,
        dst: *mut u8,
        dst_len: usize,
    ) -> Result<(), CopyError> {
        if self.is_empty() {
            return Ok(());
        }
        let sides = [(Side::Source, src_len), (Side::Destination, dst_len)];
        for ((side, len), (low, high)) in sides.into_iter().zip(self.touched) {
            if low < 0 || high > i64::try_from(len).unwrap_or(i64::MAX) {
                let touched = u64::try_from(low).unwrap_or(0)..u64::try_from(high).unwrap_or(u64::MAX);
                return Err(CopyError::OutOfBounds { side, touched, len: len as u64 });
            }
        }
        let (last, outer) = match self.lists.split_last() {
            Some((last, outer)) => (last.as_slice(), outer),
            None => (&[(0, 0)][..], &[][..]),
        };
        let mut at = vec![0; outer.len()];
        loop {
            let (mut from, mut to) = self.base;
            for (list, &i) in outer.iter().zip(&at) {
                (from, to) = (from + list[i].0, to + list[i].1);
            }
            // SAFETY: `touched` covers every sum of one pair per list and everything the loops reach from there. It
            // lies inside both buffers, for which the caller vouches.
            unsafe { self.run_list(last, (src, src_len), (dst, dst_len), (from, to))? };
            let Some(l) = (0..at.len()).rev().find(|&l| at[l] + 1 < outer[l].len()) else { return Ok(()) };
            at[l] += 1;
            at[l + 1..].fill(0);
        }
    }

    /// # Safety
    /// `from` and `to` with any pair of the list, and what the loops reach from there, lie inside the buffers.
    unsafe fn run_list(
        &self,
        list: &[(i64, i64)],
        (src, src_len): (*const u8, usize),
        (dst, dst_len): (*mut u8, usize),
        (from, to): (i64, i64),
    ) -> Result<(), CopyError> {
        if !self.inner.dims().is_empty() {
            for &(more_from, more_to) in list {
                let (s, d) = ((from + more_from) as usize, (to + more_to) as usize);
                // SAFETY: the caller's guarantee; the inner copy checks the rest of the buffers.
                unsafe { self.inner.run_raw(src.add(s), src_len - s, dst.add(d), dst_len - d)? };
            }
            return Ok(());
        }
        let from = from + self.inner.src_offset() as i64;
        let to = to + self.inner.dst_offset() as i64;
        macro_rules! copy {
            ($bytes:expr) => {
                for &(more_from, more_to) in list {
                    // SAFETY: the caller's guarantee: both elements lie inside the buffers, which do not overlap.
                    unsafe {
                        let source = src.add((from + more_from) as usize);
                        source.copy_to_nonoverlapping(dst.add((to + more_to) as usize), $bytes);
                    }
                }
            };
        }
        match self.inner.elem_bytes() {
            1 => copy!(1),
            2 => copy!(2),
            4 => copy!(4),
            8 => copy!(8),
            16 => copy!(16),
            n => copy!(n),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(copy: &ListedCopy, src: &[u8], dst: &mut [u8]) -> Result<(), CopyError> {
        // SAFETY: both come from live slices; `dst` is exclusive.
        unsafe { copy.run_raw(src.as_ptr(), src.len(), dst.as_mut_ptr(), dst.len()) }
    }

    #[test]
    fn every_combination_of_pairs_and_loops_is_copied() {
        // A 5 x 8 source of two-byte elements: rows 4 and 1, columns 6, 0 and 3, into a transposed 3 x 2 destination.
        let src: Vec<u8> = (0..80).collect();
        let rows = vec![(4 * 16, 0), (16, 2)];
        let columns = vec![(12, 8), (0, 4), (6, 0)];
        let copy = ListedCopy::new(0, 0, 2, vec![rows, columns], vec![]).unwrap();
        let mut dst = [0u8; 12];
        run(&copy, &src, &mut dst).unwrap();
        let at = |row: u8, column: u8| [row * 16 + column * 2, row * 16 + column * 2 + 1];
        assert_eq!(dst[..], [at(4, 3), at(1, 3), at(4, 0), at(1, 0), at(4, 6), at(1, 6)].concat());
    }

    #[test]
    fn loops_inside_may_run_backwards_on_both_sides() {
        let src: Vec<u8> = (0..30).collect();
        let dims = vec![Dim::new(3, -2, -1)];
        let copy = ListedCopy::new(4, 2, 1, vec![vec![(10, 0), (25, 3), (0, 6)]], dims).unwrap();
        let mut dst = [0u8; 9];
        run(&copy, &src, &mut dst).unwrap();
        assert_eq!(dst, [10, 12, 14, 25, 27, 29, 0, 2, 4]);
    }

    #[test]
    fn copies_beyond_a_buffer_are_refused_before_a_byte_moves() {
        let src = [1u8; 8];
        for (list, dims) in [
            (vec![(0, 0), (8, 1)], vec![]),
            (vec![(0, 0), (0, 4)], vec![]),
            (vec![(0, 0), (-1, 1)], vec![]),
            (vec![(0, 0), (0, -1)], vec![]),
            (vec![(0, 0), (4, 1)], vec![Dim::new(2, 4, 1)]),
        ] {
            let copy = ListedCopy::new(0, 0, 1, vec![list], dims).unwrap();
            let mut dst = [0u8; 4];
            assert!(matches!(run(&copy, &src, &mut dst), Err(CopyError::OutOfBounds { .. })));
            assert_eq!(dst, [0; 4]);
        }
        assert!(ListedCopy::new(i64::MAX, 0, 1, vec![vec![(1, 0)]], vec![]).is_err());
        let empty = ListedCopy::new(1 << 40, 0, 1, vec![vec![]], vec![]).unwrap();
        assert!(empty.is_empty() && run(&empty, &src, &mut []).is_ok());
    }
}
