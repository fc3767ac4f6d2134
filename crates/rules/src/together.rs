//! Copies several members of the same records in one pass.
//!
//! Members of different sizes cannot be one strided copy. Copied one after the other, each member would fetch every
//! record again. So copies whose loops over records agree are run together, a block of records at a time: the block is
//! in the cache when its next member is copied.

use crate::term::Term;
use drystone_copy::{CopyError, StridedCopy};

/// Bytes of records per block. (Miri uses smaller ones, so that this path is reached in little time.)
const BLOCK: u64 = if cfg!(miri) { 4 << 10 } else { 256 << 10 };

/// The terms that run next.
pub(crate) enum Batch<'a> {
    One(&'a Term),
    Together(Walk<'a>),
}

/// Copies, each with the number of its loop over records.
pub(crate) struct Walk<'a> {
    copies: Vec<(&'a StridedCopy, usize)>,
    count: u64,
    step: u64,
}

/// Divides the terms into batches, in order.
pub(crate) fn batches(terms: &[Term]) -> Vec<Batch<'_>> {
    let mut batches = Vec::with_capacity(terms.len());
    let mut rest = terms;
    while let Some((first, after)) = rest.split_first() {
        let walk = Walk::starting_with(first, after);
        let taken = walk.as_ref().map_or(1, |walk| walk.copies.len());
        batches.push(walk.map_or(Batch::One(first), Batch::Together));
        rest = &rest[taken..];
    }
    batches
}

impl<'a> Walk<'a> {
    /// The longest batch of `first` and the terms right after it, if any of them visits the same records.
    fn starting_with(first: &'a Term, after: &'a [Term]) -> Option<Walk<'a>> {
        let Term::Copy(first) = first else { return None };
        if first.bytes() < BLOCK || after.is_empty() {
            return None;
        }
        let mut best: Option<Walk<'a>> = None;
        for (k, dim) in first.dims().iter().enumerate() {
            for by_source in [true, false] {
                let stride =
                    if by_source { dim.src_stride.unsigned_abs() } else { dim.dst_stride.unsigned_abs() };
                if stride == 0 || stride > BLOCK / 16 {
                    continue;
                }
                let mut copies = vec![(first, k)];
                for term in after {
                    match partner(first, k, term, by_source) {
                        Some(partner) => copies.push(partner),
                        None => break,
                    }
                }
                if copies.len() > best.as_ref().map_or(1, |walk| walk.copies.len()) {
                    best = Some(Walk { copies, count: dim.count, step: BLOCK / stride });
                }
            }
        }
        best
    }

    /// Runs all copies, block by block.
    pub(crate) fn run(&self, src: &[u8], dst: &mut [u8], threads: usize) -> Result<(), CopyError> {
        if threads > 1 {
            return self.copies.iter().try_for_each(|(copy, _)| copy.run_threaded(src, dst, threads));
        }
        let mut from = 0;
        while from < self.count {
            let to = self.count.min(from + self.step);
            for (copy, k) in &self.copies {
                copy.restricted(*k, from..to).run(src, dst)?;
            }
            from = to;
        }
        Ok(())
    }
}

/// The loop of `term` that visits the records of loop `k` of `first` on the given side.
fn partner<'a>(
    first: &StridedCopy,
    k: usize,
    term: &'a Term,
    by_source: bool,
) -> Option<(&'a StridedCopy, usize)> {
    let Term::Copy(copy) = term else { return None };
    let records = first.dims()[k];
    let near = |x: u64, y: u64, stride: i64| x.abs_diff(y) < stride.unsigned_abs();
    let same_records = if by_source {
        near(copy.src_offset(), first.src_offset(), records.src_stride)
    } else {
        near(copy.dst_offset(), first.dst_offset(), records.dst_stride)
    };
    let found = copy.dims().iter().position(|dim| {
        let same_stride = if by_source {
            dim.src_stride == records.src_stride
        } else {
            dim.dst_stride == records.dst_stride
        };
        dim.count == records.count && same_stride
    })?;
    same_records.then_some((copy, found))
}
