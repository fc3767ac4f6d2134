//! Extents give the same bytes as an array of bytes, after any writes and truncations.

use drystone_files::{Extent, Extents};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Act {
    Write(u64, u64),
    Hole(u64, u64),
    Cut(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u64..200, 1u64..60).prop_map(|(at, len)| Act::Write(at, len)),
        1 => (0u64..200, 1u64..60).prop_map(|(at, len)| Act::Hole(at, len)),
        1 => (0u64..260).prop_map(Act::Cut),
    ]
}

proptest! {
    #[test]
    fn extents_show_what_an_array_of_bytes_shows(
        acts in prop::collection::vec(act(), 1..60), from in 0u64..260, len in 0u64..260,
    ) {
        let mut model = vec![None; 600];
        let mut extents = Extents::default();
        let mut log = 0u64;
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Write(offset, len) => {
                    // Every third write goes to a log of its own.
                    let name = if number % 3 == 0 { 100 + number as u64 } else { 7 };
                    extents.insert(Extent { offset, len, log: name, position: log });
                    for i in 0..len {
                        model[(offset + i) as usize] = Some((name, log + i));
                    }
                    log += len;
                }
                Act::Hole(offset, len) => {
                    extents.remove(offset..offset + len);
                    model[offset as usize..(offset + len) as usize].fill(None);
                }
                Act::Cut(size) => {
                    extents.truncate(size);
                    model[size as usize..].fill(None);
                }
            }
        }
        let mut at = from;
        for piece in extents.pieces(from..from + len) {
            prop_assert_eq!(piece.range.start, at);
            prop_assert!(piece.range.start < piece.range.end);
            for byte in piece.range.clone() {
                let shown = piece.place.map(|(log, position)| (log, position + (byte - piece.range.start)));
                prop_assert_eq!(shown, model[byte as usize]);
            }
            at = piece.range.end;
        }
        prop_assert_eq!(at, from + len);
        let data = (from..600).find(|&i| model[i as usize].is_some());
        prop_assert_eq!(extents.next_data(from), data);
        prop_assert_eq!(extents.next_hole(from), (from..600).find(|&i| model[i as usize].is_none()).unwrap_or(600));
        prop_assert_eq!(extents.bytes(), model.iter().flatten().count() as u64);
        let ends: Vec<_> = extents.iter().collect();
        prop_assert!(ends.windows(2).all(|two| two[0].offset + two[0].len <= two[1].offset));
    }
}

#[test]
fn writes_that_continue_each_other_are_one_extent() {
    let mut extents = Extents::default();
    for i in 0..1000 {
        extents.insert(Extent { offset: i * 10, len: 10, log: 1, position: 5 + i * 10 });
    }
    assert_eq!(extents.len(), 1);
}
