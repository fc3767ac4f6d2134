//! Which byte ranges are prefetched in file order before a read is planned: whole cut blocks, up to and
//! including their tables.
//!
//! A plan needs the table of a cut block, which follows the block's subchunks. On a slow medium, a request for the
//! table alone waits behind other requests, and then interrupts the read-ahead of the subchunks. If a whole block is
//! wanted, its table arrives with the rest, at the pace of a stream. If other processes read the rest of a block at the
//! same time, the same holds for a part of it; the store may detect that.
//!
//! Invariants
//! - the ranges are hints from entries that have not been checked: only their length is bounded;
//! - a block is left out if less than an eighth of it is wanted.

use std::ops::Range;

use drystone_format::entry::Entry;

use crate::read_plan::Slot;
use crate::selection::Selection;

/// A shorter block costs no more than the request for its table.
const LEAST: u64 = 1 << 20;
/// A longer block, or more bytes of blocks, would delay what is read first.
const MOST: u64 = 16 << 20;

/// A block is prefetched only if at least one in this many of its cells is wanted.
const LEAST_PART: u128 = 8;

/// A cut block that is wanted whole or in large part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Source number.
    pub source: u32,
    /// Where its table begins.
    pub table: u64,
    /// Bytes of the source, approximately: the block's subchunks and its table.
    pub bytes: Range<u64>,
    /// Whether every cell is wanted.
    pub whole: bool,
}

/// The cut blocks of a single slot of which at least an eighth is wanted. Blocks wanted whole are left out if they have
/// too many bytes together; so are blocks wanted in part.
pub fn in_order(slots: &[Slot]) -> Vec<Block> {
    let [slot] = slots else { return Vec::new() };
    let mut found = Vec::new();
    let mut bytes = [0u64; 2];
    for entry in slot.candidates.iter().map(|candidate| &candidate.entry) {
        let (Some(range), Some((wanted, all))) = (extent_of_cut(entry), wanted(entry, &slot.selection))
        else {
            continue;
        };
        if range.end - range.start < LEAST || wanted < all.div_ceil(LEAST_PART) {
            continue;
        }
        let (source, table, whole) = (entry.source, entry.piece.position, wanted == all);
        let of_kind = &mut bytes[usize::from(whole)];
        *of_kind = of_kind.saturating_add(range.end - range.start);
        found.push(Block { source, table, bytes: range, whole });
    }
    found.retain(|block| bytes[usize::from(block.whole)] <= MOST);
    found
}

/// Where the subchunks and the table of a cut raw block lie, approximately.
pub(crate) fn extent_of_cut(entry: &Entry) -> Option<Range<u64>> {
    if entry.subchunks < 2 || !entry.encoding.chain.is_empty() {
        return None;
    }
    let counts = entry.count.iter().take(usize::from(entry.ndim));
    let cells = counts.fold(u64::from(entry.encoding.room()), |bytes, n| bytes.saturating_mul(*n));
    let end = entry.piece.position.checked_add(entry.piece.length)?;
    Some(entry.piece.position.saturating_sub(cells)..end)
}

/// How many cells of a block a box selection takes, and how many cells the block has.
pub(crate) fn wanted(entry: &Entry, selection: &Selection) -> Option<(u128, u128)> {
    if selection.axes.len() != usize::from(entry.ndim) {
        return None;
    }
    let mut found = (1u128, 1u128);
    for (axis, (&offset, &count)) in selection.axes.iter().zip(entry.offset.iter().zip(&entry.count)) {
        let end = offset.saturating_add(count).min(axis.start.saturating_add(axis.count));
        let common = end.saturating_sub(axis.start.max(offset));
        if axis.step != 1 {
            return None;
        }
        found = (found.0.checked_mul(common.into())?, found.1.checked_mul(count.into())?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use drystone_format::entry::Encoding;
    use drystone_transform::stats::ScalarKind;

    use super::*;
    use crate::random::block;
    use crate::resolve::Candidate;

    const M: u64 = 1 << 20;

    /// A block of 4 MiB of bytes in two subchunks, whose table begins at `table`.
    fn cut(source: u32, row: u64, table: u64) -> Entry {
        let mut entry = block(&[row * 2048, 0], &[2048, 2048], 0);
        entry.encoding = Arc::new(Encoding { item: 1, ..Encoding::default() });
        (entry.source, entry.subchunks) = (source, 2);
        (entry.piece.position, entry.piece.length) = (table, 100);
        entry
    }

    fn slot(entries: &[Entry], selection: Selection) -> Slot {
        let candidates = entries.iter().cloned().map(|entry| Candidate { entry, limit: [u64::MAX; 8] });
        Slot {
            candidates: candidates.collect(),
            selection,
            item: 1,
            from: 0,
            whole: 1,
            scalar: 1,
            kind: ScalarKind::U8,
        }
    }

    #[test]
    fn whole_blocks_are_named_up_to_the_end_of_their_tables() {
        let entries = [cut(0, 0, 5 * M), cut(1, 1, M)];
        let all = slot(&entries, Selection::boxed(&[0, 0], &[4096, 2048]));
        let block = |source, table, bytes, whole| Block { source, table, bytes, whole };
        let mut expected = [block(0, 5 * M, M..5 * M + 100, true), block(1, M, 0..M + 100, true)];
        assert_eq!(in_order(std::slice::from_ref(&all)), expected);
        let rows = |from: u64, count: u64| slot(&entries, Selection::boxed(&[from, 0], &[count, 2048]));
        expected[0].whole = false;
        assert_eq!(in_order(&[rows(1, 4095)]), expected, "a row is not wanted");
        assert_eq!(in_order(&[rows(2048 - 256, 4095)]), expected, "an eighth is");
        assert_eq!(in_order(&[rows(2048 - 255, 4095)]), expected[1..], "less is");
        assert_eq!(in_order(&[all.clone(), all]), [], "several steps");
    }

    #[test]
    fn uncut_encoded_short_and_too_many_blocks_are_left_out() {
        let all = || Selection::boxed(&[0, 0], &[8 * 2048, 2048]);
        let (mut uncut, mut coded, mut short) = (cut(0, 0, M), cut(0, 0, M), cut(0, 0, M));
        uncut.subchunks = 1;
        coded.encoding = Arc::new(Encoding { chain: "lz4".into(), item: 1, ..Encoding::default() });
        short.count[1] = 20;
        for entry in [uncut, coded, short] {
            assert_eq!(in_order(&[slot(&[entry], all())]), []);
        }
        let many = |n: u64| (0..n).map(|k| cut(k as u32, k, 9 * M)).collect::<Vec<_>>();
        assert_eq!(in_order(&[slot(&many(3), all())]).len(), 3);
        assert_eq!(in_order(&[slot(&many(5), all())]), []);
        let mut some = all();
        some.axes[0].count = 4 * 2048 - 1;
        assert_eq!(in_order(&[slot(&many(4), some)]).len(), 4, "those of a kind are counted");
        let mut alien = cut(0, 0, u64::MAX);
        assert_eq!(in_order(&[slot(std::slice::from_ref(&alien), all())]), []);
        alien.count = [u64::MAX; 8];
        assert_eq!(in_order(&[slot(&[alien], all())]), []);
    }
}
