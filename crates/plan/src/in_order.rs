//! Which bytes a store is asked to bring in order before a read is planned: whole cut blocks, up to the tables behind them.
//!
//! A plan needs the table of a cut block, which stands behind its subchunks. Read by itself, from a slow medium, it waits behind whatever else
//! the medium does, and then lies in the way of reading the subchunks ahead. Where all of a block is wanted, the table comes
//! with what is before it, at the pace of a stream.
//!
//! Invariants
//! - what is named is a hint, taken from entries that nobody has checked: only its length is bounded;
//! - blocks of which a part is wanted are not named.

use std::ops::Range;

use drystone_format::entry::Entry;

use crate::read_plan::Slot;
use crate::selection::Selection;

/// Shorter blocks cost no more than the request for their tables.
const LEAST: u64 = 1 << 20;
/// Longer ones, and more of them, would be in the way of what is read first.
const MOST: u64 = 16 << 20;

/// A cut block of which every cell is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Source number.
    pub source: u32,
    /// Where its table begins.
    pub table: u64,
    /// Bytes of the source: those of its subchunks, about, and of its table.
    pub bytes: Range<u64>,
}

/// The cut blocks of a single slot that are wanted whole; none where they are many.
pub fn in_order(slots: &[Slot]) -> Vec<Whole> {
    let [slot] = slots else { return Vec::new() };
    let mut found = Vec::new();
    let mut bytes = 0u64;
    for entry in slot.candidates.iter().map(|candidate| &candidate.entry) {
        let Some(range) = extent(entry).filter(|_| is_whole(entry, &slot.selection)) else { continue };
        bytes = bytes.saturating_add(range.end - range.start);
        found.push(Whole { source: entry.source, table: entry.piece.position, bytes: range });
    }
    if bytes > MOST { Vec::new() } else { found }
}

/// Where the subchunks of a cut raw block lie, about, and its table.
fn extent(entry: &Entry) -> Option<Range<u64>> {
    if entry.subchunks < 2 || !entry.encoding.chain.is_empty() {
        return None;
    }
    let counts = entry.count.iter().take(usize::from(entry.ndim));
    let cells = counts.fold(u64::from(entry.encoding.room()), |bytes, n| bytes.saturating_mul(*n));
    let end = entry.piece.position.checked_add(entry.piece.length)?;
    (cells >= LEAST).then(|| entry.piece.position.saturating_sub(cells)..end)
}

/// Whether every cell of a block is selected.
fn is_whole(entry: &Entry, selection: &Selection) -> bool {
    selection.axes.len() == usize::from(entry.ndim)
        && selection.axes.iter().zip(entry.offset.iter().zip(&entry.count)).all(|(axis, (offset, count))| {
            let end = offset.saturating_add(*count);
            axis.step == 1 && axis.start <= *offset && end <= axis.start.saturating_add(axis.count)
        })
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
        let whole = |source, table, bytes| Whole { source, table, bytes };
        let expected = [whole(0, 5 * M, M..5 * M + 100), whole(1, M, 0..M + 100)];
        assert_eq!(in_order(std::slice::from_ref(&all)), expected);
        let one_row_less = slot(&entries, Selection::boxed(&[1, 0], &[4095, 2048]));
        assert_eq!(in_order(&[one_row_less]), expected[1..]);
        assert_eq!(in_order(&[all.clone(), all]), [], "several steps");
    }

    #[test]
    fn what_has_no_table_is_encoded_short_or_too_much_is_not() {
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
        let mut alien = cut(0, 0, u64::MAX);
        assert_eq!(in_order(&[slot(std::slice::from_ref(&alien), all())]), []);
        alien.count = [u64::MAX; 8];
        assert_eq!(in_order(&[slot(&[alien], all())]), []);
    }
}
