//! Tests that plans, executed cell by cell against a simulated store, give the values of a painter: a model that paints
//! blocks from the oldest to the newest.

use std::collections::HashMap;
use std::sync::Arc;

use drystone_format::entry::Encoding;
use drystone_format::layout::Layout;

use super::*;
use crate::listing::{Leg, Listing};
use crate::random::{Random, block};
use crate::selection::Axis;

const ITEM: u64 = 4;

/// Sources as bytes, and tables by block number (the entry's `put`).
#[derive(Default)]
struct Store {
    sources: Vec<Vec<u8>>,
    tables: HashMap<u64, Vec<Subchunk>>,
}

fn coded(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().map(|b| b ^ 0x5a).collect()
}

impl Store {
    /// Stores a subchunk: payload, padding, a trailer of checks and a histogram of 6 bytes.
    fn put_piece(&mut self, source: u32, payload: &[u8], unit_log2: u8, trailer: bool) -> StoredPiece {
        let number = source as usize;
        self.sources.resize(self.sources.len().max(number + 1), Vec::new());
        let bytes = &mut self.sources[number];
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let (position, length) = (bytes.len() as u64, payload.len() as u64);
        bytes.extend(payload);
        let mut piece = StoredPiece { position, length, unit_log2, ..StoredPiece::default() };
        if trailer {
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let units = if unit_log2 == 0 { 1 } else { length.div_ceil(1 << unit_log2) };
            piece.trailer = units * 4 + 6;
            bytes.resize(bytes.len() + piece.trailer as usize, 0xcc);
        }
        piece
    }

    /// Stores a block whose cell at `at` has the value `value(at)`, cut and encoded at random.
    fn put(
        &mut self,
        random: &mut Random,
        offset: &[u64],
        count: &[u64],
        value: &dyn Fn(&[u64]) -> u32,
    ) -> Entry {
        let mut entry = block(offset, count, random.below(4));
        entry.put = self.tables.len() as u64;
        entry.source = random.below(3) as u32;
        let chain = if random.below(3) == 0 { "mirror" } else { "" };
        entry.encoding = Arc::new(Encoding { chain: chain.into(), item: ITEM as u32, ..Encoding::default() });
        let cutting = random.below(2) == 0;
        entry.subchunks = 1;
        for (d, &count) in count.iter().enumerate() {
            entry.cut[d] = if cutting { 1 + random.below(count) } else { count };
            entry.subchunks *= count.div_ceil(entry.cut[d]);
        }
        let grid: Vec<u64> = count.iter().zip(&entry.cut).map(|(n, cut)| n.div_ceil(*cut)).collect();
        let mut table = Vec::new();
        for chunk in cells(&grid) {
            let from: Vec<u64> = chunk.iter().zip(&entry.cut).map(|(i, cut)| i * cut).collect();
            let shape: Vec<u64> = (0..from.len()).map(|d| entry.cut[d].min(count[d] - from[d])).collect();
            let place =
                |at: &Vec<u64>| (0..at.len()).map(|d| offset[d] + from[d] + at[d]).collect::<Vec<u64>>();
            let dense: Vec<u8> =
                cells(&shape).iter().flat_map(|at| value(&place(at)).to_le_bytes()).collect();
            let payload = if chain.is_empty() { dense } else { coded(&dense) };
            let unit_log2 = [0, 3, 4, 6][random.below(4) as usize];
            let piece = self.put_piece(entry.source, &payload, unit_log2, random.below(4) != 0);
            table.push(Subchunk { piece, ..Subchunk::default() });
        }
        entry.piece = if entry.subchunks == 1 {
            table[0].piece
        } else {
            StoredPiece { length: 4096, ..StoredPiece::default() }
        };
        self.tables.insert(entry.put, table);
        entry
    }

    fn plan(&self, slots: &[Slot], options: &Options) -> Result<ReadPlan, PlanError> {
        let resolved = resolve_slots(slots)?;
        let needed = needed_tables(slots, &resolved);
        let tables = |slot: usize, candidate: usize| {
            assert!(needed.contains(&(slot, candidate)), "a table that was not announced");
            &self.tables[&slots[slot].candidates[candidate].entry.put][..]
        };
        plan(slots, &resolved, tables, |_, _| None, options)
    }

    /// Executes a plan cell by cell; cells that nothing fills stay `None`.
    fn execute(&self, slots: &[Slot], plan: &ReadPlan) -> Vec<Vec<Option<u32>>> {
        let shapes: Vec<Vec<u64>> = slots.iter().map(|slot| slot.selection.shape()).collect();
        self.execute_into(slots, &shapes, plan)
    }

    /// The same with the shape of each slot's result.
    fn execute_into(&self, slots: &[Slot], shapes: &[Vec<u64>], plan: &ReadPlan) -> Vec<Vec<Option<u32>>> {
        let mut payloads: Vec<Vec<Option<u8>>> =
            plan.works.iter().map(|work| vec![None; work.piece.length as usize]).collect();
        for fetch in &plan.fetches {
            for (range, (work, payload)) in &fetch.items {
                assert!(fetch.range.start <= range.start && range.end <= fetch.range.end);
                assert!(plan.works[*work].ranges.contains(payload));
                let bytes = &self.sources[fetch.source as usize][range.start as usize..range.end as usize];
                for (i, at) in payload.clone().enumerate() {
                    assert_eq!(payloads[*work][at as usize].replace(bytes[i]), None, "read twice");
                }
            }
        }
        let mut trailers = HashMap::new();
        for fetch in &plan.trailers {
            trailers.extend(fetch.items.iter().map(|(range, number)| (*number, range.clone())));
        }
        let length = |shape: &Vec<u64>| shape.iter().product::<u64>() as usize;
        let mut out: Vec<Vec<Option<u32>>> = shapes.iter().map(|shape| vec![None; length(shape)]).collect();
        for (work, payload) in plan.works.iter().zip(&payloads) {
            let entry = &slots[work.slot].candidates[work.entry].entry;
            let unit = if work.piece.unit_log2 == 0 { work.piece.length } else { 1 << work.piece.unit_log2 };
            for range in &work.ranges {
                assert!(range.start % unit == 0 && (range.end % unit == 0 || range.end == work.piece.length));
            }
            assert_eq!(work.whole, work.trailer.is_none());
            if let Some(number) = work.trailer {
                assert_eq!(trailers[&number], work.piece.trailer_position()..work.piece.end());
            }
            let dense: Vec<Option<u8>> = if entry.encoding.chain.is_empty() {
                payload.clone()
            } else {
                let whole: Vec<u8> = payload.iter().map(|b| b.unwrap()).collect();
                coded(&whole).into_iter().map(Some).collect()
            };
            let value = |from: u64| {
                let bytes: Vec<u8> = (0..ITEM).map(|i| dense[(from * ITEM + i) as usize].unwrap()).collect();
                u32::from_le_bytes(bytes.try_into().unwrap())
            };
            let ndim = slots[work.slot].selection.axes.len();
            let shape = shapes[work.slot].clone();
            if let Some(listed) = &work.cells {
                assert_eq!((work.ranges.len(), listed.legs.len()), (1, shape.len()));
                for at in cells(&listed.legs.iter().map(Picks::count).collect::<Vec<_>>()) {
                    let picks = listed.legs.iter().zip(at).map(|(leg, i)| leg.get(i).unwrap());
                    let (from, to) = picks
                        .zip(&shape)
                        .fold((0, 0), |(from, to), ((more, place), n)| (from + more, to * n + place));
                    let before = out[work.slot][to as usize].replace(value(from));
                    assert_eq!(before, None, "filled twice");
                }
                continue;
            }
            let part = &work.part;
            for at in cells(&part.chunk.map(|(_, _, count)| count)[..ndim]) {
                let (mut from, mut to) = (0, 0);
                for d in 0..ndim {
                    let (first, step, _) = part.chunk[d];
                    from =
                        from * part.chunk_shape[d] + first.checked_add_signed(step * at[d] as i64).unwrap();
                    to = to * shape[d] + part.dest[d] + at[d];
                }
                assert_eq!(out[work.slot][to as usize].replace(value(from)), None, "filled twice");
            }
        }
        out
    }
}

/// All cells of a shape, row-major.
fn cells(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![vec![]], |all, &length| {
        let extend = |at: Vec<u64>| (0..length).map(move |i| [at.clone(), vec![i]].concat());
        all.into_iter().flat_map(extend).collect()
    })
}

fn candidate(entry: Entry) -> Candidate {
    Candidate { entry, limit: [u64::MAX; MAX_NDIM] }
}

/// The expected value of each cell of a slot: the one that the newest block gave it.
fn paint(slot: &Slot) -> Vec<Option<u32>> {
    let newest = |at: Vec<u64>| {
        let cell: Vec<u64> = at.iter().zip(&slot.selection.axes).map(|(&i, axis)| axis.cell(i)).collect();
        let holds = |c: &&Candidate| {
            (0..cell.len()).all(|d| {
                let inside = cell[d].checked_sub(c.entry.offset[d]);
                inside.is_some_and(|inside| inside < c.entry.count[d]) && cell[d] < c.limit[d]
            })
        };
        let shown = slot.candidates.iter().filter(holds).max_by_key(|c| (c.entry.commit, c.entry.put))?;
        Some(value_of(shown.entry.put, &cell))
    };
    cells(&slot.selection.shape()).into_iter().map(newest).collect()
}

fn value_of(put: u64, cell: &[u64]) -> u32 {
    cell.iter().fold(put as u32, |value, &at| value * 64 + at as u32)
}

#[test]
fn random_reads_show_what_a_painter_paints() {
    let mut random = Random(21);
    for case in 0..1500 {
        let ndim = random.below(4) as usize;
        let edge = [0, 60, 24, 10][ndim];
        let mut store = Store::default();
        let slots: Vec<Slot> = (0..1 + random.below(3))
            .map(|_| {
                let candidates = (0..random.below(7))
                    .map(|_| {
                        let offset: Vec<u64> = (0..ndim).map(|_| random.below(edge)).collect();
                        let count: Vec<u64> = (0..ndim).map(|_| 1 + random.below(edge)).collect();
                        let put = store.tables.len() as u64;
                        let mut made =
                            candidate(store.put(&mut random, &offset, &count, &|at| value_of(put, at)));
                        if ndim > 0 && random.below(5) == 0 {
                            made.limit[0] = random.below(2 * edge);
                        }
                        made
                    })
                    .collect();
                let axes = (0..ndim)
                    .map(|_| {
                        let step: i64 = [1, 1, 2, 5, -1, -3][random.below(6) as usize];
                        let count = 1 + random.below(edge / step.unsigned_abs());
                        let span = (count - 1) * step.unsigned_abs();
                        let low = random.below(edge - span);
                        Axis { start: if step < 0 { low + span } else { low }, step, count }
                    })
                    .collect();
                Slot {
                    candidates,
                    selection: Selection { axes },
                    item: ITEM,
                    from: 0,
                    whole: ITEM,
                    scalar: ITEM,
                    kind: ScalarKind::U32,
                }
            })
            .collect();
        let options = Options {
            gap: [0, 0, 8, 200][random.below(4) as usize],
            max_request: 64 << random.below(8),
            ..Options::default()
        };
        let plan = store.plan(&slots, &options).unwrap();
        let expected: Vec<Vec<Option<u32>>> = slots.iter().map(paint).collect();
        assert_eq!(store.execute(&slots, &plan), expected, "case {case}\n{plan}");
        let fill: Vec<bool> = expected.iter().map(|cells| cells.contains(&None)).collect();
        assert_eq!(plan.fill, fill);
        assert_eq!(plan.wanted_bytes, expected.iter().flatten().flatten().count() as u64 * ITEM);
        assert_eq!(plan, store.plan(&slots, &options).unwrap());
    }
}

/// A raw block of 4-byte elements at position 4096, checked in units of 16 KiB.
fn raw_slot(shape: &[u64], axes: Vec<Axis>) -> Slot {
    let mut entry = block(&vec![0; shape.len()], shape, 1);
    let length = shape.iter().product::<u64>() * ITEM;
    let trailer = length.div_ceil(16384) * 4;
    entry.piece = StoredPiece { position: 4096, length, trailer, unit_log2: 14, check: 0 };
    Slot {
        candidates: vec![candidate(entry)],
        selection: Selection { axes },
        item: ITEM,
        from: 0,
        whole: ITEM,
        scalar: ITEM,
        kind: ScalarKind::U32,
    }
}

fn plan_of(slots: &[Slot]) -> Result<ReadPlan, PlanError> {
    plan(slots, &resolve_slots(slots)?, |_, _| &[], |_, _| None, &Options::default())
}

#[test]
fn a_plan_reads_like_this() {
    // One plane in the middle of 8 MiB: its trailer, and 64 KiB in one request.
    let mid = vec![Axis { start: 64, step: 1, count: 1 }, Axis::full(128), Axis::full(128)];
    let mut made = plan_of(&[raw_slot(&[128, 128, 128], mid)]).unwrap();
    made.title = "T[3, 64, :, :]".into();
    let text = "T[3, 64, :, :]
1 block, 1 subchunk, 2 requests
65536 bytes wanted, 67584 bytes read
  source 0: 8392704..8394752 (1 trailer)
  source 0: 4198400..4263936 (1 range)";
    assert_eq!(made.to_string(), text);
    assert!(!made.works[0].whole);
}

#[test]
fn a_long_plan_is_cut_short() {
    let planes = |_| raw_slot(&[16, 16], vec![Axis::full(17), Axis::full(16)]);
    let mut slots: Vec<Slot> = (0..30).map(planes).collect();
    for (number, slot) in slots.iter_mut().enumerate() {
        slot.candidates[0].entry.source = number as u32;
    }
    let text = plan_of(&slots).unwrap().to_string();
    assert!(text.contains("cells without data in 30 of 30 slots"), "{text}");
    assert!(text.ends_with("source 19: 4096..5124 (1 range)\n  ... 10 more"), "{text}");
}

#[test]
fn nearly_whole_pieces_are_read_with_their_trailer() {
    // 1 MiB, all but two rows; and all of it, backwards.
    for axis in [Axis { start: 1, step: 1, count: 254 }, Axis { start: 255, step: -1, count: 256 }] {
        let made = plan_of(&[raw_slot(&[256, 1024], vec![axis, Axis::full(1024)])]).unwrap();
        assert_eq!((made.requests, made.works.len(), made.works[0].whole), (1, 1, true));
        assert_eq!(made.fetches[0].range, 4096..4096 + (1 << 20) + 256);
    }
}

#[test]
fn large_raw_pieces_are_shared_out_in_works() {
    // 16 MiB, all of it: four works of 4 MiB and one trailer for all.
    let made =
        plan_of(&[raw_slot(&[256, 128, 128], vec![Axis::full(256), Axis::full(128), Axis::full(128)])]);
    let made = made.unwrap();
    assert_eq!((made.works.len(), made.trailers.len(), made.fetches.len()), (4, 1, 4));
    assert_eq!((made.subchunks, made.requests), (1, 5));
    assert!(made.fetches.iter().all(|fetch| fetch.len() == 4 << 20));
    assert!(made.works.iter().all(|work| work.trailer == Some(0)));
    assert_eq!(made.read_bytes, (16 << 20) + 4096);
}

/// A shuffled block of 512 x 1024 elements in check units of 16 KiB; one row is selected.
fn shuffled_row() -> Slot {
    let row = vec![Axis { start: 100, step: 1, count: 1 }, Axis::full(1024)];
    let mut slot = raw_slot(&[512, 1024], row);
    let entry = &mut slot.candidates[0].entry;
    entry.encoding = Arc::new(Encoding {
        chain: "shuffle".into(),
        item: 4,
        layout: Layout::Dense,
        replica: 0,
        part: None,
    });
    entry.piece = StoredPiece { length: (2 << 20) + 1, trailer: 129 * 4 + 5, ..entry.piece };
    slot
}

#[test]
fn metadata_that_would_help_is_named_and_then_fewer_bytes_are_read() {
    let slots = [shuffled_row()];
    let resolved = resolve_slots(&slots).unwrap();
    let piece = slots[0].candidates[0].entry.piece;
    let with = |meta: Option<&'static [u8]>| {
        plan(
            &slots,
            &resolved,
            |_, _| &[],
            move |_, _| meta,
            &Options { gap: 16 << 10, ..Options::default() },
        )
    };
    let blind = with(None).unwrap();
    assert_eq!((&blind.unknown, blind.works[0].whole), (&vec![(0, piece)], true));
    assert_eq!(blind.read_bytes, piece.end() - piece.position);
    // Bytes 100 KiB to 101 KiB of each of four planes of 512 KiB, behind the mode byte.
    let seeing = with(Some(&[0x1F])).unwrap();
    let ranges: Vec<Range<u64>> =
        (0..4).map(|plane| plane * 524288 + 98304..plane * 524288 + 114688).collect();
    assert_eq!((seeing.works[0].ranges.clone(), seeing.works[0].trailer), (ranges, Some(0)));
    assert_eq!((seeing.read_bytes, seeing.requests), (4 * 16384 + piece.trailer, 5));
    assert!(seeing.unknown.is_empty());
    // Raw behind the mode byte: one range. If the metadata does not help, the whole piece.
    assert_eq!(with(Some(&[0x10])).unwrap().works[0].ranges, [409600..425984; 1]);
    assert!(with(Some(&[])).unwrap().works[0].ranges == [0..piece.length; 1]);
}

#[test]
fn metadata_that_contradicts_the_piece_is_damage() {
    let mut slot = shuffled_row();
    slot.candidates[0].entry.piece.length -= 4;
    let slots = [slot];
    let resolved = resolve_slots(&slots).unwrap();
    let made = plan(&slots, &resolved, |_, _| &[], |_, _| Some(&[0x1F]), &Options::default());
    assert!(matches!(made, Err(PlanError::Corrupt { slot: 0, candidate: 0, .. })), "{made:?}");
}

#[test]
fn numbers_out_of_range_are_errors() {
    type Change = fn(&mut Entry);
    let changes: [(Change, &str); 13] = [
        (|e| e.piece.length -= 4, "4096 cells stored in 16380 bytes"),
        (|e| e.piece.length = 0, "in 0 bytes"),
        (|e| e.piece.position = u64::MAX - 3, "a piece at"),
        (|e| e.piece.trailer = u64::MAX, "impossible"),
        (|e| e.piece.unit_log2 = 200, "impossible"),
        (|e| e.piece.trailer = 3, "a trailer of"),
        (|e| e.cut[1] = 0, "cut by 0"),
        (|e| e.cut[1] = 5, "in a grid of"),
        (|e| e.subchunks = 0, "in a grid of"),
        (|e| (e.subchunks, e.cut[1], e.piece.trailer) = (4, 16, 0), "its table has 0"),
        (|e| (e.count[0], e.cut[0]) = (u64::MAX, u64::MAX), "2^64 or more cells"),
        (|e| e.ndim = 3, "3 dimensions"),
        (|e| e.encoding = Arc::new(Encoding { item: 8, ..Encoding::default() }), "8 bytes"),
    ];
    for (change, told) in changes {
        let mut slot = raw_slot(&[64, 64], vec![Axis::full(64), Axis::full(64)]);
        assert!(plan_of(std::slice::from_ref(&slot)).is_ok());
        change(&mut slot.candidates[0].entry);
        let error = plan_of(&[slot]).unwrap_err();
        assert!(error.to_string().contains(told), "{error} does not say {told}");
        assert!(matches!(error, PlanError::Corrupt { slot: 0, candidate: 0, .. }));
    }
    let mut slot = raw_slot(&[64], vec![Axis::full(64)]);
    slot.candidates[0].entry.encoding =
        Arc::new(Encoding { item: 4, layout: Layout::Unknown(7), ..Encoding::default() });
    assert!(matches!(plan_of(&[slot]), Err(PlanError::Unsupported { .. })));
}

#[test]
fn damage_in_a_block_that_does_not_show_fails_nothing() {
    let mut slot = raw_slot(&[64], vec![Axis::full(64)]);
    let mut newer = slot.candidates[0].clone();
    newer.entry.commit = 2;
    slot.candidates[0].entry.piece.length = 1;
    slot.candidates.push(newer);
    assert_eq!(plan_of(&[slot]).unwrap().blocks, 1);
}

/// The array's cell that each cell of a listing's result names.
fn named(listing: &Listing, ndim: usize) -> Vec<Vec<u64>> {
    let name = |at: Vec<u64>| {
        let mut cell = vec![0; ndim];
        for (leg, i) in listing.legs.iter().zip(at) {
            match &**leg {
                Leg::Axis { axis, cells } => cell[*axis] = cells.cell(i),
                Leg::List { axes, cells, .. } => {
                    for (k, axis) in axes.iter().enumerate() {
                        cell[*axis] = cells[i as usize * axes.len() + k];
                    }
                }
            }
        }
        cell
    };
    cells(&listing.shape()).into_iter().map(name).collect()
}

#[test]
fn random_listings_show_what_a_painter_paints() {
    let mut random = Random(22);
    for case in 0..1500 {
        let ndim = 1 + random.below(3) as usize;
        let edge = [0, 60, 24, 10][ndim];
        let mut store = Store::default();
        let mut slots = Vec::new();
        let mut listings = Vec::new();
        for _ in 0..1 + random.below(3) {
            let candidates = (0..random.below(7)).map(|_| {
                let offset: Vec<u64> = (0..ndim).map(|_| random.below(edge)).collect();
                let count: Vec<u64> = (0..ndim).map(|_| 1 + random.below(edge)).collect();
                let put = store.tables.len() as u64;
                candidate(store.put(&mut random, &offset, &count, &|at| value_of(put, at)))
            });
            let candidates: Vec<Candidate> = candidates.collect();
            // Axes that share a number belong to one list; above ndim is a progression.
            let owner: Vec<u64> = (0..ndim).map(|_| random.below(2 * ndim as u64)).collect();
            let mut legs = Vec::new();
            for list in 0..ndim as u64 {
                let axes: Vec<usize> = (0..ndim).filter(|d| owner[*d] == list).collect();
                if !axes.is_empty() {
                    let cells = (0..(1 + random.below(9)) * axes.len() as u64).map(|_| random.below(edge));
                    let cells = cells.collect();
                    legs.push(Leg::list(axes, cells));
                }
            }
            for axis in (0..ndim).filter(|d| owner[*d] >= ndim as u64) {
                let step: i64 = [1, 2, -1, -3][random.below(4) as usize];
                let count = 1 + random.below(edge / step.unsigned_abs());
                let span = (count - 1) * step.unsigned_abs();
                let low = random.below(edge - span);
                let cells = Axis { start: if step < 0 { low + span } else { low }, step, count };
                legs.insert(random.below(legs.len() as u64 + 1) as usize, Leg::Axis { axis, cells });
            }
            let listing = Listing::new(legs);
            assert!(listing.check(&vec![edge; ndim]));
            let (selection, kind) = (listing.enclosing(), ScalarKind::U32);
            slots.push(Slot { candidates, selection, item: ITEM, from: 0, whole: ITEM, scalar: ITEM, kind });
            listings.push(listing);
        }
        let options = Options {
            gap: [0, 0, 8, 200][random.below(4) as usize],
            max_request: 64 << random.below(8),
            ..Options::default()
        };
        let found = find(&slots, &listings).unwrap();
        let needed = needed_tables(&slots, &found.resolved);
        let tables = |slot: usize, candidate: usize| {
            assert!(needed.contains(&(slot, candidate)), "a table that was not announced");
            &store.tables[&slots[slot].candidates[candidate].entry.put][..]
        };
        let plan = plan_listings(&slots, &listings, &found, tables, |_, _| None, &options).unwrap();
        let expected: Vec<Vec<Option<u32>>> = slots
            .iter()
            .zip(&listings)
            .map(|(slot, listing)| {
                let one = |cell: Vec<u64>| {
                    let selection = Selection::boxed(&cell, &vec![1; ndim]);
                    paint(&Slot { selection, ..slot.clone() })[0]
                };
                named(listing, ndim).into_iter().map(one).collect()
            })
            .collect();
        let shapes: Vec<Vec<u64>> = listings.iter().map(Listing::shape).collect();
        assert_eq!(store.execute_into(&slots, &shapes, &plan), expected, "case {case}\n{plan}");
        let fill: Vec<bool> = expected.iter().map(|cells| cells.contains(&None)).collect();
        assert_eq!(plan.fill, fill);
        assert_eq!(plan.wanted_bytes, expected.iter().flatten().flatten().count() as u64 * ITEM);
    }
}
