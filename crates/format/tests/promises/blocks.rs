//! Tests that checking a block by its columns gives the same result as checking each entry.

use std::sync::Arc;

use drystone_format::block::Block;
use drystone_format::entry::{Encoding, Entry, Stats, StoredPiece, encode_block};
use drystone_format::layout::MAX_ROOM;
use drystone_format::piece::MAX_LENGTH;

/// A row of cubes, each cut in 4 x 2 parts.
fn regular() -> Vec<Entry> {
    let (count, cut) = ([16, 16, 0, 0, 0, 0, 0, 0], [4, 8, 0, 0, 0, 0, 0, 0]);
    let encoding = Arc::new(Encoding { item: 4, ..Encoding::default() });
    let entry = |n: u64| Entry {
        step: n / 8 + 1,
        put: n,
        ndim: 2,
        offset: [16 * n, 32, 0, 0, 0, 0, 0, 0],
        count,
        cut,
        encoding: encoding.clone(),
        subchunks: 8,
        piece: StoredPiece { position: 4096 + 64 * n, length: 64, check: n as u32, ..StoredPiece::default() },
        stats: Stats { min_max: Some((n, n + 1)), nans: 0 },
        ..Entry::default()
    };
    (0..20).map(entry).collect()
}

type Change = fn(&mut Entry);

/// Changes to an entry that make it invalid, or seem to.
const CHANGES: [Change; 27] = [
    |_| {},
    |e| e.ndim = 1,
    |e| e.ndim = 0,
    |e| e.offset[1] = u64::MAX - 16,
    |e| e.offset[1] = u64::MAX - 15,
    |e| e.offset[1] = u64::MAX,
    |e| e.offset[2] = 1,
    |e| e.count[2] = 1,
    |e| (e.count[0], e.subchunks) = (0, 0),
    |e| e.count[0] = 0,
    |e| e.count[0] = 17,
    |e| (e.count[0], e.subchunks) = (17, 10),
    |e| e.cut[0] = 0,
    |e| (e.count, e.cut, e.subchunks) = ([u64::MAX >> 8; 8], [1; 8], 8),
    |e| (e.cut[0], e.cut[1], e.subchunks) = (99, 16, 1),
    |e| e.subchunks = 9,
    |e| e.piece.length = 0,
    |e| e.piece.length = MAX_LENGTH + 1,
    |e| e.piece.position = u64::MAX - 64,
    |e| e.piece.position = u64::MAX - 60,
    |e| e.piece.trailer = 4,
    |e| (e.cut, e.subchunks, e.piece.trailer) = (e.count, 1, 4),
    |e| (e.cut, e.subchunks, e.piece.trailer) = (e.count, 1, 3),
    |e| (e.cut, e.subchunks, e.piece.trailer, e.piece.unit_log2) = (e.count, 1, 4, 5),
    |e| (e.cut, e.subchunks, e.piece.unit_log2) = (e.count, 1, 41),
    |e| e.encoding = Arc::new(Encoding { item: 4, part: Some(MAX_ROOM - 4), ..Encoding::default() }),
    |e| e.encoding = Arc::new(Encoding { item: 4, part: Some(MAX_ROOM - 3), ..Encoding::default() }),
];

#[test]
fn a_block_is_refused_for_the_first_entry_that_is_not_valid_and_for_nothing_else() {
    let mut refused = 0;
    for (number, change) in CHANGES.into_iter().enumerate() {
        let ranges = [0..20, 7..8, 0..1, 19..20, 3..20];
        // With one number of dimensions, and followed by entries with another.
        for (changed, mixed) in ranges.iter().flat_map(|range| [(range, false), (range, true)]) {
            let mut entries = regular();
            entries[changed.clone()].iter_mut().for_each(change);
            if mixed {
                entries.extend([7u64, 8, 9].map(|n| Entry {
                    step: 9,
                    put: n,
                    ndim: 1,
                    offset: [n, 0, 0, 0, 0, 0, 0, 0],
                    count: [1, 0, 0, 0, 0, 0, 0, 0],
                    cut: [1, 0, 0, 0, 0, 0, 0, 0],
                    subchunks: 1,
                    ..entries[0].clone()
                }));
            }
            // A block stores nothing for dimensions that no entry has.
            let dims = entries.iter().map(|e| e.ndim.into()).max().unwrap_or(0);
            for e in &mut entries {
                for cells in [&mut e.offset, &mut e.count, &mut e.cut] {
                    cells[dims..].fill(0);
                }
            }
            let wrong = entries
                .iter()
                .enumerate()
                .find_map(|(i, e)| Some(format!("entry {i}: {}", e.validate().err()?)));
            let found = Block::decode(&encode_block(&entries));
            refused += usize::from(found.is_err());
            match (found, wrong) {
                (Ok(block), None) => assert_eq!(block.entries(), entries, "change {number} of {changed:?}"),
                (Err(e), Some(wrong)) => assert_eq!(e.what, wrong, "change {number} of {changed:?}"),
                (found, wrong) => panic!("change {number} of {changed:?}: {found:?}, but {wrong:?}"),
            }
        }
    }
    assert!((120..220).contains(&refused), "{refused} of 270");
}

#[test]
fn boxes_meet_as_entries_say() {
    let mut entries = regular();
    (entries[5].count[1], entries[5].subchunks) = (0, 0);
    let block = Block::decode(&encode_block(&entries)).unwrap();
    let none = [0; 8];
    let bounds = |lo: [u64; 2], hi: [u64; 2]| {
        let (mut from, mut to) = (none, none);
        from[..2].copy_from_slice(&lo);
        to[..2].copy_from_slice(&hi);
        (from, to)
    };
    let found = |b| (0..block.len()).filter(|&i| block.meets(i, &b)).collect::<Vec<_>>();
    assert_eq!(found(bounds([70, 40], [112, 41])), [4, 6]);
    assert_eq!(found(bounds([64, 0], [65, 32])), Vec::<usize>::new());
    assert_eq!(found(bounds([79, 47], [81, 48])), [4]);
    assert_eq!(found(bounds([304, 0], [u64::MAX, 0])), [19], "a dimension without bounds is not looked at");
}

#[test]
fn fields_that_all_entries_share_take_no_memory_per_entry() {
    let entries = regular();
    let few = Block::decode(&encode_block(&entries)).unwrap().memory();
    let all: Vec<Entry> = entries.iter().cycle().take(2000).cloned().collect();
    let many = Block::decode(&encode_block(&all)).unwrap().memory();
    assert!(many - few < 1980 * size_of::<Entry>() / 4, "{few} and {many} bytes");
}
